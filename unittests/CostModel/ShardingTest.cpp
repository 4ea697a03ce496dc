//===- ShardingTest.cpp - Cells whose parameters peers divide -------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Times by hand and step by step, bytes counted message by message, and the
// rest for the end of a step.
//
//===----------------------------------------------------------------------===//

#include "Layers/Sharding.h"
#include "../Support/ToyCosts.h"
#include "PipeSched/CostModel/CostModel.h"
#include "PipeSched/CostModel/Memory/RuntimeBuffers.h"
#include "PipeSched/Facts/ProfileText.h"
#include "PipeSched/Schedule/Family/Families.h"
#include "gtest/gtest.h"
#include <random>

using namespace pipesched;

static constexpr PhaseSet kStep =
    PhaseSet(Phase::Forward) | PhaseSet(Phase::Backward) |
    PhaseSet(Phase::InputGrad) | PhaseSet(Phase::WeightGrad) |
    PhaseSet(Phase::AllReduce) | PhaseSet(Phase::Optimizer);

/// Six layers of F 100, I 200 and W 100 with 10 parameters each.
static ModelFacts toyModel() {
  return layersOf(
      6, 5,
      {{"linear", Engine::Matrix, {100, 60}, {200, 60}, {100, 60}, true}});
}

/// Peers gather 20 bytes in 3 (5 * 10 + 7) = 171 ps.
static SystemFacts fourPeers(Sharding sharding) {
  SystemFacts system = toySystem();
  system.dataParallel = 4;
  system.sharding = sharding;
  return system;
}

static StageCost firstOf(Sharding sharding, const ModelFacts &model,
                         PhaseSet phases = kStep) {
  return llvm::cantFail(
             costRoofline(linear(2), model, fourPeers(sharding), phases))
      .stages.front();
}

static int64_t exposed(const StageCost &cost, Phase phase) {
  return cost.cells.on(Resource::Sharding, phase).exposedPs;
}
static int64_t sent(const StageCost &cost, Phase phase) {
  return cost.cells.on(Resource::Sharding, phase).bytes;
}

//===----------------------------------------------------------------------===//
// By hand
//===----------------------------------------------------------------------===//

TEST(Sharding, WeightsAreGatheredWhileTheLayerBeforeComputes) {
  StageCost cost = firstOf(Sharding::Full, toyModel());
  EXPECT_EQ(ps(cost, Phase::Forward), 171 + 171 + 171 + 100);
  EXPECT_EQ(exposed(cost, Phase::Forward), ps(cost, Phase::Forward) - 300);
  EXPECT_EQ(ps(cost, Phase::InputGrad), 171 + 3 * 200);
  EXPECT_EQ(exposed(cost, Phase::InputGrad), 171);
  // W needs no weights.
  EXPECT_EQ(ps(cost, Phase::WeightGrad), 100 + 171 + 171 + 171);
  // While the middle layer of B computes for 300 ps, the weights of the next
  // one and the gradients of the one before need 342.
  EXPECT_EQ(ps(cost, Phase::Backward), 171 + 300 + 342 + 300 + 171);
  EXPECT_EQ(exposed(cost, Phase::Backward), ps(cost, Phase::Backward) - 900);
  EXPECT_EQ(sent(cost, Phase::Forward), 3 * 15);
  EXPECT_EQ(sent(cost, Phase::InputGrad), 3 * 15);
  EXPECT_EQ(sent(cost, Phase::WeightGrad), 3 * 15);
  EXPECT_EQ(sent(cost, Phase::Backward), 3 * 30);
  EXPECT_EQ(ps(cost, Phase::AllReduce), 0);
}

TEST(Sharding, GradientsMoveAlone) {
  StageCost cost = firstOf(Sharding::Gradients, toyModel());
  EXPECT_EQ(ps(cost, Phase::Forward), 300);
  EXPECT_EQ(ps(cost, Phase::InputGrad), 600);
  EXPECT_EQ(ps(cost, Phase::WeightGrad), 100 + 171 + 171 + 171);
  EXPECT_EQ(ps(cost, Phase::Backward), 900 + 171);
  EXPECT_EQ(sent(cost, Phase::Forward), 0);
  EXPECT_EQ(sent(cost, Phase::Backward), 3 * 15);
  // The weights of three layers are gathered when they have been stepped.
  EXPECT_EQ(ps(cost, Phase::AllReduce), 3 * (60 / 4 * 10 + 7));
}

