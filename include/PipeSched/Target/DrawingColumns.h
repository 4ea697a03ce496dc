//===- DrawingColumns.h - A timeline as columns -----------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The contents of a drawing of a timeline as columns of numbers, for drawings
// that other programs make: the page of `pipesched` and its readers in Python.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_TARGET_DRAWINGCOLUMNS_H
#define PIPESCHED_TARGET_DRAWINGCOLUMNS_H

#include "PipeSched/Evaluation/NamedEvaluation.h"

namespace pipesched {

/// A timeline as structure of arrays. Items are numbered from 0: first the
/// cells (an overlapped pair is one), worker by worker in row order, then
/// messages, copies and all-reduces, sorted by worker, kind and start.
///
///   item      0 .. rowBegins.back() - 1      rowBegins.back() .. size() - 1
///             cells                          messages, copies, all-reduces
///
/// Times are in ps. A Send and its Recv are one item of kind Send, unless
/// messages hold rows.
struct DrawingColumns {
  static constexpr int32_t kNone = -1;

  std::vector<uint32_t> rowBegins; ///< by worker, and the end of the cells
  std::vector<int8_t> kind;        ///< an InstructionKind
  std::vector<int32_t> worker;     ///< for a Send the source
  /// The destination of a Send, the source of a Recv, the number of an
  /// all-reduce; else kNone.
  std::vector<int32_t> peer;
  std::vector<int32_t> stage; ///< numbered over all paths, path by path
  std::vector<int8_t> phase;
  std::vector<int32_t> microbatch; ///< the path for O and G
  /// By cell: the other cell of its overlapped pair, else kNone. Empty if there
  /// are no pairs.
  std::vector<int32_t> secondStage, secondMicrobatch;
  std::vector<int8_t> secondPhase;
  /// An item holds its queue from start to release; its data arrives at end.
  std::vector<int64_t> startPs, releasePs, endPs;
  /// The bytes of a message or a copy, or the bytes that each worker of a
  /// collective sends; 0 if unknown.
  std::vector<int64_t> bytes;
  /// The item whose release or end determined the start of this item, the first
  /// one if there are several; kNone: it waited for nothing.
  std::vector<int32_t> awaited;
  std::vector<int32_t> criticalPath; ///< items, first to last
  /// By number of the all-reduce: its workers (CSR).
  std::vector<uint32_t> memberBegins;
  std::vector<int32_t> members;

  /// Idle time, worker by worker in the order of time.
  std::vector<int32_t> idleWorker;
  std::vector<int8_t> idleCause;   ///< an index into kIdleCauses
  std::vector<int32_t> idleBefore; ///< the cell that follows, or kNone
  std::vector<int64_t> idleBeginPs, idleEndPs;

  /// Activations that a worker holds from memoryPs on (CSR by worker): bytes,
  /// or without a model a number of activations.
  std::vector<uint32_t> memoryBegins;
  std::vector<int64_t> memoryPs, memoryHeld;

  /// One JSON object that explains the numbers above (`writeFacts` in the
  /// source lists its keys).
  std::string facts;

  size_t size() const { return kind.size(); }
  size_t getNumCells() const { return rowBegins.back(); }
};

/// Returns the columns of a result; they do not refer to `result`. Linear in
/// tasks and edges, except for sorting.
DrawingColumns drawingColumnsOf(const NamedEvaluation &result);

} // namespace pipesched

#endif // PIPESCHED_TARGET_DRAWINGCOLUMNS_H
