//===- Picture.h - Contents of a drawing ------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Boxes and bars along one axis (slots or picoseconds), without any geometry of
// the page. All drawings start from here, in any format.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_LIB_TARGET_PICTURE_H
#define PIPESCHED_LIB_TARGET_PICTURE_H

#include "PipeSched/Evaluation/NamedEvaluation.h"

namespace pipesched {

/// A compute cell or an overlapped pair in [`begin`, `end`), or a run of them
/// that are too short to draw separately.
struct Box {
  int64_t begin, end;
  Cell cell;
  std::optional<Cell> second;
  int64_t numMore = 0; ///< further boxes of the run
};

/// A message, all-reduce or copy. It holds its queue in [`begin`, `release`)
/// and has arrived at `end`.
struct Bar {
  int64_t begin, release, end;
  Cell cell;
  Lane lane;
  int64_t numMore = 0; ///< further bars of the run
};

/// A copy or a join, drawn alongside the row from slot `at` on.
struct Mark {
  int64_t at;
  Cell cell;

  /// Offload or Reload.
  Lane lane() const;
};

/// How shades distinguish stages that share a worker.
enum class ShadeKind : uint8_t {
  None,  ///< one stage per worker
  Slice, ///< not at all: shades are slices of a microbatch
  Chunk, ///< one path, several stages per worker
  Path,  ///< several paths, one stage of each per worker
  Stage  ///< several of both: the n-th stage that the placement puts on the
         ///< worker
};

struct Picture {
  std::string title, subtitle;
  bool isInSlots = false;
  int64_t length = 0;                 ///< slots or ps
  std::vector<std::vector<Box>> rows; ///< by worker
  std::vector<std::vector<Bar>>
      bars; ///< by worker; bars of no length are left out
  std::vector<std::vector<Mark>> marks; ///< by worker, in slots only
  const Placement *placement = nullptr;
  std::vector<int> shadeOf; ///< by global stage: its number among the
                            ///< stages of its worker
  int numShades = 1;
  int numDigits = 1; ///< of the highest microbatch, with its slice
  ShadeKind shadeKind = ShadeKind::None;

  int shade(Cell cell) const {
    if (shadeKind != ShadeKind::Slice)
      return shadeOf[placement->globalStage(cell)];
    return cell.isPerPath() ? 0 : int(placement->sliceOf(cell.getUnit()));
  }
  CellName nameOf(Cell cell) const { return placement->nameOf(cell); }
  /// The microbatch of a cell, and its slice: `3`, `3.1`.
  std::string numberOf(Cell cell) const;
};

/// Draws the timeline. The result refers to the placement of `result`.
Picture pictureOfTimeline(const NamedEvaluation &result);

/// Draws the table in its slots. The result refers to the placement of `table`,
/// which must pass verifyTable. Errors: a table that cannot be aligned.
llvm::Expected<Picture> pictureOfSlots(const NamedTable &table);

/// Draws each table; returns the first error.
llvm::Expected<std::vector<Picture>>
picturesOfSlots(llvm::ArrayRef<const NamedTable *> tables);

/// Merges boxes, or bars, that are shorter than `least` and start within
/// `least` of the first into one, so that a drawing has no more items than it
/// has room for. A run has the colour of the phase that takes most of it.
/// Returns whether it merged any.
bool mergeShort(Picture &picture, int64_t least);

/// Memory over time, by worker.
struct MemoryTrace {
  bool isInBytes = false; ///< false: in activations, as without a model
  std::vector<std::vector<MemorySample>> samples;
};

/// The activations that each worker holds, in bytes, or counted as one each
/// without a model.
MemoryTrace traceMemoryOf(const NamedEvaluation &result);

/// By task: the bytes of a message or a copy, or the bytes that each worker of
/// a collective sends; 0 if they are not known.
std::vector<int64_t> movedBytesOf(const NamedEvaluation &result);

/// The phases that are drawn.
PhaseSet phasesOf(llvm::ArrayRef<Picture> pictures);

/// "dark to light: chunk 0 to 1", or empty if each worker has one stage and
/// microbatches have no slices.
std::string describeShades(llvm::ArrayRef<Picture> pictures);

} // namespace pipesched

#endif // PIPESCHED_LIB_TARGET_PICTURE_H
