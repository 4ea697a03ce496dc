//===- HostTimeTest.cpp - Kernels that the host launches ------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Stages whose host takes longer than their device, by hand on the toy system.
//
//===----------------------------------------------------------------------===//

#include "../Support/ToyCosts.h"
#include "gtest/gtest.h"

using namespace pipesched;

/// Three kernels of 10, 20 and 30 ps; the last runs in I too.
static BlockFacts threeKernels() {
  BlockFacts block = blockOf(BlockPosition::Layer, 4, 1);
  block.name = "layer";
  block.kernels = {{"a", Engine::Matrix, {10, 0}, {}, {}},
                   {"b", Engine::Matrix, {20, 0}, {}, {}},
                   {"c", Engine::Matrix, {30, 0}, {30, 0}, {}}};
  return block;
}

static ModelFacts modelOf(BlockFacts block) {
  ModelFacts model;
  model.name = "three";
  model.boundaryBytes = 5;
  model.blocks = {std::move(block)};
  return model;
}

static StageCost firstCost(const BlockFacts &block, const SystemFacts &system) {
  Placement placement =
      llvm::cantFail(Placement::create(2, 4, {placeLinear(2)}));
  PhaseSet phases = PhaseSet(Phase::Forward) | PhaseSet(Phase::InputGrad) |
                    PhaseSet(Phase::WeightGrad);
  return llvm::cantFail(costRoofline(placement, modelOf(block), system, phases))
      .stages.front();
}

/// The host launches ahead, so that a stage of two layers takes the longer of
/// both sums.
TEST(HostTime, TheLongerOfHostAndDevice) {
  SystemFacts system = toySystem();
  EXPECT_EQ(ps(firstCost(threeKernels(), system), Phase::Forward), 2 * 60);
  system.operationPs = system.launchPs = 15;
  EXPECT_EQ(ps(firstCost(threeKernels(), system), Phase::Forward), 2 * 60);
  system.operationPs = system.launchPs = 25;
  EXPECT_EQ(ps(firstCost(threeKernels(), system), Phase::Forward), 2 * 75);
  // I runs one of the kernels, and W none.
  EXPECT_EQ(ps(firstCost(threeKernels(), system), Phase::InputGrad), 2 * 30);
  EXPECT_EQ(ps(firstCost(threeKernels(), system), Phase::WeightGrad), 0);
}

TEST(HostTime, KernelsCountTheirLaunchesAndRuns) {
  SystemFacts system = toySystem();
  system.operationPs = system.launchPs = 100;
  BlockFacts block = threeKernels();
  block.kernels[0].launches = 4;
  EXPECT_EQ(ps(firstCost(block, system), Phase::Forward), 2 * 600);
  block.kernels[0].count = 2;
  EXPECT_EQ(ps(firstCost(block, system), Phase::Forward), 2 * 1000);
}

/// An operation takes longer than a further kernel of it.
TEST(HostTime, OperationsAndFurtherLaunches) {
  SystemFacts system = toySystem();
  system.operationPs = 100;
  system.launchPs = 10;
  BlockFacts block = threeKernels();
  block.kernels[0].launches = 4;
  EXPECT_EQ(ps(firstCost(block, system), Phase::Forward), 2 * (300 + 30));
}

/// Collectives that nothing divides are not launched.
TEST(HostTime, WhatIsNotNeededIsNotLaunched) {
  SystemFacts system = toySystem();
  system.operationPs = system.launchPs = 100;
  BlockFacts block = threeKernels();
  block.kernels.push_back({"reduce", Engine::Link, {0, 8}, {}, {}});
  EXPECT_EQ(ps(firstCost(block, system), Phase::Forward), 2 * 300);
  system.accelerators = 2;
  system.link = {1000000000000, 3, {}};
  EXPECT_EQ(ps(firstCost(block, system), Phase::Forward), 2 * 400);
}

/// A graph is one launch, for any contents.
TEST(HostTime, GraphsAreLaunchedOnce) {
  SystemFacts system = toySystem();
  system.operationPs = system.launchPs = 100;
  system.kernelLaunch = KernelLaunch::Graphs;
  EXPECT_EQ(ps(firstCost(threeKernels(), system), Phase::Forward), 2 * 100);
}

