//===- TrainingRecipeTest.cpp - Kept tensors and casts --------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Outputs that the backward computes again, tensors in fewer bits, casts,
// narrow rows and layers that predict one more token, on a layer that can be
// counted by head: hidden 8, an MLP of 12, latent ranks 5 and 3, heads of 2 + 1
// and values of 4, and six experts of width 4, two for each token.
//
//===----------------------------------------------------------------------===//

#include "FindKernel.h"
#include "PipeSched/CostModel/CostModel.h"
#include "PipeSched/CostModel/Kernels/TransformerBlock.h"
#include "PipeSched/CostModel/Layers/ModelSummary.h"
#include "gtest/gtest.h"

using namespace pipesched;

static constexpr int64_t kTokens = 15;

static Architecture latent() {
  Architecture arch;
  arch.name = "tiny";
  arch.hidden = arch.attentionWidth = 8;
  arch.feedforward = 12;
  arch.sequence = 3;
  arch.layers = 1;
  arch.attentionHeads = arch.keyValueHeads = 4;
  arch.activation = Activation::SwiGLU;
  arch.norm = Norm::RMSNorm;
  arch.latent = LatentAttention{5, 3, 2, 1, 4};
  return arch;
}

static Architecture withExperts() {
  Architecture arch = latent();
  Experts &experts = arch.experts.emplace();
  experts.count = 6;
  experts.perToken = 2;
  experts.feedforward = 4;
  return arch;
}

static ModelFacts expand(const Architecture &arch,
                         Precision precision = Precision::BF16) {
  ExpansionOptions options;
  options.microbatchSize = 5;
  options.precision = precision;
  return llvm::cantFail(expandArchitecture(arch, options));
}

static BlockFacts layerOf(const Architecture &arch,
                          Precision precision = Precision::BF16) {
  return expand(arch, precision).blocks.front();
}

static std::string errorOf(const Architecture &arch) {
  llvm::Expected<ModelFacts> model = expandArchitecture(arch, {});
  return model ? "" : llvm::toString(model.takeError());
}

/// A kernel that I runs again does the work of its forward there, and nothing
/// else.
static void expectAgain(const BlockFacts &block, llvm::StringRef name,
                        llvm::StringRef again) {
  const Kernel &kernel = kernelOf(block, again);
  EXPECT_EQ(kernel.inputGrad, kernelOf(block, name).forward) << again.str();
  EXPECT_EQ(kernel.engine, kernelOf(block, name).engine) << again.str();
  EXPECT_TRUE(kernel.forward.isZero() && kernel.weightGrad.isZero());
}

/// Queries of 8, keys and values of 4, an MLP of 12.
static Architecture plain() {
  Architecture arch = latent();
  arch.latent.reset();
  arch.attentionHeads = 2;
  arch.keyValueHeads = 1;
  return arch;
}

TEST(RecomputedOutputs, Norms) {
  Architecture arch = latent();
  BlockFacts whole = layerOf(arch);
  arch.recomputed.norms = true;
  BlockFacts block = layerOf(arch);
  for (const char *name : {"ln1", "ln2", "q_norm", "kv_norm"})
    expectAgain(block, name, std::string(name) + "_again");
  // Two outputs of 8, one of 5 and one of 3; W needs them all the same.
  EXPECT_EQ(whole.activationBytes - block.activationBytes,
            2 * kTokens * (2 * 8 + 5 + 3));
  EXPECT_EQ(whole.weightGradBytes, block.weightGradBytes);
}

TEST(RecomputedOutputs, UpProjections) {
  Architecture arch = latent();
  BlockFacts whole = layerOf(arch, Precision::FP8);
  arch.recomputed.upProjections = true;
  BlockFacts block = layerOf(arch, Precision::FP8);
  expectAgain(block, "q_up", "q_up_again");
  expectAgain(block, "kv_up", "kv_up_again");
  expectAgain(block, "rope", "rope_again");
  // Queries and keys of 12, values of 16.
  EXPECT_EQ(whole.activationBytes - block.activationBytes,
            2 * kTokens * (12 + 12 + 16));

  arch.latent->queryRank = 0; // queries are not an up-projection
  BlockFacts direct = layerOf(arch);
  EXPECT_FALSE(findKernel(direct, "q_again"));
  arch.recomputed.upProjections = false;
  EXPECT_EQ(layerOf(arch).activationBytes - direct.activationBytes,
            2 * kTokens * (12 + 16));
}

