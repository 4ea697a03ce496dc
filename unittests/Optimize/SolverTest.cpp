//===- SolverTest.cpp - Schedules of the solver ---------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Schedules that are found keep the rules, and are no worse than a seed and no
// better than the bound. Limits hold. The same input gives the same result.
//
//===----------------------------------------------------------------------===//

#include "PipeSched/Optimize/Search/Solver.h"
#include "../Support/TestEffort.h"
#include "DiverseProblems.h"
#include "PipeSched/Description/Instance.h"
#include "PipeSched/Optimize/Bounds/Bounds.h"
#include "TinyProblems.h"
#include "llvm/Support/ThreadPool.h"
#include <chrono>
#include <ctime>

using namespace pipesched;
using namespace pipesched::optimize;
using namespace pipesched::optimize::test;

namespace {

/// A pool of two threads; a test may use only one of them.
llvm::ThreadPoolInterface &pool() {
  static llvm::DefaultThreadPool pool(llvm::hardware_concurrency(2));
  return pool;
}

SolverOptions budget(uint64_t evaluations, unsigned threads = 1) {
  SolverOptions options;
  options.maxEvaluations = evaluations;
  options.pool = &pool();
  options.threads = threads;
  return options;
}

/// Limits time only.
SolverOptions timeLimit(double seconds, unsigned threads = 1) {
  SolverOptions options = budget(0, threads);
  options.timeLimitSeconds = seconds;
  return options;
}

SolverResult solveAndCheck(const Problem &problem, llvm::ArrayRef<Seed> seeds,
                           const SolverOptions &options) {
  llvm::Expected<SolverResult> result = solve(problem, seeds, options);
  if (!result) {
    ADD_FAILURE() << llvm::toString(result.takeError());
    return {};
  }
  llvm::Error error = verifySolution(problem, result->solution);
  EXPECT_FALSE(bool(error)) << llvm::toString(std::move(error));
  int64_t objective = objectiveOf(problem, result->solution);
  EXPECT_GE(objective, result->lowerBound) << result->boundName;
  EXPECT_FALSE(result->origin.empty());
  if (result->bestSeed > 0)
    EXPECT_LE(objective, result->bestSeed) << result->bestSeedName;
  if (objective == result->lowerBound)
    EXPECT_EQ(result->status, Status::Optimal);
  return std::move(*result);
}

//===----------------------------------------------------------------------===//
// Seeds
//===----------------------------------------------------------------------===//

TEST(FamilySeeds, KeepTheRulesButForMemory) {
  unsigned count = 0;
  for (uint32_t seed = 0; seed < 200; ++seed) {
    DiverseProblem search(seed);
    Problem &problem = search.problem;
    problem.capacity.assign(problem.capacity.size(), 1000);
    for (const Seed &seed : familySeeds(problem)) {
      SCOPED_TRACE(seed.name);
      ++count;
      llvm::Expected<Solution> solution = test::timeRows(problem, seed.rows);
      ASSERT_TRUE(bool(solution)) << llvm::toString(solution.takeError());
      llvm::Error error = verifySolution(problem, *solution);
      EXPECT_FALSE(bool(error)) << llvm::toString(std::move(error));
    }
  }
  EXPECT_GT(count, 500u);
}

std::vector<std::string> seedNames(Placement placement, bool split) {
  Problem problem = makeProblem(std::move(placement));
  problem.techniques.splitBackward = split;
  std::vector<std::string> names;
  for (Seed &seed : familySeeds(problem))
    names.push_back(std::move(seed.name));
  return names;
}

TEST(FamilySeeds, AreThoseOfThePlacement) {
  auto has = [](const std::vector<std::string> &names, llvm::StringRef name) {
    return llvm::is_contained(names, name);
  };
  auto linear = seedNames(
      llvm::cantFail(Placement::create(4, 8, {placeLinear(4)})), true);
  for (llvm::StringRef name : {"gpipe", "1f1b", "zb-h1", "zb-h2"})
    EXPECT_TRUE(has(linear, name)) << name.str();
  EXPECT_FALSE(has(linear, "zb-v"));
  auto v =
      seedNames(llvm::cantFail(Placement::create(4, 8, {placeV(4)})), true);
  for (llvm::StringRef name : {"zb-v", "v-half", "v-min", "zb-auto"})
    EXPECT_TRUE(has(v, name)) << name.str();
  auto whole = seedNames(
      llvm::cantFail(Placement::create(4, 8, {placeLinear(4)})), false);
  EXPECT_TRUE(has(whole, "1f1b"));
  EXPECT_FALSE(has(whole, "zb-h1"));
}

/// The time of the seeds is part of the limit, but there is always one.
TEST(FamilySeeds, EndWithTheTime) {
  Problem problem =
      makeProblem(llvm::cantFail(Placement::create(4, 8, {placeLinear(4)})));
  SolverOptions options;
  options.timeLimitSeconds = 1e-9;
  EXPECT_EQ(familySeeds(problem, options).size(), 1u);
  EXPECT_GT(options.setupSeconds, options.timeLimitSeconds);
  std::atomic<bool> interrupted = true;
  options.timeLimitSeconds = 0;
  EXPECT_EQ(familySeeds(problem, options).size(), familySeeds(problem).size());
  options.interrupted = &interrupted;
  EXPECT_EQ(familySeeds(problem, options).size(), 1u);
}

TEST(Solver, FindsWhatKeepsTheRules) {
  for (int seed = 0; seed < numRounds(120); ++seed) {
    SCOPED_TRACE(seed);
    DiverseProblem search(seed);
    if (seed % 3 == 0)
      search.problem.objective = Objective::Period;
    std::vector<Seed> seeds = familySeeds(search.problem);
    solveAndCheck(search.problem, seeds, budget(4000, 1 + seed % 2));
  }
}

TEST(Solver, CountsTheTimeOfSeeds) {
  Problem problem =
      makeProblem(llvm::cantFail(Placement::create(4, 8, {placeLinear(4)})));
  SolverOptions options;
  options.timeLimitSeconds = 1000;
  options.setupSeconds = 1000;
  SolverResult result =
      llvm::cantFail(solve(problem, familySeeds(problem), options));
  EXPECT_GE(result.seconds, 1000);
  EXPECT_LT(result.seconds, 1100);
}

//===----------------------------------------------------------------------===//
// Solutions
//===----------------------------------------------------------------------===//

/// Best known values of instances with slow copies and tight memory. The first
/// one needs reloads that wait for offloads while compute continues.
TEST(Solver, LetsReloadsWaitForOffloads) {
  for (auto [name, bestKnown] :
       {std::pair("O03_d4n8_x_m2_k2", 3290), {"O05_d8n16_x_m4_k2", 6170}}) {
    if (kIsSanitized && bestKnown > 4000)
      continue;
    SCOPED_TRACE(name);
    Instance instance = llvm::cantFail(readInstance(
        std::string(PIPESCHED_INSTANCES_DIR "/") + name + ".json"));
    const Problem &problem = instance.problem;
    SolverResult result = solveAndCheck(problem, {}, budget(400000));
    EXPECT_LE(double(result.solution.makespan), 1.005 * bestKnown);
  }
}

TEST(Solver, KeepsASeedThatIsOptimal) {
  Problem problem =
      makeProblem(llvm::cantFail(Placement::create(4, 8, {placeV(4)})));
  for (Objective objective : {Objective::Makespan, Objective::Period}) {
    problem.objective = objective;
    SolverResult result =
        solveAndCheck(problem, familySeeds(problem), budget(2000));
    EXPECT_GT(result.bestSeed, 0);
  }
}

//===----------------------------------------------------------------------===//
// Limits
//===----------------------------------------------------------------------===//

TEST(Solver, IsRepeatable) {
  for (int seed = 0; seed < numRounds(40); ++seed) {
    SCOPED_TRACE(seed);
    DiverseProblem search(seed);
    SolverOptions options = budget(3000, 1 + seed % 3);
    options.seed = seed;
    std::vector<Seed> seeds = familySeeds(search.problem);
    SolverResult first = solveAndCheck(search.problem, seeds, options);
    SolverResult second = solveAndCheck(search.problem, seeds, options);
    EXPECT_EQ(first.solution.rows, second.solution.rows);
    EXPECT_EQ(first.origin, second.origin);
    EXPECT_EQ(first.lowerBound, second.lowerBound);
  }
}

void expectSame(const SolverResult &first, const SolverResult &second) {
  EXPECT_EQ(first.solution.rows, second.solution.rows);
  EXPECT_EQ(first.solution.starts, second.solution.starts);
  EXPECT_EQ(first.origin, second.origin);
  EXPECT_EQ(first.lowerBound, second.lowerBound);
  EXPECT_EQ(first.boundName, second.boundName);
  EXPECT_EQ(first.status, second.status);
}

/// Several searches with proofs alongside them: problems that are proven before
/// the limit, that stop at a gap, and that use all evaluations.
TEST(Solver, DoesNotDependOnThreads) {
  for (auto [name, gap] : {std::pair("V02_d4n8_u_m2", 0.0),
                           {"R01_d8n16_x_m4_rc", 0.2},
                           {"L02_d4n8_u_m4", 0.0},
                           {"O02_d4n8_x_m2_k1", 0.02}}) {
    SCOPED_TRACE(name);
    Instance instance = llvm::cantFail(readInstance(
        std::string(PIPESCHED_INSTANCES_DIR "/") + name + ".json"));
    SolverOptions options = budget(1'000'000, 2);
    options.gap = gap;
    SolverResult two = solveAndCheck(instance.problem, {}, options);
    expectSame(two, solveAndCheck(instance.problem, {}, options));
    options.threads = 1;
    expectSame(two, solveAndCheck(instance.problem, {}, options));
    options.pool = nullptr;
    expectSame(two, solveAndCheck(instance.problem, {}, options));
  }
}

/// So large that no proof ends in time.
Problem makeLargeProblem() {
  Problem problem =
      makeProblem(llvm::cantFail(Placement::create(8, 40, {placeLinear(8)})));
  for (size_t stage = 0; stage < problem.stages.size(); ++stage)
    problem.stages[stage].forward += int64_t(stage) % 3;
  problem.capacity.assign(8, 13);
  return problem;
}

double secondsOf(llvm::function_ref<void()> run) {
  auto start = std::chrono::steady_clock::now();
  run();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start)
      .count();
}

