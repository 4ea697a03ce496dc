//===- ProofTest.cpp - Proofs against exhaustive search -------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// On random tiny problems proofs and the solver find the best makespan of all
// schedules. Published instances are proven too.
//
//===----------------------------------------------------------------------===//

#include "../Support/TestEffort.h"
#include "PipeSched/Description/Instance.h"
#include "PipeSched/Optimize/Bounds/Bounds.h"
#include "PipeSched/Optimize/Search/Solver.h"
#include "TinyProblems.h"

using namespace pipesched;
using namespace pipesched::optimize;
using namespace pipesched::optimize::test;

namespace {

ProofLimits ample() {
  ProofLimits limits;
  limits.seconds = 600;
  return limits;
}

class TinyProof : public testing::TestWithParam<TinyKind> {};

INSTANTIATE_TEST_SUITE_P(Kinds, TinyProof, testing::ValuesIn(tinyKinds()),
                         [](const auto &info) {
                           return info.param.name.str();
                         });

void checkProof(const TinyProblem &tiny, int64_t above) {
  Proof proof = prove(tiny.problem, tiny.best + above, ample());
  EXPECT_EQ(proof.lowerBound.value, tiny.best) << proof.lowerBound.name;
  EXPECT_EQ(bool(proof.better), above > 0);
  if (!proof.better)
    return;
  EXPECT_EQ(proof.better->makespan, tiny.best);
  EXPECT_EQ(llvm::toString(verifySolution(tiny.problem, *proof.better)), "");
}

/// Returns the number of problems.
int checkKind(const TinyKind &kind, MemoryTimes memoryTimes, uint32_t firstSeed,
              uint32_t numSeeds) {
  int numTried = 0;
  for (uint32_t seed = firstSeed; seed < firstSeed + numSeeds; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::optional<TinyProblem> tiny = makeTinyProblem(kind, seed, memoryTimes);
    if (!tiny)
      continue;
    ++numTried;
    EXPECT_LE(quickBound(tiny->problem).value, tiny->best);
    for (int64_t above : {0, 1, 9})
      checkProof(*tiny, above);
  }
  return numTried;
}

TEST_P(TinyProof, AgreesWithExhaustiveSearch) {
  int numSeeds = kIsSanitized ? 6 : numRounds(16); // some have no schedule
  EXPECT_GT(checkKind(GetParam(), MemoryTimes::Given, 0, numSeeds),
            numSeeds / 4);
}

/// The same rules except for an I that makes memory grow, and rows that keep
/// the capacity at any times.
TEST_P(TinyProof, AgreesForAnyTimes) {
  int numSeeds = numRounds(16);
  EXPECT_GT(checkKind(GetParam(), MemoryTimes::Any, 200, numSeeds),
            numSeeds / 4);
}

TEST_P(TinyProof, AgreesForWholeBackwards) {
  int numSeeds = numRounds(16);
  TinyKind kind = GetParam();
  kind.techniques.splitBackward = false;
  EXPECT_GT(checkKind(kind, MemoryTimes::Given, 300, numSeeds), numSeeds / 4);
}

//===----------------------------------------------------------------------===//
// The solver
//===----------------------------------------------------------------------===//

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
// Copies and recomputation
//===----------------------------------------------------------------------===//

/// No schedule takes so long.
constexpr int64_t kTooLong = int64_t(1) << 20;

int64_t findBest(const Problem &problem) {
  Proof proof = prove(problem, kTooLong, ample());
  EXPECT_TRUE(proof.better);
  if (!proof.better)
    return 0;
  EXPECT_EQ(proof.lowerBound.value, proof.better->makespan);
  EXPECT_EQ(llvm::toString(verifySolution(problem, *proof.better)), "");
  return proof.better->makespan;
}

/// Problems with copies or recomputation whose memory holds a schedule.
std::vector<Problem> makeFreeProblems(uint32_t numSeeds) {
  std::vector<Problem> problems;
  for (const TinyKind &kind : tinyKinds())
    for (uint32_t seed = 0; seed < numSeeds; ++seed) {
      if (!kind.techniques.offload && !kind.techniques.recompute)
        continue;
      Problem problem = drawTinyProblem(kind, seed);
      llvm::Error error = checkCapacity(problem);
      if (!error)
        problems.push_back(std::move(problem));
      llvm::consumeError(std::move(error));
    }
  return problems;
}

void scaleTimes(Problem &problem, int64_t factor) {
  for (StageFacts &facts : problem.stages)
    for (int64_t *time :
         {&facts.forward, &facts.inputGrad, &facts.weightGrad,
          &facts.activationDelay, &facts.gradientDelay, &facts.offloadDelay})
      *time *= factor;
}

/// Copies and R that take no time: as if they took very little.
TEST(ExactSearch, AllowsCopiesWithoutTime) {
  for (Problem &problem : makeFreeProblems(numRounds(8))) {
    constexpr int64_t factor = 1000;
    for (StageFacts &facts : problem.stages)
      facts.recompute = facts.offload = facts.reload = 0;
    int64_t best = findBest(problem);
    scaleTimes(problem, factor);
    for (StageFacts &facts : problem.stages)
      facts.recompute = facts.offload = facts.reload = 1;
    int64_t bestWithTime = findBest(problem);
    EXPECT_GE(bestWithTime, best * factor);
    EXPECT_LT(bestWithTime, (best + 1) * factor);
  }
}

/// Two paths on the same workers are one path with all microbatches.
TEST(ExactSearch, TakesSeveralPaths) {
  for (Problem &problem : makeFreeProblems(numRounds(8))) {
    const Placement &placement = problem.placement;
    if (placement.getNumMicrobatches() != 2)
      continue;
    int64_t best = findBest(problem);
    std::vector<StageFacts> both = problem.stages;
    both.insert(both.end(), problem.stages.begin(), problem.stages.end());
    problem.stages = both;
    Path first = placement.getPath(0), second = first;
    first.takes = {{0, 1, 1}};
    second.takes = {{1, 2, 1}};
    problem.placement = llvm::cantFail(
        Placement::create(placement.getNumWorkers(), 2, {first, second}));
    EXPECT_EQ(findBest(problem), best);
  }
}

/// An offload waits until the output of its F is sent. A delay that no offload
/// can meet is as good as no offload.
TEST(ExactSearch, WaitsForTheOutput) {
  for (Problem &problem : makeFreeProblems(numRounds(8))) {
    if (!problem.techniques.offload)
      continue;
    int64_t best = findBest(problem);
    problem.stages.front().offloadDelay = 2;
    int64_t bestWithDelay = findBest(problem);
    EXPECT_GE(bestWithDelay, best);
    EXPECT_LE(bestWithDelay, best + 2 * problem.placement.getNumMicrobatches());
  }
}

/// Copies and recomputation on unequal stages, which leave other bounds far
/// below. CP-SAT of OR-tools 9.15 proved the same makespan.
TEST(ExactSearch, AgreesWithAGeneralSolver) {
  Problem problem = makeProblem(makeLinear(3, 3));
  problem.capacity.assign(3, 10);
  const int64_t times[3][3] = {{104, 120, 78}, {96, 111, 72}, {105, 121, 78}};
  for (auto [facts, each] : llvm::zip(problem.stages, times)) {
    facts.forward = each[0];
    facts.inputGrad = each[1];
    facts.weightGrad = each[2];
    facts.recompute = 100;
    facts.offload = facts.reload = 321;
    facts.activationDelay = facts.gradientDelay = 5;
    facts.activation = 10;
    facts.checkpoint = 1;
  }
  EXPECT_LT(quickBound(problem).value, 2265);
  EXPECT_EQ(findBest(problem), 2265);
}

//===----------------------------------------------------------------------===//
// Limits
//===----------------------------------------------------------------------===//

Problem makeHard() {
  Problem problem = makeProblem(makeLinear(8, 64));
  problem.techniques = {};
  problem.capacity.assign(8, 4 * 6);
  return problem;
}

TEST(ProofTest, StopsInTime) {
  Problem problem = makeHard();
  int64_t quick = quickBound(problem).value;
  auto begin = std::chrono::steady_clock::now();
  ProofLimits limits;
  limits.seconds = 0.2;
  Proof proof = prove(problem, 2 * quick, limits);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(2));
  EXPECT_GE(proof.lowerBound.value, quick);
}

