//===- SlicedProblemTest.cpp - Schedules of slices --------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "../Support/TestEffort.h"
#include "ExhaustiveSearch.h"
#include "PipeSched/Optimize/Bounds/Bounds.h"
#include "PipeSched/Optimize/Schedule/OptimizeSchedule.h"
#include "TestProblems.h"
#include <random>

using namespace pipesched;
using namespace pipesched::optimize;
using namespace pipesched::optimize::test;

namespace {

/// A placement of one path with slices, as a problem has it.
Placement slicedPath(std::vector<int32_t> workers, int64_t numWorkers,
                     int64_t microbatches, int64_t slices) {
  Path path;
  path.workers = std::move(workers);
  Placement whole = llvm::cantFail(
      Placement::create(numWorkers, microbatches, {path}, slices));
  return llvm::cantFail(divideSlices(whole));
}

Problem slicedProblem(std::vector<int32_t> workers, int64_t numWorkers,
                      int64_t microbatches, int64_t slices) {
  Problem problem = test::makeProblem(
      slicedPath(std::move(workers), numWorkers, microbatches, slices));
  problem.numSlices = slices;
  return problem;
}

//===----------------------------------------------------------------------===//
// Exhaustive search
//===----------------------------------------------------------------------===//

struct SlicedKind {
  llvm::StringRef name;
  std::vector<int32_t> path;
  int64_t workers, microbatches, slices;
  Techniques techniques;
};

std::vector<SlicedKind> slicedKinds() {
  Techniques split, whole{false}, offload{false, true},
      recompute{false, false, true}, both{false, true, true};
  return {
      {"Whole2x2x2", {0, 1}, 2, 2, 2, whole},
      {"Split2x2x2", {0, 1}, 2, 2, 2, split},
      {"Split2x1x3", {0, 1}, 2, 1, 3, split},
      {"V2x1x2", {0, 1, 1, 0}, 2, 1, 2, whole},
      {"Recompute1x2x2", {0}, 1, 2, 2, recompute},
      {"Recompute2x1x2", {0, 1}, 2, 1, 2, recompute},
      {"Offload1x2x2", {0}, 1, 2, 2, offload},
      {"Both2x1x2", {0, 1}, 2, 1, 2, both},
  };
}

/// Later slices take longer, and leave gradients to earlier ones.
Problem drawSliced(const SlicedKind &kind, uint32_t seed) {
  std::minstd_rand random(seed + 1);
  auto draw = [&](int64_t least, int64_t most) {
    return least + int64_t(random() >> 8) % (most - least + 1);
  };
  Problem problem =
      slicedProblem(kind.path, kind.workers, kind.microbatches, kind.slices);
  problem.techniques = kind.techniques;
  problem.sharedCopyQueue = draw(0, 1);
  auto numStages = int64_t(kind.path.size());
  int64_t largest = 0;
  for (int64_t s = 0; s < numStages; ++s) {
    int64_t forward = draw(1, 2), backward = draw(1, 2), left = draw(0, 1);
    for (int64_t slice = 0; slice < kind.slices; ++slice) {
      StageFacts &facts = problem.stages[slice * numStages + s];
      facts.forward = forward + draw(0, slice);
      facts.inputGrad = backward + draw(0, slice);
      facts.weightGrad = 1;
      facts.recompute = draw(1, 2);
      facts.offload = draw(1, 2);
      facts.reload = draw(1, 2);
      facts.activationDelay = draw(0, 1);
      facts.gradientDelay = draw(0, 1);
      facts.activation = draw(1, 3);
      facts.freedByInputGrad = draw(0, facts.activation);
      facts.checkpoint = draw(0, facts.activation);
      facts.leftForSlices = slice > 0 && slice + 1 == kind.slices ? left : 0;
      if (slice == 0)
        facts.leftForSlices = -left;
      largest = std::max(largest, facts.activation);
    }
  }
  for (int64_t &capacity : problem.capacity)
    capacity = draw(2 * largest, 4 * largest);
  return problem;
}

class TinySlices : public testing::TestWithParam<SlicedKind> {};

INSTANTIATE_TEST_SUITE_P(Kinds, TinySlices, testing::ValuesIn(slicedKinds()),
                         [](const auto &info) {
                           return info.param.name.str();
                         });

SolverResult solveTiny(const Problem &problem) {
  SolverOptions options;
  options.maxEvaluations = 10000;
  return llvm::cantFail(solve(problem, familySeeds(problem), options));
}

/// Bounds hold, and the search finds the same as exhaustive search. Without
/// copies and recomputation it is proven.
TEST_P(TinySlices, AgreesWithExhaustiveSearch) {
  constexpr int64_t mostTicks = 60;
  int numSeeds = numRounds(10);
  int numTried = 0;
  for (uint32_t seed = 0; seed < numSeeds; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Problem problem = drawSliced(GetParam(), seed);
    ASSERT_EQ(llvm::toString(checkProblem(problem)), "");
    std::optional<int64_t> best =
        ExhaustiveSearch(problem).findMakespan(mostTicks);
    bool isRefused = errorToBool(checkCapacity(problem));
    EXPECT_FALSE(isRefused && best);
    if (!best)
      continue;
    ++numTried;
    EXPECT_LE(quickBound(problem).value, *best);
    SolverResult found = solveTiny(problem);
    EXPECT_EQ(found.solution.makespan, *best);
    EXPECT_LE(found.lowerBound, *best) << found.boundName;
    if (!GetParam().techniques.offload && !GetParam().techniques.recompute)
      EXPECT_EQ(found.status, Status::Optimal);
    EXPECT_EQ(llvm::toString(verifySolution(problem, found.solution)), "");
  }
  EXPECT_GT(numTried, numSeeds / 4);
}

/// Rows that keep the capacity at any times are schedules for given ones, so
/// that bounds hold for them too.
TEST_P(TinySlices, BoundsHoldForAnyTimes) {
  for (uint32_t seed = 100; seed < 100 + uint32_t(numRounds(6)); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Problem problem = drawSliced(GetParam(), seed);
    problem.memoryTimes = MemoryTimes::Any;
    if (errorToBool(checkCapacity(problem)))
      continue;
    std::optional<int64_t> best = ExhaustiveSearch(problem).findMakespan(60);
    if (!best)
      continue;
    SolverResult found = solveTiny(problem);
    EXPECT_GE(found.solution.makespan, *best);
    EXPECT_LE(found.lowerBound, *best) << found.boundName;
    EXPECT_EQ(llvm::toString(verifySolution(problem, found.solution)), "");
  }
}

//===----------------------------------------------------------------------===//
// Placements
//===----------------------------------------------------------------------===//

//===----------------------------------------------------------------------===//
// Rules
//===----------------------------------------------------------------------===//

std::string checkOf(llvm::function_ref<void(Problem &)> change) {
  Problem problem = slicedProblem({0, 1}, 2, 2, 2);
  change(problem);
  return llvm::toString(checkProblem(problem));
}

TEST(CheckSlicedProblem, NamesWhatIsWrong) {
  EXPECT_EQ(checkOf([](Problem &) {}), "");
  EXPECT_EQ(checkOf([](Problem &problem) { problem.numSlices = 3; }),
            "the problem has 3 slices, which do not divide its 2 paths and 4 "
            "microbatches");
  EXPECT_EQ(
      checkOf([](Problem &problem) { problem.stages[1].leftForSlices = -2; }),
      "stage 1: the backwards of slices 0 to 1 leave -2, expected 0");
  EXPECT_EQ(checkOf([](Problem &problem) {
              problem.stages[2].leftForSlices = -1;
              problem.stages[0].leftForSlices = 1;
            }),
            "stage 0: the backwards of slices 1 to 1 leave -1, expected 0 or "
            "more");
  EXPECT_EQ(checkOf([](Problem &problem) { problem.stages[3].forward = 0; }),
            "slice 1 on stage 1: F takes 0, expected 1 or more");
}

/// One worker, one microbatch of two slices: 0 and 1.
std::string verifyOf(llvm::StringRef text) {
  Problem problem = slicedProblem({0}, 1, 1, 2);
  problem.techniques.splitBackward = false;
  llvm::Expected<Solution> solution = test::timeRows(problem, {text});
  if (!solution)
    return llvm::toString(solution.takeError());
  return llvm::toString(verifySolution(problem, *solution));
}

TEST(VerifySlicedSolution, NamesSlicesOutOfOrder) {
  EXPECT_EQ(verifyOf("0F0 0F1 0B1 0B0"), "");
  EXPECT_EQ(verifyOf("0F1 0F0 0B1 0B0"),
            "worker 0: 0F0.1 starts at 0, before 0F0.0 ends at 20");
  EXPECT_EQ(verifyOf("0F0 0F1 0B0 0B1"),
            "worker 0: 0B0.0 starts at 20, before 0B0.1 ends at 44");
  EXPECT_EQ(verifyOf("0F0 0F1 0D0 0D1 0U0 0U1 0B1 0B0"), "");
  EXPECT_EQ(verifyOf("0F0 0D0 0F1 0U0 0B1 0B0"),
            "worker 0: 0D0.0 starts at 10, before 0F0.1 ends at 20");
  EXPECT_EQ(verifyOf("0F0 0F1 0D0 0B1 0U0 0B0"),
            "worker 0: 0B0.1 starts at 20, before 0U0.0 ends at 37");
}

/// The least capacity holds a schedule, and a unit less holds none.
TEST(SlicedCapacity, IsTheLeast) {
  for (Techniques techniques :
       {Techniques{false}, Techniques{true, true},
        Techniques{true, false, true}, Techniques{false, true}}) {
    Problem problem = slicedProblem({0, 1, 1, 0}, 2, 2, 3);
    problem.techniques = techniques;
    for (int64_t s = 0; s < 4; ++s) {
      problem.stages[8 + s].leftForSlices = 2;
      problem.stages[s].leftForSlices = -2;
    }
    problem.capacity = leastCapacities(problem);
    SolverOptions options;
    options.timeLimitSeconds = 0;
    llvm::Expected<SolverResult> found = solve(problem, {}, options);
    ASSERT_TRUE(bool(found)) << llvm::toString(found.takeError());
    --problem.capacity[0];
    EXPECT_TRUE(errorToBool(checkCapacity(problem)));
  }
}

//===----------------------------------------------------------------------===//
// Searches
//===----------------------------------------------------------------------===//

/// The search is no worse than the best family of slices, also within memory.
TEST(SolveSliced, IsNoWorseThanFamilies) {
  for (int64_t capacity : {1000, 40}) {
    Problem problem = slicedProblem({0, 1, 2, 3}, 4, 4, 4);
    problem.capacity.assign(4, capacity);
    problem.techniques.offload = problem.techniques.recompute = false;
    SolverOptions options;
    options.maxEvaluations = 3000;
    llvm::Expected<SolverResult> found =
        solve(problem, familySeeds(problem), options);
    ASSERT_TRUE(bool(found)) << llvm::toString(found.takeError());
    EXPECT_GT(found->bestSeed, 0);
    EXPECT_LE(found->solution.makespan, found->bestSeed);
    EXPECT_GE(found->solution.makespan, found->lowerBound);
    EXPECT_EQ(llvm::toString(verifySolution(problem, found->solution)), "");
  }
}

} // namespace
