//===- OptimizeSchedule.cpp - The best schedule under costs ---------------===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Placements one after the other, then the best of them again without each of
// its freedoms.
//
//===----------------------------------------------------------------------===//

#include "PipeSched/Analysis/OptimizeSchedule.h"
#include "PipeSched/Optimize/Cache.h"
#include "PipeSched/Schedule/Verify.h"

using namespace pipesched;
using llvm::ArrayRef;
using llvm::Error;
using llvm::Expected;
using optimize::Freedoms;
using optimize::Problem;
using optimize::Seed;
using optimize::SolverOptions;
using optimize::SolverResult;

Expected<Placement> pipesched::placeBy(PlacementKind kind, int64_t numWorkers,
                                       int64_t numMicrobatches, int64_t chunks,
                                       int64_t waves) {
  auto path = [&]() -> Expected<Path> {
    switch (kind) {
    case PlacementKind::Linear:
      return placeLinear(numWorkers);
    case PlacementKind::Interleaved:
      return placeInterleaved(numWorkers, chunks);
    case PlacementKind::V:
      return placeV(numWorkers);
    case PlacementKind::Wave:
      return placeWave(numWorkers, waves);
    }
    llvm_unreachable("covered switch");
  }();
  if (!path)
    return path.takeError();
  return Placement::create(numWorkers, numMicrobatches, {std::move(*path)});
}

static int64_t objectiveOf(const Problem &problem, const SolverResult &result) {
  return problem.objective == optimize::Objective::Makespan
             ? result.solution.makespan
             : result.solution.period;
}

int64_t OptimizedSchedule::objective() const {
  return objectiveOf(problem, result);
}

/// A part of the limits. One that there is stays one.
static SolverOptions shareOf(SolverOptions options, double share) {
  options.timeLimitSeconds *= share;
  if (options.maxEvaluations > 0)
    options.maxEvaluations = std::max<uint64_t>(
        1, static_cast<uint64_t>(share * double(options.maxEvaluations)));
  return options;
}

static bool isInterrupted(const SolverOptions &options) {
  return options.interrupted && *options.interrupted;
}

/// Of the limits, where freedoms are explained with the rest.
static constexpr double kMainShare = 0.75;

namespace {
struct NamedFreedom {
  const char *name;
  bool Freedoms::*flag;
};
constexpr NamedFreedom kFreedoms[] = {
    {"split-backward", &Freedoms::splitBackward},
    {"offload", &Freedoms::offload},
    {"recompute", &Freedoms::recompute}};

/// Tries placements and freedoms, with the limits shared among them.
class ScheduleOptimizer {
public:
  ScheduleOptimizer(const CostInputs &costs, const OptimizeOptions &options)
      : costs(costs), options(options) {}

  Error tryPlacements(ArrayRef<Placement> placements, ArrayRef<Seed> seeds);
  void tryWithout(const Placement &placement, ArrayRef<Seed> seeds);
  Error verify() const;

  std::optional<OptimizedSchedule> best;
  std::vector<std::string> warnings;

private:
  /// Of the limits, for the placements together.
  double mainShare() const { return options.explain ? kMainShare : 1; }
  Expected<SolverResult> solve(const Problem &problem, ArrayRef<Seed> own,
                               double share);
  Expected<WithoutFreedom> solveWithout(const Placement &placement,
                                        const NamedFreedom &freedom,
                                        ArrayRef<Seed> seeds, double share);

  const CostInputs &costs;
  const OptimizeOptions &options;
};
} // namespace

Expected<SolverResult> ScheduleOptimizer::solve(const Problem &problem,
                                                ArrayRef<Seed> own,
                                                double share) {
  if (Error error = checkProblem(problem)) // before families are made for it
    return std::move(error);
  std::vector<Seed> seeds(own.begin(), own.end());
  for (Seed &seed : familySeeds(problem))
    seeds.push_back(std::move(seed));
  std::string warning;
  Expected<SolverResult> result =
      solveCached(problem, seeds, shareOf(options.solver, share),
                  options.cacheDirectory, warning);
  if (!warning.empty() && !llvm::is_contained(warnings, warning))
    warnings.push_back(std::move(warning));
  return result;
}