TEST(RecomputedOutputs, Activations) {
  Architecture arch = withExperts();
  BlockFacts whole = layerOf(arch);
  arch.recomputed.activations = true;
  BlockFacts block = layerOf(arch);
  expectAgain(block, "expert_swiglu", "expert_activation_again");
  EXPECT_TRUE(kernelOf(block, "expert_activation_again").routed);
  int64_t results = 2 * (2 * kTokens) * 4; // rows of 4
  EXPECT_EQ(whole.activationBytes - block.activationBytes, results);
  EXPECT_EQ(whole.experts->activationBytes - block.experts->activationBytes,
            results);
  EXPECT_EQ(whole.weightGradBytes, block.weightGradBytes);
  EXPECT_EQ(whole.experts->weightGradBytes, block.experts->weightGradBytes);
}

TEST(RecomputedOutputs, NeedWhatTheyName) {
  Architecture arch = latent();
  arch.recomputed.upProjections = true;
  EXPECT_EQ(errorOf(arch), "");
  arch.latent.reset();
  EXPECT_EQ(errorOf(arch), "recomputed: up_projections need latent_attention, "
                           "which the model does not have");
}

/// 15 x 16 elements of 12 bits take 360 bytes, and have two scales of 4 bytes;
/// 32 bits have none.
TEST(SavedBits, OfEachKind) {
  Architecture arch = latent();
  int64_t whole = layerOf(arch).activationBytes;
  arch.savedBits.attentionOutput = 12;
  EXPECT_EQ(whole - layerOf(arch).activationBytes, 480 - (360 + 2 * 4));
  arch.savedBits.attentionOutput = 32;
  EXPECT_EQ(layerOf(arch).activationBytes - whole, 480);

  arch.savedBits = {};
  arch.savedBits.activationInputs = 8; // two of 15 x 12
  EXPECT_EQ(whole - layerOf(arch).activationBytes, 2 * (360 - (180 + 2 * 4)));

  arch.savedBits = {};
  arch.savedBits.linearInputs = 8;
  // Both norms' outputs, both narrow vectors and the input of mlp2.
  int64_t elements = kTokens * (8 + 8 + 5 + 3 + 12);
  EXPECT_EQ(whole - layerOf(arch).activationBytes,
            elements - 4 * (1 + 1 + 1 + 1 + 2));
}

/// W waits for the gradient of an output as for its input. A plain layer with
/// two heads of 4 for one of keys and values has inputs of 8, 8 and 12 in 8
/// bits, and the attention's output in both.
TEST(SavedBits, OfLinearLayersInEightBits) {
  Architecture arch = plain();
  BlockFacts whole = layerOf(arch), narrow = layerOf(arch, Precision::FP8);
  int64_t saved = kTokens * (8 + 8 + 12), scales = 4 * (1 + 1 + 2);
  EXPECT_EQ(whole.activationBytes - narrow.activationBytes,
            saved - scales - kTokens * 8);
  arch.savedBits.linearInputs = arch.savedBits.attentionOutput = 16;
  EXPECT_EQ(layerOf(arch, Precision::FP8).activationBytes,
            whole.activationBytes);
}

/// The same in NVFP4, with a byte for each 16 elements: of 120, 120 and 180
/// elements 60 + 8, 60 + 8 and 90 + 12 bytes in place of two for each, and for
/// 120 of the attention's output 20 bits, 300 bytes in place of 240.
TEST(SavedBits, OfLinearLayersInFourBits) {
  BlockFacts whole = layerOf(plain());
  EXPECT_EQ(whole.activationBytes -
                layerOf(plain(), Precision::NVFP4).activationBytes,
            2 * (240 - 68) + (360 - 102) - 60);
}

TEST(SavedBits, OfGradientsInEightBits) {
  Architecture arch = latent();
  auto heldBesideInputs = [&](Precision precision) {
    BlockFacts block = layerOf(arch, precision);
    return block.weightGradBytes - block.activationBytes;
  };
  int64_t whole = heldBesideInputs(Precision::BF16);
  arch.savedBits.linearInputs = 16;
  EXPECT_EQ(whole, heldBesideInputs(Precision::FP8));
  arch.savedBits.linearInputs = 8;
  EXPECT_EQ(whole, heldBesideInputs(Precision::BF16));
  // Outputs of 5, 12, 4, 24, 8, 24 and 8 for each token, in seven tensors.
  int64_t elements = kTokens * (5 + 12 + 4 + 24 + 8 + 24 + 8);
  int64_t scales = 4 * (1 + 2 + 1 + 3 + 1 + 3 + 1);
  EXPECT_EQ(whole - heldBesideInputs(Precision::FP8), elements - scales);
}

