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

#include "PipeSched/Adapter/EmitDeadlock.h"
#include "PipeSched/Transforms/Passes.h"
#include "Schedules.h"

namespace pipesched::pipe {
#define GEN_PASS_DEF_PIPEVERIFYPASS
#include "PipeSched/Transforms/Passes.h.inc"
} // namespace pipesched::pipe

using namespace mlir;
using namespace pipesched;
using namespace pipesched::pipe;

/// Notes stand at the rows that wait.
static LogicalResult emitMessageError(ScheduleOp schedule,
                                      const Program &program, llvm::Error error,
                                      MessageSemantics semantics) {
  SmallVector<Location> rows(program.getNumWorkers(), schedule.getLoc());
  for (WorkerOp row : schedule.getRows())
    rows[row.getWorker()] = row.getLoc();
  auto placeOf = [&](uint32_t instruction) {
    return rows[llvm::upper_bound(program.rowBegins, instruction) -
                program.rowBegins.begin() - 1];
  };
  std::string condition = ("messages=" + messageSemanticsName(semantics)).str();
  llvm::handleAllErrors(
      std::move(error),
      [&](const DeadlockError &found) {
        (void)emitDeadlock(schedule, program, found.getDeadlock(), condition,
                           placeOf);
      },
      [&](const llvm::ErrorInfoBase &other) {
        emitTableError(schedule) << other.message();
      });
  return failure();
}

static LogicalResult proveFinish(ScheduleOp schedule, const TableView &table,
                                 MessageSemantics semantics,
                                 ReceivePlacement placement) {
  llvm::Expected<Program> program = lowerTable(table, placement);
  if (!program)
    return emitTableError(schedule) << llvm::toString(program.takeError());
  if (llvm::Error error = verifyMessages(*program, semantics))
    return emitMessageError(schedule, *program, std::move(error), semantics);
  return success();
}

static LogicalResult verifySchedule(ScheduleOp schedule,
                                    MessageSemantics semantics,
                                    ReceivePlacement placement) {
  if (schedule.isProblem())
    return emitTableError(schedule) << "has no rows to verify";
  ScheduleTable loaded(schedule);
  TableView table = loaded.view();
  if (std::optional<Violation> violation = verifyTable(table))
    return emitViolation(schedule, *violation);
  // Rows without a cycle finish where sends never wait, wherever receives stand
  // (MessagesTest): nothing is left to prove.
  if (semantics == MessageSemantics::Unbounded)
    return success();
  return proveFinish(schedule, table, semantics, placement);
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
      if (failed(verifySchedule(op, messages, receivePlacement)))
        signalPassFailure();
    markAllAnalysesPreserved();
  }
};
} // namespace
