//===- Picture.h - What a drawing of a schedule shows -------*- C++ -*-===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Boxes and bars along one axis (slots or picoseconds), without any geometry of
// the page. Drawings in other formats start from here too.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_LIB_TARGET_PICTURE_H
#define PIPESCHED_LIB_TARGET_PICTURE_H

#include "PipeSched/Evaluation/NamedEvaluation.h"

namespace pipesched {

/// A compute cell, or an overlapped pair, in [begin, end); or a run of them
/// that is too short to be told apart.
struct Box {
  int64_t begin, end;
  Cell cell;
  std::optional<Cell> second;
  int64_t numMore = 0; ///< boxes of the run besides this
};

/// A message, all-reduce or copy: holds its queue in [begin, release), is there
/// at `end`.
struct Bar {
  int64_t begin, release, end;
  Cell cell;
  Lane lane;
  int64_t numMore = 0; ///< bars of a run besides this
};

/// A copy or a join, beside the row from the slot `at` on.
struct Mark {
  int64_t at;
  Cell cell;

  /// Offload or Reload.
  Lane lane() const;
};

/// How stages that share a worker are told apart.
enum class ShadeKind : uint8_t {
  None,  ///< one stage per worker
  Chunk, ///< one path, several stages per worker
  Path,  ///< several paths, one stage of each per worker
  Stage  ///< several of both: the n-th stage that the placement puts there
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
  std::vector<int> shadeOf; ///< by global stage: rank among those of its worker
  int numShades = 1;
  int numDigits = 1; ///< of the highest microbatch
  ShadeKind shadeKind = ShadeKind::None;

  int shade(Cell cell) const { return shadeOf[placement->globalStage(cell)]; }
};

/// The timeline. The result refers to the placement of `result`.
Picture pictureOfTimeline(const NamedEvaluation &result);

/// The table in its slots. The result refers to the placement of `table`, which
/// verifies. Errors: a table that cannot be aligned.
llvm::Expected<Picture> pictureOfSlots(const NamedTable &table);

/// One each; the error of the first that has one.
llvm::Expected<std::vector<Picture>>
picturesOfSlots(llvm::ArrayRef<const NamedTable *> tables);

/// Makes one box, or one bar, of a run of them that are shorter than `least`
/// each and begin within `least` of the first, so that a drawing has no more
/// than it has room for. A run has the colour of the phase that takes most of
/// it. Returns whether there are any.
bool mergeShort(Picture &picture, int64_t least);

/// Bits (1 << Phase) of the phases that are drawn.
unsigned phasesOf(llvm::ArrayRef<Picture> pictures);

/// "dark to light: chunk 0 to 1", or nothing where workers have one stage.
std::string describeShades(llvm::ArrayRef<Picture> pictures);

} // namespace pipesched

#endif // PIPESCHED_LIB_TARGET_PICTURE_H
