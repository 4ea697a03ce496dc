//===- BoundsTest.cpp - Quick bounds --------------------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Closed forms computed by hand. For random rows and a capacity that just holds
// them, no bound is above their times.
//
//===----------------------------------------------------------------------===//

#include "PipeSched/Optimize/Bounds/Bounds.h"
#include "RandomProblems.h"

using namespace pipesched;
using namespace pipesched::optimize;
using optimize::test::makeProblem;
using optimize::test::RandomProblem;
using optimize::test::timeRows;

namespace {

/// F, I and W take 10, 12 and 8, messages 1. An activation has 4 units.
Problem makeLinearProblem(int64_t workers, int64_t microbatches,
                          int64_t activations) {
  Problem problem = makeProblem(makeLinear(workers, microbatches));
  problem.techniques = {};
  problem.capacity.assign(workers, 4 * activations);
  return problem;
}

Problem forPeriod(Problem problem) {
  problem.objective = Objective::Period;
  return problem;
}

TEST(QuickBoundTest, FillsTheLastWorker) {
  // (D - 1)(F + Tc) + N (F + I + W)
  Bound bound = quickBound(makeLinearProblem(4, 8, 100));
  EXPECT_EQ(bound.value, 3 * 11 + 8 * 30);
  EXPECT_EQ(bound.name, "one worker");
}

TEST(QuickBoundTest, GoesThereAndBack) {
  Bound bound = quickBound(makeLinearProblem(4, 1, 100));
  EXPECT_EQ(bound.value, 4 * 22 + 6 * 1 + 8);
  EXPECT_EQ(bound.name, "critical path");
}

TEST(QuickBoundTest, WaitsForMemoryEachTime) {
  // One activation: microbatches run one after the other, each W before the
  // next F.
  EXPECT_EQ(quickBound(makeLinearProblem(4, 8, 1)).value, 8 * (4 * 22 + 6 + 8));
}

TEST(QuickBoundTest, WarmsUpWithWhatMemoryHolds) {
  Problem problem = makeLinearProblem(4, 8, 2);
  problem.techniques.recompute = true;
  for (StageFacts &facts : problem.stages)
    facts.recompute = 10; // R undoes all that an F with a checkpoint gains
  Bound bound = quickBound(problem);
  // First the earliest I of worker 0, then all work but two F, which fit
  // before it.
  EXPECT_EQ(bound.value, (40 + 3 + 36 + 3) + 8 * 30 - 2 * 10);
  EXPECT_EQ(bound.name, "warm-up");
}

TEST(QuickBoundTest, CountsOffloadsInTheWarmUp) {
  Problem problem = makeLinearProblem(4, 8, 2);
  problem.techniques.offload = true;
  for (StageFacts &facts : problem.stages) {
    facts.offload = 30;
    facts.reload = 1;
  }
  // 82 - 10 ticks are enough for two offloads.
  EXPECT_EQ(quickBound(problem).value, 82 + 8 * 30 - 4 * 10);
}

TEST(QuickBoundTest, IsWorkForOneWorker) {
  Problem problem = makeLinearProblem(1, 5, 1);
  EXPECT_EQ(quickBound(problem).value, 5 * 30);
  EXPECT_EQ(quickBound(forPeriod(problem)).value, 5 * 30);
}

TEST(QuickBoundTest, RoundsUpToTheTick) {
  Problem problem = makeLinearProblem(3, 2, 2);
  for (StageFacts &facts : problem.stages) {
    facts.forward = facts.inputGrad = facts.weightGrad = 50;
    facts.activationDelay = facts.gradientDelay = 100;
  }
  EXPECT_EQ(quickBound(problem).value % 50, 0);
}

TEST(QuickBoundTest, DropsTheFillFromThePeriod) {
  EXPECT_EQ(quickBound(forPeriod(makeLinearProblem(4, 9, 100))).value, 9 * 30);
}

TEST(QuickBoundTest, KeepsRoundTripsInThePeriod) {
  EXPECT_EQ(quickBound(forPeriod(makeLinearProblem(4, 8, 1))).value,
            8 * (4 * 22 + 6 + 8));
}

TEST(QuickBoundTest, SendsGradientsAfterW) {
  Problem problem = makeLinearProblem(2, 1, 1);
  problem.gradientAfter = GradientAfter::WeightGrad;
  EXPECT_EQ(quickBound(problem).value, 2 * 30 + 2);
}

TEST(QuickBoundTest, StaysWithinTheLongestTimes) {
  Problem problem = makeLinearProblem(2, 4, 1);
  for (StageFacts &facts : problem.stages)
    facts.forward = facts.inputGrad = int64_t(1) << 55;
  EXPECT_EQ(quickBound(problem).value, 4 * (4 * (int64_t(1) << 55) + 8 + 2));
}

/// Allows only the techniques that the rows use and the memory that they take.
void fitTo(Problem &problem, const Table &table, const Solution &solution) {
  auto has = [&](Phase phase) {
    return llvm::any_of(table.rows, [&](const Row &row) {
      return llvm::any_of(row, [&](Cell cell) { return cell.is(phase); });
    });
  };
  problem.techniques.offload = has(Phase::Offload);
  problem.techniques.recompute = has(Phase::Recompute);
  problem.capacity = peakMemory(problem, solution);
}

TEST(QuickBoundTest, IsNotAboveRandomRows) {
  int64_t tried = 0;
  constexpr uint32_t numSeeds = 2000;
  for (uint32_t seed = 0; seed < numSeeds; ++seed) {
    RandomProblem random(seed);
    Problem &problem = random.problem;
    if (!random.canRun())
      continue;
    ++tried;
    Solution solution = llvm::cantFail(timeRows(problem, random.table.rows));
    fitTo(problem, random.table, solution);
    Bound bound = quickBound(problem);
    EXPECT_LE(bound.value, solution.makespan)
        << "seed " << seed << ": " << bound.name;
    if (problem.techniques.offload)
      continue; // in a steady state copies may take more memory
    bound = quickBound(forPeriod(problem));
    EXPECT_LE(bound.value, solution.period)
        << "seed " << seed << ": " << bound.name;
  }
  EXPECT_GT(tried, numSeeds / 10);
}

TEST(QuickBoundTest, ProofsAreNotAboveRandomRows) {
  constexpr uint32_t numSeeds = 100;
  for (uint32_t seed = 0; seed < numSeeds; ++seed) {
    RandomProblem random(seed);
    Problem &problem = random.problem;
    if (!random.canRun())
      continue;
    Solution solution = llvm::cantFail(timeRows(problem, random.table.rows));
    fitTo(problem, random.table, solution);
    ProofLimits limits;
    limits.seconds = 0.05;
    Proof proof = prove(problem, solution.makespan + 1, limits);
    EXPECT_LE(proof.lowerBound.value,
              proof.better ? proof.better->makespan : solution.makespan)
        << "seed " << seed << ": " << proof.lowerBound.name;
  }
}

} // namespace
