//===- SearchTest.cpp - Objectives of plans -------------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// On problems of every kind, the rows of the plans that a search ends with have
// the objective that it gives them, by code that it does not use, and keep the
// rules. Runs and generations of a search have the intended lengths.
//
//===----------------------------------------------------------------------===//

#include "../../lib/Optimize/Search/Search.h"
#include "../../lib/Optimize/Search/Heuristics.h"
#include "../Support/TestEffort.h"
#include "DiverseProblems.h"

using namespace pipesched;
using namespace pipesched::optimize;
using namespace pipesched::optimize::test;

namespace {

class Budget : public Stopper {
public:
  explicit Budget(uint64_t evaluations) : evaluations(evaluations) {}

  bool shouldStop(uint64_t more, int64_t) override {
    return (used += more) >= evaluations;
  }
  double getProgress() const override {
    return double(used) / double(evaluations);
  }

private:
  uint64_t evaluations, used = 0;
};

std::unique_ptr<Search> runSearch(const Encoding &encoding, uint32_t seed,
                                  uint64_t evaluations) {
  Budget budget(evaluations);
  std::unique_ptr<Search> search = makeSearch(encoding, seed);
  search->start();
  EXPECT_NE(search->getBestObjective(), kInfeasible);
  search->construct(budget);
  if (!budget.shouldStop(0, kInfeasible))
    search->anneal(budget);
  return search;
}

TEST(Search, PlansHaveTheObjectiveOfTheirRows) {
  for (int seed = 0; seed < numRounds(250); ++seed) {
    SCOPED_TRACE(seed);
    DiverseProblem diverse(seed);
    const Problem &problem = diverse.problem;
    Encoding encoding(problem);
    std::unique_ptr<Search> search = runSearch(encoding, seed, 800);
    std::vector<RankedPlan> plans = search->getPlans();
    ASSERT_FALSE(plans.empty());
    EXPECT_EQ(plans.front().objective, search->getBestObjective());
    int64_t last = 0;
    for (const RankedPlan &plan : plans) {
      EXPECT_GE(plan.objective, last);
      last = plan.objective;
      Solution solution = llvm::cantFail(
          test::timeRows(problem, search->rowsOf(*plan.plan).front()));
      if (problem.objective == Objective::Makespan)
        EXPECT_EQ(solution.makespan, plan.objective);
      else // with its joins every step can run as the plan was timed
        EXPECT_LE(solution.period, plan.objective);
      llvm::Error error = verifySolution(problem, solution);
      EXPECT_FALSE(bool(error)) << llvm::toString(std::move(error));
    }
  }
}

/// With the joins of one of many steps the first step, in which all workers
/// start at once, exceeds the memory: 0F5 has to join 0D3.
Problem makeFirstStepProblem() {
  Problem problem = makeProblem(llvm::cantFail(Placement::create(
      2, 6, llvm::cantFail(placeBidirectional(2, 6, 1, Assign::Alternate)))));
  problem.objective = Objective::Period;
  problem.capacity = {10, 10};
  const int64_t numbers[4][10] = {{3, 1, 3, 0, 7, 3, 3, 0, 2, -2},
                                  {3, 1, 7, 6, 6, 1, 3, 1, 1, 0},
                                  {4, 1, 3, 3, 7, 3, 0, 1, 5, 4},
                                  {8, 5, 9, 8, 2, 6, 1, 0, 1, 1}};
  for (auto [facts, number] : llvm::zip(problem.stages, numbers))
    facts = {number[0], number[1], number[2], number[3], number[4],
             number[5], number[6], number[7], number[8], number[9]};
  return problem;
}

TEST(Search, HasRowsForTheFirstStep) {
  Problem problem = makeFirstStepProblem();
  Encoding encoding(problem);
  std::vector<Row> rows = {
      parseRow("0F0 0F2 0I0 0W0 1F1 1I1 1F3 0F4 1I3 0I2 1F5 1I5 0I4 0W2 1W1 "
               "1W3 0W4 1W5"),
      parseRow("0F1 0D1 0F3 0D3 1F0 0F5 1I0 0D5 1F2 0U1 0I1 1I2 1W0 0W1 0U3 "
               "0I3 0W3 0U5 0I5 1F4 1W2 1I4 1W4 0W5")};
  Budget budget(1);
  std::unique_ptr<Search> search = makeSearch(encoding, 1);
  search->offer({*planOf(encoding, rows), "seed"}, budget);
  RankedPlan plan = search->getPlans().front();
  std::vector<std::vector<Row>> all = search->rowsOf(*plan.plan);
  ASSERT_EQ(all.size(), 2u);
  Solution steady = llvm::cantFail(test::timeRows(problem, all[0]));
  EXPECT_EQ(steady.period, plan.objective);
  llvm::Error error = verifySolution(problem, steady);
  EXPECT_NE(llvm::toString(std::move(error)).find("over its capacity"),
            std::string::npos);
  Solution first = llvm::cantFail(test::timeRows(problem, all[1]));
  EXPECT_EQ(first.period, plan.objective);
  llvm::cantFail(verifySolution(problem, first));
}

//===----------------------------------------------------------------------===//
// Times of searches
//===----------------------------------------------------------------------===//

TEST(Annealing, RunsUntilItsProgress) {
  Problem problem =
      makeProblem(llvm::cantFail(Placement::create(3, 6, {placeLinear(3)})));
  Encoding encoding(problem);
  Plan plan = runOneByOne(encoding);
  Annealing<MakespanEvaluator<true>> annealing(encoding, /*seed=*/1);
  Budget budget(20'000);
  Cooling cooling = {/*from=*/3, /*to=*/1, /*until=*/0.5};
  EXPECT_TRUE(annealing.run(plan, cooling, budget));
  EXPECT_GE(annealing.getNumEvaluations(), 10'000u);
  EXPECT_LT(annealing.getNumEvaluations(), 10'600u);
  // That progress is in the past, but a run has some evaluations at least.
  uint64_t before = annealing.getNumEvaluations();
  cooling.leastEvaluations = 2000;
  EXPECT_TRUE(annealing.run(plan, cooling, budget));
  EXPECT_GE(annealing.getNumEvaluations(), before + 2000);
  EXPECT_LT(annealing.getNumEvaluations(), before + 2600);
  cooling.until = 2;
  EXPECT_FALSE(annealing.run(plan, cooling, budget));
}

/// A limit with two rounds; the first has a tenth. Counts the list schedules of
/// the second one: a search reports each by itself.
class TwoRounds : public Stopper {
public:
  explicit TwoRounds(uint64_t evaluations) : evaluations(evaluations) {}

  bool shouldStop(uint64_t more, int64_t) override {
    used += more;
    numSingle += end == 1 && more == 1;
    return getProgress() >= end;
  }
  double getProgress() const override {
    return double(used) / double(evaluations);
  }
  double getEnd() const override { return end; }

  double end = 0.1;
  uint64_t numSingle = 0;

private:
  uint64_t evaluations, used = 0;
};

/// The list schedules of a search that come after its first annealing runs.
uint64_t countLateSchedules(uint64_t evaluations, int64_t numMicrobatches) {
  Problem problem = makeProblem(
      llvm::cantFail(Placement::create(2, numMicrobatches, {placeLinear(2)})));
  problem.capacity = {8, 8};
  Encoding encoding(problem);
  TwoRounds limit(evaluations);
  std::unique_ptr<Search> search = makeSearch(encoding, 1);
  search->start();
  search->construct(limit);
  search->anneal(limit);
  limit.end = 1;
  search->anneal(limit);
  EXPECT_GE(limit.getProgress(), 1);
  return limit.numSingle;
}

/// If there is time, a search starts again with other schedules.
TEST(Search, BeginsAnewWhereThereIsTime) {
  EXPECT_GE(countLateSchedules(150'000, 2), 1000u);
  EXPECT_LT(countLateSchedules(40'000, 2), 100u);
  // Schedules that were made from fewer microbatches take too long.
  EXPECT_LT(countLateSchedules(900'000, 20), 100u);
}

} // namespace
