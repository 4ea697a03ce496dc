//===- TrainingStepTest.cpp - Parts of a whole step -----------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Data-parallel pipelines, nodes, sharding, sequence parallelism, 8-bit floats
// and the optimizer, in numbers that can be checked by hand.
//
//===----------------------------------------------------------------------===//

#include "../Support/ErrorText.h"
#include "../Support/ToyCosts.h"
#include "PipeSched/Evaluation/Sweep.h"
#include "gtest/gtest.h"

using namespace pipesched;

static constexpr PhaseSet kStep =
    PhaseSet(Phase::Forward) | PhaseSet(Phase::Backward) |
    PhaseSet(Phase::AllReduce) | PhaseSet(Phase::Optimizer);

/// The toy system with a link between accelerators: 1 ps per byte and 3 ps
/// latency.
static SystemFacts linkedSystem() {
  SystemFacts system = toySystem();
  system.link = {1000000000000, 3, {}};
  return system;
}

/// Four layers of 10 parameters, which take 2, 2 and 12 bytes each.
static ModelFacts toyModel() {
  ModelFacts model =
      layersOf(4, 40,
               {{"linear", Engine::Matrix, {100, 60}, {200, 60}, {100, 60}},
                {"norm", Engine::Vector, {3, 20}, {3, 40}, {}}});
  model.sequence = 27720; // equal slices up to 12
  return model;
}

static StageCosts cost(int64_t stages, const ModelFacts &model,
                       const SystemFacts &system) {
  return llvm::cantFail(costRoofline(linear(stages), model, system, kStep));
}

//===----------------------------------------------------------------------===//
// Data parallelism
//===----------------------------------------------------------------------===//

/// Two layers on each of two workers: 20 parameters, 40 bytes of gradients.
TEST(DataParallel, PeersReduceAsRings) {
  SystemFacts system = linkedSystem();
  EXPECT_EQ(ps(cost(2, toyModel(), system).stages[0], Phase::AllReduce), 0);
  system.dataParallel = 4;
  EXPECT_EQ(ps(cost(2, toyModel(), system).stages[0], Phase::AllReduce),
            6 * (40 / 4 * 10 + 7));
  // All members are on one node.
  system.acceleratorsPerNode = 8;
  EXPECT_EQ(ps(cost(2, toyModel(), system).stages[0], Phase::AllReduce),
            6 * (40 / 4 * 1 + 3));
  // Two members on each of two nodes.
  system.acceleratorsPerNode = 2;
  EXPECT_EQ(ps(cost(2, toyModel(), system).stages[0], Phase::AllReduce),
            2 * (40 / 2 * 1 + 3) + 2 * (40 / 4 * 10 + 7));
}

/// The state is divided, and each peer updates the part whose state it has. If
/// weights are wider than gradients, gathering takes longer than reducing.
TEST(DataParallel, ShardingDividesTheOptimizer) {
  SystemFacts system = linkedSystem();
  system.dataParallel = 4;
  EXPECT_EQ(ps(cost(2, toyModel(), system).stages[0], Phase::Optimizer),
            20 * (2 + 2 + 2 * 12));
  ModelFacts model = toyModel();
  for (Sharding sharding : {Sharding::Optimizer, Sharding::FullKept}) {
    system.sharding = sharding;
    model.weightBytesPerParameter = 2;
    StageCosts stageCosts = cost(2, model, system);
    EXPECT_EQ(ps(stageCosts.stages[0], Phase::Optimizer),
              20 / 4 * (2 + 2 + 2 * 12));
    EXPECT_EQ(ps(stageCosts.stages[0], Phase::AllReduce),
              6 * (40 / 4 * 10 + 7));
    model.weightBytesPerParameter = 4;
    EXPECT_EQ(ps(cost(2, model, system).stages[0], Phase::AllReduce),
              3 * (40 / 4 * 10 + 7) + 3 * (80 / 4 * 10 + 7));
    MemoryFacts memory =
        llvm::cantFail(computeMemoryFacts(linear(2), model, &system));
    EXPECT_EQ(memory.stages[0].weightBytes, 20 * 4);
    EXPECT_EQ(memory.stages[0].gradientBytes, 20 * 2);
    EXPECT_EQ(memory.stages[0].optimizerBytes, 20 * 12 / 4);
  }
  system.dataParallel = 7; // 240 / 7
  EXPECT_EQ(llvm::cantFail(computeMemoryFacts(linear(2), model, &system))
                .stages[0]
                .optimizerBytes,
            35);
}