/// Every second product of q, k, v, proj, gate, up and down is kept: 8, 4, 12
/// and 8, plus the input of 8, the attention's output of 8 and a statistic for
/// each head.
TEST(RecomputedOutputs, Operations) {
  Architecture arch = plain();
  arch.recomputed.operations = true;
  BlockFacts block = layerOf(arch);
  EXPECT_EQ(block.activationBytes,
            2 * kTokens * (8 + 8 + 4 + 8 + 12 + 8) + 4 * 2 * kTokens);
  EXPECT_EQ(block.weightGradBytes, layerOf(plain()).weightGradBytes);
  for (const char *name : {"ln1", "ln2"})
    expectAgain(block, name, std::string(name) + "_again");
  expectAgain(block, "swiglu", "activation_again");
  EXPECT_EQ(kernelOf(block, "k_again").inputGrad.flops, 2 * kTokens * 8 * 4);
  EXPECT_EQ(kernelOf(block, "proj_again").inputGrad.flops, 2 * kTokens * 8 * 8);
  EXPECT_EQ(kernelOf(block, "mlp1_again").inputGrad.flops,
            2 * kTokens * 8 * 12);

  // Products in 8 bits count like others.
  arch.savedBits.attentionOutput = 16;
  arch.savedBits.linearInputs = 16;
  BlockFacts narrow = layerOf(arch, Precision::FP8);
  EXPECT_EQ(narrow.activationBytes, block.activationBytes);
  EXPECT_EQ(kernelOf(narrow, "k_again").inputGrad.flops, 2 * kTokens * 8 * 4);
  EXPECT_EQ(kernelOf(narrow, "mlp1_again").inputGrad.flops,
            2 * kTokens * 8 * 12);

  arch.attention = Attention::Unfused;
  EXPECT_EQ(errorOf(arch), "recomputed: operations need layers with plain "
                           "fused attention and an MLP");
}

/// All kernels of a part run again, and W finds its inputs.
TEST(RecomputedOutputs, WholeParts) {
  Architecture arch = plain();
  arch.recomputed.mlps = true;
  BlockFacts whole = layerOf(plain()), block = layerOf(arch);
  for (const char *name : {"mlp1", "swiglu", "mlp2"})
    expectAgain(block, name, std::string(name) + "_again");
  // Gate, value and the input of the second matrix.
  EXPECT_EQ(whole.activationBytes - block.activationBytes,
            2 * kTokens * 3 * 12);
  EXPECT_EQ(whole.weightGradBytes, block.weightGradBytes);
  arch.recomputed.experts = true;
  EXPECT_EQ(errorOf(arch), "recomputed: the model has no experts");

  arch = withExperts();
  whole = layerOf(arch);
  arch.recomputed.experts = true;
  block = layerOf(arch);
  for (const char *name :
       {"router", "route", "dispatch", "dispatch_exchange", "expert_mlp1",
        "expert_swiglu", "expert_mlp2", "combine_exchange", "combine"})
    expectAgain(block, name, std::string(name) + "_again");
  EXPECT_TRUE(kernelOf(block, "expert_mlp1_again").routed);
  EXPECT_TRUE(kernelOf(block, "route_again").synchronizes);
  EXPECT_EQ(block.experts->activationBytes, 0);
  EXPECT_EQ(whole.weightGradBytes, block.weightGradBytes);
  EXPECT_EQ(whole.experts->weightGradBytes, block.experts->weightGradBytes);
}

/// The first of two layers keeps its input, and its backward runs the forward.
TEST(RecomputedLayers, KeepTheirInput) {
  Architecture arch = plain();
  arch.layers = 2;
  BlockFacts kept = layerOf(arch);
  arch.recomputedLayers.listed = {0};
  ModelFacts model = expand(arch);
  ASSERT_EQ(model.blocks.size(), 2u);
  const BlockFacts &block = model.blocks.front();
  EXPECT_EQ(block.name, "recomputed_layer");
  EXPECT_EQ(block.activationBytes, 2 * kTokens * 8);
  EXPECT_EQ(block.recomputedBytes, kept.recomputedBytes);
  EXPECT_EQ(block.weightGradBytes, kept.weightGradBytes);
  EXPECT_EQ(block.parameters, kept.parameters);
  kept.count = 1;
  EXPECT_EQ(model.blocks.back(), kept);
  for (const Kernel &kernel : kept.kernels)
    if (!kernel.forward.isZero())
      expectAgain(block, kernel.name, kernel.name + "_again");
  ExpansionOptions options;
  options.recompute = Recompute::Full;
  EXPECT_EQ(llvm::toString(expandArchitecture(arch, options).takeError()),
            "recomputed_layers: full recomputation is of all layers; give one "
            "of them");
  arch.recomputedLayers.listed->clear();
  EXPECT_TRUE(bool(expandArchitecture(arch, options)));
}