/// Two groups of two pipelines divide the state: peers gather 20 bytes in 10 *
/// 10 + 7 = 107 ps, and at the end of a step the groups sum the 30 bytes of
/// gradients that a worker holds, in 2 (15 * 10 + 7) ps.
TEST(Sharding, GroupsOfPipelinesDivideByThemselves) {
  SystemFacts system = fourPeers(Sharding::Full);
  system.shardGroups = 2;
  auto first = [&] {
    return llvm::cantFail(costRoofline(linear(2), toyModel(), system, kStep))
        .stages.front();
  };
  EXPECT_EQ(ps(first(), Phase::Forward), 107 + 107 + 107 + 100);
  EXPECT_EQ(ps(first(), Phase::AllReduce), 314);
  auto memoryOf = [&] {
    return llvm::cantFail(computeMemoryFacts(linear(2), toyModel(), &system))
        .stages.front();
  };
  EXPECT_EQ(memoryOf().optimizerBytes, 30 * 12 / 2);
  EXPECT_EQ(memoryOf().weightBytes, 30 * 2 / 2 + 2 * 20);
  // All gradients are summed in a group, 30 * 10 + 7 ps, their halves among
  // groups, and the weights gathered in a group.
  system.sharding = Sharding::Optimizer;
  EXPECT_EQ(ps(first(), Phase::AllReduce), 307 + 314 + 307);
  EXPECT_EQ(memoryOf().weightBytes, 30 * 2);
  // Undivided state has no groups.
  system.sharding = Sharding::None;
  EXPECT_EQ(ps(first(), Phase::AllReduce), 6 * (15 * 10 + 7));
}

/// Measured times are of compute: three layers divide them, and wait as layers
/// of the roofline do.
TEST(Sharding, MeasuredCellsWaitToo) {
  SystemFacts peers = fourPeers(Sharding::Full);
  StageCosts costs =
      llvm::cantFail(costRoofline(linear(2), toyModel(), peers, kStep));
  auto measure = [&](const char *text) {
    Profile profile = llvm::cantFail(parseProfile(text));
    StageCosts timed =
        llvm::cantFail(overlayProfile(linear(2), costs, profile, kStep));
    llvm::cantFail(
        shardMeasured(linear(2), toyModel(), peers, profile, kStep, timed));
    return timed.stages.front();
  };
  StageCost cost = measure("F=600ps,FB=1000ps");
  EXPECT_EQ(ps(cost, Phase::Forward), 171 + 3 * 200);
  EXPECT_EQ(exposed(cost, Phase::Forward), 171);
  EXPECT_EQ(sent(cost, Phase::Forward), 3 * 15);
  EXPECT_EQ(ps(cost, Phase::Backward), 171 + 300 + 342 + 300 + 171);
  EXPECT_EQ(cost.overlappedPs, 1000 + 171 + exposed(cost, Phase::Backward));
  cost = measure("F=30ps,I=600ps,W=300ps");
  EXPECT_EQ(ps(cost, Phase::Forward), 3 * 171 + 10);
  EXPECT_EQ(ps(cost, Phase::InputGrad), 171 + 3 * 200);
  EXPECT_EQ(ps(cost, Phase::WeightGrad), 100 + 3 * 171);
  EXPECT_EQ(ps(cost, Phase::Backward), 171 + 300 + 342 + 300 + 171);
  EXPECT_EQ(sent(cost, Phase::Backward), 3 * 30);
}

/// Parameters that are gathered once per step, or never, cost cells nothing.
TEST(Sharding, OthersChangeNoCell) {
  StageCost none = firstOf(Sharding::None, toyModel());
  for (Sharding sharding : {Sharding::Optimizer, Sharding::FullKept}) {
    StageCost cost = firstOf(sharding, toyModel());
    for (Phase phase : {Phase::Forward, Phase::Backward, Phase::InputGrad,
                        Phase::WeightGrad, Phase::AllReduce}) {
      EXPECT_EQ(ps(cost, phase), ps(none, phase));
      EXPECT_EQ(exposed(cost, phase) + sent(cost, phase), 0);
    }
  }
  // Nor does a pipeline without peers.
  SystemFacts alone = fourPeers(Sharding::Full);
  alone.dataParallel = 1;
  StageCost cost =
      llvm::cantFail(costRoofline(linear(2), toyModel(), alone, kStep))
          .stages.front();
  EXPECT_EQ(ps(cost, Phase::Backward), ps(none, Phase::Backward));
}

