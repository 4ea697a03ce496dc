//===- CostModelTest.cpp - Costs of stages, by head -----------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A toy system whose sums can be checked by head.
//
//===----------------------------------------------------------------------===//

#include "PipeSched/CostModel/CostModel.h"
#include "../Support/ErrorText.h"
#include "../Support/ToyCosts.h"
#include "PipeSched/Facts/ProfileText.h"
#include "PipeSched/Schedule/Table/SlotLengths.h"
#include "PipeSched/Support/Divisors.h"
#include "gtest/gtest.h"
#include <cmath>

using namespace pipesched;

static constexpr PhaseSet kWhole =
    PhaseSet(Phase::Forward) | PhaseSet(Phase::Backward);
static constexpr PhaseSet kSplit = PhaseSet(Phase::Forward) |
                                   PhaseSet(Phase::InputGrad) |
                                   PhaseSet(Phase::WeightGrad);

/// Six layers of F 100 + 30, I 200 + 40 and W 100; 10 parameters each.
static ModelFacts toyModel() {
  return layersOf(
      6, 5,
      {{"linear", Engine::Matrix, {100, 60}, {200, 60}, {100, 60}, true},
       {"pointwise", Engine::Vector, {3, 20}, {3, 40}, {}, false}});
}

static StageCost firstCost(const ModelFacts &model, const SystemFacts &system,
                           PhaseSet phases = kSplit) {
  return llvm::cantFail(costRoofline(linear(2), model, system, phases))
      .stages.front();
}

TEST(Roofline, TakesTheSlowerOfComputeAndMemory) {
  // Two stages of three layers; 3 vector FLOPs are 30 ps, 40 bytes are 40 ps.
  StageCost cost = firstCost(toyModel(), toySystem());
  EXPECT_EQ(ps(cost, Phase::Forward), 3 * (100 + 30));
  EXPECT_EQ(ps(cost, Phase::InputGrad), 3 * (200 + 40));
  EXPECT_EQ(ps(cost, Phase::WeightGrad), 3 * 100);
  EXPECT_EQ(ps(cost, Phase::Backward), 3 * (200 + 40 + 100));
}

TEST(Roofline, LatenciesStandBesideTheirOwnTerm) {
  SystemFacts system = toySystem();
  system.matrix.latencyPs = 11;
  system.memory.latencyPs = 100;
  // max(100 + 11, 60 + 100) + max(30, 20 + 100)
  EXPECT_EQ(ps(firstCost(toyModel(), system), Phase::Forward), 3 * (160 + 120));
}

TEST(Roofline, EfficienciesAreCurves) {
  SystemFacts system = toySystem();
  // 100 FLOPs are a quarter of the way from 50 to 250, 200 three quarters.
  system.matrix.efficiency.points = {{50, 200000}, {250, 600000}};
  StageCost cost = firstCost(toyModel(), system);
  EXPECT_EQ(ps(cost, Phase::WeightGrad), 3 * 333 + 1);   // 3 * 100 / 0.3
  EXPECT_EQ(ps(cost, Phase::InputGrad), 3 * (400 + 40)); // 200 / 0.5
}

TEST(Roofline, AcceleratorsShareTheWork) {
  SystemFacts system = toySystem();
  ModelFacts model = toyModel();
  system.accelerators = 2;
  system.link = {1000000000000, 9, {}};
  EXPECT_EQ(ps(firstCost(model, system), Phase::Forward), 3 * (50 + 15));
  // Ring all-reduce: 2 (n - 1) / n of the payload, and the latency.
  model.blocks[0].kernels.push_back(
      {"reduce", Engine::Link, {0, 40}, {0, 40}, {}, true});
  EXPECT_EQ(ps(firstCost(model, system), Phase::Forward),
            3 * (50 + 15 + 40 + 9));
  system.accelerators = 4;
  EXPECT_EQ(ps(firstCost(model, system), Phase::InputGrad),
            3 * (50 + 10 + 60 + 9));
}