/// The logits in 4 bytes, their softmax and its gradient; without, the logits.
TEST(SeparateLoss, HoldsThreeOfTheLogits) {
  Architecture arch = plain();
  arch.vocabulary = 7;
  BlockFacts fused = expand(arch).blocks.back();
  arch.separateLoss = true;
  BlockFacts head = expand(arch).blocks.back();
  int64_t logits = kTokens * 7;
  EXPECT_EQ(head.activationBytes - fused.activationBytes, 8 * logits);
  EXPECT_EQ(kernelOf(head, "logits_float").forward, (Work{0, 6 * logits}));
  EXPECT_EQ(kernelOf(head, "loss").forward, (Work{4 * logits, 8 * logits}));
  EXPECT_EQ(kernelOf(head, "loss").inputGrad, (Work{logits, 16 * logits}));

  arch.parallelLoss = true;
  BlockFacts parts = expand(arch).blocks.back();
  EXPECT_EQ(parts.activationBytes - head.activationBytes, 4 * logits);
  EXPECT_EQ(kernelOf(parts, "loss").forward, (Work{4 * logits, 32 * logits}));
  EXPECT_EQ(kernelOf(parts, "loss").inputGrad, (Work{logits, 32 * logits}));
}

/// Each rank has all logits in 2 bytes and three of them in 4, which it gets by
/// half an all-reduce.
TEST(GatheredLoss, IsWholeOnEachRank) {
  Architecture arch = plain();
  arch.vocabulary = 7;
  arch.separateLoss = true;
  EXPECT_EQ(expand(arch).blocks.back().whole.activation, 0);
  arch.gatheredLoss = true;
  BlockFacts head = expand(arch).blocks.back();
  int64_t logits = kTokens * 7;
  EXPECT_EQ(head.whole.activation, (2 + 3 * 4) * logits);
  EXPECT_EQ(head.whole.recomputed, head.whole.activation);
  EXPECT_EQ(kernelOf(head, "logits_gather").forward, (Work{0, logits}));
  EXPECT_TRUE(kernelOf(head, "logits_gather").inputGrad.isZero());
  EXPECT_TRUE(kernelOf(head, "logits_float").whole);
  EXPECT_TRUE(kernelOf(head, "loss").whole);
}

/// A copy in FP32 and the product before the gain, instead of the input: 4
/// bytes more for each of the two norms.
TEST(SeparateNorms, KeepACopyInFloats) {
  Architecture arch = plain();
  BlockFacts fused = layerOf(arch);
  arch.separateNorms = true;
  BlockFacts block = layerOf(arch);
  int64_t stream = kTokens * 8;
  EXPECT_EQ(block.activationBytes - fused.activationBytes, 2 * 4 * stream);
  EXPECT_EQ(block.weightGradBytes, fused.weightGradBytes);
  EXPECT_EQ(block.recomputedBytes, fused.recomputedBytes);
  const Kernel &norm = kernelOf(block, "ln1");
  EXPECT_EQ(norm.launches, 8);
  EXPECT_EQ(norm.forward, (Work{4 * stream, (7 * 4 + 4 * 2) * stream}));
  EXPECT_EQ(norm.inputGrad, (Work{7 * stream, (15 * 4 + 4 * 2) * stream}));
  EXPECT_EQ(norm.weightGrad, (Work{3 * stream, 4 * 2 * stream}));
}

/// The result of the function is kept too, and the product is a kernel.
TEST(SeparateActivations, KeepTheResultOfTheFunction) {
  Architecture arch = plain();
  BlockFacts fused = layerOf(arch);
  arch.separateActivations = true;
  BlockFacts block = layerOf(arch);
  int64_t inner = kTokens * 12;
  EXPECT_EQ(block.activationBytes - fused.activationBytes, 2 * inner);
  EXPECT_EQ(kernelOf(block, "silu").forward, (Work{5 * inner, 4 * inner}));
  EXPECT_EQ(kernelOf(block, "gate_mul").forward, (Work{inner, 6 * inner}));
  EXPECT_FALSE(findKernel(block, "swiglu"));
  EXPECT_EQ(block.coreBytes, fused.coreBytes);
}

