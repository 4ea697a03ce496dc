//===- DiverseProblems.h - Random problems of every kind --------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Problems with every placement, objective and technique. Memory is mostly
// tight: each worker has the least that holds a schedule, or little more.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_UNITTESTS_OPTIMIZE_DIVERSEPROBLEMS_H
#define PIPESCHED_UNITTESTS_OPTIMIZE_DIVERSEPROBLEMS_H

#include "TestProblems.h"
#include <random>

namespace pipesched::optimize::test {

class DiverseProblem {
public:
  explicit DiverseProblem(uint32_t seed) : random(seed * 6151 + 17) {
    problem = makeProblem(drawPlacement());
    problem.name = "diverse " + std::to_string(seed);
    problem.objective = draw(3) ? Objective::Makespan : Objective::Period;
    problem.techniques = {draw(5) != 0, draw(3) != 0, draw(3) == 0};
    problem.sharedCopyQueue = draw(2);
    problem.memoryTimes = draw(2) ? MemoryTimes::Any : MemoryTimes::Given;
    problem.gradientAfter =
        draw(5) ? GradientAfter::InputGrad : GradientAfter::WeightGrad;
    drawStages();
    drawCapacity();
  }

  Problem problem;

private:
  int64_t draw(int64_t count) {
    return static_cast<int64_t>(random() >> 8) % count;
  }
  Placement drawPlacement() {
    int64_t workers = 1 + draw(4), microbatches = 1 + draw(8);
    switch (draw(6)) {
    case 0:
      return place(workers, microbatches, placeV(workers));
    case 1:
      return place(workers, microbatches,
                   llvm::cantFail(placeInterleaved(workers, 2 + draw(2))));
    case 2:
      return place(workers, microbatches,
                   llvm::cantFail(placeWave(workers, 1 + draw(2))));
    case 3:
      return drawBidirectional();
    case 4:
      return place(workers, microbatches, drawPath(workers));
    default:
      return place(workers, microbatches, placeLinear(workers));
    }
  }
  static Placement place(int64_t workers, int64_t microbatches, Path path) {
    return llvm::cantFail(
        Placement::create(workers, microbatches, {std::move(path)}));
  }
  Placement drawBidirectional() {
    int64_t workers = 2 + 2 * draw(2), microbatches = 2 + 2 * draw(4);
    return llvm::cantFail(
        Placement::create(workers, microbatches,
                          llvm::cantFail(placeBidirectional(
                              workers, microbatches, 1, Assign::Alternate))));
  }
  /// Puts stages on any workers; some workers may have none.
  Path drawPath(int64_t workers) {
    Path path;
    for (int64_t left = 1 + draw(6); left > 0; --left)
      path.workers.push_back(static_cast<int32_t>(draw(workers)));
    return path;
  }
  void drawStages() {
    bool isEven = draw(2), hasSlowCopies = draw(2);
    for (StageFacts &facts : problem.stages)
      if (isEven && &facts != problem.stages.data())
        facts = problem.stages.front();
      else
        drawFacts(facts, hasSlowCopies ? 40 : 8);
  }
  void drawFacts(StageFacts &facts, int64_t slowestCopy) {
    facts.forward = 1 + draw(9);
    facts.inputGrad = 1 + draw(9);
    facts.weightGrad = 1 + draw(9);
    facts.recompute = draw(9);
    facts.offload = draw(slowestCopy);
    facts.reload = draw(slowestCopy);
    facts.activationDelay = draw(4);
    facts.offloadDelay = draw(3);
    facts.gradientDelay = draw(4);
    facts.activation = draw(10);
    facts.checkpoint = draw(facts.activation + 1);
    facts.freedByInputGrad =
        draw(2) ? draw(facts.activation + 1) : -draw(1 + facts.activation);
  }
  void drawCapacity() {
    problem.capacity = leastCapacities(problem);
    int64_t most = draw(3) ? 12 : 40;
    if (draw(4) != 0)
      for (int64_t &units : problem.capacity)
        units += draw(most);
  }

  std::minstd_rand random;
};

} // namespace pipesched::optimize::test

#endif // PIPESCHED_UNITTESTS_OPTIMIZE_DIVERSEPROBLEMS_H
