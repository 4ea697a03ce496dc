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

#include "../Attach/CostOwners.h"
#include "../Schedules.h"
#include "PipeSched/Adapter/LoadCosts.h"
#include "PipeSched/CostModel/MicrobatchSizes.h"
#include "PipeSched/Description/ResizeModel.h"
#include "PipeSched/Facts/ProfileText.h"
#include "PipeSched/Optimize/Interrupt.h"
#include "PipeSched/Optimize/OptimizeSchedule.h"
#include "PipeSched/Support/ClosestName.h"
#include "PipeSched/Transforms/Passes.h"
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

static void attachNotes(InFlightDiagnostic &remark, StringRef preposition,
                        ArrayRef<Alternative> alternatives, int64_t objective) {
  for (const Alternative &alternative : alternatives) {
    Diagnostic &note = remark.attachNote();
    note << preposition << ' ' << alternative.name << ": ";
    if (!alternative.objective)
      note << alternative.reason;
    else
      note << printTime(*alternative.objective)
           << (alternative.isBound ? " at least, " : ", ")
           << percent(*alternative.objective, objective) << " longer";
  }
}

static void emitRemarks(ScheduleOp schedule, StringRef chosen,
                        const OptimizedSchedule &optimized) {
  for (const std::string &warning : optimized.warnings)
    emitWarning(schedule.getLoc()) << warning;
  const optimize::SolverResult &result = optimized.result;
  int64_t objective = optimized.objective();
  StringRef what = enumName(optimized.problem.objective);
  InFlightDiagnostic remark = emitRemark(schedule.getLoc());
  remark << "@" << schedule.getSymName() << ": " << what << " "
         << printTime(objective) << ", " << statusText(result.status)
         << "; lower bound " << printTime(result.lowerBound) << " ("
         << result.boundName << "), gap "
         << percent(objective, result.lowerBound) << "; from " << result.origin;
  if (!chosen.empty())
    remark.attachNote() << "chosen: " << chosen;
  attachNotes(remark, "with", optimized.others, objective);
  attachNotes(remark, "without", optimized.without, objective);
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

/// Rows on the paths of a placement are rows on those of another where these
/// run through the same workers.
static bool areSameRows(const Placement &a, const Placement &b) {
  auto isSamePath = [](const Path &path, const Path &other) {
    return path.workers == other.workers && path.takes == other.takes;
  };
  return a.getNumMicrobatches() == b.getNumMicrobatches() &&
         llvm::equal(a.getPaths(), b.getPaths(), isSamePath);
}

/// Paths and microbatches, where they are others than those of the schedule.
static void storePlacement(ScheduleOp schedule, const Placement &placement,
                           bool isPlaced) {
  bool isDealt = placement.getNumMicrobatches() !=
                 static_cast<int64_t>(schedule.getMicrobatches());
  schedule.setMicrobatches(placement.getNumMicrobatches());
  if (isPlaced || isDealt)
    storePaths(schedule, placement.getPaths());
  storeSlots(schedule, placement, {});
}

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

static void storeCells(ScheduleOp schedule, OptimizedSchedule &&optimized,
                       Recompute kind) {
  std::vector<Row> &rows = optimized.result.solution.rows;
  bool recomputes = llvm::any_of(rows, [](const Row &row) {
    return llvm::any_of(row,
                        [](Cell cell) { return cell.is(Phase::Recompute); });
  });
  storeRows(schedule, std::move(rows));
  schedule.setGradientAfter(optimized.problem.gradientAfter);
  schedule.setAligned(false);
  schedule.removeRecomputeAttr();
  if (recomputes && kind != Recompute::Full) // the default
    schedule.setRecompute(RecomputeKind(kind));
  schedule.dropFamily();
}

//===----------------------------------------------------------------------===//
// The pass
//===----------------------------------------------------------------------===//

namespace {
/// A number of microbatches and what they cost.
struct Sizing {
  std::string name; ///< empty: the schedule's own
  int64_t numMicrobatches;
  CostInputs costs;
};

/// A placement by name; the schedule's own has none.
struct Layout {
  std::string name;
  std::optional<PlacementKind> kind;
};

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
    if (llvm::Error error =
            checkMicrobatchSizes(ArrayRef<int64_t>(microbatchSizes)))
      return emitError(getOperation().getLoc())
             << getArgument()
             << ": microbatch-sizes: " << llvm::toString(std::move(error));
    return readBudget(options.problem.memory);
  }

  FailureOr<PlacementKind> readKind(StringRef name) {
    if (std::optional<PlacementKind> kind = enumFromName<PlacementKind>(name))
      return *kind;
    return emitError(getOperation().getLoc())
           << getArgument() << ": placements: no placement is called '" << name
           << "', the closest is "
           << closestName(name, listEnumNames<PlacementKind>());
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

  FailureOr<std::vector<Layout>> listLayouts() {
    if (placements.empty())
      return std::vector<Layout>(1);
    std::vector<Layout> layouts;
    for (const std::string &name : placements) {
      FailureOr<PlacementKind> kind = readKind(name);
      if (failed(kind))
        return failure();
      if (llvm::any_of(layouts, [&](const Layout &layout) {
            return layout.kind == *kind;
          }))
        return emitError(getOperation().getLoc())
               << getArgument() << ": placements: " << name
               << " is listed twice";
      layouts.push_back({"placement " + name, *kind});
    }
    return layouts;
  }

  FailureOr<std::vector<Sizing>> listSizings(ScheduleOp op,
                                             const CostInputs &costs);
  FailureOr<std::vector<ScheduleCandidate>> listCandidates(ScheduleOp op);
  LogicalResult optimizeOne(ScheduleOp op, const OptimizeOptions &options);

  static constexpr int64_t kMostSeconds = 10000000;
};
} // namespace

