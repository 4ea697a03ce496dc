//===- LayerKindsTest.cpp - Experts, latent attention and other forms -----===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Sums by hand: hidden 8, 4 heads of 2, MLP 12, sequence 3, microbatch 5, so T
// = 15 tokens of 2 bytes.
//
//===----------------------------------------------------------------------===//

#include "FindKernel.h"
#include "PipeSched/CostModel/CostModel.h"
#include "PipeSched/CostModel/Kernels/TransformerBlock.h"
#include "PipeSched/CostModel/Layers/ModelSummary.h"
#include "PipeSched/Schedule/Table/Placement.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

using namespace pipesched;
using testing::ElementsAre;

static constexpr int64_t kTokens = 15;

static Architecture tiny(Attention attention = Attention::Fused) {
  Architecture arch;
  arch.name = "tiny";
  arch.hidden = arch.attentionWidth = 8;
  arch.feedforward = 12;
  arch.sequence = 3;
  arch.layers = 1;
  arch.attentionHeads = arch.keyValueHeads = 4;
  arch.activation = Activation::SwiGLU;
  arch.norm = Norm::RMSNorm;
  arch.attention = attention;
  return arch;
}

static ModelFacts expand(const Architecture &arch) {
  ExpansionOptions options;
  options.microbatchSize = 5;
  return llvm::cantFail(expandArchitecture(arch, options));
}

static std::vector<std::string> namesOf(const BlockFacts &block) {
  std::vector<std::string> names;
  names.reserve(block.kernels.size());
  for (const Kernel &kernel : block.kernels)
    names.push_back(kernel.name);
  return names;
}

/// A linear layer over `rows` rows that reads `copies` matrices.
static Work gemm(int64_t rows, int64_t in, int64_t out, int64_t copies = 1) {
  return {2 * rows * in * out,
          2 * (rows * in + rows * out + copies * in * out)};
}

//===----------------------------------------------------------------------===//
// Experts: 6 of width 4, two for each token, so there are 30 rows
//===----------------------------------------------------------------------===//

static Architecture withExperts(Attention attention = Attention::Fused) {
  Architecture arch = tiny(attention);
  arch.experts.emplace();
  arch.experts->count = 6;
  arch.experts->perToken = 2;
  arch.experts->feedforward = 4;
  return arch;
}

/// 15 tokens go to two experts each: 30 rows of 8 elements in 2 bytes.
TEST(ExpertLayers, SayWhatIsOfExperts) {
  Architecture arch = withExperts();
  arch.experts->groups = 3;
  arch.experts->groupsPerToken = 2;
  ModelFacts model = expand(arch);
  const BlockFacts &block = model.blocks[0];
  ASSERT_TRUE(block.experts.has_value());
  EXPECT_EQ(block.experts->count, 6);
  EXPECT_EQ(block.experts->perToken, 2);
  EXPECT_EQ(block.experts->rows, 2 * kTokens);
  EXPECT_EQ(block.experts->parameters, 6 * 3 * 8 * 4);
  // Rows; input of mlp2, of the gate and of the activation. Gradients of the
  // outputs of mlp1 and mlp2, alongside rows and the input of mlp2.
  EXPECT_EQ(block.experts->activationBytes, 2 * 30 * (8 + 3 * 4));
  EXPECT_EQ(block.experts->weightGradBytes, 2 * 30 * (8 + 4 + 2 * 4 + 8));
  EXPECT_EQ(block.experts->groups, 3);
  EXPECT_EQ(block.experts->groupsPerToken, 2);
  for (const char *name : {"dispatch_exchange", "combine_exchange"}) {
    Kernel exchange = kernelOf(block, name);
    EXPECT_EQ(exchange.engine, Engine::AllToAll);
    EXPECT_EQ(exchange.forward, (Work{0, 2 * 30 * 8}));
    EXPECT_EQ(exchange.inputGrad, (Work{0, 2 * 30 * 8}));
    EXPECT_TRUE(exchange.weightGrad.isZero());
  }
  EXPECT_EQ(kernelOf(block, "expert_mlp1").weightBytes, 2 * 6 * 8 * 2 * 4);
  EXPECT_EQ(kernelOf(block, "expert_mlp2").weightBytes, 2 * 6 * 4 * 8);
  for (const char *name : {"sort_rows", "unsort_rows"}) {
    Kernel sort = kernelOf(block, name);
    EXPECT_EQ(sort.forward, (Work{0, 2 * 2 * 30 * 8}));
    EXPECT_EQ(sort.inputGrad, sort.forward);
  }
  for (const Kernel &kernel : block.kernels) {
    bool isSort = kernel.name == "sort_rows" || kernel.name == "unsort_rows";
    EXPECT_EQ(kernel.exchanged, isSort) << kernel.name;
    EXPECT_EQ(kernel.routed,
              isSort || kernel.name.rfind("expert_mlp", 0) == 0 ||
                  kernel.name == "expert_swiglu" || kernel.name == "mlp_reduce")
        << kernel.name;
    EXPECT_EQ(kernel.synchronizes, kernel.name == "route") << kernel.name;
    EXPECT_EQ(kernel.launches, kernel.name == "route" ? 31 : 1) << kernel.name;
  }
}

