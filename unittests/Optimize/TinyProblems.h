//===- TinyProblems.h - Problems for exhaustive search ----------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Random problems with memory for one to three activations, and their best
// makespan by exhaustive search.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_UNITTESTS_OPTIMIZE_TINYPROBLEMS_H
#define PIPESCHED_UNITTESTS_OPTIMIZE_TINYPROBLEMS_H

#include "ExhaustiveSearch.h"
#include "TestProblems.h"
#include <random>

namespace pipesched::optimize::test {

struct TinyProblem {
  Problem problem;
  int64_t best = 0; ///< makespan
};

/// The common properties of the problems of a test.
struct TinyKind {
  llvm::StringRef name;
  std::vector<int32_t> path;
  int64_t workers, microbatches;
  Techniques techniques;
};

inline std::vector<TinyKind> tinyKinds() {
  Techniques split, whole{false}, offload{true, true},
      recompute{true, false, true};
  Techniques both{true, true, true};
  return {
      {"Linear2x2", {0, 1}, 2, 2, split},
      {"Linear2x3", {0, 1}, 2, 3, split},
      {"Linear3x2", {0, 1, 2}, 3, 2, split},
      {"Whole2x3", {0, 1}, 2, 3, whole},
      {"Whole3x2", {0, 1, 2}, 3, 2, whole},
      {"V2x2", {0, 1, 1, 0}, 2, 2, split},
      {"Loop2x2", {0, 1, 0, 1}, 2, 2, split},
      {"Single1x3", {0, 0}, 1, 3, split},
      {"Offload1x3", {0}, 1, 3, offload},
      {"Offload2x2", {0, 1}, 2, 2, offload},
      {"OffloadTwice", {0, 0}, 1, 2, offload},
      {"Recompute1x3", {0}, 1, 3, recompute},
      {"Recompute2x2", {0, 1}, 2, 2, recompute},
      {"RecomputeTwice", {0, 0}, 1, 2, recompute},
      {"Both2x2", {0, 1}, 2, 2, both},
  };
}

/// Draws a problem, whose memory may hold no schedule.
inline Problem drawTinyProblem(const TinyKind &kind, uint32_t seed,
                               MemoryTimes memoryTimes = MemoryTimes::Given) {
  std::minstd_rand random(seed + 1);
  auto draw = [&](int64_t least, int64_t most) {
    return least + int64_t(random() >> 8) % (most - least + 1);
  };
  Problem problem;
  Path path;
  path.workers = kind.path;
  problem.placement = llvm::cantFail(
      Placement::create(kind.workers, kind.microbatches, {path}));
  problem.techniques = kind.techniques;
  problem.memoryTimes = memoryTimes;
  problem.sharedCopyQueue = draw(0, 1);
  problem.gradientAfter =
      draw(0, 3) ? GradientAfter::InputGrad : GradientAfter::WeightGrad;
  bool isEven = draw(0, 1);
  for (size_t stage = 0; stage < kind.path.size(); ++stage) {
    StageFacts facts;
    facts.forward = draw(1, 3);
    facts.inputGrad = draw(1, 3);
    facts.weightGrad = draw(1, 2);
    facts.recompute = draw(1, 3);
    facts.offload = draw(1, 3);
    facts.reload = draw(1, 3);
    facts.activationDelay = draw(0, 2);
    facts.gradientDelay = draw(0, 2);
    facts.activation = draw(1, 4);
    facts.freedByInputGrad = draw(-1, facts.activation);
    facts.checkpoint = draw(0, facts.activation);
    if (isEven && stage > 0)
      facts = problem.stages.front();
    problem.stages.push_back(facts);
  }
  for (int64_t worker = 0; worker < kind.workers; ++worker) {
    int64_t largest = 0;
    for (const StageFacts &facts : problem.stages)
      largest = std::max(largest, facts.activation);
    problem.capacity.push_back(draw(largest, 3 * largest));
  }
  return problem;
}

/// Makes a random problem. Nothing if the memory holds no schedule.
inline std::optional<TinyProblem>
makeTinyProblem(const TinyKind &kind, uint32_t seed,
                MemoryTimes memoryTimes = MemoryTimes::Given) {
  constexpr int64_t mostTicks = 60;
  Problem problem = drawTinyProblem(kind, seed, memoryTimes);
  std::optional<int64_t> best =
      ExhaustiveSearch(problem).findMakespan(mostTicks);
  if (!best)
    return std::nullopt;
  return TinyProblem{std::move(problem), *best};
}

} // namespace pipesched::optimize::test

#endif // PIPESCHED_UNITTESTS_OPTIMIZE_TINYPROBLEMS_H
