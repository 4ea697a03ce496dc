//===- RuntimeTest.cpp - Costs under runtimes -----------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Costs of two mirrored paths under each runtime.
//
//===----------------------------------------------------------------------===//

#include "../Support/TestTables.h"
#include "PipeSched/CostModel/Memory/RuntimeBuffers.h"
#include "gmock/gmock.h"
#include <limits>

using namespace pipesched;
using testing::ElementsAre;

static Placement mirrored() {
  return makePlacement(
      2, 2, {pathOn({0, 1}, {{0, 1, 1}}), pathOn({1, 0}, {{1, 2, 1}})});
}

/// I takes 2 and W 3 on every stage; a pair takes 4.
static StageCosts costs() {
  StageCost stage;
  stage.cells.set(Phase::Forward, 1);
  stage.cells.set(Phase::Backward, 5);
  stage.cells.set(Phase::InputGrad, 2);
  stage.cells.set(Phase::WeightGrad, 3);
  stage.overlappedPs = 4;
  StageCosts stageCosts;
  stageCosts.stages.assign(4, stage);
  return stageCosts;
}

/// Two layers of 10 parameters, which stages exchange `bytes` between.
static ModelFacts twoLayers(int64_t bytes) {
  ModelFacts model;
  model.boundaryBytes = bytes;
  model.blocks.resize(1);
  model.blocks[0].count = 2;
  model.blocks[0].parameters = 10;
  return model;
}

static std::vector<int64_t> timesOf(const StageCosts &stageCosts, Phase phase) {
  std::vector<int64_t> times;
  for (const StageCost &stage : stageCosts.stages)
    times.push_back(stage.cells.alonePs(phase));
  return times;
}

TEST(Runtime, TableChangesNothing) {
  StageCosts stageCosts = costs();
  llvm::cantFail(applyRuntime(Runtime::Table, mirrored(), stageCosts));
  EXPECT_THAT(timesOf(stageCosts, Phase::InputGrad), ElementsAre(2, 2, 2, 2));
  EXPECT_EQ(stageCosts.stages[0].overlappedPs, 4);
}

TEST(Runtime, TorchRunsWholeBackwardsInWOfFirstStages) {
  StageCosts stageCosts = costs();
  llvm::cantFail(applyRuntime(Runtime::Torch, mirrored(), stageCosts));
  EXPECT_THAT(timesOf(stageCosts, Phase::InputGrad), ElementsAre(0, 2, 0, 2));
  EXPECT_THAT(timesOf(stageCosts, Phase::WeightGrad), ElementsAre(5, 3, 5, 3));
  EXPECT_THAT(timesOf(stageCosts, Phase::Backward), ElementsAre(5, 5, 5, 5));
  for (const StageCost &stage : stageCosts.stages)
    EXPECT_FALSE(stage.overlappedPs.has_value());
}

/// W runs all of I, also the rows that I sends to experts alongside the rows of
/// W, and slice by slice.
TEST(Runtime, TorchMovesAllSegmentsOfI) {
  StageCosts stageCosts;
  stageCosts.stages.resize(4);
  CellCosts &cells = stageCosts.stages[0].cells;
  cells = CellCosts(2);
  for (int64_t slice : {0, 1}) {
    llvm::cantFail(cells.setSegments(Phase::InputGrad,
                                     {{Resource::Compute, 20 + slice},
                                      {Resource::Experts, 3},
                                      {Resource::Sharding, 1, 0, 50}},
                                     slice));
    llvm::cantFail(cells.setSegments(
        Phase::WeightGrad, {{Resource::Compute, 10}, {Resource::Experts, 4}},
        slice));
  }
  llvm::cantFail(applyRuntime(Runtime::Torch, mirrored(), stageCosts));
  for (int64_t slice : {0, 1}) {
    auto on = [&](Resource resource) {
      return cells.on(resource, Phase::WeightGrad, slice);
    };
    EXPECT_TRUE(cells.segmentsOf(Phase::InputGrad, slice).empty());
    EXPECT_EQ(on(Resource::Compute).ps, 30 + slice);
    EXPECT_EQ(on(Resource::Experts).ps, 7);
    EXPECT_EQ(on(Resource::Sharding), (Exchange{1, 1, 50}));
  }
}