/// Every peer steps the quarter of the parameters whose state it has.
TEST(Sharding, StepsAreDivided) {
  for (Sharding sharding : {Sharding::Optimizer, Sharding::Gradients,
                            Sharding::FullKept, Sharding::Full})
    EXPECT_EQ(ps(firstOf(sharding, toyModel()), Phase::Optimizer),
              (60 + 60 + 2 * 360) / 4);
}

/// A parameter takes 12 bytes, weight included; the weight is the master copy
/// of Adam or a part of it, and is read as well as written: 28 bytes.
TEST(Sharding, MasterWeightsAreReadToo) {
  ModelFacts model = toyModel();
  model.gradientBytesPerParameter = 4;
  auto bytesOf = [&](Sharding sharding, int64_t weight, int64_t optimizer) {
    model.weightBytesPerParameter = weight;
    model.optimizerBytesPerParameter = optimizer;
    // 30 parameters of a stage, 1 ps a byte, a quarter for each peer.
    return 4 * ps(firstOf(sharding, model), Phase::Optimizer) / 30;
  };
  EXPECT_EQ(bytesOf(Sharding::Full, 2, 10), 4 + 2 * (2 + 10));
  EXPECT_EQ(bytesOf(Sharding::FullKept, 4, 8), 4 + 2 * (4 + 8));
  EXPECT_EQ(bytesOf(Sharding::Full, 2, 12), 4 + 2 + 2 * 12);
  EXPECT_EQ(bytesOf(Sharding::Full, 2, 8), 4 + 2 + 2 * 8);
}

/// A backward that recomputes gathers weights once for both; an R cell gathers
/// them itself, unless it runs the core of the attention.
TEST(Sharding, RecomputationNeedsWeights) {
  ModelFacts model = toyModel();
  model.recompute = Recompute::Full;
  StageCost inside = firstOf(Sharding::Full, model);
  EXPECT_EQ(ps(inside, Phase::InputGrad), 171 + 3 * 300);
  EXPECT_EQ(ps(inside, Phase::Backward), 171 + 3 * 400 + 171);
  EXPECT_EQ(sent(inside, Phase::Backward), 3 * 30);
  PhaseSet withR = kStep | PhaseSet(Phase::Recompute);
  StageCost apart = firstOf(Sharding::Full, model, withR);
  EXPECT_EQ(ps(apart, Phase::Recompute), 171 + 171 + 171 + 100);
  EXPECT_EQ(sent(apart, Phase::Recompute), 3 * 15);
  EXPECT_EQ(ps(apart, Phase::Backward), 171 + 300 + 342 + 300 + 171);
  model.recompute = Recompute::Selective;
  model.blocks[0].kernels[0].core = true;
  StageCost core = firstOf(Sharding::Full, model, withR);
  EXPECT_EQ(ps(core, Phase::Recompute), 300);
  EXPECT_EQ(sent(core, Phase::Recompute), 0);
}

/// Workers with the same blocks sum the parts that they and their peers hold:
/// 15 of 60 bytes; half of it is sent twice.
TEST(Sharding, ReplicasSumTheirParts) {
  auto reduce = [&](Sharding sharding) {
    StageCosts costs = llvm::cantFail(
        costRoofline(mirrored(2), toyModel(), fourPeers(sharding), kStep));
    return ps(costs.stages.front(), Phase::AllReduce);
  };
  auto parts = 2 * (75 + 7);
  EXPECT_EQ(reduce(Sharding::Full), parts);
  EXPECT_EQ(reduce(Sharding::Gradients), parts + 3 * (60 / 4 * 10 + 7));
  EXPECT_EQ(reduce(Sharding::Optimizer), 14 * 75 + 14 * 7);
}

/// PyTorch runs the whole backward of a first stage in W.
TEST(Sharding, RuntimesMoveWhatIsExposed) {
  Placement placement = linear(2);
  StageCosts costs = llvm::cantFail(
      costRoofline(placement, toyModel(), fourPeers(Sharding::Full), kStep));
  llvm::cantFail(applyRuntime(Runtime::Torch, placement, costs));
  const StageCost &first = costs.stages[0], &second = costs.stages[1];
  EXPECT_EQ(exposed(first, Phase::InputGrad), 0);
  EXPECT_EQ(exposed(first, Phase::WeightGrad), 171 + 3 * 171 + 100 - 300);
  EXPECT_EQ(sent(first, Phase::WeightGrad), 2 * 3 * 15);
  EXPECT_EQ(exposed(second, Phase::InputGrad), 171);
}