/// Shared experts leave a sum among the ranks that divide them, and so does a
/// stream that is whole on each of them.
TEST(ExpertLayers, SharedOnesAreReduced) {
  Architecture arch = withExperts();
  arch.experts->sharedFeedforward = 4;
  EXPECT_FALSE(kernelOf(expand(arch).blocks[0], "mlp_reduce").routed);
  ExpansionOptions whole;
  whole.sequenceParallel = false;
  ModelFacts model = llvm::cantFail(expandArchitecture(withExperts(), whole));
  EXPECT_FALSE(kernelOf(model.blocks[0], "mlp_reduce").routed);
}

TEST(ExpertLayers, GemmsReadTheExpertsInUse) {
  ModelFacts model = expand(withExperts());
  const BlockFacts &block = model.blocks[0];
  EXPECT_EQ(kernelOf(block, "router").forward, gemm(kTokens, 8, 6));
  EXPECT_EQ(kernelOf(block, "expert_mlp1").forward, gemm(30, 8, 2 * 4, 6));
  EXPECT_EQ(kernelOf(block, "expert_mlp2").weightGrad, gemm(30, 4, 8, 6));
  // With more experts than rows each row reads one.
  Architecture arch = withExperts();
  arch.experts->count = 1000;
  ModelFacts wide = expand(arch);
  EXPECT_EQ(kernelOf(wide.blocks[0], "expert_mlp2").forward,
            gemm(30, 4, 8, 30));
}

TEST(ExpertLayers, RoutingMovesRows) {
  ModelFacts model = expand(withExperts());
  const BlockFacts &block = model.blocks[0];
  EXPECT_EQ(kernelOf(block, "dispatch").forward, (Work{0, 2 * 2 * 30 * 8}));
  EXPECT_EQ(kernelOf(block, "dispatch").inputGrad,
            (Work{30 * 8, 2 * (30 * 8 + 15 * 8)}));
  EXPECT_EQ(kernelOf(block, "combine").forward,
            (Work{30 * 8, 2 * (30 * 8 + 15 * 8)}));
  // The activation applies the weights of rows: 6 + 1 FLOPs, 2 bytes per row
  // more.
  EXPECT_EQ(kernelOf(block, "expert_swiglu").forward,
            (Work{7 * 30 * 4, 3 * 2 * 30 * 4 + 2 * 30}));
}

TEST(ExpertLayers, ParametersAllAndActive) {
  ModelFacts model = expand(withExperts());
  const BlockFacts &block = model.blocks[0];
  int64_t rest = 4 * 64 + 2 * 8 + 8 * 6; // attention, norms, router
  EXPECT_EQ(block.parameters, rest + 6 * 3 * 8 * 4);
  EXPECT_EQ(block.activeParameters, rest + 2 * 3 * 8 * 4);
}