TEST(Roofline, BackwardBeginsWithItsRecompute) {
  ModelFacts model = toyModel();
  model.recompute = Recompute::Full;
  // Only "linear" is recomputed: 100 per layer.
  StageCost implied = firstCost(model, toySystem());
  EXPECT_EQ(ps(implied, Phase::InputGrad), 3 * (200 + 40 + 100));
  EXPECT_EQ(ps(implied, Phase::Backward), 3 * (200 + 40 + 100 + 100));
  EXPECT_EQ(ps(implied, Phase::WeightGrad), 3 * 100);
  // In a table with R cells the R take time, and B and I take their usual time.
  StageCost placed =
      firstCost(model, toySystem(), kSplit | PhaseSet(Phase::Recompute));
  EXPECT_EQ(ps(placed, Phase::Recompute), 3 * 100);
  EXPECT_EQ(ps(placed, Phase::InputGrad), 3 * (200 + 40));
}

TEST(Roofline, SelectiveRecomputeRunsTheCoreAgain) {
  ModelFacts model = toyModel();
  model.recompute = Recompute::Selective;
  EXPECT_EQ(ps(firstCost(model, toySystem()), Phase::InputGrad),
            3 * (200 + 40));
  model.blocks[0].kernels[1].core = true; // 30 per layer
  EXPECT_EQ(ps(firstCost(model, toySystem()), Phase::InputGrad),
            3 * (200 + 40 + 30));
}

TEST(Roofline, FirstAndLastBlocksStandAtTheEnds) {
  ModelFacts model = toyModel();
  BlockFacts first, last;
  first.position = BlockPosition::First;
  first.kernels = {{"embedding", Engine::Vector, {0, 1000}, {}, {}, true}};
  last.position = BlockPosition::Last;
  last.kernels = {{"head", Engine::Matrix, {5000, 0}, {}, {}, true}};
  model.blocks.insert(model.blocks.begin(), first);
  model.blocks.push_back(last);
  StageCosts stageCosts =
      llvm::cantFail(costRoofline(mirrored(3), model, toySystem(), kSplit));
  for (int64_t path : {0, 3}) {
    EXPECT_EQ(ps(stageCosts.stages[path], Phase::Forward), 2 * 130 + 1000);
    EXPECT_EQ(ps(stageCosts.stages[path + 1], Phase::Forward), 2 * 130);
    EXPECT_EQ(ps(stageCosts.stages[path + 2], Phase::Forward), 2 * 130 + 5000);
  }
}

TEST(Roofline, CopiesOptimizerAndReplicas) {
  SystemFacts system = toySystem();
  PhaseSet phases = kSplit | PhaseSet(Phase::Offload) | PhaseSet(Phase::Reload);
  EXPECT_EQ(errorOf(costRoofline(linear(2), toyModel(), system, phases)),
            "D and U need the 'host' link of the system, 'toy' has none");
  system.host = {500000000000, 3, {}};
  StageCost cost = firstCost(toyModel(), system, phases);
  // 3 * 50 bytes at 2 ps.
  EXPECT_EQ(ps(cost, Phase::Offload), 303);
  EXPECT_EQ(ps(cost, Phase::Reload), 303);
  // 30 parameters: 2 read, 2 * 12 read and written, 2 written, 1 ps a byte.
  EXPECT_EQ(ps(cost, Phase::Optimizer), 30 * (2 + 24 + 2));
  EXPECT_EQ(ps(cost, Phase::AllReduce), 0);
  // Two replicas: twice half of the gradients, at 10 ps a byte, 7 ps away.
  phases |= PhaseSet(Phase::AllReduce);
  StageCosts replicated =
      llvm::cantFail(costRoofline(mirrored(2), toyModel(), system, phases));
  EXPECT_EQ(ps(replicated.stages[0], Phase::AllReduce),
            2 * (30 * 2 / 2 * 10 + 7));
}

