//===- ContextParallelTest.cpp - Sequences divided over ranks -------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The ring of keys and values, simulated rank by rank and step by step, and the
// toy system by hand.
//
//===----------------------------------------------------------------------===//

#include "../Support/ErrorText.h"
#include "../Support/ToyCosts.h"
#include "PipeSched/CostModel/Layers/Runtime.h"
#include "PipeSched/Facts/ProfileText.h"
#include "gtest/gtest.h"
#include <numeric>

using namespace pipesched;

static constexpr PhaseSet kSplit = PhaseSet(Phase::Forward) |
                                   PhaseSet(Phase::InputGrad) |
                                   PhaseSet(Phase::WeightGrad);

/// Two layers of attention on 4 ps of each of `accelerators`, and 240 bytes of
/// keys and values.
static ModelFacts attentionModel(int64_t attentionPs, int64_t accelerators) {
  BlockFacts block;
  block.name = "layer";
  block.count = 2;
  block.parameters = 10;
  block.activationBytes = 100;
  int64_t flops = attentionPs * accelerators;
  Kernel exchange = {"exchange", Engine::Context, {0, 240}, {0, 480}, {}};
  Kernel attention = {
      "attention", Engine::Matrix, {flops, 0}, {2 * flops, 0}, {}};
  exchange.core = attention.core = true;
  block.kernels = {exchange, attention};
  ModelFacts model;
  model.name = "attention";
  model.sequence = 96;
  model.boundaryBytes = 5;
  model.blocks = {block};
  return model;
}

/// A link byte takes 1 ps, a network byte of an accelerator 10 per accelerator.
static SystemFacts ring(int64_t degree, int64_t latencyPs = 0) {
  SystemFacts system = toySystem();
  system.accelerators = system.contextParallel = degree;
  system.link = {1000000000000, latencyPs, {}};
  return system;
}

static StageCost firstCost(const ModelFacts &model, const SystemFacts &system,
                           PhaseSet phases = kSplit) {
  return llvm::cantFail(costRoofline(linear(2), model, system, phases))
      .stages.front();
}

/// The exchange of ranks in a phase: ps, exposed ps, bytes.
using Exchanged = std::tuple<int64_t, int64_t, int64_t>;
static Exchanged context(const StageCost &cost, Phase phase) {
  Exchange found = cost.cells.on(Resource::Context, phase);
  return {found.ps, found.exposedPs, found.bytes};
}

//===----------------------------------------------------------------------===//
// Simulation
//===----------------------------------------------------------------------===//

namespace {
/// The time of a ring, and the part of it in which data is on its way.
struct RingPs {
  int64_t all = 0, sends = 0;
};

/// One rank of a ring: when it may start its next step, and the block that it
/// holds.
struct Rank {
  int64_t ready = 0;               ///< its step and its waits are done
  int64_t block = 0;               ///< of keys and values that it works on
  std::vector<int64_t> seen;       ///< blocks that it has worked on
  int64_t sentBytes = 0;           ///< in all
  int64_t gradient = -1;           ///< block whose gradients it passes on
  std::vector<int64_t> gradientOf; ///< who has added to them
};

/// All ranks of a ring in lockstep: data that they send while they compute has
/// to arrive before the next step starts.
class Ring {
public:
  Ring(int64_t degree, int64_t part, int64_t latencyPs)
      : part(part), latencyPs(latencyPs), ranks(degree) {
    for (int64_t r = 0; r < degree; ++r)
      ranks[r].block = r;
  }

  RingPs runForward(int64_t stepPs) {
    RingPs now;
    int64_t degree = size();
    for (int64_t number = 0; number < degree; ++number) {
      bool passesOn = number + 1 < degree;
      for (Rank &rank : ranks)
        rank.seen.push_back(rank.block);
      step(stepPs, passesOn ? part : 0, now);
      if (passesOn)
        rotateBlocks();
    }
    return now;
  }

