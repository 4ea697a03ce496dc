//===- OverlappedPairsTest.cpp - What pairs of cells take -----------------===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Pairs of a forward and a backward of layers with experts, by hand.
//
//===----------------------------------------------------------------------===//

#include "ExpertModel.h"
#include "PipeSched/CostModel/Layers/Runtime.h"
#include "PipeSched/Facts/ProfileText.h"
#include "gtest/gtest.h"

using namespace pipesched;
using namespace pipesched::test;

static StageCosts costsWith(int64_t forward, int64_t forwardDispatch,
                            int64_t backward, int64_t backwardDispatch) {
  StageCosts costs;
  CellCosts &cells = costs.stages.emplace_back().cells;
  auto set = [&](Phase phase, int64_t ps, int64_t dispatch) {
    cells.set(phase, ps);
    llvm::cantFail(cells.splitOff(phase, {Resource::Experts, dispatch}));
  };
  set(Phase::Forward, forward, forwardDispatch);
  set(Phase::Backward, backward, backwardDispatch);
  return costs;
}

static uint64_t pairOf(const StageCosts &costs) {
  const CellCosts &cells = costs.stages[0].cells;
  return costs.pairPs(cells.of(Phase::Forward), cells.of(Phase::Backward));
}

TEST(OverlappedPairs, HideDispatchesBehindCompute) {
  // Compute of 60 + 150 hides 40 + 50.
  EXPECT_EQ(pairOf(costsWith(100, 40, 200, 50)), 210u);
  // Dispatches of 190 are longer than compute of 60.
  EXPECT_EQ(pairOf(costsWith(100, 90, 150, 100)), 190u);
  // A cell is never faster than alone.
  EXPECT_EQ(pairOf(costsWith(100, 40, 300, 290)), 330u);
  EXPECT_EQ(pairOf(costsWith(10, 0, 300, 290)), 300u);
  EXPECT_EQ(pairOf(costsWith(100, 0, 200, 0)), 300u);
  StageCosts inTurn = costsWith(100, 40, 200, 50);
  inTurn.pairRule = PairRule::InTurn;
  EXPECT_EQ(pairOf(inTurn), 300u);
}

static constexpr PhaseSet kWhole =
    PhaseSet(Phase::Forward) | PhaseSet(Phase::Backward);

/// Two stages of a layer, of which F takes 800, 800, 200 and 800 ps for
/// attention, dispatch, mlp and combine, I 800, 800, 320 and 800, and W 800 and
/// 200.
static SystemFacts slowPairOfAccelerators(PairOrder order) {
  SystemFacts system = pairOfAccelerators();
  system.link.latencyPs = 720;
  system.expertParallel = 2;
  system.pairOrder = order;
  return system;
}

/// compute   | attF 0-800 | mlpI -1120 | mlpW -1320 | mlpF 1600-1800 |
/// exchange  | combI 0-800 | dispF -1600 | dispI -2400 | combF -3200
///           ... attI 2400-3200 | attW -4000
TEST(OverlappedPairs, RunLayersPartByPart) {
  auto pairBy = [](PairOrder order) {
    StageCosts costs = llvm::cantFail(
        costsOf(expertModel(), slowPairOfAccelerators(order), kWhole));
    return costs.pairPs(linear(2), Cell(1, Phase::Forward, 0),
                        Cell(0, Phase::Backward, 1));
  };
  EXPECT_EQ(pairBy(PairOrder::DeepSeek), 4000u);
  EXPECT_EQ(pairBy(PairOrder::Megatron), 4000u);
  // The backward by itself; its W hides a part of one exchange.
  EXPECT_EQ(pairBy(PairOrder::Fluid), 3720u);
  EXPECT_EQ(pairBy(PairOrder::InTurn), 3520u + 2600);
  EXPECT_GE(pairBy(PairOrder::Best), 3720u);
  EXPECT_LE(pairBy(PairOrder::Best), 4000u);
}