TEST(Roofline, AllReducesAreRings) {
  SystemFacts system;
  system.network = {100000000000, 7, {}};
  auto among = [&](double bytes, int64_t size) {
    return ringExchange({bytes, bytes}, {1, size}, system);
  };
  MessageCost cost = llvm::cantFail(among(600, 4));
  EXPECT_EQ(cost.occupancyPs, 6 * 150 * 10);
  EXPECT_EQ(cost.latencyPs, 6 * 7);
  EXPECT_EQ(cost.bytes, 6 * 150);
  for (MessageCost nothing :
       {llvm::cantFail(among(600, 1)), llvm::cantFail(among(0, 4))}) {
    EXPECT_EQ(nothing.occupancyPs, 0);
    EXPECT_EQ(nothing.latencyPs, 0);
    EXPECT_EQ(nothing.bytes, 0);
  }
  // The efficiency is that for the size of one part.
  system.network.efficiency.points = {{100, 500000}, {200, 1000000}};
  EXPECT_EQ(llvm::cantFail(among(400, 4)).occupancyPs, 6 * 100 * 20);
  system.network.bytesPerSecond = 0;
  EXPECT_EQ(errorOf(among(600, 4)),
            "the system has no network between workers");
}

/// Two pods of two nodes of two: halves over the link at 1 ps a byte, quarters
/// over the network at 10 ps, eighths over the spine at 70 ps.
TEST(Roofline, RingsEndAtTheSpine) {
  SystemFacts system;
  system.link = {1000000000000, 3, {}};
  system.network = {100000000000, 7, {}};
  system.spine = {14285714286, 11, {}};
  MessageCost cost =
      llvm::cantFail(ringExchange({400, 800}, {2, 2, 2}, system));
  EXPECT_EQ(cost.occupancyPs,
            (200 + 400) * 1 + (100 + 200) * 10 + (50 + 100) * 70);
  EXPECT_EQ(cost.latencyPs, 2 * 3 + 2 * 7 + 2 * 11);
  EXPECT_EQ(cost.bytes, 200 + 400 + 100 + 200 + 50 + 100);
  system.spine.bytesPerSecond = 0;
  EXPECT_EQ(errorOf(ringExchange({400, 800}, {1, 1, 2}, system)),
            "the system has no spine between pods");
}

/// Each member sends the same bytes in rings on several levels as in one ring:
/// each member passes on all but its own part, twice.
TEST(Roofline, LevelsDoNotChangeWhatIsSent) {
  SystemFacts system;
  system.link = system.network = system.spine = {1000000000000, 0, {}};
  for (int64_t perNode : {1, 2, 8})
    for (int64_t numNodes : {1, 3, 4})
      for (int64_t numPods : {1, 2, 5}) {
        RingGroup group = {perNode, numNodes, numPods};
        double bytes = 1200.0 * double(group.size());
        MessageCost cost =
            llvm::cantFail(ringExchange({bytes, bytes}, group, system));
        EXPECT_EQ(cost.bytes, 2 * 1200 * (group.size() - 1));
      }
}

/// Six workers; the third and fourth are in different pods.
TEST(Roofline, MessagesBetweenPodsTakeTheSpine) {
  SystemFacts system = toySystem();
  system.link = {1000000000000, 3, {}};
  system.spine = {10000000000, 11, {}};
  system.acceleratorsPerNode = 1;
  system.acceleratorsPerPod = 3;
  StageCosts costs = llvm::cantFail(
      costRoofline(linear(6), toyModel(), system, PhaseSet(Phase::Forward)));
  EXPECT_EQ(costs.stages[0].activation.bytes, 5);
  for (int64_t stage = 0; stage < 5; ++stage) {
    bool isFar = stage == 2;
    for (MessageCost message :
         {costs.stages[stage].activation, costs.stages[stage + 1].gradient}) {
      EXPECT_EQ(message.occupancyPs, 5 * (isFar ? 100 : 10)) << stage;
      EXPECT_EQ(message.latencyPs, isFar ? 11 : 7) << stage;
    }
  }
}