  /// The gradients of a block that a rank has computed are sent to the next
  /// rank, which adds its own; in the end they are where the block started.
  RingPs runBackward(int64_t stepPs) {
    RingPs now;
    int64_t degree = size();
    for (int64_t number = 0; number < degree; ++number) {
      bool passesOn = number + 1 < degree;
      int64_t bytes = (passesOn ? part : 0) + (number > 0 ? part : 0);
      for (Rank &rank : ranks)
        rank.seen.push_back(rank.block);
      step(stepPs, bytes, now);
      if (number > 0)
        rotateGradients();
      for (auto [own, rank] : llvm::enumerate(ranks)) {
        if (number == 0)
          rank.gradient = rank.block;
        EXPECT_EQ(rank.gradient, rank.block);
        rank.gradientOf.push_back(int64_t(own));
      }
      if (passesOn)
        rotateBlocks();
    }
    step(/*stepPs=*/0, part, now);
    rotateGradients();
    return now;
  }

  const std::vector<Rank> &getRanks() const { return ranks; }

  int64_t sentBytes() const {
    int64_t sum = 0;
    for (const Rank &rank : ranks)
      sum += rank.sentBytes;
    return sum;
  }

private:
  int64_t size() const { return int64_t(ranks.size()); }

  /// Until the step is done and the data of every rank has arrived; a byte
  /// takes 1 ps.
  void step(int64_t stepPs, int64_t bytes, RingPs &now) {
    for (Rank &rank : ranks)
      rank.sentBytes += bytes;
    int64_t sends = bytes == 0 ? 0 : bytes + latencyPs;
    now.all += std::max(stepPs, sends);
    now.sends += sends;
  }
  /// Rank r gets the block of rank r - 1.
  void rotateBlocks() {
    int64_t last = ranks.back().block;
    for (int64_t r = size() - 1; r > 0; --r)
      ranks[r].block = ranks[r - 1].block;
    ranks[0].block = last;
  }
  void rotateGradients() {
    auto last = std::pair(ranks.back().gradient, ranks.back().gradientOf);
    for (int64_t r = size() - 1; r > 0; --r)
      std::tie(ranks[r].gradient, ranks[r].gradientOf) =
          std::pair(ranks[r - 1].gradient, ranks[r - 1].gradientOf);
    std::tie(ranks[0].gradient, ranks[0].gradientOf) = last;
  }

  int64_t part, latencyPs;
  std::vector<Rank> ranks;
};
} // namespace

/// The numbers below `count` in either representation of a list.
static bool isAllBelow(std::vector<int64_t> list, int64_t count) {
  llvm::sort(list);
  std::vector<int64_t> all(count);
  std::iota(all.begin(), all.end(), 0);
  return list == all;
}

/// The cost model's time of a layer equals the time of the simulated ring,
/// whichever is longer, attention or transfers. In the ring every rank sees
/// every block, and sends its part of keys and values c - 1 times, and of
/// gradients c times.
TEST(ContextParallel, RingsTakeAsLongAsStepByStep) {
  for (int64_t degree : {2, 3, 4, 6, 8})
    for (int64_t stepPs : {0, 10, 40, 70, 130, 500})
      for (int64_t latencyPs : {0, 9}) {
        SCOPED_TRACE(testing::Message() << degree << " ranks, steps of "
                                        << stepPs << " ps, " << latencyPs);
        int64_t part = 240 / degree;
        Ring forward(degree, part, latencyPs);
        RingPs forwardPs = forward.runForward(stepPs);
        Ring backward(degree, part, latencyPs);
        RingPs backwardPs = backward.runBackward(2 * stepPs);
        for (auto [number, rank] : llvm::enumerate(forward.getRanks())) {
          EXPECT_TRUE(isAllBelow(rank.seen, degree));
          EXPECT_EQ(rank.sentBytes, (degree - 1) * part);
        }
        for (auto [number, rank] : llvm::enumerate(backward.getRanks())) {
          EXPECT_EQ(rank.gradient, int64_t(number));
          EXPECT_TRUE(isAllBelow(rank.gradientOf, degree));
          EXPECT_EQ(rank.sentBytes, (2 * degree - 1) * part);
        }
        StageCost cost = firstCost(attentionModel(stepPs * degree, degree),
                                   ring(degree, latencyPs));
        EXPECT_EQ(ps(cost, Phase::Forward), forwardPs.all);
        EXPECT_EQ(ps(cost, Phase::InputGrad), backwardPs.all);
        EXPECT_EQ(context(cost, Phase::Forward),
                  (Exchanged{forwardPs.sends, forwardPs.all - degree * stepPs,
                             forward.sentBytes()}));
        EXPECT_EQ(
            context(cost, Phase::InputGrad),
            (Exchanged{backwardPs.sends, backwardPs.all - 2 * degree * stepPs,
                       backward.sentBytes()}));
      }
}

