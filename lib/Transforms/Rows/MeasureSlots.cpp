//===- MeasureSlots.cpp - Slot lengths of a schedule ----------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Loads the costs from which the lengths of cells are computed.
//
//===----------------------------------------------------------------------===//

#include "MeasureSlots.h"
#include "PipeSched/Adapter/LoadCosts.h"
#include "PipeSched/Facts/ProfileText.h"

using namespace mlir;
using namespace pipesched;
using namespace pipesched::pipe;

FailureOr<SlotOptions> pipe::readSlotOptions(Operation *root, StringRef pass,
                                             SlotMeasure measure,
                                             StringRef slot) {
  SlotOptions options{measure, std::nullopt};
  if (slot.empty())
    return options;
  if (measure != SlotMeasure::Durations)
    return emitError(root->getLoc())
           << pass << ": the length of a slot is for slots=durations, found "
           << "slots=" << enumName(measure);
  llvm::Expected<int64_t> ps = parseTime(slot);
  if (!ps)
    return emitError(root->getLoc())
           << pass << ": slot: " << llvm::toString(ps.takeError());
  if (*ps == 0)
    return emitError(root->getLoc())
           << pass << ": slot: expected a time above 0, found '" << slot << "'";
  options.slotPs = *ps;
  return options;
}

/// Remarks on the largest rounding error, and on exact slots so short that a
/// stage takes more slots than one idle entry can count.
static void emitSlotRemarks(ScheduleOp schedule, const SlotsByDurations &slots,
                            const SlotOptions &options) {
  if (slots.largestErrorPs > 0)
    emitRemark(schedule.getLoc())
        << "durations are rounded to slots of " << printTime(slots.slotPs)
        << ", by " << printTime(slots.largestErrorPs) << " at most";
  auto isLong = [](const StageSlots &stage) {
    return stage.of(Phase::Forward) > Cell::kMaxMicrobatches;
  };
  if (!options.slotPs && llvm::any_of(slots.stages, isLong))
    emitRemark(schedule.getLoc())
        << "no slot longer than " << printTime(slots.slotPs)
        << " divides all durations; one that rounds them, as slot=1us, makes "
           "rows shorter";
}

static FailureOr<std::vector<StageSlots>>
measureDurations(ScheduleOp schedule, const Placement &placement,
                 const CostInputs &costs, const SlotOptions &options,
                 CellsInUse cells) {
  llvm::Expected<StageCosts> stageCosts =
      computeStageCosts(placement, costs, cells.phases);
  if (!stageCosts)
    return emitTableError(schedule) << llvm::toString(stageCosts.takeError());
  llvm::Expected<SlotsByDurations> slots =
      slotsByDurations(placement, *stageCosts, cells, options.slotPs);
  if (!slots)
    return emitTableError(schedule) << llvm::toString(slots.takeError());
  emitSlotRemarks(schedule, *slots, options);
  return std::move(slots->stages);
}

FailureOr<std::vector<StageSlots>>
pipe::measureSlots(ScheduleOp schedule, const Placement &placement,
                   const SlotOptions &options, CellsInUse cells) {
  if (options.measure == SlotMeasure::Unit)
    return std::vector<StageSlots>();
  FailureOr<CostInputs> costs = loadCosts(schedule);
  if (failed(costs))
    return failure();
  if (options.measure == SlotMeasure::Durations)
    return measureDurations(schedule, placement, *costs, options, cells);
  llvm::Expected<std::vector<StageSlots>> stages =
      slotsByBlocks(placement, costs->model ? &*costs->model : nullptr);
  if (!stages)
    return emitTableError(schedule) << llvm::toString(stages.takeError());
  return std::move(*stages);
}

StringRef pipe::adviseOnSlots(const SlotOptions &options) {
  if (options.measure != SlotMeasure::Durations)
    return "";
  return "; a longer slot, as in slot=1us, makes fewer";
}