TEST(ExpertLayers, Tensors) {
  ModelFacts dense = expand(tiny());
  ModelFacts model = expand(withExperts());
  // In place of three tensors of 12 per token: three of 4 and the input per
  // row, probabilities of 6 experts, a weight and a 4-byte number per row.
  int64_t mlp = 2 * kTokens * 3 * 12;
  int64_t experts = 2 * 30 * (3 * 4 + 8) + 2 * kTokens * 6 + (2 + 4) * 30;
  EXPECT_EQ(model.blocks[0].activationBytes,
            dense.blocks[0].activationBytes - mlp + experts);
  // The unfused form also keeps the results and the value of the function.
  ModelFacts unfused = expand(withExperts(Attention::Unfused));
  ModelFacts plain = expand(tiny(Attention::Unfused));
  EXPECT_EQ(unfused.blocks[0].activationBytes,
            plain.blocks[0].activationBytes - mlp - 2 * kTokens * 12 + experts +
                2 * 30 * 4 + 2 * 30 * 8);
}

TEST(ExpertLayers, SharedExpertsSeeAllTokens) {
  Architecture arch = withExperts();
  arch.experts->sharedFeedforward = 10;
  arch.experts->sharedGate = true;
  ModelFacts model = expand(arch);
  const BlockFacts &block = model.blocks[0];
  EXPECT_EQ(kernelOf(block, "shared_mlp1").forward, gemm(kTokens, 8, 20));
  EXPECT_EQ(kernelOf(block, "shared_gate").forward, gemm(kTokens, 8, 1));
  EXPECT_EQ(kernelOf(block, "expert_fork").inputGrad,
            (Work{4 * 120, 5 * 2 * 120}));
  EXPECT_EQ(block.parameters - expand(withExperts()).blocks[0].parameters,
            3 * 8 * 10 + 8);
}

//===----------------------------------------------------------------------===//
// Latent attention: ranks 5 and 3, heads of 2 + 1 and values of 4
//===----------------------------------------------------------------------===//

static Architecture withLatent(int64_t queryRank,
                               Attention attention = Attention::Fused) {
  Architecture arch = tiny(attention);
  arch.latent = LatentAttention{queryRank, 3, 2, 1, 4};
  return arch;
}

TEST(LatentAttention, KernelsInOrder) {
  std::vector<std::string> names = namesOf(expand(withLatent(5)).blocks[0]);
  names.resize(13);
  EXPECT_THAT(names,
              ElementsAre("attn_fork", "ln1", "qkv_fork", "q_down", "q_norm",
                          "q_up", "kv_down", "kv_norm", "kv_up", "rope",
                          "context_exchange", "attention", "proj"));
  EXPECT_TRUE(findKernel(expand(withLatent(0)).blocks[0], "q"));
}

TEST(LatentAttention, Gemms) {
  ModelFacts model = expand(withLatent(5));
  const BlockFacts &block = model.blocks[0];
  EXPECT_EQ(kernelOf(block, "q_down").forward, gemm(kTokens, 8, 5));
  EXPECT_EQ(kernelOf(block, "q_up").forward, gemm(kTokens, 5, 4 * 3));
  EXPECT_EQ(kernelOf(block, "kv_down").forward, gemm(kTokens, 8, 3 + 1));
  EXPECT_EQ(kernelOf(block, "kv_up").forward, gemm(kTokens, 3, 4 * (2 + 4)));
  EXPECT_EQ(kernelOf(block, "proj").forward, gemm(kTokens, 16, 8));
  // One element of four heads, and of the keys once, is rotated. Queries change
  // in place; keys of 8 and 1 become 12.
  EXPECT_EQ(kernelOf(block, "rope").forward,
            (Work{3 * 5 * kTokens, 2 * kTokens * (2 * 4 + 8 + 1 + 12)}));
  // Queries and keys of 12, values and outputs of 16; a backward recomputes the
  // scores.
  const Kernel &attention = kernelOf(block, "attention");
  int64_t moved = 2 * kTokens * (12 + 12 + 16 + 16);
  EXPECT_EQ(attention.forward,
            (Work{2 * kTokens * 3 * (12 + 16), moved + 4 * 4 * kTokens}));
  EXPECT_EQ(attention.inputGrad, (Work{2 * kTokens * 3 * (3 * 12 + 2 * 16),
                                       2 * moved + 4 * 4 * kTokens}));
}