//===----------------------------------------------------------------------===//
// By hand
//===----------------------------------------------------------------------===//

/// Nothing hides a gather: three times 60 + 9, and again in the backward, with
/// a reduce-scatter of gradients.
TEST(ContextParallel, GathersAreSeen) {
  SystemFacts system = ring(4, 9);
  system.contextExchange = ContextExchange::Gather;
  StageCost cost = firstCost(attentionModel(400, 4), system);
  EXPECT_EQ(ps(cost, Phase::Forward), 400 + 3 * 69);
  EXPECT_EQ(ps(cost, Phase::InputGrad), 800 + 6 * 69);
  EXPECT_EQ(context(cost, Phase::Forward),
            (Exchanged{3 * 69, 3 * 69, 4 * 3 * 60}));
  EXPECT_EQ(context(cost, Phase::InputGrad),
            (Exchanged{6 * 69, 6 * 69, 4 * 6 * 60}));
}

/// Two ranks on each of two nodes. A ring is as slow as its slowest part: 60
/// bytes of 40 ps and 7. A gather crosses nodes once, 60 bytes, and then uses
/// the link with 120.
TEST(ContextParallel, RingsMaySpanNodes) {
  SystemFacts system = ring(4, 9);
  system.acceleratorsPerNode = 2;
  EXPECT_EQ(ps(firstCost(attentionModel(400, 4), system), Phase::Forward),
            400 + 3 * (60 * 40 + 7 - 100));
  system.contextExchange = ContextExchange::Gather;
  EXPECT_EQ(ps(firstCost(attentionModel(400, 4), system), Phase::Forward),
            400 + (60 * 40 + 7) + (120 + 9));
}

/// Recomputation runs the attention and its exchange again.
TEST(ContextParallel, RecomputePassesOnAgain) {
  for (Recompute recompute : {Recompute::Full, Recompute::Selective}) {
    ModelFacts model = attentionModel(200, 4);
    model.recompute = recompute;
    // In the backward steps of 100 ps hide 69, not 129 twice, and not the end.
    EXPECT_EQ(ps(firstCost(model, ring(4, 9)), Phase::InputGrad),
              400 + 2 * 29 + 69 + (200 + 3 * 19));
    // For I: 69 + 2 x 129 + 69 + 69, and 3 x 69 of the part that runs again.
    StageCost cost = firstCost(model, ring(4, 9));
    for (Phase phase : {Phase::InputGrad, Phase::Backward})
      EXPECT_EQ(context(cost, phase),
                (Exchanged{465 + 207, 2 * 29 + 69 + 3 * 19,
                           4 * (3 + 4) * 60 + 4 * 3 * 60}));
  }
}

/// A measured time does not say which part is an exchange; work that PyTorch
/// runs in W has its exchange there.
TEST(ContextParallel, FollowsTimesThatMove) {
  StageCosts costs = llvm::cantFail(
      costRoofline(linear(2), attentionModel(400, 4), ring(4, 9), kSplit));
  Exchanged backward = context(costs.stages[0], Phase::InputGrad);
  EXPECT_GT(std::get<2>(backward), 0);
  llvm::cantFail(applyRuntime(Runtime::Torch, linear(2), costs));
  EXPECT_EQ(context(costs.stages[0], Phase::InputGrad), Exchanged());
  EXPECT_EQ(context(costs.stages[0], Phase::WeightGrad), backward);
  EXPECT_EQ(context(costs.stages[1], Phase::InputGrad), backward);
  costs = llvm::cantFail(overlayProfile(linear(2), std::move(costs),
                                        llvm::cantFail(parseProfile("F=1ns")),
                                        kSplit));
  EXPECT_EQ(context(costs.stages[0], Phase::Forward), Exchanged());
  EXPECT_EQ(context(costs.stages[0], Phase::WeightGrad), backward);
}

