//===- RandomCosts.h - Costs of which many are equal ------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Times, messages and memory for property tests of walks. Few numbers are
// different, so that ties are common. A seed always gives the same.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_UNITTESTS_SUPPORT_RANDOMCOSTS_H
#define PIPESCHED_UNITTESTS_SUPPORT_RANDOMCOSTS_H

#include "PipeSched/Facts/StageCosts.h"
#include "PipeSched/Schedule/Kinds/PhaseSets.h"
#include <random>

namespace pipesched {

/// Pairs that take a number for their stages, longer than any of their cells.
class NumberedPairs : public PairTimes {
public:
  NumberedPairs(int64_t first, int64_t behind) : first(first), behind(behind) {}
  PairTime timeOf(int64_t forwardStage, int64_t backwardStage) const override {
    return {kLongest + first + (3 * forwardStage + backwardStage) % 7,
            behind * (1 + forwardStage % 2)};
  }

private:
  static constexpr int64_t kLongest = 100000;
  int64_t first, behind;
};

/// Costs and memory with few different numbers.
class RandomCosts {
public:
  explicit RandomCosts(uint32_t seed) : random(seed) {}

  StageCosts drawCosts(int64_t numStages, int64_t numSlices = 1) {
    StageCosts costs;
    bool hasPairTimes = draw(4) == 0, hasDispatches = draw(3) == 0;
    costs.pairRule = static_cast<PairRule>(draw(3));
    if (hasDispatches && !hasPairTimes && draw(2) == 0)
      costs.pairTimes = std::make_shared<NumberedPairs>(draw(30), draw(15));
    for (int64_t stage = 0; stage < numStages; ++stage) {
      StageCost &cost = costs.stages.emplace_back();
      cost.cells = CellCosts(draw(3) ? numSlices : 1);
      for (int64_t slice = 0; slice < cost.cells.getNumSlices(); ++slice)
        kCostedPhases.forEach([&](Phase phase) {
          llvm::cantFail(cost.cells.setSegments(
              phase, drawSegments(phase, hasDispatches), slice));
        });
      if (hasPairTimes)
        cost.overlappedPs = drawPs();
      cost.activation = {drawPs(), draw(20), draw(100)};
      cost.gradient = {drawPs(), draw(20), draw(100)};
    }
    return costs;
  }

  /// Compute, with rows of experts in between in any order; then the waits of
  /// the cell.
  std::vector<Segment> drawSegments(Phase phase, bool hasDispatches) {
    std::vector<Segment> segments = {{resourceOf(phase), drawPs()}};
    for (int64_t more = hasDispatches ? draw(4) : 0; more > 0; --more)
      segments.push_back(
          {draw(2) ? Resource::Experts : Resource::Compute, drawPs()});
    segments.push_back({Resource::Sharding, draw(2), 0, draw(3)});
    segments.push_back({Resource::Context, draw(4), draw(5), draw(3)});
    return segments;
  }

  std::vector<MessageCost> drawMessages(int64_t count) {
    std::vector<MessageCost> messages;
    while (count-- > 0)
      messages.push_back({drawPs(), draw(20), draw(100)});
    return messages;
  }

  /// All-reduces, half of which start before the ends of their dependences.
  std::vector<MessageCost> drawReductions(int64_t count) {
    std::vector<MessageCost> reductions = drawMessages(count);
    for (MessageCost &each : reductions)
      if (draw(2) == 0)
        each.aheadPs = draw(each.occupancyPs + 1);
    return reductions;
  }

  MemoryFacts drawMemory(int64_t numStages, int64_t numSlices = 1) {
    MemoryFacts facts;
    facts.capacityBytes = 1000;
    for (int64_t stage = 0; stage < numStages; ++stage)
      facts.stages.push_back(drawStage());
    if (numSlices == 1 || draw(3) == 0)
      return facts;
    facts.numSlices = numSlices;
    for (int64_t unit = 0; unit < numStages * numSlices; ++unit) {
      StageMemory &memory = facts.slices.emplace_back(drawStage());
      memory.leftForSlicesBytes = draw(7) - 3;
    }
    return facts;
  }

  int64_t draw(int64_t count) { return random() / 7 % count; }

private:
  StageMemory drawStage() {
    StageMemory memory;
    memory.activationBytes = 10 + draw(5);
    memory.inputGradFreedBytes = draw(9) - 3;
    memory.boundaryBytes = draw(4);
    memory.workingBytes = draw(3);
    memory.weightBytes = draw(100);
    return memory;
  }

  /// Nothing, about as long as others, or far longer.
  int64_t drawPs() {
    constexpr int64_t scales[] = {1, 3, 20, 1000};
    return draw(scales[draw(4)]);
  }

  std::minstd_rand random;
};

} // namespace pipesched

#endif // PIPESCHED_UNITTESTS_SUPPORT_RANDOMCOSTS_H
