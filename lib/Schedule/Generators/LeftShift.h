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
// shifted left as far as the memory allows. One slot per cell.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_LIB_SCHEDULE_GENERATORS_LEFTSHIFT_H
#define PIPESCHED_LIB_SCHEDULE_GENERATORS_LEFTSHIFT_H

#include "PipeSched/Schedule/Table.h"
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
/// microbatch m are m periods later. W have no slots: they fill gaps.
struct BuildingBlock {
  struct Leg {
    int64_t first, perPosition;
  };
  std::array<Leg, kNumLegs> legs;
  int64_t period = 6; ///< cells per microbatch and worker: no gap is left

  int64_t slotOf(int leg, int64_t position) const {
    return legs[leg].first + legs[leg].perPosition * position;
  }
  /// Most activations of a chunk, 0 or 1, between its F and its I.
  int64_t countInFlight(int chunk, int64_t position) const;
  /// Most activations of a worker.
  int64_t peakOf(int64_t numWorkers) const;
};

struct LeftShiftOptions {
  int64_t memory; ///< activations that a worker may hold, at least peakOf()
  /// A forward of chunk 0 may run before one of chunk 1 that the block has
  /// first, where enough memory is left for chunk 1.
  bool mayOvertake;
  int64_t slotLimit; ///< gives up here
};

/// Fills rows on a V path, which have their final lengths, and returns the
/// slots that they take, or the limit when that is reached. Linear in cells.
///
/// Every worker runs in each slot, of the cells that are ready, the one that
/// stands first in the block; a W, the oldest, where none is ready or where a
/// forward finds no memory. This ends: take the first cell in the block's order
/// that has not run. What it waits for has run; a gradient is therefore ready,
/// and a forward finds memory, because no more is held than the block holds
/// there (of chunk 0, where it overtakes, than is left beside the most that the
/// block holds of chunk 1).
int64_t shiftLeft(const BuildingBlock &block, const LeftShiftOptions &options,
                  const Placement &placement, std::vector<Row> &rows);

} // namespace pipesched

#endif // PIPESCHED_LIB_SCHEDULE_GENERATORS_LEFTSHIFT_H