TEST(Runtime, TorchKeepsActivationsOfFirstStagesUntilW) {
  MemoryFacts memory;
  memory.stages.resize(4);
  for (StageMemory &stage : memory.stages)
    stage.inputGradFreedBytes = 7;
  applyRuntime(Runtime::Table, mirrored(), memory);
  EXPECT_EQ(memory.stages[0].inputGradFreedBytes, 7);
  applyRuntime(Runtime::Torch, mirrored(), memory);
  EXPECT_EQ(memory.stages[0].inputGradFreedBytes, 0);
  EXPECT_EQ(memory.stages[1].inputGradFreedBytes, 7);
  EXPECT_EQ(memory.stages[2].inputGradFreedBytes, 0);
}

/// The same with a head that makes 9 logits of 2 bytes.
static ModelFacts twoLayersAndHead(int64_t bytes) {
  ModelFacts model = twoLayers(bytes);
  BlockFacts head;
  head.position = BlockPosition::Last;
  head.kernels.resize(1);
  head.kernels[0].name = "loss";
  head.kernels[0].forward = {4 * 9, 6 * 9};
  model.blocks.push_back(head);
  return model;
}

/// Messages have 5 bytes, and the first path has one microbatch, the second
/// one too.
TEST(Runtime, TorchHasBuffersForMessages) {
  ModelFacts model = twoLayersAndHead(5);
  MemoryFacts memory;
  memory.stages.resize(4);
  llvm::cantFail(
      addRuntimeBuffers(Runtime::Torch, mirrored(), model, nullptr, memory));
  for (int64_t path : {0, 1}) {
    const StageMemory &first = memory.stages[2 * path];
    const StageMemory &last = memory.stages[2 * path + 1];
    // The tensor that it sends, until B, and a buffer for the gradient that
    // comes back.
    EXPECT_EQ(first.activationBytes, 5);
    EXPECT_EQ(first.boundaryBytes, 5);
    EXPECT_EQ(first.gradientBytes, 5);
    EXPECT_EQ(first.leftForSlicesBytes, 0);
    // Its output, the received tensor, and the gradient that it sends stay.
    EXPECT_EQ(last.activationBytes, 18);
    EXPECT_EQ(last.gradientBytes, 0);
    EXPECT_EQ(last.leftForSlicesBytes, 18 + 5 + 5);
  }
}

/// A model in one stage is not a pipeline: nobody keeps its logits.
TEST(Runtime, TorchHasNoBuffersForOneStage) {
  Placement whole = makePlacement(1, 1, {pathOn({0}, {{0, 1, 1}})});
  MemoryFacts memory;
  memory.stages.resize(1);
  llvm::cantFail(addRuntimeBuffers(Runtime::Torch, whole, twoLayersAndHead(5),
                                   nullptr, memory));
  EXPECT_EQ(memory.stages[0].activationBytes, 0);
  EXPECT_EQ(memory.stages[0].leftForSlicesBytes, 0);
  EXPECT_EQ(memory.stages[0].gradientBytes, 0);
}

/// A message that every accelerator has whole has as many buffers.
TEST(Runtime, TorchHasWholeMessagesOnEachAccelerator) {
  ModelFacts model = twoLayers(5);
  model.blocks[0].whole.recomputed = 1;
  SystemFacts system;
  system.accelerators = 4;
  MemoryFacts memory;
  memory.stages.resize(4);
  llvm::cantFail(
      addRuntimeBuffers(Runtime::Torch, mirrored(), model, &system, memory));
  EXPECT_EQ(memory.stages[0].activationBytes, 4 * 5);
  EXPECT_EQ(memory.stages[0].gradientBytes, 4 * 5);
}

TEST(Runtime, RefusesTimesThatOverflow) {
  StageCosts stageCosts = costs();
  stageCosts.stages[2].cells.set(Phase::WeightGrad,
                                 std::numeric_limits<int64_t>::max() - 1);
  EXPECT_EQ(errorOf(applyRuntime(Runtime::Torch, mirrored(), stageCosts)),
            "I + W of the first stage of path 1: the segments of W add up to "
            "more than 2^63 - 1 ps");
}
