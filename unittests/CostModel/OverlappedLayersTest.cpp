//===- OverlappedLayersTest.cpp - Parts of layers on two streams ----------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Pairs that are counted by hand, and the best order compared with all orders,
// which separate code times.
//
//===----------------------------------------------------------------------===//

#include "PipeSched/CostModel/Pairs/OverlappedLayers.h"
#include "ExpertModel.h"
#include "PipeSched/CostModel/Layers/Runtime.h"
#include "PipeSched/Facts/ProfileText.h"
#include "llvm/ADT/STLExtras.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include <array>
#include <random>

using namespace pipesched;
using namespace pipesched::test;
using testing::HasSubstr;

/// Attention, dispatch, mlp, combine; each F, I and W.
static LayerTimes layer(std::array<int64_t, 3> attention, int64_t dispatchF,
                        int64_t dispatchI, std::array<int64_t, 3> mlp,
                        int64_t combineF, int64_t combineI) {
  LayerTimes times;
  times.ps = {
      attention, {dispatchF, dispatchI, 0}, mlp, {combineF, combineI, 0}};
  return times;
}

static const LayerTimes kToy = layer({4, 4, 2}, 3, 3, {6, 6, 6}, 3, 3);

static PairSchedule scheduled(llvm::ArrayRef<LayerTimes> forward,
                              llvm::ArrayRef<LayerTimes> backward,
                              PairOptions options) {
  return llvm::cantFail(schedulePair(forward, backward, options));
}

static PairOptions by(PairOrder order, bool delaysWeights = true) {
  PairOptions options;
  options.order = order;
  options.delaysWeights = delaysWeights;
  return options;
}

static std::string errorOf(llvm::ArrayRef<LayerTimes> layers,
                           const PairOptions &options) {
  auto result = schedulePair(layers, layers, options);
  return result ? "" : llvm::toString(result.takeError());
}

TEST(OverlappedLayers, FluidIsNoOrder) {
  EXPECT_EQ(errorOf(kToy, by(PairOrder::Fluid)),
            "fluid is not an order of parts; expected in-turn, deepseek, "
            "megatron, best, or a list of phases");
}

//===----------------------------------------------------------------------===//
// Counted by hand
//===----------------------------------------------------------------------===//

/// compute   | attF 0-4 | mlpI 4-10 | mlpW 10-16 | mlpF 16-22 | attI 22-26 | W
/// exchange  | combI 0-3 | dispF 4-7 | dispI 10-13 | combF 22-25
TEST(OverlappedLayers, OneLayerByHand) {
  PairSchedule pair = scheduled(kToy, kToy, by(PairOrder::DeepSeek));
  EXPECT_EQ(pair.endPs, 28);
  EXPECT_EQ(pair.forwardPs, 25);
  EXPECT_EQ(pair.gradientPs, 26);
  EXPECT_EQ(pair.computePs, 28);
  EXPECT_EQ(pair.exchangePs, 12);
  EXPECT_EQ(pair.exposedPs, 0);
  EXPECT_EQ(pair.boundPs, 28);
  EXPECT_TRUE(pair.isOptimal);
}

/// Without delayed weights dispatch.I waits for all of mlp.I:
/// compute   | attF 0-4 | mlpI 4-16 | mlpF 16-22 | attI 22-28
/// exchange  | combI 0-3 | dispF 4-7 | dispI 16-19 | combF 22-25
TEST(OverlappedLayers, WholeBackwardsByHand) {
  PairSchedule pair = scheduled(kToy, kToy, by(PairOrder::Megatron, false));
  EXPECT_EQ(pair.endPs, 28);
  EXPECT_EQ(pair.gradientPs, 28);
  EXPECT_EQ(pair.runs.size(), 8U);
}

/// Both orders put the same parts on each stream in the same order.
TEST(OverlappedLayers, DeepSeekAndMegatronEndTogether) {
  std::mt19937 random(7);
  for (int i = 0; i < 50; ++i) {
    auto t = [&] { return int64_t(random() % 9); };
    std::vector<LayerTimes> layers;
    for (int k = 0; k < 3; ++k)
      layers.push_back(
          layer({t(), t(), t()}, t(), t(), {t(), t(), t()}, t(), t()));
    EXPECT_EQ(scheduled(layers, layers, by(PairOrder::DeepSeek)).endPs,
              scheduled(layers, layers, by(PairOrder::Megatron)).endPs);
  }
}