Error ScheduleOptimizer::tryPlacements(ArrayRef<Placement> placements,
                                       ArrayRef<Seed> seeds) {
  Error first = Error::success();
  double share = mainShare() / double(placements.size());
  for (auto [number, placement] : llvm::enumerate(placements)) {
    Expected<Problem> problem = makeProblem(placement, costs, options.problem);
    Expected<SolverResult> result =
        problem ? solve(*problem, number == 0 ? seeds : ArrayRef<Seed>(), share)
                : Expected<SolverResult>(problem.takeError());
    if (!result) {
      if (first)
        llvm::consumeError(result.takeError());
      else
        first = result.takeError();
      continue;
    }
    if (best && best->objective() <= objectiveOf(*problem, *result))
      continue;
    best.emplace();
    best->placement = number;
    best->problem = std::move(*problem);
    best->result = std::move(*result);
  }
  if (!best)
    return first;
  llvm::consumeError(std::move(first));
  return Error::success();
}

Expected<WithoutFreedom>
ScheduleOptimizer::solveWithout(const Placement &placement,
                                const NamedFreedom &freedom,
                                ArrayRef<Seed> seeds, double share) {
  ProblemOptions fewer = options.problem;
  fewer.freedoms.*freedom.flag = false;
  Expected<Problem> problem = makeProblem(placement, costs, fewer);
  if (!problem)
    return problem.takeError();
  Expected<SolverResult> result = solve(*problem, seeds, share);
  if (!result)
    return result.takeError();
  return WithoutFreedom{freedom.name, objectiveOf(*problem, *result), ""};
}

void ScheduleOptimizer::tryWithout(const Placement &placement,
                                   ArrayRef<Seed> seeds) {
  auto isGiven = [&](const NamedFreedom &freedom) {
    return options.problem.freedoms.*freedom.flag;
  };
  auto count = double(llvm::count_if(kFreedoms, isGiven));
  for (const NamedFreedom &freedom : kFreedoms) {
    if (!isGiven(freedom) || isInterrupted(options.solver))
      continue;
    Expected<WithoutFreedom> without =
        solveWithout(placement, freedom, seeds, (1 - mainShare()) / count);
    best->without.push_back(
        without ? *without
                : WithoutFreedom{freedom.name, std::nullopt,
                                 llvm::toString(without.takeError())});
  }
}

/// By the rules for any schedule, which share nothing with the optimizer's.
Error ScheduleOptimizer::verify() const {
  TableView table;
  table.placement = &best->problem.placement;
  table.gradientAfter = best->problem.gradientAfter;
  const std::vector<Row> &rows = best->result.solution.rows;
  table.rows.assign(rows.begin(), rows.end());
  for (auto [number, row] : llvm::enumerate(table.rows))
    if (std::optional<Violation> violation =
            verifyRow(*table.placement, number, row))
      return llvm::make_error<ViolationError>(std::move(*violation));
  if (std::optional<Violation> violation = verifyTable(table))
    return llvm::make_error<ViolationError>(std::move(*violation));
  std::optional<MemoryBudget> budget = budgetFor(costs, options.problem);
  if (!budget)
    return Error::success();
  TimingOptions timing;
  timing.transport = Transport::Delay;
  return verifyMemory(table, costs, *budget, timing);
}

Expected<OptimizedSchedule> pipesched::optimizeSchedule(
    ArrayRef<Placement> placements, const CostInputs &costs,
    const OptimizeOptions &options, ArrayRef<Seed> seeds) {
  ScheduleOptimizer optimizer(costs, options);
  if (Error error = optimizer.tryPlacements(placements, seeds))
    return std::move(error);
  if (Error error = optimizer.verify())
    return std::move(error);
  size_t number = optimizer.best->placement;
  if (options.explain)
    optimizer.tryWithout(placements[number],
                         number == 0 ? seeds : ArrayRef<Seed>());
  optimizer.best->warnings = std::move(optimizer.warnings);
  return std::move(*optimizer.best);
}