TEST(LatentAttention, UnfusedScores) {
  ModelFacts model = expand(withLatent(5, Attention::Unfused));
  const BlockFacts &block = model.blocks[0];
  int64_t scores = 4 * kTokens * 3;
  EXPECT_EQ(kernelOf(block, "qk").forward,
            (Work{2 * kTokens * 3 * 12, 2 * (kTokens * (12 + 12) + scores)}));
  EXPECT_EQ(kernelOf(block, "av_dv").inputGrad,
            (Work{2 * kTokens * 3 * 16, 2 * (kTokens * (16 + 16) + scores)}));
}

TEST(LatentAttention, ParametersAndTensors) {
  int64_t mlp = 3 * 8 * 12, norms = 2 * 8;
  ModelFacts model = expand(withLatent(5));
  EXPECT_EQ(model.blocks[0].parameters,
            8 * 5 + 5 + 5 * 12 + 8 * 4 + 3 + 3 * 24 + 16 * 8 + mlp + norms);
  ModelFacts direct = expand(withLatent(0));
  EXPECT_EQ(direct.blocks[0].parameters,
            8 * 12 + 8 * 4 + 3 + 3 * 24 + 16 * 8 + mlp + norms);
  // Layer input, qkv input; both narrow vectors before and after their norm; q
  // and k of 12, v and the output of 16; statistics; the second half.
  EXPECT_EQ(model.blocks[0].activationBytes,
            2 * kTokens *
                    (2 * 8 + 2 * 5 + 2 * 3 + 2 * 12 + 2 * 16 + 2 * 8 + 3 * 12) +
                4 * 4 * kTokens);
}

//===----------------------------------------------------------------------===//
// Windows, norms, parallel branches
//===----------------------------------------------------------------------===//

TEST(Windows, LimitTheScores) {
  Architecture arch = tiny();
  arch.window.size = 2;
  ModelFacts model = expand(arch), full = expand(tiny());
  const Kernel &windowed = kernelOf(model.blocks[0], "attention");
  const Kernel &all = kernelOf(full.blocks[0], "attention");
  EXPECT_EQ(model.blocks[0].name, "layer");
  EXPECT_EQ(windowed.forward.flops * 3, all.forward.flops * 2);
  EXPECT_EQ(windowed.inputGrad.flops * 3, all.inputGrad.flops * 2);
  EXPECT_EQ(windowed.forward.bytes, all.forward.bytes);
}

TEST(Norms, OfQueriesAndKeys) {
  Architecture arch = tiny();
  arch.keyValueHeads = 2;
  int64_t without = expand(arch).blocks[0].parameters;
  int64_t bytes = expand(arch).blocks[0].activationBytes;
  arch.queryKeyNorm = QueryKeyNorm::Head;
  ModelFacts model = expand(arch);
  EXPECT_EQ(model.blocks[0].parameters - without, 2 + 2);
  EXPECT_EQ(model.blocks[0].activationBytes - bytes, 2 * kTokens * (8 + 4));
  EXPECT_EQ(kernelOf(model.blocks[0], "key_norm").forward,
            (Work{4 * kTokens * 4, 2 * 2 * kTokens * 4}));
  arch.queryKeyNorm = QueryKeyNorm::Width;
  EXPECT_EQ(expand(arch).blocks[0].parameters - without, 8 + 4);
  arch.queryKeyNormForm = Norm::PlainNorm;
  EXPECT_EQ(expand(arch).blocks[0].parameters, without);
  EXPECT_TRUE(
      kernelOf(expand(arch).blocks[0], "query_norm").weightGrad.isZero());
}

TEST(Norms, BeforeAfterAndAround) {
  auto normsOf = [](NormPlacement placement) {
    Architecture arch = tiny();
    arch.norms = placement;
    ModelFacts model = expand(arch);
    std::vector<std::string> names;
    for (const std::string &name : namesOf(model.blocks[0]))
      if (llvm::StringRef(name).starts_with("ln"))
        names.push_back(name);
    return std::pair(names, model.blocks[0].activationBytes);
  };
  int64_t x = 2 * kTokens * 8;
  auto [before, beforeBytes] = normsOf(NormPlacement::Before);
  auto [after, afterBytes] = normsOf(NormPlacement::After);
  auto [around, aroundBytes] = normsOf(NormPlacement::Around);
  EXPECT_THAT(before, ElementsAre("ln1", "ln2"));
  EXPECT_THAT(after, ElementsAre("ln1_after", "ln2_after"));
  EXPECT_THAT(around, ElementsAre("ln1", "ln1_after", "ln2", "ln2_after"));
  EXPECT_EQ(afterBytes, beforeBytes); // inputs of norms, in both positions
  EXPECT_EQ(aroundBytes, beforeBytes + 2 * x);
}