/// Embedding and head belong to the first and last pieces, layers to the pieces
/// that contain them.
TEST(Roofline, PiecesAreReducedByTheirParameters) {
  ModelFacts model = toyModel();
  model.blocks = {blockOf(BlockPosition::First, 1, 1000),
                  blockOf(BlockPosition::Layer, 6, 10),
                  blockOf(BlockPosition::Last, 1, 3000)};
  model.gradientBytesPerParameter = 2;
  Path first, second;
  first.workers = {0, 1};
  second.workers = {1, 0};
  first.takes = {{0, 1, 1}};
  second.takes = {{1, 2, 1}};
  first.blocks = {4, 2};
  second.blocks = {2, 4};
  Placement placement =
      llvm::cantFail(Placement::create(2, 2, {first, second}));
  Cell cell(0, Phase::AllReduce, 0);
  std::vector<MessageCost> stageCosts = llvm::cantFail(costReductions(
      placement, {{cell, {0, 2}, 2}, {cell, {2, 4}, 2}, {cell, {4, 6}, 2}},
      model, toySystem()));
  EXPECT_EQ(stageCosts[0].bytes, 2 * (1000 + 20));
  EXPECT_EQ(stageCosts[1].bytes, 2 * 20);
  EXPECT_EQ(stageCosts[2].bytes, 2 * (20 + 3000));
  // A first stage without layers has only the embedding.
  first.blocks = {0, 6};
  placement = llvm::cantFail(Placement::create(2, 2, {first, second}));
  stageCosts = llvm::cantFail(costReductions(
      placement, {{cell, {0, 0}, 2}, {cell, {0, 2}, 2}}, model, toySystem()));
  EXPECT_EQ(stageCosts[0].bytes, 2 * 1000);
  EXPECT_EQ(stageCosts[1].bytes, 2 * 20);
}

/// The G time of a stage is divided among its pieces.
TEST(Profile, PiecesShareTheTimeOfG) {
  Path first, second;
  first.workers = {0, 1};
  second.workers = {2, 3};
  first.takes = {{0, 1, 1}};
  second.takes = {{1, 2, 1}};
  first.blocks = {4, 2};
  second.blocks = {2, 4};
  Placement placement =
      llvm::cantFail(Placement::create(4, 2, {first, second}));
  StageCosts stageCosts;
  stageCosts.stages.resize(4);
  stageCosts.stages[0].cells.set(Phase::AllReduce, 101);
  Cell cell(0, Phase::AllReduce, 0);
  std::vector<MessageCost> shares = llvm::cantFail(shareReductions(
      placement, {{cell, {0, 1}, 2}, {cell, {1, 4}, 2}, {cell, {0, 4}, 2}},
      stageCosts, /*model=*/nullptr));
  EXPECT_EQ(shares[0].occupancyPs, 25);
  EXPECT_EQ(shares[1].occupancyPs, 76);
  EXPECT_EQ(shares[2].occupancyPs, 101);
  EXPECT_EQ(shares[2].latencyPs, 0);
}

TEST(Roofline, RefusesTimesThatDoNotFit) {
  ModelFacts model = toyModel();
  model.blocks[0].kernels[0].forward.flops =
      std::numeric_limits<int64_t>::max();
  EXPECT_EQ(errorOf(costRoofline(linear(2), model, toySystem(), kSplit)),
            "the time of F is over 2^63 - 1 ps");
  SystemFacts system = toySystem();
  system.network.bytesPerSecond = 0;
  EXPECT_EQ(errorOf(costRoofline(linear(2), toyModel(), system, kSplit)),
            "the system has no network between workers");
  system.accelerators = 2;
  EXPECT_EQ(errorOf(costRoofline(linear(2), toyModel(), system, kSplit)),
            "a worker of 'toy' has 2 accelerators and no 'link' among them");
}

//===----------------------------------------------------------------------===//
// Layers and memory
//===----------------------------------------------------------------------===//

TEST(Layers, AreNeverRounded) {
  EXPECT_EQ(errorOf(splitLayers(linear(4), toyModel())),
            "the 4 stages of path 0 do not divide the model's 6 layers; stage "
            "counts that do: 3 and 6; or let stages differ "
            "(pipe-place-blocks{balance=cost})");
  EXPECT_EQ(errorOf(splitLayers(linear(8), toyModel())),
            "the 8 stages of path 0 do not divide the model's 6 layers; stage "
            "counts that do: 6; or let stages differ "
            "(pipe-place-blocks{balance=cost})");
}

