//===- BlockTimesTest.cpp - Equal blocks are computed once ----------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Times that blocks share are compared with times of each block by itself.
//
//===----------------------------------------------------------------------===//

#include "Kernels/BlockTimes.h"
#include "../Support/ToyCosts.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

using namespace pipesched;
using testing::ElementsAre;

/// A layer whose experts have `rows` rows, sent to them and back.
static BlockFacts expertLayer(int64_t rows) {
  BlockFacts block = blockOf(BlockPosition::Layer, 1, 10);
  block.name = "layer";
  block.experts = ExpertFacts{/*count=*/8, /*perToken=*/2, rows};
  Kernel linear = {"linear", Engine::Matrix, {100, 60}, {200, 60}, {100, 60}};
  Kernel rowsThere = {"dispatch", Engine::AllToAll, {0, 4000}, {0, 4000}, {}};
  Kernel grouped = {
      "grouped", Engine::Matrix, {300, 1000}, {600, 1000}, {300, 1000}};
  grouped.routed = true;
  grouped.weightBytes = 900;
  block.kernels = {linear, rowsThere, grouped};
  return block;
}

/// Layers some of which have equal times, with other names, counts and bytes.
static ModelFacts turns(Recompute recompute) {
  ModelFacts model;
  model.recompute = recompute;
  BlockFacts dense = expertLayer(0);
  dense.experts.reset();
  dense.kernels.erase(dense.kernels.begin() + 1, dense.kernels.end());
  BlockFacts again = expertLayer(16);
  again.name = "again";
  again.count = 3;
  again.activationBytes = 7;
  // The last one differs only in the rows of a rank, not in a kernel.
  model.blocks = {dense, expertLayer(16), dense, again, expertLayer(2)};
  return model;
}

TEST(BlockTimes, FirstOfEqualTimes) {
  EXPECT_THAT(firstOfEqualTimes(turns(Recompute::None)),
              ElementsAre(0, 1, 0, 1, 4));
  EXPECT_TRUE(firstOfEqualTimes(ModelFacts()).empty());
}

TEST(BlockTimes, SharedOnesEqualThoseOfEachBlock) {
  SystemFacts system = toySystem();
  system.link = {1000000000000, 3, {}};
  system.acceleratorsPerNode = system.dataParallel = system.expertParallel = 4;
  system.expertBalancePpm = 1200000;
  for (int64_t launchPs : {0, 50})
    for (Recompute recompute : {Recompute::None, Recompute::Full}) {
      system.operationPs = system.launchPs = launchPs;
      ModelFacts model = turns(recompute);
      std::vector<BlockTimes> shared = timesOfBlocks(model, system);
      ASSERT_EQ(shared.size(), model.blocks.size());
      for (auto [block, times] : llvm::zip_equal(model.blocks, shared)) {
        BlockTimes own(block, system, recompute);
        for (Phase phase :
             {Phase::Forward, Phase::InputGrad, Phase::WeightGrad,
              Phase::Backward, Phase::Recompute, Phase::Optimizer}) {
          EXPECT_EQ(times.of(phase), own.of(phase));
          EXPECT_EQ(times.alone(phase), own.alone(phase));
          EXPECT_EQ(times.dispatch[phase], own.dispatch[phase]);
          // A block by itself: the time that cells that wait for parameters
          // count with.
          EXPECT_EQ(own.of(phase), blockPs(block, phase, system, recompute));
        }
      }
      EXPECT_NE(shared[1].of(Phase::Forward), shared[4].of(Phase::Forward));
    }
}