/// Four accelerators; two divide the widths: their all-reduce has half of the
/// payload, for their half of the tokens.
TEST(ContextParallel, TensorGroupsReduceTheirTokens) {
  SystemFacts system = ring(4);
  system.contextParallel = 2;
  ModelFacts model = attentionModel(400, 4);
  model.blocks[0].kernels = {
      {"reduce", Engine::Link, {0, 40}, {}, {}},
      {"whole", Engine::Matrix, {100, 0}, {}, {}, true, false, true}};
  // 2 (2 - 1)/2 of 20 bytes; each rank does all of a kernel for half the
  // tokens.
  EXPECT_EQ(ps(firstCost(model, system), Phase::Forward), 20 + 50);
  system.contextParallel = 1;
  EXPECT_EQ(ps(firstCost(model, system), Phase::Forward), 60 + 100);
}

/// Each half of four accelerators holds all parameters, and half of the tokens;
/// whole tensors are there twice, not four times.
TEST(ContextParallel, MemoryOfAWorker) {
  SystemFacts system = ring(4);
  ModelFacts model = attentionModel(400, 4);
  model.blocks[0].whole.activation = 30;
  auto memoryOf = [&](int64_t degree) {
    system.contextParallel = degree;
    return llvm::cantFail(computeMemoryFacts(linear(2), model, &system))
        .stages.front();
  };
  EXPECT_EQ(memoryOf(1).weightBytes, 20);
  EXPECT_EQ(memoryOf(1).activationBytes, 100 + 3 * 30);
  StageMemory memory = memoryOf(2);
  EXPECT_EQ(memory.weightBytes, 40);
  EXPECT_EQ(memory.gradientBytes, 40);
  EXPECT_EQ(memory.optimizerBytes, 240);
  EXPECT_EQ(memory.activationBytes, 100 + 30);
  system.sharding = Sharding::Optimizer;
  system.dataParallel = 3;
  EXPECT_EQ(memoryOf(2).weightBytes, 40);
  EXPECT_EQ(memoryOf(2).optimizerBytes, 120 / 3);
}

/// Ranks that divide a sequence sum their gradients, also in one pipeline: 20
/// bytes each, in a ring of two over the link, which has 2 x 1 bytes per ps.
TEST(ContextParallel, GradientsAreReducedOverTheSequence) {
  SystemFacts system = ring(2, 9);
  PhaseSet phases =
      kSplit | PhaseSet(Phase::AllReduce) | PhaseSet(Phase::Optimizer);
  StageCost cost = firstCost(attentionModel(400, 2), system, phases);
  EXPECT_EQ(ps(cost, Phase::AllReduce), 2 * (20 / 2 + 9));
  // Both step all ten parameters: 28 bytes each.
  EXPECT_EQ(ps(cost, Phase::Optimizer), 280);
  // Two pipelines: the ring has two members on each of two workers. Over the
  // link 40 bytes as before, over the network half of them: 2 x 10 x 10 + 7.
  system.dataParallel = 2;
  system.sharding = Sharding::Optimizer;
  cost = firstCost(attentionModel(400, 2), system, phases);
  EXPECT_EQ(ps(cost, Phase::AllReduce), 2 * (10 + 9) + 2 * (10 * 10 + 7));
  EXPECT_EQ(ps(cost, Phase::Optimizer), 280 / 2 / 2);
}

TEST(ContextParallel, SaysWhatDoesNotDivide) {
  ModelFacts model = attentionModel(400, 4);
  model.sequence = 100;
  auto fail = [&](const SystemFacts &system) {
    return errorOf(costRoofline(linear(2), model, system, kSplit));
  };
  EXPECT_EQ(fail(ring(4)),
            "sequences of 100 tokens are not divided into the 8 equal pieces "
            "of 4-way context parallelism, two for each rank; the nearest that "
            "are have 96 and 104 tokens");
  SystemFacts system = ring(4);
  system.contextParallel = 3;
  EXPECT_EQ(fail(system), "system 'toy': 3-way context parallelism does not "
                          "divide the 4 accelerators of a worker; the nearest "
                          "degrees that do are 2 and 4");
  model.sequence = 0; // not known
  EXPECT_TRUE(bool(costRoofline(linear(2), model, ring(4), kSplit)));
}