TEST(Branches, ParallelReducesOnce) {
  Architecture arch = tiny();
  arch.branches = Branches::ParallelSharedNorm;
  ModelFacts shared = expand(arch);
  EXPECT_THAT(namesOf(shared.blocks[0]),
              ElementsAre("layer_fork", "ln1", "norm_fork", "qkv",
                          "context_exchange", "attention", "proj", "mlp1",
                          "swiglu", "mlp2", "branch_add", "layer_reduce",
                          "drop"));
  arch.branches = Branches::Parallel;
  ModelFacts two = expand(arch);
  EXPECT_EQ(two.blocks[0].parameters, shared.blocks[0].parameters + 8);
  EXPECT_EQ(two.blocks[0].activationBytes,
            shared.blocks[0].activationBytes + 2 * kTokens * 8);
  // One stream fewer than if the MLP reads the sum with the attention's output.
  EXPECT_EQ(expand(tiny()).blocks[0].activationBytes,
            two.blocks[0].activationBytes + 2 * kTokens * 8);
}

TEST(Embeddings, TiedTablesAreOneTable) {
  Architecture arch = tiny();
  arch.vocabulary = 50;
  ModelSummary apart = llvm::cantFail(summarize(expand(arch)));
  arch.tiedEmbeddings = true;
  ModelFacts model = expand(arch);
  ModelSummary tied = llvm::cantFail(summarize(model));
  EXPECT_EQ(model.blocks.back().tiedParameters, 50 * 8);
  EXPECT_EQ(apart.parameters - tied.parameters, 50 * 8);
  EXPECT_EQ(apart.activeParameters - tied.activeParameters, 50 * 8);
  EXPECT_EQ(apart.weightBytes, tied.weightBytes); // both stages hold it
  EXPECT_EQ(apart.flopsPerToken, tied.flopsPerToken);
}

/// Bytes of weights by worker.
std::vector<int64_t> weightsByWorker(const Placement &placement,
                                     const ModelFacts &model) {
  MemoryFacts memory =
      llvm::cantFail(computeMemoryFacts(placement, model, /*system=*/nullptr));
  std::vector<int64_t> bytes(placement.getNumWorkers());
  for (auto [stage, facts] : llvm::enumerate(memory.stages))
    bytes[placement.workerOf(stage)] += facts.weightBytes;
  return bytes;
}

/// 2 * 50 * 8 bytes less on each worker that has both ends of the model.
TEST(Embeddings, TiedTablesAreOnceOnAWorker) {
  Architecture arch = tiny();
  arch.vocabulary = 50;
  arch.layers = 8;
  ModelFacts apart = expand(arch);
  arch.tiedEmbeddings = true;
  ModelFacts tied = expand(arch);
  auto lessOn = [&](int64_t workers, std::vector<Path> paths) {
    Placement placement =
        llvm::cantFail(Placement::create(workers, 2, std::move(paths)));
    std::vector<int64_t> before = weightsByWorker(placement, apart),
                         less = weightsByWorker(placement, tied);
    for (auto [bytes, all] : llvm::zip(less, before))
      bytes = all - bytes;
    return less;
  };
  EXPECT_THAT(lessOn(2, {placeLinear(2)}), ElementsAre(0, 0));
  EXPECT_THAT(lessOn(1, {placeLinear(1)}), ElementsAre(800));
  EXPECT_THAT(lessOn(2, {placeV(2)}), ElementsAre(800, 0));
  EXPECT_THAT(lessOn(2, llvm::cantFail(placeBidirectional(2, 2, /*pairs=*/1,
                                                          Assign::Alternate))),
              ElementsAre(800, 800));
}

