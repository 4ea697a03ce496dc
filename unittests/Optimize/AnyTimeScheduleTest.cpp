//===- AnyTimeScheduleTest.cpp - Budgets that hold at any times -----------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Optimizes schedules with offload and recompute, and runs them at times that
// the search did not know.
//
//===----------------------------------------------------------------------===//

#include "../Support/RandomTimes.h"
#include "../Support/TestEffort.h"
#include "../Support/TestTables.h"
#include "PipeSched/Optimize/Schedule/OptimizeSchedule.h"

using namespace pipesched;
using namespace pipesched::test;

namespace {

static const uint32_t kNumSchedules = numRounds(200);
constexpr int kNumTimes = 100;

/// A problem with a tight budget, and its schedule.
class TightSchedule {
public:
  explicit TightSchedule(uint32_t seed) : random(seed * 7919 + 3) {
    int64_t workers = 2 * draw(2) + 1 + draw(2), microbatches = 3 + draw(6);
    candidate.placement = drawPlacement(workers, microbatches);
    candidate.costs.profile = drawProfile();
    options.problem.techniques = {draw(4) != 0, true, draw(2) == 0};
    options.problem.objective =
        draw(4) ? optimize::Objective::Makespan : optimize::Objective::Period;
    options.solver.maxEvaluations = 400;
    options.solver.seed = seed;
    options.explain = false;
    int64_t chunks = candidate.placement.getNumGlobalStages() / workers;
    budget.amount = std::max<int64_t>(1, chunks) + draw(3);
    options.problem.memory = budget;
  }

  /// The rows, or nothing if the budget holds no schedule.
  std::optional<Table> find(MemoryTimes times) {
    options.problem.memoryTimes = times;
    llvm::Expected<OptimizedSchedule> found =
        optimizeSchedule(candidate, options);
    if (!found) {
      llvm::errs() << llvm::toString(found.takeError()) << "\n";
      return std::nullopt;
    }
    Table table;
    table.placement = candidate.placement;
    table.rows = std::move(found->result.solution.rows);
    return table;
  }

  int64_t getBudget() const { return budget.amount; }

private:
  int64_t draw(int64_t count) { return int64_t(random() / 3 % count); }

  Placement drawPlacement(int64_t workers, int64_t microbatches) {
    if (workers % 2 == 0 && draw(3) == 0)
      return llvm::cantFail(
          Placement::create(workers, microbatches,
                            llvm::cantFail(placeBidirectional(
                                workers, microbatches, 1, Assign::Alternate))));
    if (draw(3) == 0)
      return llvm::cantFail(
          Placement::create(workers, microbatches, {placeV(workers)}));
    return makeLinear(workers, microbatches);
  }

  Profile drawProfile() {
    Profile profile;
    for (Phase phase :
         {Phase::Forward, Phase::Backward, Phase::InputGrad, Phase::WeightGrad,
          Phase::Recompute, Phase::Offload, Phase::Reload})
      profile.phasePs[phase] = {1 + draw(30)};
    profile.commPs = {draw(8)};
    return profile;
  }

  std::minstd_rand random;
  ScheduleCandidate candidate;
  OptimizeOptions options;
  MemoryBudget budget;
};

/// The most activations that a worker holds at random times.
int64_t mostAtRandomTimes(const Table &table, uint32_t seed) {
  StageMemory one;
  one.activationBytes = 1;
  MemoryFacts facts;
  facts.stages.assign(table.placement.getNumGlobalStages(), one);
  Program program = llvm::cantFail(lowerTable(table.view(), {}));
  Transport transport = seed % 2 ? Transport::Overlap : Transport::Delay;
  TaskGraph graph = llvm::cantFail(buildTaskGraph(program, transport));
  RandomTimes random(graph, seed);
  int64_t most = 0;
  for (int i = 0; i < kNumTimes; ++i)
    for (int64_t peak : peaksAt(graph, random.draw(), table.placement, facts))
      most = std::max(most, peak);
  return most;
}

bool has(const Table &table, Phase phase) {
  for (const Row &row : table.rows)
    if (llvm::any_of(row, [&](Cell cell) { return cell.is(phase); }))
      return true;
  return false;
}

TEST(AnyTimeSchedule, KeepsItsBudgetAtRandomTimes) {
  uint32_t numFound = 0, numOffloaded = 0, numRecomputed = 0, numReached = 0;
  for (uint32_t seed = 0; numFound < kNumSchedules && seed < 2000; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    TightSchedule tight(seed);
    std::optional<Table> table = tight.find(MemoryTimes::Any);
    if (!table)
      continue;
    ++numFound;
    numOffloaded += has(*table, Phase::Offload);
    numRecomputed += has(*table, Phase::Recompute);
    int64_t most = mostAtRandomTimes(*table, seed);
    ASSERT_LE(most, tight.getBudget());
    numReached += most == tight.getBudget();
  }
  EXPECT_GE(numOffloaded, kNumSchedules / 3);
  EXPECT_GE(numRecomputed, kNumSchedules / 8);
  EXPECT_GE(numReached, kNumSchedules / 2);
}

} // namespace