/// If the host waits within a layer, it launches no other layer ahead: each
/// takes the longer of its two times, and the way back to the device.
TEST(HostTime, WaitingEndsWhatIsAhead) {
  SystemFacts system = toySystem();
  system.operationPs = system.launchPs = 15;
  system.synchronizePs = 7;
  BlockFacts block = threeKernels();
  block.kernels[1].synchronizes = true;
  EXPECT_EQ(ps(firstCost(block, system), Phase::Forward), 2 * (60 + 7));
  EXPECT_EQ(ps(firstCost(block, system), Phase::InputGrad), 2 * 30);
  system.operationPs = system.launchPs = 25;
  EXPECT_EQ(ps(firstCost(block, system), Phase::Forward), 2 * (75 + 7));
}

/// Each expert of a rank is a separate product: launched by itself, and at the
/// rate of its size.
TEST(HostTime, ExpertsAreProductsOfTheirOwn) {
  SystemFacts system = toySystem();
  system.accelerators = 2;
  system.link = {1000000000000, 3, {}};
  system.expertParallel = 2;
  BlockFacts block = blockOf(BlockPosition::Layer, 4, 40);
  block.name = "layer";
  ExpertFacts experts;
  experts.count = 4;
  experts.perToken = 2;
  experts.rows = 32;
  experts.parameters = 40;
  block.experts = experts;
  Kernel mlp = {"mlp", Engine::Matrix, {320, 0}, {}, {}};
  mlp.routed = true;
  mlp.weightBytes = 1;
  mlp.forward.bytes = 1;
  block.kernels = {mlp};
  // 160 FLOPs on each rank in two products of 80.
  EXPECT_EQ(ps(firstCost(block, system), Phase::Forward), 2 * 160);
  system.operationPs = system.launchPs = 1000;
  EXPECT_EQ(ps(firstCost(block, system), Phase::Forward), 2 * 2000);
  // Rows of experts are not part of a graph, which is launched alongside them.
  system.kernelLaunch = KernelLaunch::Graphs;
  EXPECT_EQ(ps(firstCost(block, system), Phase::Forward), 2 * 3000);
  system.operationPs = system.launchPs = 0;
  system.matrix.efficiency.points = {{80, 500000}, {160, 1000000}};
  EXPECT_EQ(ps(firstCost(block, system), Phase::Forward), 2 * 320);
}

/// Sorting rows is needed where each expert gets a separate copy.
TEST(HostTime, RowsAreSortedWhereTheyAreExchanged) {
  SystemFacts system = toySystem();
  system.accelerators = 2;
  system.link = {1000000000000, 3, {}};
  BlockFacts block = blockOf(BlockPosition::Layer, 4, 40);
  block.name = "layer";
  ExpertFacts experts;
  experts.count = 4;
  experts.perToken = 2;
  experts.rows = 32;
  experts.parameters = 40;
  block.experts = experts;
  Kernel sort = {"sort", Engine::Vector, {0, 640}, {}, {}};
  sort.routed = sort.exchanged = true;
  block.kernels = {sort};
  EXPECT_EQ(ps(firstCost(block, system), Phase::Forward), 0);
  system.expertParallel = 2;
  EXPECT_EQ(ps(firstCost(block, system), Phase::Forward), 2 * 320);
  system.expertDispatch = ExpertDispatch::PerRank;
  EXPECT_EQ(ps(firstCost(block, system), Phase::Forward), 0);
}

//===----------------------------------------------------------------------===//
// Collectives hidden by linear layers
//===----------------------------------------------------------------------===//

/// An all-reduce of 163 ps between linear layers of 40 and 100 ps.
static BlockFacts reduceBetween() {
  BlockFacts block = blockOf(BlockPosition::Layer, 2, 1);
  block.name = "layer";
  block.kernels = {{"before", Engine::Matrix, {80, 0}, {400, 0}, {}},
                   {"reduce", Engine::Link, {0, 160}, {0, 160}, {}},
                   {"norm", Engine::Vector, {1, 0}, {}, {}},
                   {"behind", Engine::Matrix, {200, 0}, {400, 0}, {}}};
  return block;
}

TEST(TensorExposed, LinearLayersHideWhatTheyCan) {
  SystemFacts system = toySystem();
  system.accelerators = 2;
  system.link = {1000000000000, 3, {}};
  int64_t compute = 40 + 5 + 100;
  EXPECT_EQ(ps(firstCost(reduceBetween(), system), Phase::Forward),
            compute + 163);
  // A fifth is always exposed, 32.6. From the halves of the rest, 65.2 each,
  // the layer before hides 40 and the next one all.
  system.tensorExposed = 20;
  EXPECT_EQ(ps(firstCost(reduceBetween(), system), Phase::Forward),
            std::llround(compute + 32.6 + 25.2));
  // In I both hide all.
  EXPECT_EQ(ps(firstCost(reduceBetween(), system), Phase::InputGrad),
            std::llround(400 + 32.6));
}