TEST(Embeddings, NarrowTablesHaveProjections) {
  Architecture arch = tiny();
  arch.vocabulary = 50;
  arch.embeddingWidth = 3;
  ModelFacts model = expand(arch);
  EXPECT_EQ(model.blocks.front().parameters, 50 * 3 + 3 * 8);
  EXPECT_EQ(model.blocks.back().parameters, 50 * 3 + 3 * 8 + 8);
  EXPECT_EQ(kernelOf(model.blocks.back(), "head").forward,
            gemm(kTokens, 3, 50));
  EXPECT_EQ(kernelOf(model.blocks.front(), "embedding_up").forward,
            gemm(kTokens, 3, 8));
}

//===----------------------------------------------------------------------===//
// Layers of several kinds in one model
//===----------------------------------------------------------------------===//

static Architecture mixed() {
  Architecture arch = withExperts();
  arch.layers = 6;
  arch.window = {2, {2, 3, std::nullopt}}; // w w f w w f
  arch.experts->layers = {2, 1, std::nullopt};
  return arch;
}

TEST(MixedLayers, BlocksAreInOrder) {
  ModelFacts model = expand(mixed());
  std::vector<std::pair<std::string, int64_t>> blocks;
  blocks.reserve(model.blocks.size());
  for (const BlockFacts &block : model.blocks)
    blocks.emplace_back(block.name, block.count);
  EXPECT_THAT(blocks, ElementsAre(std::pair("window_dense_layer", 2),
                                  std::pair("full_expert_layer", 1),
                                  std::pair("window_expert_layer", 2),
                                  std::pair("full_expert_layer", 1)));
  EXPECT_EQ(model.getNumLayers(), 6);
}

/// Layers of a kind that occurred before are copied, and equal the layers of a
/// model that has no others.
TEST(MixedLayers, LayersOfOneKindAreEqual) {
  ModelFacts model = expand(mixed());
  Architecture alone = mixed();
  alone.layers = 1;
  alone.window.fullLayers = alone.experts->layers = {0, 1, std::nullopt};
  BlockFacts expected = expand(alone).blocks[0];
  expected.name = "full_expert_layer";
  EXPECT_EQ(model.blocks[1], expected);
  EXPECT_EQ(model.blocks[3], expected);
  expected.count = 2;
  EXPECT_FALSE(model.blocks[2] == expected); // its attention has a window
}

/// Stages of two layers have the costs of their layers, in the order of the
/// model.
TEST(MixedLayers, StagesHoldTheirOwn) {
  ModelFacts model = expand(mixed());
  SystemFacts system;
  system.matrix.flopsPerSecond = system.vector.flopsPerSecond = 1000000000;
  system.memory.bytesPerSecond = 1000000000;
  system.memoryBytes = 1000000000;
  system.network.bytesPerSecond = 1000000000;
  Placement placement =
      llvm::cantFail(Placement::create(3, 1, {placeLinear(3)}));
  StageCosts stageCosts =
      llvm::cantFail(costRoofline(placement, model, system, {}));
  MemoryFacts memory =
      llvm::cantFail(computeMemoryFacts(placement, model, &system));
  const std::vector<BlockFacts> &blocks = model.blocks;
  auto expectStage = [&](int64_t stage, const BlockFacts &a,
                         const BlockFacts &b) {
    EXPECT_NEAR(double(stageCosts.stages[stage].cells.alonePs(Phase::Forward)),
                rooflinePs(a, Phase::Forward, system) +
                    rooflinePs(b, Phase::Forward, system),
                1);
    EXPECT_EQ(memory.stages[stage].activationBytes,
              a.activationBytes + b.activationBytes);
    EXPECT_EQ(memory.stages[stage].weightBytes,
              2 * (a.parameters + b.parameters));
  };
  expectStage(0, blocks[0], blocks[0]);
  expectStage(1, blocks[1], blocks[2]);
  expectStage(2, blocks[2], blocks[3]);
}

//===----------------------------------------------------------------------===//
// Summaries
//===----------------------------------------------------------------------===//