/// The global batch is the batch of all pipelines.
TEST(DataParallel, PipelinesShareTheBatch) {
  Architecture architecture;
  architecture.name = "some";
  architecture.globalBatch = 64;
  EXPECT_EQ(llvm::cantFail(microbatchSizeOf(architecture, 0, 8, 4)), 2);
  EXPECT_EQ(llvm::cantFail(microbatchSizeOf(architecture, 96, 8, 4)), 3);
  EXPECT_EQ(errorOf(microbatchSizeOf(architecture, 48, 8, 4)),
            "8 microbatches in each of 4 pipelines, 32 in all, which do not "
            "divide the global batch of 48; numbers that do: 24 and 48");
}

//===----------------------------------------------------------------------===//
// Nodes
//===----------------------------------------------------------------------===//

/// Four workers on two nodes: 40 bytes take 40 ps inside and 400 ps between.
TEST(Nodes, MessagesTakeTheLinkInside) {
  SystemFacts system = linkedSystem();
  system.acceleratorsPerNode = 2;
  StageCosts stageCosts = cost(4, toyModel(), system);
  EXPECT_EQ(stageCosts.stages[0].activation.occupancyPs, 40);
  EXPECT_EQ(stageCosts.stages[0].activation.latencyPs, 3);
  EXPECT_EQ(stageCosts.stages[1].gradient.occupancyPs, 40);
  EXPECT_EQ(stageCosts.stages[1].activation.occupancyPs, 400);
  EXPECT_EQ(stageCosts.stages[1].activation.latencyPs, 7);
  EXPECT_EQ(stageCosts.stages[2].gradient.occupancyPs, 400);
  EXPECT_EQ(stageCosts.stages[2].activation.occupancyPs, 40);
  // Peers are between the workers.
  system.dataParallel = 2;
  EXPECT_EQ(cost(4, toyModel(), system).stages[0].activation.occupancyPs, 400);
  system.rankOrder = RankOrder::Pipeline;
  EXPECT_EQ(cost(4, toyModel(), system).stages[0].activation.occupancyPs, 40);
}

//===----------------------------------------------------------------------===//
// Sequence parallelism
//===----------------------------------------------------------------------===//

TEST(SequenceParallel, WholeBytesAreThereAsOftenAsAccelerators) {
  SystemFacts system = linkedSystem();
  llvm::cantFail(setAccelerators(system, 4));
  ModelFacts model = toyModel();
  model.blocks[0].coreBytes = 5;
  model.blocks[0].whole = {10, 6, 8};
  auto memoryOf = [&](Recompute recompute) {
    model.recompute = recompute;
    return llvm::cantFail(computeMemoryFacts(linear(2), model, &system))
        .stages[0];
  };
  StageMemory none = memoryOf(Recompute::None);
  EXPECT_EQ(none.activationBytes, 2 * (50 + 3 * 10));
  EXPECT_EQ(none.inputGradFreedBytes, 2 * (50 + 30 - (20 + 3 * 6)));
  EXPECT_EQ(none.boundaryBytes, 2 * (8 + 3 * 8));
  StageMemory selective = memoryOf(Recompute::Selective);
  EXPECT_EQ(selective.activationBytes, 2 * (45 + 3 * 10));
  EXPECT_EQ(selective.workingBytes, 5);
  StageMemory full = memoryOf(Recompute::Full);
  EXPECT_EQ(full.activationBytes, 2 * (8 + 3 * 8));
  EXPECT_EQ(full.workingBytes, 50 - 8 + 3 * (10 - 8));
}

static Architecture gpt() {
  Architecture arch;
  arch.name = "gpt";
  arch.hidden = 8;
  arch.feedforward = 32;
  arch.sequence = 16;
  arch.layers = 2;
  arch.attentionHeads = arch.keyValueHeads = 2;
  arch.attentionWidth = 8;
  arch.dropout = true;
  arch.vocabulary = 64;
  return arch;
}

/// Without it 10 s b h of a layer are not divided, with it everything is (arXiv
/// 2205.05198, equations 2 and 4).
TEST(SequenceParallel, TenStreamsAreWholeWithout) {
  Architecture arch = gpt();
  ExpansionOptions options;
  options.microbatchSize = 3;
  int64_t sbh = 16 * 3 * 8;
  for (Attention attention : {Attention::Unfused, Attention::Fused}) {
    arch.attention = attention;
    options.sequenceParallel = true;
    ModelFacts with = llvm::cantFail(expandArchitecture(arch, options));
    options.sequenceParallel = false;
    ModelFacts without = llvm::cantFail(expandArchitecture(arch, options));
    EXPECT_EQ(with.blocks[1].whole, WholeBytes());
    EXPECT_EQ(without.blocks[1].whole.activation, 10 * sbh);
    EXPECT_EQ(without.blocks[1].whole.recomputed, 2 * sbh);
    // Inputs of norms and of the kernels after them, and four gradients: of
    // both norms, and of both branches' outputs.
    EXPECT_EQ(without.blocks[1].whole.weightGrad, 8 * sbh + 8 * sbh);
    for (const Kernel &kernel : without.blocks[1].kernels)
      EXPECT_EQ(kernel.whole,
                llvm::is_contained({"attn_fork", "ln1", "ln2", "mlp_fork",
                                    "drop1", "drop2", "res1", "res2"},
                                   llvm::StringRef(kernel.name)))
          << kernel.name;
    // Everything else is the same.
    for (BlockFacts &block : without.blocks) {
      block.whole = {};
      for (Kernel &kernel : block.kernels)
        kernel.whole = false;
    }
    EXPECT_EQ(without, with);
  }
}