TEST(TensorOverlap, WeightGradientsHideWhatTheyCan) {
  SystemFacts system = toySystem();
  system.accelerators = 2;
  system.link = {1000000000000, 3, {}};
  system.tensorOverlap = TensorOverlap::Backward;
  BlockFacts block = reduceBetween();
  // A forward waits for the whole collective, 163 ps.
  EXPECT_EQ(ps(firstCost(block, system), Phase::Forward), 40 + 5 + 100 + 163);
  // Half of it has nothing alongside. The next layer has no gradients of
  // weights, and 200 ps for the gradient of its input.
  EXPECT_EQ(ps(firstCost(block, system), Phase::InputGrad), 400 + 163);
  // 60 ps of gradients of weights hide as much of the other half, 81.5.
  block.kernels.back().weightGrad = {120, 0};
  EXPECT_EQ(ps(firstCost(block, system), Phase::InputGrad),
            std::llround(400 + 81.5 + 21.5));
  // A share of all collectives replaces the rule.
  system.tensorExposed = 20;
  EXPECT_EQ(ps(firstCost(block, system), Phase::InputGrad),
            std::llround(400 + 32.6));
}

//===----------------------------------------------------------------------===//
// Rows of experts hidden by a microbatch
//===----------------------------------------------------------------------===//

/// Two layers of experts on two ranks: 60 ps of compute in F and 30 in I, and
/// an exchange of 320 bytes in both; half of it leaves each of two ranks.
static BlockFacts exchangeBetween() {
  BlockFacts block = threeKernels();
  block.kernels.push_back(
      {"dispatch_exchange", Engine::AllToAll, {0, 320}, {0, 320}, {}});
  ExpertFacts experts;
  experts.count = 4;
  experts.perToken = 2;
  experts.rows = 32;
  block.experts = experts;
  return block;
}

static int64_t hiddenOf(const StageCost &cost, Phase phase) {
  return sumOn(Resource::Experts, cost.cells.segmentsOf(phase)).ps -
         sumOn(Resource::Experts, cost.cells.segmentsOf(phase)).exposedPs;
}

TEST(ExpertExposed, OtherMicrobatchesHideWhatTheyCan) {
  SystemFacts system = toySystem();
  system.accelerators = system.expertParallel = 2;
  system.link = {1000000000000, 3, {}};
  // Kernels take half as long on two accelerators: 30 and 15 ps a layer. An
  // exchange takes 320 / 2 / 2 + 3 = 83 ps.
  StageCost plain = firstCost(exchangeBetween(), system);
  EXPECT_EQ(ps(plain, Phase::Forward), 2 * (30 + 83));
  EXPECT_EQ(ps(plain, Phase::InputGrad), 2 * (15 + 83));
  EXPECT_EQ(hiddenOf(plain, Phase::Forward), 0);
  // A backward hides the 30 ps in which it computes of the 166 ps of F, and a
  // forward hides its 60 of the ps of I.
  system.expertExposed = 1;
  StageCost hidden = firstCost(exchangeBetween(), system);
  EXPECT_EQ(ps(hidden, Phase::Forward), 2 * (30 + 83) - 30);
  EXPECT_EQ(ps(hidden, Phase::InputGrad), 2 * (15 + 83) - 60);
  EXPECT_EQ(hiddenOf(hidden, Phase::Forward), 30);
  EXPECT_EQ(hiddenOf(hidden, Phase::InputGrad), 60);
  // A part is always seen: 90 % of 166 ps.
  system.expertExposed = 90;
  EXPECT_EQ(ps(firstCost(exchangeBetween(), system), Phase::Forward),
            std::llround(226 - 16.6));
}

/// If the host takes longer than the device, it hides nothing more.
TEST(ExpertExposed, TheHostIsNotHidden) {
  SystemFacts system = toySystem();
  system.accelerators = system.expertParallel = 2;
  system.link = {1000000000000, 3, {}};
  system.operationPs = system.launchPs = 25; // of 4 kernels
  int64_t plain = ps(firstCost(exchangeBetween(), system), Phase::Forward);
  EXPECT_EQ(plain, 2 * (30 + 83));
  system.expertExposed = 1;
  EXPECT_EQ(ps(firstCost(exchangeBetween(), system), Phase::Forward),
            std::max<int64_t>(plain - 2 * 50, 2 * 100));
}