static StageMemory memoryOf(Sharding sharding, const ModelFacts &model,
                            int64_t dataParallel = 4) {
  SystemFacts system = fourPeers(sharding);
  system.dataParallel = dataParallel;
  return llvm::cantFail(computeMemoryFacts(linear(2), model, &system))
      .stages.front();
}

/// A stage has 60 bytes of weights and of gradients, 20 in each layer.
TEST(Sharding, MemoryHasShardsAndWhatIsGathered) {
  ModelFacts model = toyModel();
  StageMemory full = memoryOf(Sharding::Full, model);
  EXPECT_EQ(full.weightBytes, 60 / 4 + 2 * 20);
  EXPECT_EQ(full.gradientBytes, 60 / 4 + 20);
  EXPECT_EQ(full.optimizerBytes, 360 / 4);
  StageMemory gradients = memoryOf(Sharding::Gradients, model);
  EXPECT_EQ(gradients.weightBytes, 60);
  EXPECT_EQ(gradients.gradientBytes, 60 / 4 + 20);
  StageMemory kept = memoryOf(Sharding::FullKept, model);
  EXPECT_EQ(kept.weightBytes, 60);
  EXPECT_EQ(kept.gradientBytes, 60);
  EXPECT_EQ(kept.optimizerBytes, 360 / 4);
  EXPECT_EQ(memoryOf(Sharding::Full, model, 7).weightBytes, 9 + 2 * 20);
  EXPECT_EQ(memoryOf(Sharding::Full, model, 1).weightBytes, 60);
  // An embedding of 40 parameters is before the layers; two of either kind
  // are never whole at a time.
  BlockFacts embedding = model.blocks[0];
  embedding.position = BlockPosition::First;
  embedding.count = 1;
  embedding.parameters = 40;
  model.blocks.insert(model.blocks.begin(), embedding);
  StageMemory first = memoryOf(Sharding::Full, model);
  EXPECT_EQ(first.weightBytes, 140 / 4 + 80 + 20);
  EXPECT_EQ(first.gradientBytes, 140 / 4 + 80);
}

/// The buffer into which FSDP2 gathers belongs to another stream than the
/// weights, as does the buffer into which it reduces. Gradients of one layer
/// are not yet cast to be reduced.
TEST(Sharding, TorchHasBuffersForWhatIsGatheredAndReduced) {
  ModelFacts model = toyModel();
  auto memoryOfTorch = [&](Sharding sharding) {
    SystemFacts system = fourPeers(sharding);
    MemoryFacts memory =
        llvm::cantFail(computeMemoryFacts(linear(2), model, &system));
    llvm::cantFail(
        addRuntimeBuffers(Runtime::Torch, linear(2), model, &system, memory));
    // Messages of stage 1 end with it.
    return memory.stages.back();
  };
  StageMemory full = memoryOfTorch(Sharding::Full);
  EXPECT_EQ(full.weightBytes, 60 / 4 + 2 * 20 + 2 * 20);
  EXPECT_EQ(full.gradientBytes, 60 / 4 + 20 + 20);
  StageMemory kept = memoryOfTorch(Sharding::FullKept);
  EXPECT_EQ(kept.weightBytes, 60 + 2 * 20);
  EXPECT_EQ(kept.gradientBytes, 60 + 60 / 4);
  StageMemory none = memoryOfTorch(Sharding::None);
  EXPECT_EQ(none.weightBytes, 60);
  EXPECT_EQ(none.gradientBytes, 60);
}

/// Four of ten parameters are divided among four ranks; six are experts: each
/// rank holds one half and divides it with one other.
TEST(Sharding, ExpertsAreDividedAmongThoseThatHoldTheSame) {
  ModelFacts model = toyModel();
  model.blocks[0].experts = ExpertFacts();
  model.blocks[0].experts->count = 4;
  model.blocks[0].experts->perToken = 1;
  model.blocks[0].experts->parameters = 6;
  SystemFacts system = fourPeers(Sharding::Full);
  system.expertParallel = 2;
  int64_t gather = 3 * (8 / 4 * 10 + 7) + (6 / 2 * 10 + 7);
  StageCost cost = llvm::cantFail(costRoofline(linear(2), model, system, kStep))
                       .stages.front();
  EXPECT_EQ(ps(cost, Phase::Forward), 3 * gather + 100);
  EXPECT_EQ(sent(cost, Phase::Forward), 3 * (3 * 8 / 4 + 6 / 2));
  StageMemory memory =
      llvm::cantFail(computeMemoryFacts(linear(2), model, &system))
          .stages.front();
  EXPECT_EQ(memory.weightBytes, 60 / 4 + 2 * (8 + 6));
  EXPECT_EQ(memory.gradientBytes, 60 / 4 + (8 + 6));
  system.sharding = Sharding::Gradients;
  EXPECT_EQ(ps(llvm::cantFail(costRoofline(linear(2), model, system, kStep))
                   .stages.front(),
               Phase::AllReduce),
            3 * (24 / 4 * 10 + 7) + (18 / 2 * 10 + 7));
}

