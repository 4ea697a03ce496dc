//===- LeftShift.h - V schedules from a repeated building block -*- C++ -*-===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The construction of Qi et al. 2024b (Pipeline Parallelism with Controllable
// Memory, arXiv 2405.15362): a block of cells per microbatch, repeated, then
// shifted left as far as the memory allows. A cell takes one slot.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_LIB_SCHEDULE_FAMILY_GENERATORS_LEFTSHIFT_H
#define PIPESCHED_LIB_SCHEDULE_FAMILY_GENERATORS_LEFTSHIFT_H

#include "PipeSched/Schedule/Table/Table.h"
#include <array>

namespace pipesched {

/// The walk of a microbatch along a V: down and up forward, down and up with
/// the gradient. Position r of the path has chunk 0 (stage r) for the first and
/// the last leg and chunk 1 (stage 2D-1-r) for the two between.
///
///   position 0   F0 .  .  .  .  F1 I1 .  .  .  .  I0
///            1   .  F0 .  .  F1 .  .  I1 .  .  I0 .
///            2   .  .  F0 F1 .  .  .  .  I1 I0 .  .
///   leg             0      1          2      3
enum Leg : int { ForwardDown, ForwardUp, GradientDown, GradientUp };
inline constexpr int kNumLegs = 4;

/// Slots of the first microbatch's cells, linear in the position; those of
/// microbatch m are m periods later. W cells have no slots: they fill gaps.
struct BuildingBlock {
  struct Leg {
    int64_t first, perPosition;
  };
  std::array<Leg, kNumLegs> legs;
  int64_t period = 6; ///< default: no gap between the cells of a worker

  int64_t slotOf(int leg, int64_t position) const {
    return legs[leg].first + legs[leg].perPosition * position;
  }
  /// The most microbatches of chunk 0 or 1 between their F and their I.
  int64_t countInFlight(int chunk, int64_t position) const;
  /// The most activations that a worker holds.
  int64_t peakOf(int64_t numWorkers) const;
};

struct LeftShiftOptions {
  int64_t memory; ///< activations that a worker may hold, at least peakOf()
  /// A forward of chunk 0 may run before one of chunk 1 that comes first in the
  /// block, if enough memory is left for chunk 1.
  bool mayOvertake;
  int64_t slotLimit; ///< stops after this many slots
};

/// Fills rows on a V path, which have their final lengths, and returns the
/// slots that they take, or the limit if that is reached. Linear in cells.
///
/// In each slot, every worker runs the ready cell that stands first in the
/// block, or its oldest W if no cell is ready or a forward finds no memory.
/// This ends: take the first cell in the block's order that has not run. All
/// that it waits for has run. A gradient is therefore ready. A forward finds
/// memory, because the worker holds no more than the block does there; with
/// overtaking, chunk 0 leaves room for the most that the block holds of chunk
/// 1.
int64_t shiftLeft(const BuildingBlock &block, const LeftShiftOptions &options,
                  const Placement &placement, std::vector<Row> &rows);

} // namespace pipesched

#endif // PIPESCHED_LIB_SCHEDULE_FAMILY_GENERATORS_LEFTSHIFT_H