/// Exchanges of 10 alongside compute of 1 each: the exchange stream is the
/// bound but for the first attention and the last parts. exchange  | combI 0-10
/// | dispF 10-20 | dispI 20-30 | combF 30-40 compute   attF 0-1, mlpI 10-11,
/// mlpW 11-12, mlpF 20-21, attI 30-31, attW
TEST(OverlappedLayers, SlowExchangesByHand) {
  LayerTimes slow = layer({1, 1, 1}, 10, 10, {1, 1, 1}, 10, 10);
  PairSchedule pair = scheduled(slow, slow, by(PairOrder::DeepSeek));
  EXPECT_EQ(pair.endPs, 40);
  EXPECT_EQ(pair.boundPs, 40);
  EXPECT_EQ(pair.computePs, 6);
  EXPECT_EQ(pair.exposedPs, 34);
}

TEST(OverlappedLayers, InTurnIsTheSum) {
  PairSchedule pair = scheduled({kToy, kToy}, kToy, by(PairOrder::InTurn));
  // Two forwards of 16; a backward in which mlp.W hides dispatch.I.
  EXPECT_EQ(pair.endPs, 2 * 16 + 3 + 6 + 6 + 4 + 2);
  EXPECT_EQ(scheduled({kToy, kToy}, kToy, by(PairOrder::InTurn, false)).endPs,
            2 * 16 + 24);
}

/// combine.I (3) alongside attention.F (4) at 200 percent each: 3 of the
/// exchange take 6, in which compute does 3; its last 1 takes 1.
TEST(OverlappedLayers, ContentionByHand) {
  LayerTimes forward = layer({4, 0, 0}, 0, 0, {0, 0, 0}, 0, 0);
  LayerTimes backward = layer({0, 0, 0}, 0, 0, {0, 0, 0}, 0, 3);
  PairOptions options = by(PairOrder::DeepSeek);
  options.computePercent = options.exchangePercent = 200;
  PairSchedule pair = scheduled(forward, backward, options);
  EXPECT_EQ(pair.endPs, 7);
  EXPECT_EQ(pair.exchangePs, 6);
  EXPECT_EQ(pair.exposedPs, 0);
}

//===----------------------------------------------------------------------===//
// The best order
//===----------------------------------------------------------------------===//

namespace {
/// A part of a pair of single layers, by its place in `Relaxed::parts`.
using Order = std::vector<int>;

/// Times orders in another way than the library: moves ends back until they
/// stay. Times are positive, so that ends never stay if streams wait for each
/// other.
class Relaxed {
public:
  Relaxed(const LayerTimes &forward, const LayerTimes &backward) {
    for (PartPhase what : parts)
      times.push_back(
          (what.phase == Phase::Forward ? forward : backward).of(what));
    for (PartPhase what : parts)
      needs.push_back(placeOf(needOf(what)));
  }

  Order on(Stream stream) const {
    Order order;
    for (int i = 0; i < int(parts.size()); ++i)
      if (streamOf(parts[i].part) == stream)
        order.push_back(i);
    return order;
  }

  /// -1 if streams wait for each other.
  int64_t end(const Order &compute, const Order &exchange) const {
    std::array<int64_t, 10> ends = {};
    auto relax = [&](const Order &order) {
      bool changed = false;
      int64_t previous = 0;
      for (int i : order) {
        int64_t start = needs[i] < 0 ? 0 : ends[needs[i]];
        previous = std::max(start, previous) + times[i];
        changed |= ends[i] != previous;
        ends[i] = previous;
      }
      return changed;
    };
    for (int round = 0; round <= 10; ++round) {
      bool changed = relax(compute);
      if (!relax(exchange) && !changed)
        return *std::max_element(ends.begin(), ends.end());
    }
    return -1;
  }

private:
  /// Returns the part that `what` waits for, or `what` if it waits for none.
  static PartPhase needOf(PartPhase what) {
    if (what.phase == Phase::WeightGrad)
      return {what.part, Phase::InputGrad};
    int before = int(what.part) + (what.phase == Phase::Forward ? -1 : 1);
    return before < 0 || before > 3 ? what
                                    : PartPhase{LayerPart(before), what.phase};
  }
  int placeOf(PartPhase need) const {
    int own = int(needs.size());
    int place = int(llvm::find(parts, need) - parts.begin());
    return place == own ? -1 : place;
  }

  PairPattern parts = patternOf(PairOrder::DeepSeek, true);
  std::vector<int64_t> times;
  std::vector<int> needs;
};
} // namespace

/// The first end of all 6! x 4! orders.
static int64_t bestOfAll(const LayerTimes &forward,
                         const LayerTimes &backward) {
  Relaxed relaxed(forward, backward);
  Order compute = relaxed.on(Stream::Compute);
  Order exchange = relaxed.on(Stream::Exchange);
  int64_t best = std::numeric_limits<int64_t>::max();
  do {
    do {
      if (int64_t end = relaxed.end(compute, exchange); end >= 0)
        best = std::min(best, end);
    } while (std::next_permutation(exchange.begin(), exchange.end()));
  } while (std::next_permutation(compute.begin(), compute.end()));
  return best;
}