/// What keeps other sizes from being priced; empty: nothing.
static StringRef whyOneSize(const CostInputs &costs) {
  if (costs.profile)
    return "has a profile, whose times are those of one microbatch size";
  if (!costs.model)
    return "has no model";
  return costs.system ? "" : "has no system";
}

FailureOr<std::vector<Sizing>>
PipeOptimizePass::listSizings(ScheduleOp op, const CostInputs &costs) {
  auto own = static_cast<int64_t>(op.getMicrobatches());
  if (microbatchSizes.empty())
    return std::vector<Sizing>{{"", own, costs}};
  if (StringRef found = whyOneSize(costs); !found.empty())
    return emitTableError(op) << found
                              << "; with microbatch-sizes a model and a system "
                                 "say what each takes";
  std::vector<ModelFacts> models;
  for (ModelOp model : getOperation().getOps<ModelOp>())
    models.push_back(model.toFacts());
  std::vector<Sizing> sizings;
  for (int64_t size : microbatchSizes) {
    llvm::Expected<int64_t> count =
        countMicrobatches(size, costs.model->microbatchSize, own);
    llvm::Expected<ModelFacts> model =
        count ? resizeModel(*costs.model, size, models)
              : llvm::Expected<ModelFacts>(count.takeError());
    if (!model)
      return emitTableError(op) << llvm::toString(model.takeError());
    Sizing &sizing = sizings.emplace_back(
        Sizing{formatv("microbatch size {0}", size), *count, costs});
    sizing.costs.model = std::move(*model);
  }
  return sizings;
}

FailureOr<std::vector<ScheduleCandidate>>
PipeOptimizePass::listCandidates(ScheduleOp op) {
  ScheduleTable loaded(op);
  const Placement &own = loaded.getPlacement();
  FailureOr<CostInputs> costs = loadCosts(op);
  std::vector<optimize::Seed> seeds;
  if (failed(costs) || failed(readSeed(op, loaded.view(), seeds)))
    return failure();
  if (placements.empty() && !own.isAssigned())
    return emitTableError(op) << "has several paths, and none says which "
                                 "microbatches it takes";
  if (recompute != Recompute::None)
    costs->recompute = recompute;
  FailureOr<std::vector<Layout>> layouts = listLayouts();
  FailureOr<std::vector<Sizing>> sizings = listSizings(op, *costs);
  if (failed(layouts) || failed(sizings))
    return failure();
  std::vector<ScheduleCandidate> candidates;
  for (const Layout &layout : *layouts)
    for (const Sizing &sizing : *sizings) {
      int64_t count = sizing.numMicrobatches;
      bool hasBoth = !layout.name.empty() && !sizing.name.empty();
      std::string name = layout.name + (hasBoth ? ", " : "") + sizing.name;
      llvm::Expected<Placement> placement =
          layout.kind
              ? placeBy(*layout.kind, op.getWorkers(), count, chunks, waves)
              : dealAnew(own, count);
      if (!placement)
        return emitTableError(op) << "cannot have " << name << ": "
                                  << llvm::toString(placement.takeError());
      bool isOwn = areSameRows(*placement, own);
      candidates.push_back({std::move(name), std::move(*placement),
                            sizing.costs,
                            isOwn ? seeds : std::vector<optimize::Seed>()});
    }
  return candidates;
}

LogicalResult PipeOptimizePass::optimizeOne(ScheduleOp op,
                                            const OptimizeOptions &options) {
  FailureOr<std::vector<ScheduleCandidate>> candidates = listCandidates(op);
  if (failed(candidates))
    return failure();
  llvm::Expected<OptimizedSchedule> optimized =
      optimizeSchedule(*candidates, options);
  if (!optimized)
    return emitTableError(op, optimized.takeError());
  const ScheduleCandidate &chosen = (*candidates)[optimized->candidate];
  emitRemarks(op, chosen.name, *optimized);
  storePlacement(op, chosen.placement, !placements.empty());
  storeModel(op, chosen.costs.model);
  storeCells(op, std::move(*optimized), recompute);
  return success();
}
