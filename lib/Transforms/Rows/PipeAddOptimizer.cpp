//===- PipeAddOptimizer.cpp - pipe-add-optimizer --------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Ends each row with the optimizer steps of its stages.
//
//===----------------------------------------------------------------------===//

#include "../SchedulePass.h"
#include "PipeSched/Adapter/LoadCosts.h"
#include "PipeSched/Dialect/Pipe/IR/ScheduleTable.h"
#include "PipeSched/Transforms/Passes.h"

namespace pipesched::pipe {
#define GEN_PASS_DEF_PIPEADDOPTIMIZERPASS
#include "PipeSched/Transforms/Passes.h.inc"
} // namespace pipesched::pipe

using namespace mlir;
using namespace pipesched;
using namespace pipesched::pipe;

static LogicalResult addOptimizer(ScheduleOp schedule, ReductionPlace place) {
  FailureOr<CostInputs> costs = loadCosts(schedule);
  if (failed(costs))
    return failure();
  ReducedStages reduced = costs->reducesEveryStage()
                              ? ReducedStages::All
                              : ReducedStages::Replicated;
  llvm::Expected<OptimizerChange> change =
      addOptimizerStep(ScheduleTable(schedule).view(), place, reduced);
  if (!change)
    return emitTableError(schedule, change.takeError());
  storeRows(schedule, std::move(change->rows));
  schedule.dropFamily();
  return success();
}

namespace {
struct PipeAddOptimizerPass final
    : SchedulePass<PipeAddOptimizerPass, pipe::impl::PipeAddOptimizerPassBase> {
  using Base::Base;

  LogicalResult treat(ScheduleOp op) const {
    return addOptimizer(op, allReduce);
  }
};
} // namespace
