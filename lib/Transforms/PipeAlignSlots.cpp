//===- PipeAlignSlots.cpp - pipe-align-slots ------------------------------===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Puts each cell at its slot.
//
//===----------------------------------------------------------------------===//

#include "PipeSched/Schedule/Slots.h"
#include "PipeSched/Transforms/Passes.h"
#include "Schedules.h"

namespace pipesched::pipe {
#define GEN_PASS_DEF_PIPEALIGNSLOTSPASS
#include "PipeSched/Transforms/Passes.h.inc"
} // namespace pipesched::pipe

using namespace mlir;
using namespace pipesched;
using namespace pipesched::pipe;

static llvm::Expected<std::vector<Row>> alignRows(const TableView &table) {
  llvm::Expected<CellIndex> index = CellIndex::create(table);
  if (!index)
    return index.takeError();
  llvm::Expected<SlotAssignment> slots = alignSlots(table, *index);
  if (!slots)
    return slots.takeError();
  return withIdleSlots(table, *slots);
}

static LogicalResult align(ScheduleOp schedule) {
  ScheduleTable table(schedule);
  TableView view = table.view();
  view.aligned = false; // the slots as written do not count
  llvm::Expected<std::vector<Row>> rows = alignRows(view);
  if (!rows) {
    std::string message = llvm::toString(rows.takeError());
    if (std::optional<Violation> violation = verifyTable(view))
      return emitViolation(schedule, *violation);
    return emitTableError(schedule) << message;
  }
  storeRows(schedule, std::move(*rows));
  schedule.setAligned(true);
  return success();
}

namespace {
struct PipeAlignSlotsPass final
    : pipe::impl::PipeAlignSlotsPassBase<PipeAlignSlotsPass> {
  using Base::Base;

  void runOnOperation() override {
    FailureOr<SmallVector<ScheduleOp>> schedules =
        selectSolutions(getOperation(), schedule);
    if (failed(schedules))
      return signalPassFailure();
    for (ScheduleOp op : *schedules)
      if (failed(align(op)))
        return signalPassFailure();
  }
};
} // namespace