/// Each tensor-parallel rank has the inputs of both first linear layers of a
/// layer, and of the head, whole.
TEST(GatheredInputs, AreWholeOnEachRank) {
  Architecture arch = plain();
  arch.vocabulary = 7;
  ModelFacts divided = expand(arch);
  arch.gatheredInputs = true;
  ModelFacts gathered = expand(arch);
  auto layer = [](const ModelFacts &model) { return model.blocks[1].whole; };
  EXPECT_EQ(layer(divided).activation, 0);
  EXPECT_EQ(layer(gathered).activation, 2 * 2 * kTokens * 8);
  EXPECT_EQ(layer(gathered).weightGrad, 2 * 2 * kTokens * 8);
  EXPECT_EQ(layer(gathered).recomputed, 0);
  EXPECT_EQ(gathered.blocks.back().whole.activation, 2 * kTokens * 8);
  EXPECT_EQ(gathered.blocks[1].activationBytes,
            divided.blocks[1].activationBytes);
}

TEST(SeparateCasts, OfLinearLayersInEightBits) {
  Architecture arch = latent();
  arch.separateCasts = true;
  EXPECT_FALSE(findKernel(layerOf(arch), "proj_cast"));
  BlockFacts block = layerOf(arch, Precision::FP8);
  // From 16 to 8 rows and columns: 2 bytes are read and 1 is written.
  const Kernel &cast = kernelOf(block, "proj_cast");
  EXPECT_EQ(cast.engine, Engine::Vector);
  EXPECT_EQ(cast.forward, (Work{kTokens * 16, 3 * kTokens * 16}));
  EXPECT_EQ(cast.inputGrad, (Work{kTokens * 8, 3 * kTokens * 8}));
  EXPECT_EQ(cast.weightGrad,
            (Work{kTokens * 16, 2 * kTokens * 16 + kTokens * 8}));
  EXPECT_FALSE(findKernel(layerOf(latent(), Precision::FP8), "proj_cast"));
}

TEST(DispatchBits, OfRowsAndOfTheirGradients) {
  Architecture arch = withExperts();
  int64_t elements = 2 * kTokens * 8, narrow = elements + 2 * 4;
  arch.experts->dispatchBits = 8;
  BlockFacts block = layerOf(arch);
  const Kernel &there = kernelOf(block, "dispatch_exchange");
  EXPECT_EQ(there.forward.bytes, narrow);
  EXPECT_EQ(there.inputGrad.bytes, 2 * elements);
  const Kernel &back = kernelOf(block, "combine_exchange");
  EXPECT_EQ(back.forward.bytes, 2 * elements);
  EXPECT_EQ(back.inputGrad.bytes, narrow);
}

TEST(PredictionLayers, StandBehindTheHead) {
  Architecture arch = withExperts();
  EXPECT_EQ(errorOf(arch), "");
  arch.predictionLayers = 2;
  EXPECT_EQ(errorOf(arch), "vocabulary: prediction_layers need it");
  arch.vocabulary = 10;
  ModelFacts model = expand(arch);
  ASSERT_EQ(model.blocks.size(), 4u); // embedding, layer, head, prediction
  const BlockFacts &layer = model.blocks[1], &head = model.blocks[2];
  const BlockFacts &block = model.blocks[3];
  EXPECT_EQ(block.name, "prediction_layer");
  EXPECT_EQ(block.position, BlockPosition::Last);
  EXPECT_EQ(block.count, 2);
  EXPECT_EQ(model.getNumLayers(), 1);
  // A projection of two streams to one, three norms, and the table.
  EXPECT_EQ(block.parameters, layer.parameters + 2 * 8 * 8 + 3 * 8 + 10 * 8);
  EXPECT_EQ(block.tiedParameters, 10 * 8);
  EXPECT_EQ(kernelOf(block, "prediction_proj").forward.flops,
            2 * kTokens * 2 * 8 * 8);
  EXPECT_EQ(kernelOf(block, "head").forward, kernelOf(head, "head").forward);
  EXPECT_EQ(kernelOf(block, "attention").forward,
            kernelOf(layer, "attention").forward);
  EXPECT_EQ(block.experts->parameters, layer.experts->parameters);

  Architecture without = arch;
  without.predictionLayers = 0;
  ModelSummary summary = llvm::cantFail(summarize(model)),
               shorter = llvm::cantFail(summarize(expand(without)));
  EXPECT_EQ(summary.parameters - shorter.parameters,
            2 * (block.parameters - block.tiedParameters));
}
