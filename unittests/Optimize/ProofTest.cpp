//===- ProofTest.cpp - Proofs against exhaustive search -------------------===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// On random tiny problems no bound is above the best makespan, and without
// copies and recomputation proofs find it. Published instances are proven too.
//
//===----------------------------------------------------------------------===//

#include "PipeSched/Description/Instance.h"
#include "PipeSched/Optimize/Bounds.h"
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

bool isMemoryFixed(const Problem &problem) {
  return !problem.techniques.offload && !problem.techniques.recompute;
}

void checkProof(const TinyProblem &tiny, int64_t above) {
  Proof proof = prove(tiny.problem, tiny.best + above, ample());
  EXPECT_LE(proof.lowerBound.value, tiny.best) << proof.lowerBound.name;
  if (above == 0)
    EXPECT_FALSE(proof.better);
  if (isMemoryFixed(tiny.problem)) {
    EXPECT_EQ(proof.lowerBound.value, tiny.best);
    EXPECT_EQ(proof.better ? proof.better->makespan : tiny.best + above,
              tiny.best);
  }
  if (proof.better) {
    EXPECT_GE(proof.better->makespan, tiny.best);
    EXPECT_FALSE(bool(verifySolution(tiny.problem, *proof.better)));
  }
}

TEST_P(TinyProof, AgreesWithExhaustiveSearch) {
  constexpr uint32_t numSeeds = 16;
  int64_t tried = 0;
  for (uint32_t seed = 0; seed < numSeeds; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::optional<TinyProblem> tiny = makeTinyProblem(GetParam(), seed);
    if (!tiny)
      continue;
    ++tried;
    EXPECT_LE(quickBound(tiny->problem).value, tiny->best);
    for (int64_t above : {0, 1, 9})
      checkProof(*tiny, above);
  }
  EXPECT_GT(tried, numSeeds / 4);
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
