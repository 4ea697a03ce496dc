//===- Candidates.cpp - Placements and sizes to try -----------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Lists placements and sizes, optimizes all of them together, and describes the
// result.
//
//===----------------------------------------------------------------------===//

#include "PipeSched/Optimize/Schedule/Candidates.h"
#include "PipeSched/CostModel/Layers/MicrobatchSizes.h"
#include "PipeSched/Facts/ProfileText.h"
#include "PipeSched/Schedule/Check/Verify.h"
#include "PipeSched/Support/ClosestName.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/FormatVariadic.h"
#include <cmath>

using namespace pipesched;
using llvm::ArrayRef;
using llvm::createStringError;
using llvm::Error;
using llvm::Expected;
using llvm::formatv;
using llvm::StringRef;

//===----------------------------------------------------------------------===//
// Options
//===----------------------------------------------------------------------===//

Expected<std::vector<PlacementKind>>
pipesched::parsePlacementKinds(ArrayRef<std::string> names) {
  std::vector<PlacementKind> kinds;
  auto known = listEnumNames<PlacementKind>();
  for (const std::string &name : names) {
    const auto *found = llvm::find(known, name);
    if (found == known.end())
      return createStringError(formatv("no placement is called '{0}'{1}", name,
                                       nameHint(name, known)));
    auto kind = static_cast<PlacementKind>(found - known.begin());
    if (llvm::is_contained(kinds, kind))
      return createStringError(formatv("{0} is listed twice", name));
    kinds.push_back(kind);
  }
  return kinds;
}

Error pipesched::checkLimits(const optimize::SolverOptions &options) {
  constexpr int64_t mostSeconds = 10000000;
  double seconds = options.timeLimitSeconds;
  if (seconds != optimize::kNoTimeLimit &&
      !(seconds >= 0 && seconds <= mostSeconds))
    return createStringError(
        formatv("time-limit is 0 to {0} seconds, found {1}", mostSeconds,
                std::to_string(seconds)));
  if (!(options.gap >= 0 && options.gap <= 1))
    return createStringError(
        formatv("gap is 0 to 1, found {0}", std::to_string(options.gap)));
  if (std::isinf(seconds) && options.maxEvaluations == 0)
    return createStringError(
        "max-evaluations=0 needs a time-limit: without any limit the search "
        "may not end");
  return Error::success();
}

//===----------------------------------------------------------------------===//
// Candidates
//===----------------------------------------------------------------------===//

namespace {
/// A number of microbatches with its costs. The schedule's own number has no
/// size.
struct SizeOption {
  std::optional<int64_t> size;
  int64_t numMicrobatches;
  CostInputs costs;
};
} // namespace

/// The rows without idle slots and pairs as a seed; empty for a problem.
static Expected<std::vector<optimize::Seed>>
readSeed(const ScheduleStart &start) {
  std::vector<optimize::Seed> seeds;
  if (!start.hasRows)
    return seeds;
  if (std::optional<Violation> violation = verifyTable(start.table))
    return llvm::make_error<ViolationError>(std::move(*violation));
  optimize::Seed &seed = seeds.emplace_back(optimize::Seed{start.name, {}});
  for (auto [worker, cells] : llvm::enumerate(start.table.rows)) {
    Row &row = seed.rows.emplace_back();
    for (Cell cell : cells) {
      if (cell.isPerPath())
        return createStringError(
            formatv("has {0} on worker {1}: optimize first, then add the "
                    "optimizer step",
                    start.table.placement->nameOf(cell).str(), worker));
      if (!cell.isIdle())
        row.push_back(cell.withOverlap(false));
    }
  }
  return seeds;
}

/// Whether rows of one placement are valid on the other, because all paths run
/// through the same workers and take the same microbatches.
static bool haveSameRows(const Placement &a, const Placement &b) {
  auto isSamePath = [](const Path &path, const Path &other) {
    return path.workers == other.workers && path.takes == other.takes;
  };
  return a.getNumMicrobatches() == b.getNumMicrobatches() &&
         a.getNumSlices() == b.getNumSlices() &&
         llvm::equal(a.getPaths(), b.getPaths(), isSamePath);
}

/// The placements to try; nothing means the placement of the schedule.
static std::vector<std::optional<PlacementKind>>
listPlacements(ArrayRef<PlacementKind> kinds) {
  if (kinds.empty())
    return {std::nullopt};
  return {kinds.begin(), kinds.end()};
}

/// Returns why the costs are valid for only one microbatch size; empty if they
/// are not limited to one.
static StringRef whyOneSize(const CostInputs &costs) {
  if (costs.profile)
    return "has a profile, whose times are those of one microbatch size";
  if (!costs.model)
    return "has no model";
  return costs.system ? "" : "has no system";
}

