//===- Seeds.cpp - Schedules of families as seeds -------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Makes the schedules of the families that a problem allows.
//
//===----------------------------------------------------------------------===//

#include "PipeSched/Schedule/Check/Verify.h"
#include "PipeSched/Schedule/Edit/Backward.h"
#include "PipeSched/Schedule/Family/Families.h"
#include "StaticSeeds.h"
#include <algorithm>
#include <chrono>

using namespace pipesched;
using namespace pipesched::optimize;
using llvm::ArrayRef;
using llvm::consumeError;
using llvm::Expected;

/// Problems with more stages times microbatches get no seeds: they are too
/// large for a search.
static constexpr int64_t kMaxSeedPairs = int64_t(1) << 20;

static bool isSamePlacement(const Placement &a, const Placement &b) {
  if (a.getNumPaths() != b.getNumPaths() || !b.isAssigned() ||
      a.getNumSlices() != b.getNumSlices())
    return false;
  for (int64_t path = 0; path < a.getNumPaths(); ++path)
    if (a.getPath(path).workers != b.getPath(path).workers)
      return false;
  for (int64_t unit = 0; unit < a.getNumUnits(); ++unit)
    if (a.pathOf(unit) != b.pathOf(unit))
      return false;
  return true;
}

static int64_t pathOf(const Placement &placement, int64_t globalStage) {
  int64_t path = 0;
  while (placement.stageOffset(path + 1) <= globalStage)
    ++path;
  return path;
}

/// Returns durations as slots, for families that use them.
static std::vector<StageSlots> slotsOf(const Problem &problem) {
  std::vector<StageSlots> slots;
  // The first slice represents all.
  for (size_t stage = 0; stage < problem.stages.size(); ++stage) {
    if (pathOf(problem.placement, stage) % problem.numSlices != 0)
      continue;
    const StageFacts &facts = problem.stages[stage];
    slots.emplace_back(facts.forward, facts.inputGrad, facts.weightGrad);
    if (!problem.techniques.splitBackward)
      slots.back().set(Phase::Backward, facts.inputGrad);
  }
  return slots;
}

int64_t optimize::leastActivations(const Problem &problem) {
  int64_t least = std::numeric_limits<int64_t>::max();
  for (size_t stage = 0; stage < problem.stages.size(); ++stage) {
    int64_t bytes = problem.stages[stage].activation;
    int64_t room = problem.capacity[problem.placement.workerOf(stage)];
    if (bytes > 0)
      least = std::min(least, room / bytes);
  }
  return least;
}

/// The options with which a family is tried, and the name of each variant.
static std::vector<std::pair<std::string, FamilyOptions>>
variantsOf(const Family &family, const Problem &problem) {
  FamilyOptions options;
  if (family.takes(FamilyOption::SplitBackward))
    options.splitBackward = problem.techniques.splitBackward;
  std::string name = family.name.str();
  std::vector<std::pair<std::string, FamilyOptions>> variants = {
      {name, options}};
  if (family.takes(FamilyOption::Memory)) {
    options.memory = leastActivations(problem);
    variants.emplace_back(name + " within memory", options);
    options.memory.reset();
  }
  if (family.takes(FamilyOption::SplitBackward)) {
    // The family orders whole backwards; adapt() splits them afterwards.
    options.splitBackward = false;
    variants.emplace_back(name + " with whole backwards", options);
  }
  if (family.name == "greedy" || family.name == "hanayo") {
    options.splitBackward = problem.techniques.splitBackward;
    options.slots = slotsOf(problem);
    variants.emplace_back(name + " by durations", options);
  }
  return variants;
}

/// Returns the row without overlap and idle slots, because problems have
/// neither.
static Row plainRow(const Row &row) {
  Row plain;
  plain.reserve(row.size());
  for (Cell cell : row)
    if (!cell.isIdle())
      plain.push_back(cell.withOverlap(false));
  return plain;
}

static bool hasPhase(const std::vector<Row> &rows, Phase phase) {
  for (const Row &row : rows)
    for (Cell cell : row)
      if (cell.is(phase))
        return true;
  return false;
}

/// Returns the rows with split or whole backwards as in the problem. Empty if
/// that is not possible.
static std::vector<Row> adapt(const Problem &problem, Table table) {
  for (Row &row : table.rows)
    row = plainRow(row);
  table.aligned = false;
  if (!problem.techniques.splitBackward)
    return hasPhase(table.rows, Phase::InputGrad) ? std::vector<Row>()
                                                  : std::move(table.rows);
  if (!hasPhase(table.rows, Phase::Backward))
    return std::move(table.rows);
  SplitOptions options;
  if (hasPhase(table.rows, Phase::InputGrad))
    options.gradientAfter = table.gradientAfter;
  Expected<BackwardChange> split = splitBackward(table.view(), options);
  if (split)
    return std::move(split->rows);
  consumeError(split.takeError());
  return {};
}

/// Whether the rows violate no rule. An order made for gradients after I may
/// deadlock if gradients come after W.
static bool canRun(const Problem &problem, const Placement &placement,
                   ArrayRef<Row> rows) {
  TableView view;
  view.placement = &placement;
  view.gradientAfter = problem.gradientAfter;
  view.rows.assign(rows.begin(), rows.end());
  return !verifyTable(view);
}

std::vector<Seed> optimize::familySeeds(const Problem &problem,
                                        llvm::function_ref<bool()> mustStop) {
  std::vector<Seed> seeds;
  if (problem.placement.getNumPairs() > kMaxSeedPairs)
    return seeds;
  const Placement placement = joinSlices(problem);
  for (const Family &family : families()) {
    // Without overlapped pairs its order is interleaved 1F1B's with one
    // unneeded forward.
    if (family.name == "combined-1f1b")
      continue;
    for (auto &[name, options] : variantsOf(family, problem)) {
      if (!seeds.empty() && mustStop && mustStop())
        return seeds;
      Expected<Table> table = generate(family, placement, options);
      if (!table) {
        consumeError(table.takeError());
        continue;
      }
      // The problem has no shards of a vocabulary.
      if (hasPhase(table->rows, Phase::Logits) ||
          !isSamePlacement(placement, table->placement))
        continue;
      std::vector<Row> rows = adapt(problem, std::move(*table));
      bool isNew = llvm::none_of(
          seeds, [&](const Seed &seed) { return seed.rows == rows; });
      if (!rows.empty() && isNew && canRun(problem, placement, rows))
        seeds.push_back({name, std::move(rows)});
    }
  }
  return seeds;
}

std::vector<Seed> optimize::familySeeds(const Problem &problem,
                                        SolverOptions &options) {
  using Clock = std::chrono::steady_clock;
  auto start = Clock::now();
  double before = options.setupSeconds;
  auto mustStop = [&] {
    options.setupSeconds =
        before + std::chrono::duration<double>(Clock::now() - start).count();
    return (options.interrupted && *options.interrupted) ||
           (options.timeLimitSeconds > 0 &&
            options.setupSeconds >= options.timeLimitSeconds);
  };
  std::vector<Seed> seeds = familySeeds(problem, mustStop);
  (void)mustStop(); // updates the time of the last one
  return seeds;
}
