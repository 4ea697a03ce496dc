//===- SlotMeasure.h - Slots in blocks or times -----------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Slot lengths from the layers that a stage holds (arXiv 2605.24006, on
// asymmetric placements) and from the times of cells.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_EVALUATION_SLOTMEASURE_H
#define PIPESCHED_EVALUATION_SLOTMEASURE_H

#include "PipeSched/CostModel/CostModel.h"
#include "PipeSched/Schedule/Table/Table.h"
#include "PipeSched/Support/EnumNames.h"

namespace pipesched {

enum class SlotMeasure : uint8_t {
  Unit,   ///< a slot is a phase of a stage; B takes two
  Blocks, ///< a slot is a phase of a block of the model; B of a block takes two
  Durations ///< a slot is an amount of time
};

template <>
struct EnumNames<SlotMeasure> {
  static constexpr EnumName<SlotMeasure> values[] = {
      {SlotMeasure::Unit, "unit", "One slot per phase, two for B"},
      {SlotMeasure::Blocks, "blocks", "The same per block of the model"},
      {SlotMeasure::Durations, "durations", "Time"}};
};

/// Returns slot lengths in blocks: a cell takes its unit slots times the layers
/// of its stage, which come from the model (splitLayers) or, without a model,
/// from stageLengths. Errors: as for either; stages of more than 2^61.
llvm::Expected<std::vector<StageSlots>>
slotsByBlocks(const Placement &placement, const ModelFacts *model);

/// The cells that a table has, or will have.
struct CellsInUse {
  PhaseSet phases;
  bool isOverlapped = false; ///< whether there are overlapped pairs

  bool has(Phase phase) const { return phases.contains(phase); }
};
CellsInUse cellsInUse(const TableView &table);

struct SlotsByDurations {
  std::vector<StageSlots> stages; ///< by global stage
  int64_t slotPs = 0;             ///< length of a slot
  /// Largest rounding error of a cell; 0: times are exact.
  int64_t largestErrorPs = 0;
};

/// Divides the times of cells by `slotPs`, rounds to the nearest integer, and
/// gives at least one slot to each cell that takes time. Without `slotPs` the
/// slot is the greatest common divisor of all times in use. The slots of unused
/// phases follow from the used ones; they are unit slots if the used ones are.
/// Errors: no time is above 0; slices of a stage differ in time.
llvm::Expected<SlotsByDurations>
slotsByDurations(const Placement &placement, const StageCosts &stageCosts,
                 CellsInUse cells, std::optional<int64_t> slotPs);

} // namespace pipesched

#endif // PIPESCHED_EVALUATION_SLOTMEASURE_H