//===----------------------------------------------------------------------===//
// 8-bit floats
//===----------------------------------------------------------------------===//

TEST(Precision, LinearLayersRunAtTheirRate) {
  SystemFacts system = linkedSystem();
  ModelFacts model = toyModel();
  model.blocks[0].kernels[0].engine = Engine::MatrixFp8;
  EXPECT_EQ(errorOf(costRoofline(linear(2), model, system, kStep)),
            "kernel 'linear' of block 'layer' is in FP8, for which the system "
            "'toy' has no rate; state its matrix.fp8_tflops, or choose another "
            "precision");
  EXPECT_EQ(errorOf(costBlocks(model, system)),
            "kernel 'linear' of block 'layer' is in FP8, for which the system "
            "'toy' has no rate; state its matrix.fp8_tflops, or choose another "
            "precision");
  system.matrix.fp8FlopsPerSecond = 4 * system.matrix.flopsPerSecond;
  // 60 ps of bytes hide 25 ps of FLOPs; the norm does not change.
  EXPECT_EQ(ps(cost(2, model, system).stages[0], Phase::Forward),
            2 * (60 + 30));
  model.blocks[0].kernels[0].forward.bytes = 0;
  EXPECT_EQ(ps(cost(2, model, system).stages[0], Phase::Forward),
            2 * (25 + 30));
  // Only the rate of 8-bit floats has this curve.
  system.matrix.fp8Efficiency = EfficiencyCurve{{{0, 500000}}};
  EXPECT_EQ(ps(cost(2, model, system).stages[0], Phase::Forward),
            2 * (50 + 30));
  model.blocks[0].kernels[0].engine = Engine::MatrixFp4;
  EXPECT_EQ(errorOf(costBlocks(model, system)),
            "kernel 'linear' of block 'layer' is in NVFP4, for which the "
            "system 'toy' has no rate; state its matrix.fp4_tflops, or choose "
            "another precision");
  system.matrix.fp4FlopsPerSecond = 10 * system.matrix.flopsPerSecond;
  // 10 ps at the peak, of which 4-bit floats reach as much as 8-bit ones.
  EXPECT_EQ(ps(cost(2, model, system).stages[0], Phase::Forward),
            2 * (20 + 30));
  EXPECT_EQ(peakFlopsPerSecond(system, Engine::MatrixFp4),
            10 * peakFlopsPerSecond(system, Engine::Matrix));
  model.blocks[0].kernels[0].engine = Engine::Matrix;
  EXPECT_EQ(ps(cost(2, model, system).stages[0], Phase::Forward),
            2 * (100 + 30));
}

TEST(Precision, AttentionAndHeadStay) {
  ExpansionOptions options;
  options.precision = Precision::FP8;
  ModelFacts model = llvm::cantFail(expandArchitecture(gpt(), options));
  std::vector<std::string> narrow;
  for (const BlockFacts &block : model.blocks)
    for (const Kernel &kernel : block.kernels)
      if (kernel.engine == Engine::MatrixFp8)
        narrow.push_back(kernel.name);
  EXPECT_EQ(narrow, std::vector<std::string>({"qkv", "proj", "mlp1", "mlp2"}));
}

//===----------------------------------------------------------------------===//
// The end of a step
//===----------------------------------------------------------------------===//

