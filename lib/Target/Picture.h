//===- Picture.h - Contents of a drawing ------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Boxes and bars along one axis (slots or picoseconds), without page geometry.
// All drawings in all formats are made from these.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_LIB_TARGET_PICTURE_H
#define PIPESCHED_LIB_TARGET_PICTURE_H

#include "PipeSched/Evaluation/NamedEvaluation.h"

namespace pipesched {

/// A compute cell or an overlapped pair in [`begin`, `end`), or a run of
/// several that are too short to draw separately.
struct Box {
  int64_t begin, end;
  Cell cell;
  std::optional<Cell> second;
  int64_t numMore = 0; ///< number of additional boxes in the run
};

/// A message, all-reduce or copy. It holds its queue in [`begin`, `release`)
/// and has arrived at `end`.
struct Bar {
  int64_t begin, release, end;
  Cell cell;
  Lane lane;
  int64_t numMore = 0; ///< number of additional bars in the run
};

/// A copy or a join, drawn below the row from slot `at` on.
struct Mark {
  int64_t at;
  Cell cell;

  /// Offload or Reload.
  Lane lane() const;
};

/// What the shades distinguish on a worker.
enum class ShadeKind : uint8_t {
  None,  ///< nothing: one stage per worker
  Slice, ///< slices of a microbatch, not stages
  Chunk, ///< stages: one path, several stages per worker
  Path,  ///< stages: several paths, one stage of each per worker
  Stage  ///< stages: several of both; the n-th stage of the placement on the
         ///< worker
};

struct Picture {
  std::string title, subtitle;
  bool isInSlots = false;
  int64_t length = 0;                   ///< slots or ps
  std::vector<std::vector<Box>> rows;   ///< by worker
  std::vector<std::vector<Bar>> bars;   ///< by worker; without bars of length 0
  std::vector<std::vector<Mark>> marks; ///< by worker; only in slots
  const Placement *placement = nullptr;
  /// By global stage: its index among the stages of its worker.
  std::vector<int> shadeOf;
  int numShades = 1;
  int numDigits = 1; ///< of the highest microbatch, including its slice
  ShadeKind shadeKind = ShadeKind::None;

  int shade(Cell cell) const {
    if (shadeKind != ShadeKind::Slice)
      return shadeOf[placement->globalStage(cell)];
    return cell.isPerPath() ? 0 : int(placement->sliceOf(cell.getUnit()));
  }
  CellName nameOf(Cell cell) const { return placement->nameOf(cell); }
  /// Returns the microbatch of a cell, and its slice: `3`, `3.1`.
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
/// `least` of the first one, so that a drawing has no more items than fit. A
/// run has the colour of the phase that takes most of it. Returns whether it
/// merged any.
bool mergeShort(Picture &picture, int64_t least);

/// Memory over time, by worker.
struct MemoryTrace {
  bool isInBytes = false; ///< false: in activations, without a model
  std::vector<std::vector<MemorySample>> samples;
};

/// Returns the activations that each worker holds, in bytes, or without a model
/// as a number of activations.
MemoryTrace traceMemoryOf(const NamedEvaluation &result);

/// By task: the bytes of a message or a copy, or the bytes that each worker of
/// a collective sends; 0 if unknown.
std::vector<int64_t> movedBytesOf(const NamedEvaluation &result);

/// Returns the drawn phases.
PhaseSet phasesOf(llvm::ArrayRef<Picture> pictures);

/// Returns "dark to light: chunk 0 to 1", or an empty text if each worker has
/// one stage and microbatches have no slices.
std::string describeShades(llvm::ArrayRef<Picture> pictures);

} // namespace pipesched

#endif // PIPESCHED_LIB_TARGET_PICTURE_H