/// Ranks that divide a sequence hold the same layers, and divide them too: two
/// of a worker over its link, two workers over the network.
TEST(Sharding, RanksOfASequenceDivideLayers) {
  SystemFacts system = fourPeers(Sharding::Full);
  system.link = {1000000000000, 3, {}};
  llvm::cantFail(setAccelerators(system, 2));
  system.contextParallel = system.dataParallel = 2;
  StageCost cost =
      llvm::cantFail(costRoofline(linear(2), toyModel(), system, kStep))
          .stages.front();
  int64_t gather = (20 / 2 + 3) + (10 * 10 / 2 + 7);
  EXPECT_EQ(ps(cost, Phase::Forward), 3 * gather + 50);
  EXPECT_EQ(sent(cost, Phase::Forward), 3 * (20 + 10));
  StageMemory memory =
      llvm::cantFail(computeMemoryFacts(linear(2), toyModel(), &system))
          .stages.front();
  EXPECT_EQ(memory.weightBytes, 60 / 2 + 2 * 2 * 20);
}

/// Stages of a worker run one at a time, so the weights that one of them
/// gathers are held once.
TEST(Sharding, AWorkerGathersForOneStageAtATime) {
  SystemFacts system = fourPeers(Sharding::Full);
  MemoryFacts memory =
      llvm::cantFail(computeMemoryFacts(mirrored(2), toyModel(), &system));
  int64_t weights = 0, gradients = 0;
  Placement placement = mirrored(2);
  for (auto [stage, each] : llvm::enumerate(memory.stages))
    if (placement.workerOf(stage) == 0) {
      weights += each.weightBytes;
      gradients += each.gradientBytes;
    }
  EXPECT_EQ(weights, 2 * 60 / 4 + 2 * 20);
  EXPECT_EQ(gradients, 2 * 60 / 4 + 20);
}

//===----------------------------------------------------------------------===//
// Step by step
//===----------------------------------------------------------------------===//

/// Runs the streams of a cell layer by layer: one computes, one moves.
/// Transfers for neighbours of a layer start with that layer, which nothing
/// overtakes.
static double simulate(llvm::ArrayRef<ShardedBlocks> runs) {
  std::vector<ShardedBlocks> layers;
  for (const ShardedBlocks &run : runs)
    layers.insert(layers.end(), run.count, run);
  double compute = 0, move = 0;
  for (size_t i = 0; i < layers.size(); ++i) {
    if (i == 0)
      move += layers[i].gatherPs;
    double begin = std::max(compute, move);
    move = begin;
    if (i + 1 < layers.size())
      move += layers[i + 1].gatherPs;
    if (i > 0)
      move += layers[i - 1].scatterPs;
    compute = begin + layers[i].computePs;
  }
  double end = std::max(compute, move);
  return layers.empty() ? end : end + layers.back().scatterPs;
}

TEST(Sharding, RunsOfLayersAreThoseOfEachLayer) {
  std::mt19937 random(7);
  auto upTo = [&](int most) { return int(random() % (most + 1)); };
  for (int round = 0; round < 500; ++round) {
    std::vector<ShardedBlocks> runs(upTo(4));
    double compute = 0, moved = 0;
    for (ShardedBlocks &run : runs) {
      run = {upTo(5), double(upTo(20)), double(upTo(20)), double(upTo(20))};
      compute += double(run.count) * run.computePs;
      moved += double(run.count) * (run.gatherPs + run.scatterPs);
    }
    double ps = prefetchedPs(runs);
    EXPECT_EQ(ps, simulate(runs));
    EXPECT_GE(ps, std::max(compute, moved));
    EXPECT_LE(ps, compute + moved);
  }
}