/// A limit on time that a run stays far below says nothing about its result,
/// even if it has few evaluations yet when a share of that time is over.
TEST(Solver, DoesNotDependOnTimeThatSuffices) {
  Instance instance = llvm::cantFail(readInstance(
      std::string(PIPESCHED_INSTANCES_DIR "/R01_d8n16_x_m4_rc.json")));
  SolverOptions options = budget(30'000);
  options.timeLimitSeconds = 1e6;
  SolverResult wanted;
  double seconds =
      secondsOf([&] { wanted = solveAndCheck(instance.problem, {}, options); });
  for (double times : {10, 15, 20}) {
    options.timeLimitSeconds = times * seconds;
    expectSame(wanted, solveAndCheck(instance.problem, {}, options));
  }
}

TEST(Solver, StopsAtTheTimeLimit) {
  Problem problem = makeLargeProblem();
  for (double limit : {0.0, 0.3}) {
    SolverOptions options = timeLimit(limit, 2);
    // CPU time of all threads: other work does not count.
    std::clock_t start = std::clock();
    solveAndCheck(problem, {}, options);
    EXPECT_LT(double(std::clock() - start) / CLOCKS_PER_SEC, 20);
  }
}

TEST(Solver, StopsWhenInterrupted) {
  Problem problem = makeLargeProblem();
  std::atomic<bool> interrupted = true;
  SolverOptions options = timeLimit(600, 2);
  options.interrupted = &interrupted;
  double seconds = secondsOf([&] {
    SolverResult result = solveAndCheck(problem, {}, options);
    EXPECT_EQ(result.status, Status::Interrupted);
  });
  EXPECT_LT(seconds, 60);
}

TEST(Solver, StopsAtTheGap) {
  Problem problem = makeLargeProblem();
  SolverOptions options = timeLimit(600, 2);
  options.gap = 100;
  SolverResult result = solveAndCheck(problem, {}, options);
  EXPECT_TRUE(result.status == Status::GapReached ||
              result.status == Status::Optimal);
}

TEST(Solver, Reports) {
  Problem problem = makeLargeProblem();
  SolverOptions options = timeLimit(1.5);
  unsigned count = 0;
  int64_t last = std::numeric_limits<int64_t>::max();
  auto report = [&](const Progress &progress) {
    ++count;
    EXPECT_LE(progress.best, last);
    EXPECT_LE(progress.lowerBound, progress.best);
    last = progress.best;
  };
  options.report = report;
  SolverResult result = solveAndCheck(problem, {}, options);
  EXPECT_GT(count, 0u);
  EXPECT_LE(result.solution.makespan, last);
}

TEST(Solver, RefusesWhatHoldsNoSchedule) {
  Problem problem = makeLargeProblem();
  problem.capacity[3] = 1;
  llvm::Expected<SolverResult> result = solve(problem, {}, budget(10));
  ASSERT_FALSE(bool(result));
  EXPECT_NE(llvm::toString(result.takeError()).find("worker 3"),
            std::string::npos);
}

} // namespace