TEST(Layers, NearestDivisorsAreFoundInTime) {
  EXPECT_EQ(nearestDivisors(128, 7), "4 and 8");
  EXPECT_EQ(nearestDivisors(128, 200), "128");
  EXPECT_EQ(nearestDivisors(7, 3), "1 and 7");
  int64_t prime = (int64_t(1) << 61) - 1;
  EXPECT_EQ(nearestDivisors(prime, 2), "1");
  EXPECT_EQ(nearestDivisors(prime, int64_t(1) << 40), "1");
  EXPECT_EQ(nearestDivisors(prime, prime - 5),
            "1 and " + std::to_string(prime));
}

TEST(Layers, FollowWeights) {
  auto withWeights = [](std::vector<int64_t> weights) {
    Path path = placeLinear(weights.size());
    path.weights = std::move(weights);
    return path;
  };
  auto split = [](const Path &path, int64_t layers) {
    return llvm::cantFail(splitLayers(0, path, layers));
  };
  EXPECT_EQ(split(withWeights({1, 1, 2, 2}), 120),
            (std::vector<int64_t>{20, 20, 40, 40}));
  EXPECT_EQ(split(withWeights({4, 2}), 3), (std::vector<int64_t>{2, 1}));
  EXPECT_EQ(errorOf(splitLayers(1, withWeights({2, 4, 4}), 13)),
            "the weights of path 1 make 5 parts, which do not divide the "
            "model's 13 layers; layer counts that they do: 10 and 15");
  EXPECT_EQ(errorOf(splitLayers(0, withWeights({2, 3}), 4)),
            "the weights of path 0 make 5 parts, which do not divide the "
            "model's 4 layers; layer counts that they do: 5");
  EXPECT_EQ(errorOf(splitLayers(0, withWeights({1, 1}), INT64_MAX)),
            "the weights of path 0 make 2 parts, which do not divide the "
            "model's 9223372036854775807 layers; layer counts that they do: "
            "9223372036854775806");
}

TEST(Layers, GoBlockByBlock) {
  // Four layers of one kind and two of another, on stages of three.
  ModelFacts model = toyModel();
  model.blocks.push_back(model.blocks[0]);
  model.blocks[0].count = 4;
  model.blocks[1].count = 2;
  model.blocks[1].parameters = 1000;
  MemoryFacts memory =
      llvm::cantFail(computeMemoryFacts(linear(2), model, nullptr));
  EXPECT_EQ(memory.stages[0].weightBytes, 2 * 30);
  EXPECT_EQ(memory.stages[1].weightBytes, 2 * 2010);
}

/// A path of two stages, and nodes on worker 0 that hold blocks.
static llvm::Expected<Placement>
withNodes(std::vector<std::vector<HeldBlocks>> nodes,
          std::optional<int64_t> bytes = std::nullopt,
          std::vector<int64_t> weights = {}) {
  Path path = placeLinear(2);
  path.weights = std::move(weights);
  AddedStages added;
  for (std::vector<HeldBlocks> &held : nodes) {
    int64_t number = 2 + added.nodes.size();
    added.nodes.push_back(
        {number, 0, StageKind::Frozen, std::nullopt, std::move(held)});
    added.edges.push_back({number, 1, true, bytes ? "features" : "", bytes});
  }
  return Placement::create(2, 2, {std::move(path)}, 1, std::move(added));
}

/// Six layers in the path, three of an encoder, and a head.
static ModelFacts encoderModel() {
  ModelFacts model = toyModel();
  BlockFacts encoder = model.blocks[0], head = encoder;
  encoder.name = "encoder";
  encoder.count = 3;
  encoder.parameters = 7;
  encoder.messages = {11, 12};
  head.name = "head";
  head.position = BlockPosition::Last;
  head.count = 1;
  model.blocks.insert(model.blocks.begin(), encoder);
  model.blocks.push_back(head);
  return model;
}