/// Megatron-Core sends before attW, 3200-4000 above, and DualPipe at the end.
TEST(OverlappedPairs, HideMessagesBehindWeightGradients) {
  auto behindBy = [](PairOrder order, Phase first, Phase second) {
    StageCosts costs = llvm::cantFail(
        costsOf(expertModel(), slowPairOfAccelerators(order), kWhole | kSplit));
    return costs.behindPs(linear(2), Cell(1, first, 0), Cell(0, second, 1));
  };
  constexpr Phase kF = Phase::Forward, kB = Phase::Backward;
  EXPECT_EQ(behindBy(PairOrder::Megatron, kF, kB), 800);
  EXPECT_EQ(behindBy(PairOrder::Megatron, kB, kF), 800);
  EXPECT_EQ(behindBy(PairOrder::Megatron, kF, Phase::InputGrad), 0);
  EXPECT_EQ(behindBy(PairOrder::DeepSeek, kF, kB), 0);
  EXPECT_EQ(behindBy(PairOrder::InTurn, kF, kB), 0);
  EXPECT_EQ(behindBy(PairOrder::Fluid, kF, kB), 0);
}

/// What a cell has besides its layers runs before or behind them.
TEST(OverlappedPairs, AddWhatIsNoLayer) {
  ModelFacts model = expertModel();
  BlockFacts embedding;
  embedding.name = "embedding";
  embedding.position = BlockPosition::First;
  embedding.kernels = {{"linear", Engine::Matrix, {200, 0}, {60, 0}, {40, 0}}};
  model.blocks.insert(model.blocks.begin(), embedding);
  StageCosts costs = llvm::cantFail(
      costsOf(model, slowPairOfAccelerators(PairOrder::DeepSeek), kWhole));
  EXPECT_EQ(costs.pairTimes->timeOf(1, 1).ps, 4000);
  EXPECT_EQ(costs.pairTimes->timeOf(0, 1).ps, 4000 + 100);
  EXPECT_EQ(costs.pairTimes->timeOf(1, 0).ps, 4000 + 50);
  EXPECT_EQ(costs.pairTimes->timeOf(0, 0).ps, 4000 + 150);
}

/// There the parts of layers are not known.
TEST(OverlappedPairs, LeaveGivenTimesToTheRule) {
  SystemFacts system = slowPairOfAccelerators(PairOrder::DeepSeek);
  auto costs = [&](PhaseSet phases = kWhole) {
    return llvm::cantFail(costsOf(expertModel(), system, phases));
  };
  EXPECT_NE(costs().pairTimes, nullptr);
  EXPECT_EQ(costs(kSplit).pairTimes, nullptr);
  for (const char *text : {"F=1ns", "B=1ns", "FB=1ns", "O=1ns"}) {
    Profile profile = llvm::cantFail(parseProfile(text));
    StageCosts given =
        llvm::cantFail(overlayProfile(linear(2), costs(), profile, kWhole));
    EXPECT_EQ(given.pairTimes == nullptr, text[0] != 'O') << text;
  }
  StageCosts inTurn = costs(kWhole | kSplit);
  EXPECT_NE(inTurn.pairTimes, nullptr);
  llvm::cantFail(applyRuntime(Runtime::Torch, linear(2), inTurn));
  EXPECT_EQ(inTurn.pairTimes, nullptr);
  system.expertExposed = 40;
  EXPECT_EQ(costs().pairTimes, nullptr);
  system.expertExposed = kAllPercent;
  system.expertParallel = 1;
  EXPECT_EQ(costs().pairTimes, nullptr);
}

/// A measured time says nothing of dispatches.
TEST(OverlappedPairs, ProfilesReplaceDispatches) {
  SystemFacts system = pairOfAccelerators();
  system.expertParallel = 2;
  Placement placement = linear(2);
  StageCosts costs = llvm::cantFail(costsOf(expertModel(), system));
  Profile profile = llvm::cantFail(parseProfile("F=1ns"));
  StageCosts replaced = llvm::cantFail(
      overlayProfile(placement, std::move(costs), profile, kSplit));
  const StageCost &cost = replaced.stages.front();
  EXPECT_EQ(rowsPs(cost, Phase::Forward), 0);
  EXPECT_EQ(rowsPs(cost, Phase::Backward), 166);
}
