//===- PipeAlignSlots.cpp - pipe-align-slots ------------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Puts each cell at its slot.
//
//===----------------------------------------------------------------------===//

#include "../SchedulePass.h"
#include "MeasureSlots.h"
#include "PipeSched/Adapter/CreateSchedule.h"
#include "PipeSched/Dialect/Pipe/IR/ScheduleTable.h"
#include "PipeSched/Schedule/Table/Slots.h"
#include "PipeSched/Transforms/Passes.h"

namespace pipesched::pipe {
#define GEN_PASS_DEF_PIPEALIGNSLOTSPASS
#include "PipeSched/Transforms/Passes.h.inc"
} // namespace pipesched::pipe

using namespace mlir;
using namespace pipesched;
using namespace pipesched::pipe;

/// If a check of the whole table finds a violation, reports it, because it
/// names the cells; otherwise reports the error of the alignment.
static LogicalResult emitAlignError(ScheduleOp schedule, const TableView &table,
                                    llvm::Error error,
                                    const SlotOptions &options) {
  std::string message = llvm::toString(std::move(error));
  if (std::optional<Violation> violation = verifyTable(table))
    return emitViolation(schedule, *violation);
  return emitTableError(schedule) << message << adviseOnSlots(options);
}

/// Whether the family made the rows for slots of other lengths, so that its
/// name would no longer describe them.
static bool madeForOtherSlots(ScheduleOp schedule, ArrayRef<StageSlots> before,
                              ArrayRef<StageSlots> after) {
  DictionaryAttr options = schedule.getFamilyOptionsAttr();
  return options && options.contains(kSlotsOption) && before != after;
}

static LogicalResult align(ScheduleOp schedule, const SlotOptions &options) {
  ScheduleTable table(schedule);
  TableView view = table.view();
  view.aligned = false; // ignore the written slots
  FailureOr<std::vector<StageSlots>> slots =
      measureSlots(schedule, table.getPlacement(), options, cellsInUse(view));
  if (failed(slots))
    return failure();
  view.slots = std::move(*slots);
  if (std::optional<Violation> violation = verifySlotLengths(view)) {
    violation->message += adviseOnSlots(options);
    return emitViolation(schedule, *violation);
  }
  llvm::Expected<std::vector<Row>> rows = alignRows(view);
  if (!rows)
    return emitAlignError(schedule, view, rows.takeError(), options);
  if (madeForOtherSlots(schedule, table.view().slots, view.slots))
    schedule.dropFamily();
  storeRows(schedule, std::move(*rows));
  storeSlots(schedule, table.getPlacement(), view.slots);
  schedule.setAligned(true);
  return success();
}

namespace {
struct PipeAlignSlotsPass final
    : SchedulePass<PipeAlignSlotsPass, pipe::impl::PipeAlignSlotsPassBase> {
  using Base::Base;

  LogicalResult prepare() {
    FailureOr<SlotOptions> read =
        readSlotOptions(getOperation(), getArgument(), slots, slot);
    if (failed(read))
      return failure();
    options = *read;
    return success();
  }

  LogicalResult treat(ScheduleOp op) const { return align(op, options); }

private:
  SlotOptions options;
};
} // namespace