TEST(ProofTest, StopsWhenInterrupted) {
  Problem problem = makeHard();
  int64_t quick = quickBound(problem).value;
  ProofLimits limits = ample();
  auto mustStop = [] { return true; };
  limits.mustStop = mustStop;
  Proof proof = prove(problem, 2 * quick, limits);
  EXPECT_EQ(proof.lowerBound.value, quick);
  EXPECT_FALSE(proof.better);
}

/// The bound depends on the work and not on the time that it takes; more work
/// gives no lower bound.
TEST(ProofTest, StopsAfterItsWork) {
  Problem problem = makeHard();
  problem.capacity.assign(8, 4 * 3);
  int64_t quick = quickBound(problem).value;
  auto boundOf = [&](uint64_t work) {
    ProofLimits limits = ample();
    limits.work = work;
    return prove(problem, 2 * quick, limits).lowerBound.value;
  };
  EXPECT_EQ(boundOf(0), quick);
  int64_t bound = boundOf(3'000'000);
  EXPECT_EQ(boundOf(3'000'000), bound);
  EXPECT_GE(bound, boundOf(30'000));
}

TEST(ProofTest, HasNoTimeWithoutSeconds) {
  Problem problem = makeHard();
  int64_t quick = quickBound(problem).value;
  EXPECT_EQ(prove(problem, 2 * quick, {}).lowerBound.value, quick);
}

//===----------------------------------------------------------------------===//
// Published instances
//===----------------------------------------------------------------------===//

Instance read(llvm::StringRef name) {
  return llvm::cantFail(
      readInstance((PIPESCHED_INSTANCES_DIR "/" + name + ".json").str()));
}

class PublishedInstance : public testing::TestWithParam<const char *> {};

TEST_P(PublishedInstance, IsOptimal) {
  Instance instance = read(GetParam());
  Proof proof = prove(instance.problem, *instance.bestKnown, ample());
  EXPECT_EQ(proof.lowerBound.value, *instance.bestKnown);
  EXPECT_FALSE(proof.better);
}

// Instances that take seconds in an optimized build are left to the benchmarks.
INSTANTIATE_TEST_SUITE_P(
    Instances, PublishedInstance,
    testing::Values("L05_d4n16_u_m2", "L10_d4n16_x_m2", "L12_d8n16_x_m6",
                    "L13_d8n16_x_m4", "L20_d8n16_het_m6", "O01_d4n4_x_m2_k1",
                    "O02_d4n8_x_m2_k1", "O04_d8n16_x_m4_k05",
                    "O05_d8n16_x_m4_k2", "O08_d8n16_x_m3_k1_e1",
                    "V01_d4n4_u_m2", "V02_d4n8_u_m2", "V03_d4n8_u_m3",
                    "Z_1p5B_n24_m1x", "Z_1p5B_n24_m2x", "Z_6p2B_n24_m1x"),
    [](const auto &info) { return std::string(info.param); });

TEST(PublishedInstances, FindsBetterThanAPoorSchedule) {
  Instance instance = read("L02_d4n8_u_m4");
  Proof proof = prove(instance.problem, *instance.bestKnown + 500, ample());
  ASSERT_TRUE(proof.better);
  EXPECT_EQ(proof.better->makespan, *instance.bestKnown);
  EXPECT_EQ(proof.lowerBound.value, *instance.bestKnown);
}

} // namespace
