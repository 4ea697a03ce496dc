//===- OracleTest.cpp - The solver against exact methods ------------------===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Compares the solver with a search of all schedules on tiny problems, and with
// a mixed-integer program on small ones if CBC is installed.
//
//===----------------------------------------------------------------------===//

#include "../Support/TestEffort.h"
#include "PipeSched/Optimize/Search/Solver.h"
#include "TinyProblems.h"
#ifdef PIPESCHED_HAS_CBC
#include "ScheduleMilp.h"
#endif

using namespace pipesched;
using namespace pipesched::optimize;
using namespace pipesched::optimize::test;

namespace {

/// Limits evaluations, so that the result does not depend on the machine.
SolverResult solveTiny(const Problem &problem) {
  SolverOptions options;
  options.maxEvaluations = 20000;
  SolverResult result =
      llvm::cantFail(solve(problem, familySeeds(problem), options));
  EXPECT_EQ(llvm::toString(verifySolution(problem, result.solution)), "");
  return result;
}

class TinyOracle : public testing::TestWithParam<TinyKind> {};

INSTANTIATE_TEST_SUITE_P(Kinds, TinyOracle, testing::ValuesIn(tinyKinds()),
                         [](const auto &info) {
                           return info.param.name.str();
                         });

/// The solver finds a best schedule and never claims more than is true.
TEST_P(TinyOracle, FindsTheBestOfAll) {
  int numSeeds = numRounds(16);
  int64_t numTried = 0;
  for (int seed = 100; seed < 100 + numSeeds; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::optional<TinyProblem> tiny = makeTinyProblem(GetParam(), seed);
    if (!tiny)
      continue;
    ++numTried;
    SolverResult result = solveTiny(tiny->problem);
    EXPECT_EQ(result.solution.makespan, tiny->best);
    EXPECT_LE(result.lowerBound, tiny->best);
    EXPECT_EQ(result.status == Status::Optimal,
              result.lowerBound == result.solution.makespan);
  }
  EXPECT_GE(numTried, numSeeds / 5);
}

//===----------------------------------------------------------------------===//
// CBC
//===----------------------------------------------------------------------===//

#ifdef PIPESCHED_HAS_CBC

constexpr int kMilpSeconds = 120;

/// The kinds for which CBC needs seconds, not minutes.
std::vector<TinyKind> milpKinds() {
  std::vector<TinyKind> kinds = tinyKinds();
  llvm::erase_if(kinds, [](const TinyKind &kind) {
    bool isOnePerWorker = int64_t(kind.path.size()) == kind.workers;
    bool isFree = kind.techniques.offload || kind.techniques.recompute;
    return !kind.techniques.splitBackward ||
           (!isOnePerWorker && (isFree || kind.workers == 1));
  });
  return kinds;
}

class TinyMilp : public testing::TestWithParam<TinyKind> {};

INSTANTIATE_TEST_SUITE_P(Kinds, TinyMilp, testing::ValuesIn(milpKinds()),
                         [](const auto &info) {
                           return info.param.name.str();
                         });

/// The program and the exhaustive search agree: two models of the same rules.
TEST_P(TinyMilp, AgreesWithAllSchedules) {
  if (!runsAll())
    GTEST_SKIP() << "takes long: scripts/test.sh --all";
  int64_t numTried = 0;
  for (uint32_t seed = 0; numTried < 2; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::optional<TinyProblem> tiny = makeTinyProblem(GetParam(), seed);
    if (!tiny)
      continue;
    ++numTried;
    ScheduleMilp milp(tiny->problem, tiny->best + 3);
    EXPECT_EQ(milp.solve(kMilpSeconds), tiny->best);
  }
}

/// Sizes that are too large to try all schedules.
struct SmallCase {
  int64_t workers, microbatches, capacity;
  Techniques techniques;
};

class CbcOracle : public testing::TestWithParam<SmallCase> {};

TEST_P(CbcOracle, AgreesWithTheSolver) {
  if (!runsAll())
    GTEST_SKIP() << "takes long: scripts/test.sh --all";
  const SmallCase &size = GetParam();
  Problem problem = makeProblem(makeLinear(size.workers, size.microbatches));
  problem.techniques = size.techniques;
  problem.capacity.assign(size.workers, size.capacity);
  SolverResult result = solveTiny(problem);
  std::optional<int64_t> best =
      ScheduleMilp(problem, result.solution.makespan).solve(kMilpSeconds);
  ASSERT_TRUE(best) << "CBC did not finish";
  EXPECT_EQ(result.solution.makespan, *best);
  EXPECT_LE(result.lowerBound, *best);
}

/// An activation has 4 units.
INSTANTIATE_TEST_SUITE_P(
    Sizes, CbcOracle,
    testing::Values(SmallCase{2, 3, 4, {}}, SmallCase{2, 4, 8, {}},
                    SmallCase{3, 3, 8, {}}, SmallCase{3, 3, 12, {}},
                    SmallCase{2, 3, 8, {true, true, false}},
                    SmallCase{2, 2, 6, {true, false, true}}));

#else

TEST(CbcOracle, AgreesWithTheSolver) {
  GTEST_SKIP() << "built without CBC (apt package coinor-libcbc-dev)";
}

#endif

} // namespace
