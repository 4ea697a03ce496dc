//===- PipeOptimize.cpp - pipe-optimize -----------------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Loads schedules, optimizes each of them and stores the rows found.
//
//===----------------------------------------------------------------------===//

#include "PipeSched/Adapter/LoadCosts.h"
#include "PipeSched/CostModel/Layers/MicrobatchSizes.h"
#include "PipeSched/Description/Description.h"
#include "PipeSched/Support/Interrupt.h"
#include "PipeSched/Transforms/Passes.h"
#include "PipeSched/Transforms/SelectSchedules.h"
#include "StoreOptimized.h"

namespace pipesched::pipe {
#define GEN_PASS_DEF_PIPEOPTIMIZEPASS
#include "PipeSched/Transforms/Passes.h.inc"
} // namespace pipesched::pipe

using namespace mlir;
using namespace pipesched;
using namespace pipesched::pipe;

namespace {
struct PipeOptimizePass final
    : pipe::impl::PipeOptimizePassBase<PipeOptimizePass> {
  using Base::Base;

  void runOnOperation() override {
    FailureOr<SmallVector<ScheduleOp>> schedules =
        selectSchedules(getOperation(), schedule);
    OptimizeOptions options;
    CandidateOptions candidates;
    if (failed(schedules))
      return signalPassFailure();
    if (llvm::Error error = readOptions(options, candidates)) {
      emitError(getOperation().getLoc())
          << getArgument() << ": " << llvm::toString(std::move(error));
      return signalPassFailure();
    }
    for (ScheduleOp op : *schedules)
      if (failed(optimizeOne(op, options, candidates)))
        return signalPassFailure();
  }

private:
  llvm::Error readOptions(OptimizeOptions &options,
                          CandidateOptions &candidates);
  LogicalResult optimizeOne(ScheduleOp op, const OptimizeOptions &options,
                            CandidateOptions candidates);
};
} // namespace

/// Puts the name of the option in front of the error message.
static llvm::Error inOption(StringRef option, llvm::Error error) {
  return llvm::createStringError(option + ": " +
                                 llvm::toString(std::move(error)));
}

llvm::Error PipeOptimizePass::readOptions(OptimizeOptions &options,
                                          CandidateOptions &candidates) {
  options.problem.objective = objective;
  options.problem.memoryTimes = memoryTimes;
  options.problem.techniques = {splitBackward, offload,
                                recompute != Recompute::None};
  options.solver.timeLimitSeconds = timeLimit;
  options.solver.gap = gap;
  options.solver.seed = seed;
  options.solver.maxEvaluations = maxEvaluations;
  options.solver.threads = threads;
  if (getContext().isMultithreadingEnabled())
    options.solver.pool = &getContext().getThreadPool();
  options.solver.interrupted = InterruptWatch::current();
  options.cacheDirectory = cache;
  options.explain = explain;
  candidates.chunks = chunks;
  candidates.waves = waves;
  candidates.microbatchSizes.assign(microbatchSizes.begin(),
                                    microbatchSizes.end());
  if (llvm::Error error = checkLimits(options.solver))
    return error;
  if (llvm::Error error = checkMicrobatchSizes(candidates.microbatchSizes))
    return inOption("microbatch-sizes", std::move(error));
  if (llvm::Error error = parsePlacementKinds(ArrayRef<std::string>(placements))
                              .moveInto(candidates.placements))
    return inOption("placements", std::move(error));
  if (memory.empty())
    return llvm::Error::success();
  llvm::Error error =
      parseMemoryBudget(memory).moveInto(options.problem.memory);
  return error ? inOption("memory", std::move(error)) : std::move(error);
}

LogicalResult PipeOptimizePass::optimizeOne(ScheduleOp op,
                                            const OptimizeOptions &options,
                                            CandidateOptions candidates) {
  ScheduleTable table(op);
  FailureOr<CostInputs> costs = loadCosts(op);
  if (failed(costs))
    return failure();
  if (recompute != Recompute::None)
    costs->recompute = recompute;
  std::vector<ModelFacts> models;
  for (ModelOp model : getOperation().getOps<ModelOp>())
    models.push_back(model.toFacts());
  auto resize = [&](const ModelFacts &model, int64_t size) {
    return resizeModel(model, size, models);
  };
  candidates.resizeModel = resize;
  ScheduleStart start{op.getSymName().str(), table.view(), !op.isProblem(),
                      std::move(*costs)};
  llvm::Expected<OptimizedStart> optimized =
      optimizeStart(start, candidates, options);
  if (!optimized)
    return emitTableError(op, optimized.takeError());
  reportOptimized(op, *optimized);
  storeOptimized(op, std::move(*optimized), !placements.empty(), recompute);
  return success();
}
