//===- StatedFactsTest.cpp - Blocks that say more than the model ----------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Work of B, R and O, bytes of parameters and messages that blocks state
// themselves, such as blocks that are derived from functions of stages.
//
//===----------------------------------------------------------------------===//

#include "PipeSched/CostModel/CostModel.h"
#include "PipeSched/Schedule/Kinds/PhaseSets.h"
#include "gtest/gtest.h"

using namespace pipesched;

/// A FLOP takes 1 ps, as does a byte in memory or on the network.
static SystemFacts unitSystem() {
  SystemFacts system;
  system.name = "unit";
  system.matrix.flopsPerSecond = system.vector.flopsPerSecond = 1000000000000;
  system.memory.bytesPerSecond = system.network.bytesPerSecond = 1000000000000;
  return system;
}

/// Two blocks; the second states everything itself.
static ModelFacts unevenModel() {
  BlockFacts first, second;
  first.name = "first";
  first.parameters = 10;
  first.kernels = {{"linear", Engine::Matrix, {100, 0}, {200, 0}, {300, 0}}};
  second = first;
  second.name = "second";
  Kernel &kernel = second.kernels[0];
  kernel.count = 3;
  kernel.backward = {400, 0};
  kernel.recompute = {50, 0};
  kernel.optimizer = {70, 0};
  second.state = {40, 44, 80};
  second.messages = {7, 9};
  ModelFacts model;
  model.name = "uneven";
  model.boundaryBytes = 5;
  model.blocks = {first, second};
  return model;
}

static Placement onTwoWorkers() {
  Path path;
  path.workers = {0, 1};
  return llvm::cantFail(Placement::create(2, 2, {path}));
}

static StageCost secondCost(const ModelFacts &model,
                            const SystemFacts &system = unitSystem(),
                            PhaseSet phases = {}) {
  return llvm::cantFail(costRoofline(onTwoWorkers(), model, system, phases))
      .stages[1];
}

static int64_t timeOf(const StageCost &cost, Phase phase) {
  return cost.cells.alonePs(phase);
}

TEST(StatedFacts, KernelsRunOften) {
  StageCost cost = secondCost(unevenModel());
  EXPECT_EQ(timeOf(cost, Phase::Forward), 3 * 100);
  EXPECT_EQ(timeOf(cost, Phase::InputGrad), 3 * 200);
  EXPECT_EQ(timeOf(cost, Phase::WeightGrad), 3 * 300);
}

TEST(StatedFacts, ReplaceWhatPhasesImply) {
  StageCost cost = secondCost(unevenModel());
  EXPECT_EQ(timeOf(cost, Phase::Backward), 3 * 400);
  EXPECT_EQ(timeOf(cost, Phase::Recompute), 3 * 50);
  EXPECT_EQ(timeOf(cost, Phase::Optimizer), 3 * 70);
}

/// A kernel that does not state a phase does not run in it if another one of
/// its block states one.
TEST(StatedFacts, AreOfTheWholeBlock) {
  ModelFacts model = unevenModel();
  model.blocks[1].kernels.push_back(
      {"other", Engine::Vector, {1, 0}, {2, 0}, {3, 0}});
  StageCost cost = secondCost(model);
  EXPECT_EQ(timeOf(cost, Phase::Forward), 3 * 100 + 1);
  EXPECT_EQ(timeOf(cost, Phase::InputGrad), 3 * 200 + 2);
  EXPECT_EQ(timeOf(cost, Phase::Backward), 3 * 400);
  EXPECT_EQ(timeOf(cost, Phase::Recompute), 3 * 50);
}

TEST(StatedFacts, BackwardsRecomputeWithoutCells) {
  ModelFacts model = unevenModel();
  model.recompute = Recompute::Full;
  EXPECT_EQ(timeOf(secondCost(model), Phase::Backward), 3 * (50 + 400));
}

TEST(StatedFacts, StepsAreShardedLikeTheState) {
  SystemFacts system = unitSystem();
  system.dataParallel = 2;
  system.sharding = Sharding::Optimizer;
  EXPECT_EQ(timeOf(secondCost(unevenModel(), system), Phase::Optimizer),
            3 * 70 / 2);
}

TEST(StatedFacts, AWholeBackwardIsNotSplit) {
  ModelFacts model = unevenModel();
  Kernel &kernel = model.blocks[1].kernels[0];
  kernel.inputGrad = kernel.weightGrad = {};
  PhaseSet split = PhaseSet(Phase::InputGrad);
  EXPECT_EQ(
      llvm::toString(
          costRoofline(onTwoWorkers(), model, unitSystem(), split).takeError()),
      "block 'second' has work for a whole B only, but the schedule "
      "splits backwards into I and W; state its work in I and W, or keep "
      "backwards whole");
  EXPECT_EQ(timeOf(secondCost(model), Phase::Backward), 3 * 400);
}

TEST(StatedFacts, MemoryOfParameters) {
  MemoryFacts facts = llvm::cantFail(
      computeMemoryFacts(onTwoWorkers(), unevenModel(), nullptr));
  EXPECT_EQ(facts.stages[0].weightBytes, 2 * 10);
  EXPECT_EQ(facts.stages[0].optimizerBytes, 12 * 10);
  EXPECT_EQ(facts.stages[1].weightBytes, 40);
  EXPECT_EQ(facts.stages[1].gradientBytes, 44);
  EXPECT_EQ(facts.stages[1].optimizerBytes, 80);
}

TEST(StatedFacts, Messages) {
  StageCosts costs =
      llvm::cantFail(costRoofline(onTwoWorkers(), unevenModel(), unitSystem(),
                                  kCostedPhases - kCopyPhases - kSpreadPhases));
  EXPECT_EQ(costs.stages[0].activation.bytes, 5);
  EXPECT_EQ(costs.stages[0].activation.occupancyPs, 5);
  EXPECT_EQ(costs.stages[1].activation.bytes, 7);
  EXPECT_EQ(costs.stages[1].gradient.bytes, 9);
  EXPECT_EQ(costs.stages[1].gradient.occupancyPs, 9);

  // The times of a profile stay.
  llvm::cantFail(setMessageBytes(onTwoWorkers(), unevenModel(), costs));
  EXPECT_EQ(costs.stages[1].gradient.bytes, 9);
}

/// A stage of both blocks sends the messages of its ends.
TEST(StatedFacts, MessagesOfSeveralBlocks) {
  Path path;
  path.workers = {0};
  StageCosts costs = llvm::cantFail(
      costRoofline(llvm::cantFail(Placement::create(1, 1, {path})),
                   unevenModel(), unitSystem(), {}));
  EXPECT_EQ(costs.stages[0].activation.bytes, 7);
  EXPECT_EQ(costs.stages[0].gradient.bytes, 5);
}

TEST(StatedFacts, GradientsAreReduced) {
  Path first, second;
  first.workers = {0, 1};
  second.workers = {1, 0};
  first.takes = {{0, 1, 1}};
  second.takes = {{1, 2, 1}};
  Placement placement =
      llvm::cantFail(Placement::create(2, 2, {first, second}));
  Cell cell(0, Phase::AllReduce, 0);
  std::vector<MessageCost> costs = llvm::cantFail(
      costReductions(placement, {{cell, {0, 1}, 2}, {cell, {1, 2}, 2}},
                     unevenModel(), unitSystem()));
  EXPECT_EQ(costs[0].bytes, 2 * 10);
  EXPECT_EQ(costs[1].bytes, 44);
}
