//===- StoreOptimized.cpp - An optimized schedule in the IR ---------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Writes the microbatches, model, paths and rows that the search found.
//
//===----------------------------------------------------------------------===//

#include "StoreOptimized.h"
#include "../Attach/CostOwners.h"
#include "PipeSched/Adapter/LoadCosts.h"
#include "PipeSched/Dialect/Pipe/IR/ScheduleTable.h"
#include "PipeSched/Transforms/OptimizationLog.h"

using namespace mlir;
using namespace pipesched;
using namespace pipesched::pipe;

void pipe::reportOptimized(ScheduleOp schedule,
                           const OptimizedStart &optimized) {
  for (const std::string &warning : optimized.best.warnings)
    emitWarning(schedule.getLoc()) << warning;
  OptimizationSummary found = summarize(schedule.getSymName(), optimized);
  ResultText text = describe(found);
  InFlightDiagnostic remark = emitRemark(schedule.getLoc()) << text.summary;
  for (const std::string &note : text.notes)
    remark.attachNote() << note;
  OptimizationLog::note(schedule.getContext(), std::move(found));
}

/// Attaches the model of the chosen microbatch size.
static void storeModel(ScheduleOp schedule,
                       const std::optional<ModelFacts> &facts) {
  ModelOp own = findModel(schedule);
  if (!facts ||
      facts->microbatchSize == static_cast<int64_t>(own.getMicrobatchSize()))
    return;
  auto module = schedule->getParentOfType<ModuleOp>();
  SymbolTable symbols(module);
  ModelOp model = getOrCreateModel(module, symbols, schedule, *facts);
  setModel(schedule, model.getSymName());
}

void pipe::storeOptimized(ScheduleOp schedule, OptimizedStart &&optimized,
                          bool isPlaced, Recompute kind) {
  const Placement &placement = optimized.chosen.placement;
  storeModel(schedule, optimized.chosen.costs.model);
  int64_t count = placement.getNumMicrobatches();
  if (isPlaced || count != static_cast<int64_t>(schedule.getMicrobatches()))
    storePaths(schedule, placement.getPaths());
  schedule.setMicrobatches(count);
  storeSlots(schedule, placement, {});
  std::vector<Row> &rows = optimized.best.result.solution.rows;
  bool recomputes = llvm::any_of(rows, [](const Row &row) {
    return llvm::any_of(row,
                        [](Cell cell) { return cell.is(Phase::Recompute); });
  });
  storeRows(schedule, std::move(rows));
  schedule.setGradientAfter(optimized.best.problem.gradientAfter);
  schedule.setAligned(false);
  schedule.removeRecomputeAttr();
  if (recomputes && kind != Recompute::Full) // the default
    schedule.setRecompute(RecomputeKind(kind));
  schedule.dropFamily();
}