TEST(Layers, NodesHoldBlocksByName) {
  using Layers = std::vector<int64_t>;
  ModelFacts model = encoderModel();
  auto split = [&](llvm::Expected<Placement> placement) {
    return llvm::cantFail(splitLayers(*placement, model));
  };
  EXPECT_EQ(split(withNodes({{{"encoder", 3}}})), Layers({3, 3, 3}));
  EXPECT_EQ(split(withNodes({{{"encoder", 1}}, {{"encoder", 2}}}, std::nullopt,
                            {1, 2})),
            Layers({2, 4, 1, 2}));
  EXPECT_EQ(split(withNodes({{{"head", 1}}}, std::nullopt, {1, 2})),
            Layers({3, 6, 0}));
  auto refuse = [&](std::vector<std::vector<HeldBlocks>> nodes) {
    return errorOf(splitLayers(*withNodes(std::move(nodes)), model));
  };
  EXPECT_EQ(refuse({{{"vision", 1}}}),
            "node 2 holds blocks 'vision', and model "
            "'toy' has: encoder, layer, head");
  EXPECT_EQ(refuse({{}}), "node 2 does not say which blocks of model 'toy' it "
                          "holds: encoder, layer, head");
  EXPECT_EQ(refuse({{{"encoder", 2}}}),
            "nodes hold 2 of the model's 3 blocks 'encoder': expected all of "
            "them, or none for the path to hold them");
  EXPECT_EQ(refuse({{{"encoder", 2}}, {{"encoder", 2}}}),
            "node 3 holds 2 blocks 'encoder': nodes before it hold 2, and the "
            "model has 3");
}

TEST(Memory, OfNodesAndTensors) {
  ModelFacts model = encoderModel();
  Placement placement = llvm::cantFail(withNodes({{{"encoder", 3}}}));
  MemoryFacts memory =
      llvm::cantFail(computeMemoryFacts(placement, model, nullptr));
  EXPECT_EQ(memory.stages[2].weightBytes, 2 * 21);
  EXPECT_EQ(memory.stages[2].gradientBytes, 0);
  EXPECT_EQ(memory.stages[2].optimizerBytes, 0);
  auto edgesOf = [](const MemoryFacts &facts) {
    std::vector<std::array<int64_t, 4>> edges;
    for (const EdgeMemory &edge : facts.edges)
      edges.push_back(
          {edge.from, edge.to, edge.tensorBytes, edge.gradientBytes});
    return edges;
  };
  using Edges = std::vector<std::array<int64_t, 4>>;
  int64_t chain = model.boundaryBytes;
  EXPECT_EQ(edgesOf(memory), Edges({{0, 1, 0, chain}, {2, 1, 11, 11}}));
  placement = llvm::cantFail(withNodes({{{"encoder", 3}}}, 99));
  EXPECT_EQ(
      edgesOf(llvm::cantFail(computeMemoryFacts(placement, model, nullptr))),
      Edges({{0, 1, 0, chain}, {2, 1, 99, 99}}));
}

TEST(Roofline, CostsEdgesByTheirBytes) {
  Placement placement = llvm::cantFail(withNodes({{{"encoder", 3}}}, 4000));
  StageCosts costs = llvm::cantFail(
      costRoofline(placement, encoderModel(), toySystem(), kSplit));
  ASSERT_EQ(costs.edges.size(), 2u);
  const EdgeCost &chain = costs.edge(0, 1), &added = costs.edge(2, 1);
  EXPECT_EQ(chain.activation, costs.stages[0].activation);
  EXPECT_EQ(chain.gradient, costs.stages[1].gradient);
  EXPECT_EQ(added.activation.bytes, 4000);
  EXPECT_EQ(added.gradient, added.activation);
  EXPECT_GT(added.activation.occupancyPs, chain.activation.occupancyPs);
  // A profile gives the times of messages, and the model their bytes.
  Profile profile;
  profile.sendPs = {5, 6, 7};
  costs = llvm::cantFail(
      overlayProfile(placement, std::move(costs), profile, kSplit));
  EXPECT_EQ(costs.edge(2, 1).activation, (MessageCost{7, 0, 4000}));
  EXPECT_EQ(costs.edge(2, 1).gradient, (MessageCost{6, 0, 4000}));
}

