//===- PipeVerify.cpp - pipe-verify ---------------------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Proves that schedules are complete, without deadlock and within a memory
// budget.
//
//===----------------------------------------------------------------------===//

#include "../SchedulePass.h"
#include "PipeSched/Adapter/CreateSchedule.h"
#include "PipeSched/Adapter/EmitDeadlock.h"
#include "PipeSched/Adapter/LoadCosts.h"
#include "PipeSched/Dialect/Pipe/IR/ScheduleTable.h"
#include "PipeSched/Evaluation/MemoryBudget.h"
#include "PipeSched/Transforms/Passes.h"

namespace pipesched::pipe {
#define GEN_PASS_DEF_PIPEVERIFYPASS
#include "PipeSched/Transforms/Passes.h.inc"
} // namespace pipesched::pipe

using namespace mlir;
using namespace pipesched;
using namespace pipesched::pipe;

static LogicalResult proveFinish(ScheduleOp schedule, const TableView &table,
                                 const CostInputs &costs,
                                 MessageSemantics semantics,
                                 const TimingOptions &timing) {
  llvm::Expected<Program> program = lowerTable(table, costs, timing);
  if (!program)
    return emitTableError(schedule) << llvm::toString(program.takeError());
  if (llvm::Error error = verifyMessages(*program, semantics))
    return emitProgramError(schedule, *program, std::move(error),
                            ("messages=" + enumName(semantics)).str());
  return success();
}

static LogicalResult verifySchedule(ScheduleOp schedule,
                                    MessageSemantics semantics,
                                    const std::optional<MemoryBudget> &budget,
                                    MemoryTimes times,
                                    const TimingOptions &timing) {
  if (schedule.isProblem())
    return emitTableError(schedule) << "has no rows to verify";
  ScheduleTable loaded(schedule);
  TableView table = loaded.view();
  if (std::optional<Violation> violation = verifyTable(table))
    return emitViolation(schedule, *violation);
  if (std::optional<Violation> violation = verifyFamily(schedule, table))
    return emitViolation(schedule, *violation);
  // If sends never wait, rows without a cycle always finish, wherever receives
  // are (MessagesTest). So there is nothing left to prove.
  bool finishes = semantics == MessageSemantics::Unbounded;
  if (finishes && !budget)
    return success();
  FailureOr<CostInputs> costs = loadCosts(schedule);
  if (failed(costs) || (!finishes && failed(proveFinish(schedule, table, *costs,
                                                        semantics, timing))))
    return failure();
  if (!budget)
    return success();
  if (llvm::Error error = verifyMemory(table, *costs, *budget, times, timing))
    return emitTableError(schedule, std::move(error));
  return success();
}

namespace {
struct PipeVerifyPass final
    : SchedulePass<PipeVerifyPass, pipe::impl::PipeVerifyPassBase,
                   Treats::All> {
  using Base::Base;

  void runOnOperation() override {
    Base::runOnOperation();
    markAllAnalysesPreserved();
  }

  LogicalResult prepare() { return readBudget(); }

  LogicalResult treat(ScheduleOp op) const {
    return verifySchedule(op, messages, budget, memoryTimes,
                          {transport, receivePlacement});
  }

private:
  LogicalResult readBudget() {
    if (memory.empty())
      return success();
    llvm::Expected<MemoryBudget> given = parseMemoryBudget(memory);
    if (!given)
      return emitError(getOperation()->getLoc())
             << getArgument()
             << ": memory: " << llvm::toString(given.takeError());
    budget = *given;
    return success();
  }

  std::optional<MemoryBudget> budget;
};
} // namespace