static Expected<std::vector<SizeOption>>
listSizes(const ScheduleStart &start, const CandidateOptions &options) {
  int64_t own = start.table.placement->getNumMicrobatches();
  const CostInputs &costs = start.costs;
  if (options.microbatchSizes.empty())
    return std::vector<SizeOption>{{std::nullopt, own, costs}};
  if (StringRef found = whyOneSize(costs); !found.empty())
    return createStringError(
        formatv("{0}; with microbatch-sizes a model and a system say what each "
                "takes",
                found));
  std::vector<SizeOption> sizes;
  for (int64_t size : options.microbatchSizes) {
    Expected<int64_t> count =
        countMicrobatches(size, costs.model->microbatchSize, own);
    if (!count)
      return count.takeError();
    Expected<ModelFacts> model = options.resizeModel(*costs.model, size);
    if (!model)
      return model.takeError();
    sizes.push_back({size, *count, costs});
    sizes.back().costs.model = std::move(*model);
  }
  return sizes;
}

static Expected<ScheduleCandidate>
makeCandidate(const ScheduleStart &start, const CandidateOptions &options,
              std::optional<PlacementKind> where, const SizeOption &size) {
  const Placement &own = *start.table.placement;
  CandidateChoice choice{where, size.size};
  Expected<Placement> placement =
      where ? placeBy(*where, own.getNumWorkers(), size.numMicrobatches,
                      options.chunks, options.waves, own.getNumSlices())
            : dealAnew(own, size.numMicrobatches);
  if (!placement)
    return createStringError(formatv("cannot have {0}: {1}", choice.str(),
                                     llvm::toString(placement.takeError())));
  return ScheduleCandidate{
      choice.str(), std::move(*placement), size.costs, {}, choice};
}

Expected<std::vector<ScheduleCandidate>>
pipesched::listCandidates(const ScheduleStart &start,
                          const CandidateOptions &options) {
  const Placement &own = *start.table.placement;
  Expected<std::vector<optimize::Seed>> seeds = readSeed(start);
  if (!seeds)
    return seeds.takeError();
  if (options.placements.empty() && !own.isAssigned())
    return createStringError(
        "has several paths without microbatches: state them with 'takes'");
  Expected<std::vector<SizeOption>> sizes = listSizes(start, options);
  if (!sizes)
    return sizes.takeError();
  std::vector<ScheduleCandidate> candidates;
  for (std::optional<PlacementKind> where : listPlacements(options.placements))
    for (const SizeOption &size : *sizes) {
      Expected<ScheduleCandidate> candidate =
          makeCandidate(start, options, where, size);
      if (!candidate)
        return candidate.takeError();
      if (haveSameRows(candidate->placement, own))
        candidate->seeds = *seeds;
      candidates.push_back(std::move(*candidate));
    }
  return candidates;
}

Expected<OptimizedStart>
pipesched::optimizeStart(const ScheduleStart &start,
                         const CandidateOptions &candidates,
                         const OptimizeOptions &options) {
  Expected<std::vector<ScheduleCandidate>> listed =
      listCandidates(start, candidates);
  if (!listed)
    return listed.takeError();
  Expected<OptimizedSchedule> best = optimizeSchedule(*listed, options);
  if (!best)
    return best.takeError();
  return OptimizedStart{std::move((*listed)[best->candidate]),
                        std::move(*best)};
}

//===----------------------------------------------------------------------===//
// Results in words
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

static std::string noteOf(StringRef preposition, const Alternative &alternative,
                          int64_t objective) {
  std::string note = (preposition + " " + alternative.name + ": ").str();
  if (!alternative.objective)
    return note + alternative.reason;
  return note + printTime(*alternative.objective) +
         (alternative.isBound ? " at least, " : ", ") +
         percent(*alternative.objective, objective) + " longer";
}

OptimizationSummary pipesched::summarize(StringRef name,
                                         const OptimizedStart &optimized) {
  const OptimizedSchedule &best = optimized.best;
  const optimize::SolverResult &result = best.result;
  OptimizationSummary found;
  found.name = name;
  found.choice = optimized.chosen.choice;
  found.objective = best.problem.objective;
  found.objectivePs = best.objective();
  found.makespanPs = result.solution.makespan;
  found.periodPs = result.solution.period;
  found.lowerBoundPs = result.lowerBound;
  found.bound = result.boundName;
  found.status = result.status;
  found.origin = result.origin;
  found.startPs = result.bestSeed;
  found.start = result.bestSeedName;
  found.seconds = result.seconds;
  found.secondsToBest = result.secondsToBest;
  found.evaluations = result.evaluations;
  found.others = best.others;
  found.without = best.without;
  return found;
}

ResultText pipesched::describe(const OptimizationSummary &found) {
  int64_t objective = found.objectivePs;
  bool isPeriod = found.objective == optimize::Objective::Period;
  ResultText text;
  text.summary = formatv(
      "@{0}: {1} {2}, {3}; lower bound {4} ({5}), gap {6}; from {7}",
      found.name, isPeriod ? "period" : "makespan", printTime(objective),
      statusText(found.status), printTime(found.lowerBoundPs), found.bound,
      percent(objective, found.lowerBoundPs), found.origin);
  if (std::string choice = found.choice.str(); !choice.empty())
    text.notes.push_back("chosen: " + choice);
  for (const Alternative &other : found.others)
    text.notes.push_back(noteOf("with", other, objective));
  for (const Alternative &without : found.without)
    text.notes.push_back(noteOf("without", without, objective));
  return text;
}