TEST(Memory, SumsBlocks) {
  SystemFacts system = toySystem();
  system.accelerators = 3;
  MemoryFacts memory =
      llvm::cantFail(computeMemoryFacts(linear(2), toyModel(), &system));
  EXPECT_EQ(memory.capacityBytes, 15000);
  const StageMemory &stage = memory.stages[1];
  EXPECT_EQ(stage.activationBytes, 150);
  EXPECT_EQ(stage.inputGradFreedBytes, 150 - 60);
  EXPECT_EQ(stage.boundaryBytes, 24);
  EXPECT_EQ(stage.workingBytes, 0);
  EXPECT_EQ(stage.weightBytes, 60);
  EXPECT_EQ(stage.gradientBytes, 60);
  EXPECT_EQ(stage.optimizerBytes, 360);
}

TEST(Memory, RecomputeInBackwardKeepsBoundaries) {
  ModelFacts model = toyModel();
  model.recompute = Recompute::Full;
  MemoryFacts implied =
      llvm::cantFail(computeMemoryFacts(linear(2), model, nullptr, kSplit));
  EXPECT_EQ(implied.stages[0].activationBytes, 24);
  EXPECT_EQ(implied.stages[0].inputGradFreedBytes, 24 - 60);
  EXPECT_EQ(implied.stages[0].workingBytes, 50 - 8);
  MemoryFacts placed = llvm::cantFail(computeMemoryFacts(
      linear(2), model, nullptr, kSplit | PhaseSet(Phase::Recompute)));
  EXPECT_EQ(placed.stages[0].activationBytes, 150);
  EXPECT_EQ(placed.stages[0].boundaryBytes, 24);
  EXPECT_EQ(placed.stages[0].workingBytes, 0);
}

TEST(Memory, SelectiveRecomputeFreesTheCore) {
  ModelFacts model = toyModel();
  model.blocks[0].coreBytes = 15;
  model.recompute = Recompute::Selective;
  StageMemory stage =
      llvm::cantFail(computeMemoryFacts(linear(2), model, nullptr, kSplit))
          .stages[0];
  EXPECT_EQ(stage.activationBytes, 3 * 35);
  EXPECT_EQ(stage.boundaryBytes, 3 * 35);
  EXPECT_EQ(stage.workingBytes, 15);
}

TEST(Memory, RefusesSumsThatDoNotFit) {
  ModelFacts model = toyModel();
  model.blocks[0].parameters = int64_t(1) << 60;
  EXPECT_EQ(errorOf(computeMemoryFacts(linear(2), model, nullptr)),
            "the memory of a stage is over 2^63 - 1 bytes");
}

TEST(Efficiency, IsPiecewiseLinear) {
  EfficiencyCurve curve;
  EXPECT_EQ(curve.at(5), 1);
  curve.points = {{10, 100000}, {20, 300000}, {60, 500000}};
  EXPECT_DOUBLE_EQ(curve.at(0), 0.1);
  EXPECT_DOUBLE_EQ(curve.at(10), 0.1);
  EXPECT_DOUBLE_EQ(curve.at(15), 0.2);
  EXPECT_DOUBLE_EQ(curve.at(20), 0.3);
  EXPECT_DOUBLE_EQ(curve.at(40), 0.4);
  EXPECT_DOUBLE_EQ(curve.at(61), 0.5);
}

//===----------------------------------------------------------------------===//
// Profiles
//===----------------------------------------------------------------------===//

static Profile profile(llvm::StringRef text) {
  return llvm::cantFail(parseProfile(text));
}

TEST(Profiles, DefaultsFollowFromWhatIsGiven) {
  StageCosts stageCosts = llvm::cantFail(
      costProfile(linear(2), profile("F=3ns,I=2ns,W=1ns,comm=5ns"), kWhole));
  const StageCost &cost = stageCosts.stages[1];
  EXPECT_EQ(ps(cost, Phase::Forward), 3000);
  EXPECT_EQ(ps(cost, Phase::Backward), 3000);
  EXPECT_EQ(ps(cost, Phase::Recompute), 3000);
  EXPECT_EQ(ps(cost, Phase::Offload), 0);
  EXPECT_FALSE(cost.overlappedPs);
  EXPECT_EQ(cost.activation.latencyPs, 5000);
  EXPECT_EQ(cost.gradient.occupancyPs, 0);
}

