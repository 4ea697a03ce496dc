//===- SlotMeasure.h - Slots as long as what they stand for -----*- C++ -*-===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Slot lengths from the split of the model (arXiv 2605.24006 on asymmetric
// placements) and from the times of cells.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_EVALUATION_SLOTMEASURE_H
#define PIPESCHED_EVALUATION_SLOTMEASURE_H

#include "PipeSched/CostModel/CostModel.h"
#include "PipeSched/Support/EnumNames.h"

namespace pipesched {

/// What a slot stands for.
enum class SlotMeasure : uint8_t {
  Unit,     ///< a phase of a stage; B is two
  Blocks,   ///< a phase of a block of the model; B of a block is two
  Durations ///< an amount of time
};

template <>
struct EnumNames<SlotMeasure> {
  static constexpr EnumName<SlotMeasure> values[] = {
      {SlotMeasure::Unit, "unit", "One slot per phase, two for B"},
      {SlotMeasure::Blocks, "blocks", "The same per block of the model"},
      {SlotMeasure::Durations, "durations", "Time"}};
};

/// Every cell takes as many slots, per unit slot, as its stage has layers of
/// the model (splitLayers) or, without a model, as it is long (stageLengths).
/// Errors: those of either; stages of more than 2^61.
llvm::Expected<std::vector<StageSlots>>
slotsByBlocks(const Placement &placement, const ModelFacts *model);

/// The cells that a table has, or is going to have.
struct CellsInUse {
  unsigned phases = 0;       ///< 1 << Phase for each
  bool isOverlapped = false; ///< there are pairs

  bool has(Phase phase) const {
    return phases >> static_cast<unsigned>(phase) & 1;
  }
};
CellsInUse cellsInUse(const TableView &table);

struct SlotsByDurations {
  std::vector<StageSlots> stages; ///< by global stage
  int64_t slotPs = 0;             ///< one slot
  int64_t largestErrorPs = 0; ///< of a cell, by rounding; 0: none is rounded
};

/// Cells take as many slots as their times have slots of `slotPs`, rounded to
/// the nearest, and at least one unless they take no time. Without `slotPs` a
/// slot is the largest that divides all times of the cells in use. Phases that
/// are not in use have no slots of their own, unless those in use have unit
/// slots. Errors: no time is above 0.
llvm::Expected<SlotsByDurations>
slotsByDurations(const Placement &placement, const StageCosts &stageCosts,
                 CellsInUse cells, std::optional<int64_t> slotPs);

} // namespace pipesched

#endif // PIPESCHED_EVALUATION_SLOTMEASURE_H
