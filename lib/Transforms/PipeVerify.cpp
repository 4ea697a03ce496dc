//===- PipeVerify.cpp - pipe-verify ---------------------------------------===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Proves schedules complete and free of deadlock.
//
//===----------------------------------------------------------------------===//

#include "PipeSched/Transforms/Passes.h"
#include "Schedules.h"

namespace pipesched::pipe {
#define GEN_PASS_DEF_PIPEVERIFYPASS
#include "PipeSched/Transforms/Passes.h.inc"
} // namespace pipesched::pipe

using namespace mlir;
using namespace pipesched;
using namespace pipesched::pipe;

static LogicalResult verifySchedule(ScheduleOp schedule) {
  if (schedule.isProblem())
    return emitTableError(schedule) << "has no rows to verify";
  if (std::optional<Violation> violation =
          verifyTable(ScheduleTable(schedule).view()))
    return emitViolation(schedule, *violation);
  return success();
}

namespace {
struct PipeVerifyPass final : pipe::impl::PipeVerifyPassBase<PipeVerifyPass> {
  using Base::Base;

  void runOnOperation() override {
    FailureOr<SmallVector<ScheduleOp>> schedules =
        selectSchedules(getOperation(), schedule);
    if (failed(schedules))
      return signalPassFailure();
    for (ScheduleOp op : *schedules)
      if (failed(verifySchedule(op)))
        signalPassFailure();
    markAllAnalysesPreserved();
  }
};
} // namespace