TEST(ModelSummary, CountsEqualBlocksOnce) {
  ModelSummary summary = llvm::cantFail(summarize(expand(mixed())));
  ASSERT_EQ(summary.blocks.size(), 3u);
  EXPECT_EQ(summary.blocks[1].name, "full_expert_layer");
  EXPECT_EQ(summary.blocks[1].count, 2);
  EXPECT_EQ(summary.layers, 6);
  int64_t parameters = 0, active = 0, flops = 0, largest = 0, all = 0;
  for (const BlockSummary &block : summary.blocks) {
    parameters += block.count * block.parameters;
    active += block.count * block.activeParameters;
    flops += block.count * *block.flopsPerToken;
    all += block.count * block.activationBytes;
    largest = std::max(largest, block.activationBytes);
  }
  EXPECT_EQ(summary.parameters, parameters);
  EXPECT_EQ(summary.activeParameters, active);
  EXPECT_EQ(summary.flopsPerToken, flops);
  EXPECT_EQ(summary.activationBytes, all);
  EXPECT_EQ(summary.activationBytesPerBlock, largest);
}

/// 6 FLOPs for each matrix parameter and 12 l s q for scores (Megatron's and
/// PaLM's count), for all attention kernels.
TEST(ModelSummary, FlopsAreThoseOfTheModel) {
  for (Attention attention : {Attention::Fused, Attention::Unfused}) {
    Architecture arch = tiny(attention);
    arch.layers = 7;
    arch.vocabulary = 50;
    ModelSummary summary = llvm::cantFail(summarize(expand(arch)));
    int64_t matrices = 7 * (4 * 64 + 3 * 8 * 12) + 50 * 8;
    EXPECT_EQ(summary.attentionFlopsPerToken, 12 * 7 * 3 * 8);
    EXPECT_EQ(summary.flopsPerToken, 6 * matrices + 12 * 7 * 3 * 8);
  }
}

TEST(ModelSummary, FlopsNeedTheSequence) {
  ModelFacts model = expand(tiny());
  model.sequence = 0;
  ModelSummary summary = llvm::cantFail(summarize(model));
  EXPECT_EQ(summary.flopsPerToken, std::nullopt);
  EXPECT_EQ(summary.blocks[0].flopsPerToken, std::nullopt);
}

TEST(ModelSummary, OverflowIsAnError) {
  ModelFacts model = expand(tiny());
  model.blocks[0].count = int64_t(1) << 60;
  EXPECT_EQ(llvm::toString(summarize(model).takeError()),
            "the sums of model 'tiny' are over 2^63 - 1");
}

//===----------------------------------------------------------------------===//
// Systems
//===----------------------------------------------------------------------===//

TEST(Accelerators, ShareTheNetwork) {
  SystemFacts system;
  system.name = "s";
  system.network.bytesPerSecond = 50;
  EXPECT_EQ(llvm::toString(setAccelerators(system, 8)),
            "system 's': several accelerators in a worker need a link among "
            "them");
  EXPECT_EQ(llvm::toString(setAccelerators(system, 0)),
            "system 's': expected at least 1 accelerator in a worker, found 0");
  system.link.bytesPerSecond = 900;
  system.spine.bytesPerSecond = 10;
  EXPECT_EQ(llvm::toString(setAccelerators(system, 8)), "");
  EXPECT_EQ(system.spine.bytesPerSecond, 80);
  EXPECT_EQ(system.accelerators, 8);
  EXPECT_EQ(system.network.bytesPerSecond, 400);
  EXPECT_EQ(llvm::toString(setAccelerators(system, 2)), "");
  EXPECT_EQ(system.network.bytesPerSecond, 100);
  EXPECT_NE(llvm::toString(setAccelerators(system, int64_t(1) << 62)), "");
}

TEST(Overlap, WithoutItTimesAdd) {
  SystemFacts system;
  system.matrix.flopsPerSecond = 1000;
  system.memory.bytesPerSecond = 500;
  BlockFacts block;
  block.kernels.emplace_back();
  block.kernels[0].forward = {2000, 1500};
  EXPECT_EQ(rooflinePs(block, Phase::Forward, system), 3e12);
  system.overlapsMemory = false;
  EXPECT_EQ(rooflinePs(block, Phase::Forward, system), 5e12);
}
