//===- OptimizeSchedule.cpp - The best schedule for given costs -----------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Solves the candidates one after the other and continues with the best one.
// Then solves the best one again without each of its techniques.
//
//===----------------------------------------------------------------------===//

#include "PipeSched/Optimize/Schedule/OptimizeSchedule.h"
#include "PipeSched/Optimize/Bounds/Bounds.h"
#include "PipeSched/Optimize/Schedule/Cache.h"
#include "PipeSched/Schedule/Check/Verify.h"
#include "llvm/ADT/StringExtras.h"
#include <cmath>

using namespace pipesched;
using llvm::ArrayRef;
using llvm::Error;
using llvm::Expected;
using optimize::Problem;
using optimize::Seed;
using optimize::SolverOptions;
using optimize::SolverResult;
using optimize::Techniques;

Expected<Placement> pipesched::placeBy(PlacementKind kind, int64_t numWorkers,
                                       int64_t numMicrobatches, int64_t chunks,
                                       int64_t waves, int64_t numSlices) {
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
  return Placement::create(numWorkers, numMicrobatches, {std::move(*path)},
                           numSlices);
}

std::string CandidateChoice::str() const {
  std::string text;
  if (placement)
    text = ("placement " + enumName(*placement)).str();
  if (microbatchSize)
    text += (placement ? ", microbatch size " : "microbatch size ") +
            std::to_string(*microbatchSize);
  return text;
}

int64_t OptimizedSchedule::objective() const {
  return objectiveOf(problem, result.solution);
}

//===----------------------------------------------------------------------===//
// Limits
//===----------------------------------------------------------------------===//

namespace {
/// A part of the limits. Times are whole milliseconds because a cache stores no
/// fractions of them; so the same request finds its entry again.
struct Budget {
  double milliseconds = 0;  ///< may be infinite
  uint64_t evaluations = 0; ///< 0: no limit, or none remain

  static Budget of(const SolverOptions &options) {
    return {std::floor(options.timeLimitSeconds * 1000),
            options.maxEvaluations};
  }
  Budget share(double part) const {
    return {std::floor(part * milliseconds),
            static_cast<uint64_t>(part * double(evaluations))};
  }
  Budget operator-(const Budget &other) const {
    bool isUnlimited = std::isinf(milliseconds);
    return {isUnlimited ? milliseconds : milliseconds - other.milliseconds,
            evaluations - other.evaluations};
  }
};
} // namespace

/// Keeps the limit on evaluations that the caller set, even if few remain.
static SolverOptions within(SolverOptions options, const Budget &budget) {
  options.timeLimitSeconds = budget.milliseconds / 1000;
  if (options.maxEvaluations > 0)
    options.maxEvaluations = std::max<uint64_t>(1, budget.evaluations);
  return options;
}

static bool isInterrupted(const SolverOptions &options) {
  return options.interrupted && *options.interrupted;
}

/// The share of the limits for candidates if the rest is used to explain
/// techniques, and the part of this share that several candidates divide in
/// their first turn.
static constexpr double kMainShare = 0.75, kFirstRound = 0.5;

//===----------------------------------------------------------------------===//
// Candidates
//===----------------------------------------------------------------------===//

namespace {
struct NamedTechnique {
  const char *name;
  bool Techniques::*flag;
};
constexpr NamedTechnique kTechniques[] = {
    {"split-backward", &Techniques::splitBackward},
    {"offload", &Techniques::offload},
    {"recompute", &Techniques::recompute}};

/// A candidate with its problem and its outcome.
struct Trial {
  const ScheduleCandidate *candidate;
  Problem problem;
  int64_t bound = 0;
  Alternative outcome;
};

/// Tries candidates and techniques, with the limits shared among them.
class ScheduleOptimizer {
public:
  ScheduleOptimizer(ArrayRef<ScheduleCandidate> candidates,
                    const OptimizeOptions &options)
      : candidates(candidates), options(options) {}

  Expected<OptimizedSchedule> run();

private:
  void prepare(const Budget &budget);
  /// The first budget of each candidate that has a problem.
  Budget firstTurn(const Budget &budget) const {
    return possible.size() > 1
               ? budget.share(kFirstRound / double(possible.size()))
               : budget;
  }
  void tryAll(const Budget &budget);
  void tryOne(Trial &trial, const Budget &budget);
  void goOn(const Budget &budget);
  Error noSchedule() const;
  Error verify() const;
  void tryWithout(const Budget &budget);
  Alternative solveWithout(const NamedTechnique &technique,
                           const Budget &budget);
  Expected<SolverResult> solve(const Problem &problem, ArrayRef<Seed> own,
                               const Budget &budget);

