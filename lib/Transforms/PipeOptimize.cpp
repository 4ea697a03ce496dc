//===- PipeOptimize.cpp - pipe-optimize -----------------------------------===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Fills schedules with the best rows that are found.
//
//===----------------------------------------------------------------------===//

#include "PipeSched/Adapter/LoadCosts.h"
#include "PipeSched/Analysis/OptimizeSchedule.h"
#include "PipeSched/Analysis/ProfileText.h"
#include "PipeSched/Optimize/Interrupt.h"
#include "PipeSched/Schedule/ClosestName.h"
#include "PipeSched/Transforms/Passes.h"
#include "Schedules.h"
#include "llvm/Support/FormatVariadic.h"

namespace pipesched::pipe {
#define GEN_PASS_DEF_PIPEOPTIMIZEPASS
#include "PipeSched/Transforms/Passes.h.inc"
} // namespace pipesched::pipe

using namespace mlir;
using namespace pipesched;
using namespace pipesched::pipe;
using llvm::formatv;

//===----------------------------------------------------------------------===//
// Remarks
//===----------------------------------------------------------------------===//

static StringRef statusText(optimize::Status status) {
  switch (status) {
  case optimize::Status::Optimal:
    return "proven optimal";
  case optimize::Status::GapReached:
    return "within the gap asked for";
  case optimize::Status::TimeLimit:
    return "the best within the limits";
  case optimize::Status::Interrupted:
    return "interrupted";
  }
  llvm_unreachable("unknown status");
}

static std::string percent(int64_t value, int64_t base) {
  double share = 100.0 * double(value - base) / double(base);
  return formatv("{0:f2} %", share);
}

static void emitRemarks(ScheduleOp schedule,
                        const OptimizedSchedule &optimized) {
  for (const std::string &warning : optimized.warnings)
    emitWarning(schedule.getLoc()) << warning;
  const optimize::SolverResult &result = optimized.result;
  int64_t objective = optimized.objective();
  StringRef what = optimized.problem.objective == optimize::Objective::Makespan
                       ? "makespan"
                       : "period";
  InFlightDiagnostic remark = emitRemark(schedule.getLoc());
  remark << "@" << schedule.getSymName() << ": " << what << " "
         << printTime(objective) << ", " << statusText(result.status)
         << "; lower bound " << printTime(result.lowerBound) << " ("
         << result.boundName << "), gap "
         << percent(objective, result.lowerBound) << "; from " << result.origin;
  for (const WithoutFreedom &without : optimized.without) {
    Diagnostic &note = remark.attachNote();
    note << "without " << without.name << ": ";
    if (without.objective)
      note << printTime(*without.objective) << ", "
           << percent(*without.objective, objective) << " longer";
    else
      note << without.reason;
  }
}

//===----------------------------------------------------------------------===//
// Schedules
//===----------------------------------------------------------------------===//

/// What the schedule is: its paths, and rows without idle slots and pairs.
static LogicalResult readSeed(ScheduleOp schedule, const TableView &table,
                              std::vector<optimize::Seed> &seeds) {
  if (schedule.isProblem())
    return success();
  if (std::optional<Violation> violation = verifyTable(table))
    return emitViolation(schedule, *violation);
  optimize::Seed &seed =
      seeds.emplace_back(optimize::Seed{schedule.getSymName().str(), {}});
  for (auto [worker, cells] : llvm::enumerate(table.rows)) {
    Row &row = seed.rows.emplace_back();
    for (Cell cell : cells) {
      if (cell.isPerPath())
        return emitTableError(schedule)
               << "has " << cell.str() << " on worker " << worker
               << ": optimize first, then add the optimizer step";
      if (!cell.isIdle())
        row.push_back(cell.withOverlap(false));
    }
  }
  return success();
}

static void store(ScheduleOp schedule, OptimizedSchedule &&optimized,
                  bool isPlaced, Recompute kind) {
  std::vector<Row> &rows = optimized.result.solution.rows;
  bool recomputes = llvm::any_of(rows, [](const Row &row) {
    return llvm::any_of(row,
                        [](Cell cell) { return cell.is(Phase::Recompute); });
  });
  if (isPlaced)
    storePaths(schedule, optimized.problem.placement.getPaths());
  storeSlots(schedule, optimized.problem.placement, {});
  storeRows(schedule, std::move(rows));
  schedule.setGradientAfter(optimized.problem.gradientAfter);
  schedule.setAligned(false);
  schedule.removeRecomputeAttr();
  if (recomputes && kind != Recompute::Full) // the default
    schedule.setRecompute(RecomputeKind(kind));
  schedule.dropFamily();
}