TEST(Profiles, ListsGoByStageOfThePath) {
  StageCosts stageCosts = llvm::cantFail(costProfile(
      mirrored(2), profile("F=[1ns,2ns],B=4ns,FB=5ns,R=7ns,send=[8ns,9ns]"),
      kWhole));
  for (int64_t path : {0, 2}) {
    EXPECT_EQ(ps(stageCosts.stages[path], Phase::Forward), 1000);
    EXPECT_EQ(ps(stageCosts.stages[path + 1], Phase::Forward), 2000);
    EXPECT_EQ(stageCosts.stages[path].activation.occupancyPs, 8000);
    EXPECT_EQ(stageCosts.stages[path + 1].gradient.occupancyPs, 9000);
    EXPECT_EQ(ps(stageCosts.stages[path], Phase::Recompute), 7000);
    EXPECT_EQ(stageCosts.stages[path].overlappedPs, 5000);
  }
  EXPECT_EQ(
      errorOf(costProfile(linear(3), profile("F=[1ns,2ns],B=4ns"), kWhole)),
      "the profile's F has 2 times, expected one or one for each of the 3 "
      "stages "
      "of path 0");
}

TEST(Profiles, RefusePhasesWithoutTimes) {
  auto error = [](llvm::StringRef text, PhaseSet phases) {
    return errorOrNothing(costProfile(linear(2), profile(text), phases));
  };
  EXPECT_EQ(error("F=1ns,B=2ns", kSplit),
            "the schedule has split backward cells, the profile gives only B; "
            "give I and W");
  EXPECT_EQ(error("F=1ns,I=2ns", kWhole),
            "the schedule has B and W, the profile does not give B and W");
  EXPECT_EQ(error("F=1ns,I=2ns", kSplit),
            "the schedule has W, the profile does not give W");
  EXPECT_EQ(error("F=1ns", kWhole),
            "the schedule has B, the profile does not give B");
  EXPECT_EQ(error("B=1ns", kWhole),
            "the schedule has F, the profile gives no F");
  EXPECT_EQ(error("B=1ns", PhaseSet(Phase::Backward)), "");
}

TEST(Profiles, OverlayWinsOverRoofline) {
  StageCosts base =
      llvm::cantFail(costRoofline(linear(2), toyModel(), toySystem(), kSplit));
  StageCosts stageCosts =
      llvm::cantFail(overlayProfile(linear(2), base, profile("F=9ps"), kSplit));
  EXPECT_EQ(ps(stageCosts.stages[0], Phase::Forward), 9);
  EXPECT_EQ(ps(stageCosts.stages[0], Phase::InputGrad), 720);
  EXPECT_EQ(stageCosts.stages[0].activation.occupancyPs, 50);
  stageCosts = llvm::cantFail(
      overlayProfile(linear(2), base, profile("comm=4ps,I=1ps,W=2ps"), kSplit));
  EXPECT_EQ(ps(stageCosts.stages[0], Phase::Forward), 390);
  EXPECT_EQ(ps(stageCosts.stages[0], Phase::Backward), 3);
  EXPECT_EQ(stageCosts.stages[0].activation.occupancyPs, 0);
  EXPECT_EQ(stageCosts.stages[0].activation.latencyPs, 4);
  EXPECT_EQ(stageCosts.stages[0].activation.bytes, 5);
}

TEST(UnitSlots, AreThoseOfTheStage) {
  Path path = placeLinear(2);
  path.blocks = {0, 3};
  auto placementOf = [](const Path &path) {
    return llvm::cantFail(Placement::create(2, 4, {path}));
  };
  StageCosts stageCosts = llvm::cantFail(costUnit(placementOf(path)));
  EXPECT_EQ(ps(stageCosts.stages[0], Phase::Forward), 0);
  EXPECT_EQ(ps(stageCosts.stages[1], Phase::Forward), 3000000);
  EXPECT_EQ(ps(stageCosts.stages[1], Phase::Backward), 6000000);
  EXPECT_EQ(ps(stageCosts.stages[1], Phase::Reload), 0);
  path.blocks[1] = int64_t(1) << 43; // its B is too long
  EXPECT_EQ(errorOf(costUnit(placementOf(path))),
            "a stage of 8796093022208 slots of 1 us takes more than 2^63 - 1 "
            "ps");
}