  bool isProven() const {
    return best->result.status == optimize::Status::Optimal ||
           best->result.status == optimize::Status::GapReached;
  }
  const ScheduleCandidate &bestCandidate() const {
    return candidates[best->candidate];
  }

  ArrayRef<ScheduleCandidate> candidates;
  const OptimizeOptions &options;
  std::vector<Trial> trials;
  std::vector<Trial *> possible; ///< trials with a problem, least bound first
  std::optional<OptimizedSchedule> best;
  std::vector<std::string> warnings;
};
} // namespace

Expected<SolverResult> ScheduleOptimizer::solve(const Problem &problem,
                                                ArrayRef<Seed> own,
                                                const Budget &budget) {
  if (Error error = checkProblem(problem)) // familySeeds needs a valid problem
    return std::move(error);
  SolverOptions limits = within(options.solver, budget);
  if (Error error = checkTime(problem, limits.timeLimitSeconds))
    return std::move(error);
  std::vector<Seed> seeds(own.begin(), own.end());
  for (Seed &seed : familySeeds(problem, limits))
    seeds.push_back(std::move(seed));
  std::string warning;
  Expected<SolverResult> result =
      solveCached(problem, seeds, limits, options.cacheDirectory, warning);
  if (!warning.empty() && !llvm::is_contained(warnings, warning))
    warnings.push_back(std::move(warning));
  return result;
}

/// Whether capacities count bytes rather than activations.
static bool isInBytes(const CostInputs &costs, const ProblemOptions &options) {
  std::optional<MemoryBudget> budget = budgetFor(costs, options);
  return budget && budget->unit != MemoryBudget::Unit::Activations;
}

/// Makes problems and bounds. A single candidate needs no bound. A candidate
/// that is too large for its first turn is not searched.
void ScheduleOptimizer::prepare(const Budget &budget) {
  trials.reserve(candidates.size());
  for (const ScheduleCandidate &candidate : candidates) {
    Trial &trial = trials.emplace_back();
    trial.candidate = &candidate;
    trial.outcome.name = candidate.name;
    trial.outcome.choice = candidate.choice;
    Expected<Problem> problem =
        makeProblem(candidate.placement, candidate.costs, options.problem);
    Error error = problem ? checkProblem(*problem) : problem.takeError();
    if (!error)
      error = checkCapacity(
          *problem, isInBytes(candidate.costs, options.problem) ? "bytes" : "");
    if (error) {
      trial.outcome.reason = llvm::toString(std::move(error));
      continue;
    }
    trial.problem = std::move(*problem);
    possible.push_back(&trial);
  }
  if (possible.size() < 2)
    return;
  double seconds = within(options.solver, firstTurn(budget)).timeLimitSeconds;
  llvm::erase_if(possible, [&](Trial *trial) {
    Error error = checkTime(trial->problem, seconds);
    if (error)
      trial->outcome.reason = llvm::toString(std::move(error));
    return !trial->outcome.reason.empty();
  });
  for (Trial *trial : possible)
    trial->bound = quickBound(trial->problem).value;
  llvm::sort(possible, [](const Trial *a, const Trial *b) {
    // in the given order
    return std::pair(a->bound, a) < std::pair(b->bound, b);
  });
}

void ScheduleOptimizer::tryOne(Trial &trial, const Budget &budget) {
  Expected<SolverResult> result =
      solve(trial.problem, trial.candidate->seeds, budget);
  if (!result) {
    trial.outcome.reason = llvm::toString(result.takeError());
    return;
  }
  int64_t objective = objectiveOf(trial.problem, result->solution);
  trial.outcome.objective = objective;
  if (best && best->objective() <= objective)
    return;
  best.emplace();
  best->candidate = trial.candidate - candidates.begin();
  best->problem = std::move(trial.problem);
  best->result = std::move(*result);
}

/// Bounds are in ascending order: after the first candidate that cannot win, no
/// other can.
void ScheduleOptimizer::tryAll(const Budget &budget) {
  Budget each = firstTurn(budget);
  Budget left = budget;
  for (Trial *trial : possible) {
    if (best && isInterrupted(options.solver)) {
      trial->outcome.reason = "was not tried before the interrupt";
    } else if (best && best->objective() <= trial->bound) {
      trial->outcome.objective = trial->bound;
      trial->outcome.isBound = true;
    } else {
      tryOne(*trial, each);
      left = left - each;
    }
  }
  bool isLimited = options.solver.maxEvaluations > 0;
  if (best && !isProven() && !isInterrupted(options.solver) &&
      left.milliseconds > 0 && (!isLimited || left.evaluations > 0))
    goOn(left);
}