namespace {
struct PipeOptimizePass final
    : pipe::impl::PipeOptimizePassBase<PipeOptimizePass> {
  using Base::Base;

  void runOnOperation() override {
    FailureOr<SmallVector<ScheduleOp>> schedules =
        selectSchedules(getOperation(), schedule);
    OptimizeOptions options;
    optimize::InterruptWatch watch;
    options.solver.interrupted = watch.flag();
    if (failed(schedules) || failed(readOptions(options)))
      return signalPassFailure();
    for (ScheduleOp op : *schedules)
      if (failed(optimizeOne(op, options)))
        return signalPassFailure();
  }

private:
  LogicalResult readOptions(OptimizeOptions &options) {
    if (!(timeLimit >= 0 && timeLimit <= kMostSeconds) ||
        !(gap >= 0 && gap <= 1))
      return emitError(getOperation().getLoc())
             << getArgument() << ": time-limit is 0 to " << kMostSeconds
             << " seconds and gap 0 to 1, found " << std::to_string(timeLimit)
             << " and " << std::to_string(gap);
    options.problem.objective = objective;
    options.problem.freedoms = {splitBackward, offload,
                                recompute != Recompute::None};
    options.solver.timeLimitSeconds = timeLimit;
    options.solver.gap = gap;
    options.solver.seed = seed;
    options.solver.threads = threads;
    options.solver.maxEvaluations = maxEvaluations;
    options.cacheDirectory = cache;
    options.explain = explain;
    return readBudget(options.problem.memory);
  }

  FailureOr<PlacementKind> readKind(StringRef name) {
    constexpr StringRef kNames[] = {"linear", "interleaved", "v", "wave"};
    const auto *found = llvm::find(kNames, name);
    if (found != std::end(kNames))
      return static_cast<PlacementKind>(found - std::begin(kNames));
    return emitError(getOperation().getLoc())
           << getArgument() << ": placements: no placement is called '" << name
           << "', the closest is " << closestName(name, kNames);
  }

  LogicalResult readBudget(std::optional<MemoryBudget> &budget) {
    if (memory.empty())
      return success();
    llvm::Expected<MemoryBudget> given = parseMemoryBudget(memory);
    if (!given)
      return emitError(getOperation().getLoc())
             << getArgument()
             << ": memory: " << llvm::toString(given.takeError());
    budget = *given;
    return success();
  }

  FailureOr<std::vector<Placement>> listPlacements(ScheduleOp op,
                                                   const Placement &own) {
    std::vector<Placement> all;
    if (placements.empty())
      all.push_back(own);
    for (const std::string &name : placements) {
      FailureOr<PlacementKind> kind = readKind(name);
      if (failed(kind))
        return failure();
      llvm::Expected<Placement> placement =
          placeBy(*kind, op.getWorkers(), op.getMicrobatches(), chunks, waves);
      if (!placement)
        return emitTableError(op) << llvm::toString(placement.takeError());
      all.push_back(std::move(*placement));
    }
    return all;
  }

  LogicalResult optimizeOne(ScheduleOp op, const OptimizeOptions &options) {
    ScheduleTable loaded(op);
    FailureOr<CostInputs> costs = loadCosts(op);
    FailureOr<std::vector<Placement>> all =
        listPlacements(op, loaded.getPlacement());
    std::vector<optimize::Seed> seeds;
    if (failed(costs) || failed(all) ||
        failed(readSeed(op, loaded.view(), seeds)))
      return failure();
    if (!all->front().isAssigned())
      return emitTableError(op) << "has several paths, and none says which "
                                   "microbatches it takes";
    if (recompute != Recompute::None)
      costs->recompute = recompute;
    llvm::Expected<OptimizedSchedule> optimized = optimizeSchedule(
        *all, *costs, options,
        placements.empty() ? ArrayRef(seeds) : ArrayRef<optimize::Seed>());
    if (!optimized)
      return emitTableError(op, optimized.takeError());
    emitRemarks(op, *optimized);
    store(op, std::move(*optimized), !placements.empty(), recompute);
    return success();
  }

  static constexpr int64_t kMostSeconds = 10000000;
};
} // namespace