/// F of 1, B of 2, G of 3 and O of 1 on one worker with two stages:
///
///   none        0F0 1F0 1B0 1B0 0B0 0B0                              6
///   overlapped                  1G0 1G0 1G0 0G0 0G0 0G0
///               0F0 1F0 1B0 1B0 0B0 0B0  .  1O0  .   .  0O0         11
///   exposed                             0G0 0G0 0G0 1G0 1G0 1G0
///               0F0 1F0 1B0 1B0 0B0 0B0  .   .   .  0O0  .   .  1O0 13
TEST(OptimizerStep, ReductionsHideBehindComputeOrNot) {
  CostSources costs;
  costs.profile.emplace();
  auto set = [&](Phase phase, int64_t time) {
    costs.profile->phasePs[phase] = {time};
  };
  set(Phase::Forward, 1);
  set(Phase::Backward, 2);
  set(Phase::AllReduce, 3);
  set(Phase::Optimizer, 1);
  Configuration configuration;
  configuration.problem.family = findFamily("interleaved-1f1b");
  configuration.problem.workers = 1;
  configuration.problem.microbatches = 1;
  configuration.problem.options.chunks = 2;
  configuration.costs = &costs;
  auto evaluated = [&](std::optional<ReductionPlace> place) {
    configuration.optimizerStep = place;
    return llvm::cantFail(evaluateConfiguration(configuration));
  };
  auto makespanOf = [](const EvaluatedTable &table) {
    return table.result.evaluation.totals.makespanPs;
  };
  EvaluatedTable none = evaluated(std::nullopt);
  EXPECT_EQ(makespanOf(none), 6);
  EXPECT_EQ(none.result.family, "interleaved-1f1b");
  EvaluatedTable overlapped = evaluated(ReductionPlace::Eager);
  EXPECT_EQ(makespanOf(overlapped), 11);
  EXPECT_EQ(overlapped.result.name, "interleaved-1f1b");
  EXPECT_EQ(overlapped.result.family, "");
  EXPECT_FALSE(overlapped.result.evaluation.formula);
  EXPECT_EQ(makespanOf(evaluated(ReductionPlace::End)), 13);
}

/// The all-reduce of the only stage of four layers; each computes 130 in F, 240
/// in I and 100 in W, and reduces a quarter of 20 bytes six times.
static MessageCost reduceStage(const SystemFacts &system, PhaseSet phases) {
  Placement placement = linear(1);
  Replicas replicas = llvm::cantFail(Replicas::create(placement));
  ModelFacts model = toyModel();
  StageCosts stageCosts =
      llvm::cantFail(costRoofline(placement, model, system, phases));
  Reduction reduction = {Cell(0, Phase::AllReduce, 0), replicas.blocksOf(0)};
  std::vector<MessageCost> costs =
      llvm::cantFail(costReductions(placement, reduction, model, system));
  llvm::cantFail(reduceByLayers(placement, reduction, model, system, phases,
                                stageCosts, costs));
  return costs.front();
}

TEST(GradientBuckets, GoWhileTheBackwardRuns) {
  SystemFacts system = linkedSystem();
  system.dataParallel = 4;
  // A layer takes 340 and its gradients 300, so that the gradients of the first
  // layer are left, which the backward computes last.
  MessageCost cost = reduceStage(system, kStep);
  EXPECT_EQ(cost.occupancyPs, 4 * 300);
  EXPECT_EQ(cost.latencyPs, 6 * 7);
  EXPECT_EQ(cost.aheadPs, 3 * 300);
  // A slow network is busy from the first gradients on.
  system.network.bytesPerSecond /= 10;
  cost = reduceStage(system, kStep);
  EXPECT_EQ(cost.occupancyPs, 4 * 3000);
  EXPECT_EQ(cost.aheadPs, 3 * 340);
  // I computes no gradients.
  PhaseSet split = kStep | Phase::InputGrad | Phase::WeightGrad;
  EXPECT_EQ(reduceStage(system, split).aheadPs, 3 * 100);
}

/// Half of the time gathers weights; the first layer's and 20 of each other one
/// are left.
TEST(GradientBuckets, WeightsAreGatheredUnderTheForward) {
  SystemFacts system = linkedSystem();
  system.dataParallel = 4;
  for (Sharding sharding : {Sharding::Optimizer, Sharding::FullKept}) {
    system.sharding = sharding;
    MessageCost cost = reduceStage(system, kStep);
    EXPECT_EQ(cost.occupancyPs, 4 * 150 + 150 + 3 * (150 - 130));
    EXPECT_EQ(cost.aheadPs, 3 * 150);
  }
  // Gradients have been moved in every cell.
  system.sharding = Sharding::Gradients;
  MessageCost cost = reduceStage(system, kStep);
  EXPECT_EQ(cost.occupancyPs, 150 + 3 * (150 - 130));
  EXPECT_EQ(cost.aheadPs, 0);
}

/// Two equal workers in two pipelines. Roofline gives the times of G and O.
TEST(OptimizerStep, PeersAreReducedWhereTheSystemHasThem) {
  CostSources costs;
  costs.architecture = gpt();
  costs.microbatchSize = 1;
  costs.system = linkedSystem();
  Configuration configuration;
  configuration.problem.family = findFamily("1f1b");
  configuration.problem.workers = 2;
  configuration.problem.microbatches = 2;
  configuration.costs = &costs;
  configuration.optimizerStep = ReductionPlace::End;
  auto numReductions = [&] {
    EvaluatedTable evaluated =
        llvm::cantFail(evaluateConfiguration(configuration));
    return evaluated.result.getExecution().graph.groups.size();
  };
  EXPECT_EQ(numReductions(), 0u);
  costs.system->dataParallel = 2;
  EXPECT_EQ(numReductions(), 2u);
}
