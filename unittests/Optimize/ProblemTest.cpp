//===- ProblemTest.cpp - Checks of problems -------------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Problems that are rejected, and capacities that hold no schedule.
//
//===----------------------------------------------------------------------===//

#include "TestProblems.h"

using namespace pipesched;
using namespace pipesched::optimize;
using optimize::test::makeProblem;

namespace {

constexpr int64_t kMax = std::numeric_limits<int64_t>::max();

Problem makeSmall() { return makeProblem(makeLinear(2, 3)); }

/// The error of checkProblem after a change to the last stage.
template <typename Change>
std::string errorWith(Change &&change) {
  Problem problem = makeSmall();
  change(problem.stages[1]);
  return errorOf(checkProblem(problem));
}

TEST(ProblemTest, AcceptsWhatIsWhole) {
  EXPECT_FALSE(bool(checkProblem(makeSmall())));
}

TEST(ProblemTest, RefusesListsOfAnotherLength) {
  Problem problem = makeSmall();
  problem.stages.pop_back();
  EXPECT_EQ(errorOf(checkProblem(problem)),
            "the problem has facts of 1 stages, expected 2");
  problem = makeSmall();
  problem.capacity.push_back(1);
  EXPECT_EQ(errorOf(checkProblem(problem)),
            "the problem has capacities of 3 workers, expected 2");
}

TEST(ProblemTest, RefusesPathsThatTakeNothing) {
  Problem problem =
      makeProblem(makePlacement(2, 4, {pathOn({0, 1}), pathOn({1, 0})}));
  EXPECT_EQ(errorOf(checkProblem(problem)),
            "the problem has several paths without microbatches: state them "
            "with 'takes'");
}

TEST(ProblemTest, RefusesTimes) {
  EXPECT_EQ(errorWith([](StageFacts &facts) { facts.forward = 0; }),
            "stage 1: F takes 0, expected 1 or more");
  EXPECT_EQ(errorWith([](StageFacts &facts) { facts.inputGrad = -1; }),
            "stage 1: I takes -1, expected 1 or more");
  EXPECT_EQ(errorWith([](StageFacts &facts) { facts.weightGrad = 0; }),
            "stage 1: W takes 0, expected 1 or more");
  EXPECT_EQ(errorWith([](StageFacts &facts) { facts.recompute = -1; }),
            "stage 1: R takes -1, expected 0 or more");
  EXPECT_EQ(errorWith([](StageFacts &facts) { facts.offload = -2; }),
            "stage 1: D takes -2, expected 0 or more");
  EXPECT_EQ(errorWith([](StageFacts &facts) { facts.reload = -3; }),
            "stage 1: U takes -3, expected 0 or more");
  EXPECT_EQ(errorWith([](StageFacts &facts) { facts.gradientDelay = -4; }),
            "stage 1: a gradient is delayed by -4, expected 0 or more");
}

TEST(ProblemTest, RefusesMemory) {
  EXPECT_EQ(errorWith([](StageFacts &facts) { facts.activation = -1; }),
            "stage 1: an activation has -1, expected 0 or more");
  EXPECT_EQ(errorWith([](StageFacts &facts) { facts.freedByInputGrad = 5; }),
            "stage 1: I frees 5, more than the 4 that F allocates");
  EXPECT_EQ(errorWith([](StageFacts &facts) { facts.checkpoint = 5; }),
            "stage 1: a checkpoint has 5, more than the 4 that F allocates");
  Problem problem = makeSmall();
  problem.capacity[1] = -1;
  EXPECT_EQ(errorOf(checkProblem(problem)),
            "worker 1 has a capacity of -1, expected 0 or more");
}

TEST(ProblemTest, NamesPathsWhereThereAreSeveral) {
  Problem problem = makeProblem(makePlacement(
      2, 4, {pathOn({0, 1}, {{0, 4, 2}}), pathOn({1, 0}, {{1, 4, 2}})}));
  problem.stages[2].forward = 0;
  EXPECT_EQ(errorOf(checkProblem(problem)),
            "stage 0 of path 1: F takes 0, expected 1 or more");
}

TEST(ProblemTest, RefusesSumsOverInt64) {
  EXPECT_EQ(errorWith([](StageFacts &facts) { facts.forward = kMax / 3; }),
            "the times of all cells and messages add up to more than 2^61");
  EXPECT_EQ(errorWith([](StageFacts &facts) { facts.activation = kMax / 2; }),
            "the activations of all cells add up to more than 2^63-1");
  EXPECT_EQ(errorWith([](StageFacts &facts) {
              facts.freedByInputGrad = std::numeric_limits<int64_t>::min();
            }),
            "the activations of all cells add up to more than 2^63-1");
}

//===----------------------------------------------------------------------===//
// Capacity
//===----------------------------------------------------------------------===//

/// Worker 1 holds stages 1 and 2, with activations of 4 and 6.
Problem makeV(Techniques techniques) {
  Problem problem = makeProblem(makePlacement(2, 3, {pathOn({0, 1, 1, 0})}));
  problem.stages[2].activation = 6;
  problem.techniques = techniques;
  return problem;
}

using Capacities = std::vector<int64_t>;

TEST(CapacityTest, HoldsAllStagesOfAMicrobatch) {
  EXPECT_EQ(leastCapacities(makeV({true, false, false})), Capacities({8, 10}));
}

TEST(CapacityTest, KeepsCheckpoints) {
  EXPECT_EQ(leastCapacities(makeV({true, false, true})), Capacities({5, 7}));
}

TEST(CapacityTest, OffloadsAllButOne) {
  EXPECT_EQ(leastCapacities(makeV({true, true, false})), Capacities({4, 6}));
}

TEST(CapacityTest, CountsWhatInputGradLeaves) {
  Problem problem = makeV({true, false, false});
  problem.stages[1].freedByInputGrad = -7; // the stage itself needs 4 + 7
  EXPECT_EQ(leastCapacities(problem), Capacities({8, 11}));
  problem.techniques.splitBackward = false;
  EXPECT_EQ(leastCapacities(problem), Capacities({8, 10}));
}

TEST(CapacityTest, NamesTheWorker) {
  Problem problem = makeV({true, false, false});
  problem.capacity = {8, 7};
  EXPECT_EQ(errorOf(checkCapacity(problem)),
            "worker 1 has a capacity of 7, which holds no schedule: 3 more is "
            "needed, 10 at least");
  problem.capacity[1] = 10;
  EXPECT_FALSE(bool(checkCapacity(problem)));
}

/// Rows of one microbatch after the other take exactly the least capacity of
/// every worker; with one unit less they do not fit.
TEST(CapacityTest, IsTightForOneMicrobatchAtATime) {
  Problem problem = makeV({true, false, false});
  problem.capacity = leastCapacities(problem);
  Solution solution = llvm::cantFail(optimize::test::timeRows(
      problem, {"0F0 3F0 3I0 3W0 0I0 0W0 0F1 3F1 3I1 3W1 0I1 0W1 0F2 3F2 3I2 "
                "3W2 0I2 0W2",
                "1F0 2F0 2I0 2W0 1I0 1W0 1F1 2F1 2I1 2W1 1I1 1W1 1F2 2F2 2I2 "
                "2W2 1I2 1W2"}));
  EXPECT_EQ(peakMemory(problem, solution), problem.capacity);
  EXPECT_FALSE(bool(verifySolution(problem, solution)));
  --problem.capacity[1];
  EXPECT_EQ(errorOf(verifySolution(problem, solution)),
            "worker 1 holds 10 from 21 at 2F0 on, 1 over its capacity of 9");
}

} // namespace
