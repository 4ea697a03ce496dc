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

#include "PipeSched/Analysis/NamedEvaluation.h"

namespace pipesched {

/// A compute cell, or an overlapped pair, in [begin, end).
struct Box {
  int64_t begin, end;
  Cell cell;
  std::optional<Cell> second;
};

/// Thin bars below the row of a worker, top to bottom.
enum class Lane : uint8_t { Send, Receive, Offload, Reload };
inline constexpr unsigned kNumLanes = 4;

/// A message or copy: holds its queue in [begin, release), is there at `end`.
struct Bar {
  int64_t begin, release, end;
  Cell cell;
  Lane lane;
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
  const Placement *placement = nullptr;
  std::vector<int> shadeOf; ///< by global stage: rank among those of its worker
  int numShades = 1;
  int numDigits = 1; ///< of the highest microbatch
  ShadeKind shadeKind = ShadeKind::None;

  int shade(Cell cell) const { return shadeOf[placement->globalStage(cell)]; }
};

/// The timeline. The result refers to the placement of `result`.
Picture pictureOfTimeline(const NamedEvaluation &result);

/// The table in unit slots. Errors: a program; a table with a dependency cycle.
llvm::Expected<Picture> pictureOfSlots(const NamedEvaluation &result);

} // namespace pipesched

#endif // PIPESCHED_LIB_TARGET_PICTURE_H