/// Continues the search from the rows of the best candidate.
void ScheduleOptimizer::goOn(const Budget &budget) {
  SolverResult &known = best->result;
  Seed rows{known.origin, known.solution.rows};
  Expected<SolverResult> result = solve(best->problem, rows, budget);
  if (!result) // its share of the time is too short for its size
    return llvm::consumeError(result.takeError());
  if (result->lowerBound < known.lowerBound) {
    result->lowerBound = known.lowerBound;
    result->boundName = known.boundName;
    if (objectiveOf(best->problem, result->solution) <= result->lowerBound)
      result->status = optimize::Status::Optimal;
  }
  known = std::move(*result);
}

/// Returns an error with the reasons of all candidates, or one reason if all
/// are the same.
Error ScheduleOptimizer::noSchedule() const {
  llvm::StringRef first = trials.front().outcome.reason;
  auto isAlike = [&](const Trial &trial) {
    return trial.outcome.reason == first;
  };
  if (llvm::all_of(trials, isAlike))
    return llvm::createStringError(first);
  auto textOf = [](const Trial &trial) {
    return "with " + trial.outcome.name + ", " + trial.outcome.reason;
  };
  return llvm::createStringError(
      "has no schedule: " + llvm::join(llvm::map_range(trials, textOf), "; "));
}

//===----------------------------------------------------------------------===//
// Techniques
//===----------------------------------------------------------------------===//

Alternative ScheduleOptimizer::solveWithout(const NamedTechnique &technique,
                                            const Budget &budget) {
  Alternative without{technique.name, std::nullopt, /*isBound=*/false, ""};
  ProblemOptions fewer = options.problem;
  fewer.techniques.*technique.flag = false;
  const ScheduleCandidate &candidate = bestCandidate();
  Expected<Problem> problem =
      makeProblem(candidate.placement, candidate.costs, fewer);
  Expected<SolverResult> result =
      problem ? solve(*problem, candidate.seeds, budget)
              : Expected<SolverResult>(problem.takeError());
  if (result)
    without.objective = objectiveOf(*problem, result->solution);
  else
    without.reason = llvm::toString(result.takeError());
  return without;
}

void ScheduleOptimizer::tryWithout(const Budget &budget) {
  auto isGiven = [&](const NamedTechnique &technique) {
    return options.problem.techniques.*technique.flag;
  };
  auto count = double(llvm::count_if(kTechniques, isGiven));
  for (const NamedTechnique &technique : kTechniques)
    if (isGiven(technique) && !isInterrupted(options.solver))
      best->without.push_back(solveWithout(technique, budget.share(1 / count)));
}

//===----------------------------------------------------------------------===//
// The whole search
//===----------------------------------------------------------------------===//

/// Checks the result by the rules for all schedules, which share no code with
/// the optimizer.
Error ScheduleOptimizer::verify() const {
  TableView table;
  table.placement = &bestCandidate().placement;
  table.gradientAfter = best->problem.gradientAfter;
  const std::vector<Row> &rows = best->result.solution.rows;
  table.rows.assign(rows.begin(), rows.end());
  for (auto [number, row] : llvm::enumerate(table.rows))
    if (std::optional<Violation> violation =
            verifyRow(*table.placement, number, row))
      return llvm::make_error<ViolationError>(std::move(*violation));
  if (std::optional<Violation> violation = verifyTable(table))
    return llvm::make_error<ViolationError>(std::move(*violation));
  const CostInputs &costs = bestCandidate().costs;
  std::optional<MemoryBudget> budget = budgetFor(costs, options.problem);
  if (!budget)
    return Error::success();
  TimingOptions timing;
  timing.transport = Transport::Delay;
  return verifyMemory(table, costs, *budget, options.problem.memoryTimes,
                      timing);
}

Expected<OptimizedSchedule> ScheduleOptimizer::run() {
  Budget all = Budget::of(options.solver);
  Budget main = options.explain ? all.share(kMainShare) : all;
  prepare(main);
  tryAll(main);
  if (!best)
    return noSchedule();
  if (Error error = verify())
    return std::move(error);
  for (auto [number, trial] : llvm::enumerate(trials))
    if (number != best->candidate)
      best->others.push_back(std::move(trial.outcome));
  if (options.explain)
    tryWithout(all - main);
  best->warnings = std::move(warnings);
  return std::move(*best);
}

Expected<OptimizedSchedule>
pipesched::optimizeSchedule(ArrayRef<ScheduleCandidate> candidates,
                            const OptimizeOptions &options) {
  return ScheduleOptimizer(candidates, options).run();
}