TEST(OverlappedLayers, BestIsTheBestOfAllOrders) {
  std::mt19937 random(1);
  int better = 0;
  for (int i = 0; i < 30; ++i) {
    auto t = [&] { return int64_t(1 + random() % 12); };
    auto any = [&] {
      return layer({t(), t(), t()}, t(), t(), {t(), t(), t()}, t(), t());
    };
    LayerTimes forward = any(), backward = any();
    PairSchedule best = scheduled(forward, backward, by(PairOrder::Best));
    EXPECT_EQ(best.endPs, bestOfAll(forward, backward));
    EXPECT_TRUE(best.isOptimal);
    better += best.endPs <
              scheduled(forward, backward, by(PairOrder::DeepSeek)).endPs;
  }
  EXPECT_GT(better, 0);
}

//===----------------------------------------------------------------------===//
// Errors
//===----------------------------------------------------------------------===//

TEST(OverlappedLayers, RefusesTimes) {
  LayerTimes negative = kToy, weights = kToy, huge = kToy;
  negative.of({LayerPart::Mlp, Phase::InputGrad}) = -1;
  weights.of({LayerPart::Combine, Phase::WeightGrad}) = 5;
  huge.of({LayerPart::Mlp, Phase::Forward}) = int64_t(1) << 62;
  EXPECT_EQ(errorOf({kToy, negative}, {}),
            "layer 1 of the forward: mlp.I takes -1 ps; expected 0 or more");
  EXPECT_EQ(errorOf({weights}, {}),
            "layer 0 of the forward: combine.W takes 5 ps; an exchange has no "
            "weights");
  EXPECT_THAT(errorOf({huge}, {}), HasSubstr("the parts of the layers take"));
  PairOptions options;
  options.exchangePercent = 99;
  EXPECT_THAT(errorOf({kToy}, options), HasSubstr("expected 100 to 1000"));
}

TEST(OverlappedLayers, RefusesOrders) {
  auto parsed = [](llvm::StringRef text) {
    auto pattern = parsePairPattern(text, /*delaysWeights=*/false);
    return pattern ? "" : llvm::toString(pattern.takeError());
  };
  EXPECT_EQ(parsed("mlp.X"), "the order has 'mlp.X', which is not a phase of a "
                             "part, the closest is 'mlp.F'");
  EXPECT_EQ(parsed("mlp.F, mlp.F"), "the order has mlp.F twice");
  EXPECT_EQ(parsed("mlp.F"), "the order leaves out attention.F");
  PairOptions options = by(PairOrder::DeepSeek, false);
  options.pattern = llvm::cantFail(parsePairPattern(
      "mlp.I,attention.F,mlp.F,attention.I,dispatch.F,combine.I,dispatch.I,"
      "combine.F",
      false));
  EXPECT_EQ(errorOf({kToy}, options),
            "the order has a cycle at layer 0: mlp.I, which needs combine.I, "
            "which is issued behind dispatch.F, which needs attention.F, which "
            "is issued behind mlp.I");
}

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
  return costs.pairPs(cells.segmentsOf(Phase::Forward),
                      cells.segmentsOf(Phase::Backward));
}

TEST(OverlappedPairs, HideDispatchesBehindCompute) {
  // Compute of 60 + 150 hides 40 + 50.
  EXPECT_EQ(pairOf(costsWith(100, 40, 200, 50)), 210u);
  // Dispatches of 190 are longer than compute of 60.
  EXPECT_EQ(pairOf(costsWith(100, 90, 150, 100)), 190u);
  // A cell is never faster than by itself.
  EXPECT_EQ(pairOf(costsWith(100, 40, 300, 290)), 330u);
  EXPECT_EQ(pairOf(costsWith(10, 0, 300, 290)), 300u);
  EXPECT_EQ(pairOf(costsWith(100, 0, 200, 0)), 300u);
  StageCosts inTurn = costsWith(100, 40, 200, 50);
  inTurn.pairRule = PairRule::InTurn;
  EXPECT_EQ(pairOf(inTurn), 300u);
}

static constexpr PhaseSet kWhole =
    PhaseSet(Phase::Forward) | PhaseSet(Phase::Backward);

/// Two stages of a layer: F takes 800, 800, 200 and 800 ps for attention,
/// dispatch, mlp and combine, I 800, 800, 320 and 800, and W 800 and 200.
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

/// The rest of a cell in addition to its layers runs before or after them.
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
