//===- SearchProblems.h - Problems to search at random ----------*- C++ -*-===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Small problems of all kinds, with memory from the least that holds a schedule
// to more than is needed.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_UNITTESTS_OPTIMIZE_SEARCHPROBLEMS_H
#define PIPESCHED_UNITTESTS_OPTIMIZE_SEARCHPROBLEMS_H

#include "TestProblems.h"
#include <random>

namespace pipesched::optimize::test {

class SearchProblem {
public:
  explicit SearchProblem(uint32_t seed) : random(seed * 7919 + 1) {
    problem = makeProblem(drawPlacement());
    problem.name = "search " + std::to_string(seed);
    problem.freedoms = {draw(4) != 0, draw(2) == 0, draw(2) == 0};
    problem.sharedCopyQueue = draw(3) == 0;
    problem.joinsHoldReloads = draw(2);
    problem.gradientAfter =
        draw(4) ? GradientAfter::InputGrad : GradientAfter::WeightGrad;
    bool isEven = draw(2);
    for (StageFacts &facts : problem.stages)
      if (isEven && &facts != problem.stages.data())
        facts = problem.stages.front();
      else
        drawFacts(facts);
    drawCapacity();
  }

  Problem problem;

private:
  int64_t draw(int64_t count) {
    return static_cast<int64_t>(random() >> 8) % count;
  }
  Placement drawPlacement() {
    int64_t workers = 1 + draw(4), microbatches = 1 + draw(6);
    std::vector<Path> paths = {placeLinear(workers)};
    switch (draw(5)) {
    case 0:
      paths = {placeV(workers)};
      break;
    case 1:
      paths = {llvm::cantFail(placeInterleaved(workers, 2))};
      break;
    case 2:
      workers = 2 + 2 * draw(2);
      microbatches = 2 + 2 * draw(3);
      paths = llvm::cantFail(
          placeBidirectional(workers, microbatches, 1, Assign::Alternate));
      break;
    default:
      break;
    }
    return llvm::cantFail(Placement::create(workers, microbatches, paths));
  }
  void drawFacts(StageFacts &facts) {
    facts.forward = 1 + draw(9);
    facts.inputGrad = 1 + draw(9);
    facts.weightGrad = 1 + draw(9);
    facts.recompute = 1 + draw(9);
    facts.offload = draw(20);
    facts.reload = draw(20);
    facts.activationDelay = draw(4);
    facts.gradientDelay = draw(4);
    facts.activation = 1 + draw(9);
    facts.checkpoint = draw(facts.activation + 1);
    facts.freedByInputGrad = draw(facts.activation + 3) - 2;
  }
  /// The least that will do, and then some.
  void drawCapacity() {
    for (int64_t bytes = 1;; ++bytes) {
      std::fill(problem.capacity.begin(), problem.capacity.end(), bytes);
      llvm::Error error = checkCapacity(problem);
      bool isEnough = !error;
      llvm::consumeError(std::move(error));
      if (isEnough)
        break;
    }
    for (int64_t &bytes : problem.capacity)
      bytes += draw(4) * draw(8);
  }

  std::minstd_rand random;
};

} // namespace pipesched::optimize::test

#endif // PIPESCHED_UNITTESTS_OPTIMIZE_SEARCHPROBLEMS_H
