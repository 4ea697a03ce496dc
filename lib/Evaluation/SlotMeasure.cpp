//===- SlotMeasure.cpp - Slots in blocks or times -------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Weights stages by their blocks, or divides times by the length of a slot.
//
//===----------------------------------------------------------------------===//

#include "PipeSched/Evaluation/SlotMeasure.h"
#include "PipeSched/Evaluation/Evaluate.h"
#include "PipeSched/Schedule/Kinds/PhaseSets.h"
#include "PipeSched/Support/FormatError.h"
#include "llvm/ADT/Twine.h"
#include <numeric>

using namespace pipesched;
using llvm::Twine;

llvm::Expected<std::vector<StageSlots>>
pipesched::slotsByBlocks(const Placement &placement, const ModelFacts *model) {
  llvm::Expected<std::vector<int64_t>> lengths =
      model ? splitLayers(placement, *model) : stageLengths(placement);
  if (!lengths)
    return lengths.takeError();
  constexpr int64_t most = kMaxSlots / 2;
  std::vector<StageSlots> stages;
  stages.reserve(lengths->size());
  for (int64_t length : *lengths) {
    if (length > most)
      return llvm::createStringError("a stage of " + Twine(length) +
                                     " slots is longer than " + Twine(most));
    stages.push_back(StageSlots::makeWeighted(length));
  }
  return stages;
}

CellsInUse pipesched::cellsInUse(const TableView &table) {
  CellsInUse cells{phasesInUse(table)};
  for (llvm::ArrayRef<Cell> row : table.rows)
    cells.isOverlapped |=
        llvm::any_of(row, [](Cell cell) { return cell.overlapsNext(); });
  return cells;
}

/// Whether some slices of a stage take longer than others. Slots depend only on
/// stage and phase.
static bool haveSlicesOwnTimes(const CellCosts &cells, PhaseSet phases) {
  bool differ = false;
  phases.forEach([&](Phase phase) {
    for (int64_t slice = 1; slice < cells.getNumSlices(); ++slice)
      differ |= cells.alonePs(phase, slice) != cells.alonePs(phase);
  });
  return differ;
}

/// The greatest common divisor of all times; 0 if no cell takes time.
static int64_t largestCommonSlot(const StageCosts &stageCosts,
                                 CellsInUse cells) {
  int64_t divisor = 0;
  for (const StageCost &cost : stageCosts.stages) {
    (cells.phases & kComputePhases).forEach([&](Phase phase) {
      divisor = std::gcd(divisor, cost.cells.alonePs(phase));
    });
    if (cells.isOverlapped)
      divisor = std::gcd(divisor, cost.overlappedPs.value_or(0));
  }
  return divisor;
}

namespace {
/// Turns times into slots, and keeps track of the largest rounding error.
class SlotCounter {
public:
  explicit SlotCounter(int64_t slotPs) : slotPs(slotPs) {}

  int64_t count(int64_t ps) {
    int64_t slots = ps / slotPs, rest = ps % slotPs;
    bool roundsUp = rest >= slotPs - rest || (slots == 0 && rest > 0);
    errorPs = std::max(errorPs, roundsUp && rest > 0 ? slotPs - rest : rest);
    return slots + (roundsUp ? 1 : 0);
  }
  int64_t getLargestErrorPs() const { return errorPs; }

private:
  int64_t slotPs, errorPs = 0;
};
} // namespace

/// Returns the slots of a stage. Slots of unused phases follow from used ones,
/// as in StageSlots. I and W are exceptions: they do not follow from B.
static StageSlots countStage(SlotCounter &counter, const StageCost &cost,
                             CellsInUse cells) {
  auto count = [&](Phase phase, int64_t otherwise) {
    return cells.has(phase) ? counter.count(cost.cells.alonePs(phase))
                            : otherwise;
  };
  int64_t half = cells.has(Phase::Backward) ? StageSlots::kUnknown : 1;
  StageSlots slots(count(Phase::Forward, 1), count(Phase::InputGrad, half),
                   count(Phase::WeightGrad, half));
  kComputePhases.forEach(
      [&](Phase phase) { slots.set(phase, count(phase, slots.of(phase))); });
  if (cells.isOverlapped && cost.overlappedPs)
    slots.overlapped = counter.count(*cost.overlappedPs);
  return slots;
}

static bool areUnitSlots(llvm::ArrayRef<StageSlots> stages, CellsInUse cells) {
  StageSlots unit;
  return llvm::all_of(stages, [&](const StageSlots &slots) {
    bool isUnit = !slots.overlapped;
    (cells.phases & kComputePhases).forEach([&](Phase phase) {
      isUnit &= slots.of(phase) == unit.of(phase);
    });
    return isUnit;
  });
}

llvm::Expected<SlotsByDurations>
pipesched::slotsByDurations(const Placement &placement,
                            const StageCosts &stageCosts, CellsInUse cells,
                            std::optional<int64_t> slotPs) {
  PhaseSet phases = cells.phases & (kUnitComputePhases | kCopyPhases);
  for (auto [number, cost] : llvm::enumerate(stageCosts.stages))
    if (haveSlicesOwnTimes(cost.cells, phases))
      return formatError("slices of global stage {0} take different times, but "
                         "all its cells of a phase have the same slots",
                         number);
  SlotsByDurations result;
  result.slotPs = slotPs.value_or(largestCommonSlot(stageCosts, cells));
  if (result.slotPs == 0)
    return llvm::createStringError("no cell takes time, so that a slot has no "
                                   "length; give it one");
  SlotCounter counter(result.slotPs);
  result.stages.reserve(placement.getNumGlobalStages());
  for (const StageCost &cost : stageCosts.stages)
    result.stages.push_back(countStage(counter, cost, cells));
  if (areUnitSlots(result.stages, cells))
    result.stages.assign(result.stages.size(), StageSlots());
  result.largestErrorPs = counter.getLargestErrorPs();
  return result;
}
