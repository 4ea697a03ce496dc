//===- LinearAttentionTest.cpp - Recurrences in place of attention --------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Kernels and memory of small layers by hand, their growth with the sequence,
// and the exchanges of ranks that divide sequences.
//
//===----------------------------------------------------------------------===//

#include "../Support/ToyCosts.h"
#include "FindKernel.h"
#include "PipeSched/CostModel/Kernels/TransformerBlock.h"
#include "PipeSched/CostModel/Layers/Slices.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

using namespace pipesched;

/// Every other layer has a recurrence: 2 heads of keys of 4 elements, 4 heads
/// of values of 6, chunks of 8 tokens.
static Architecture hybrid(Recurrence recurrence = Recurrence::GatedDelta) {
  Architecture arch;
  arch.name = "hybrid";
  arch.hidden = arch.attentionWidth = 24;
  arch.feedforward = 32;
  arch.sequence = 16;
  arch.layers = 4;
  arch.attentionHeads = arch.keyValueHeads = 4;
  arch.activation = Activation::SwiGLU;
  arch.norm = Norm::RMSNorm;
  LinearAttention &linear = arch.linear.emplace();
  linear.recurrence = recurrence;
  linear.keyHeads = 2;
  linear.keyHeadSize = 4;
  linear.valueHeads = 4;
  linear.valueHeadSize = 6;
  linear.chunk = 8;
  linear.layers = {0, 2, std::nullopt};
  if (recurrence == Recurrence::Mamba)
    linear.timeRank = 3;
  return arch;
}

static ModelFacts expand(const Architecture &arch, int64_t microbatch = 1) {
  ExpansionOptions options;
  options.microbatchSize = microbatch;
  return llvm::cantFail(expandArchitecture(arch, options));
}

static BlockFacts blockOf(const Architecture &arch) {
  return expand(arch).blocks.front();
}

static std::string errorOf(const Architecture &arch) {
  return llvm::toString(checkArchitecture(arch));
}

//===----------------------------------------------------------------------===//
// Layers
//===----------------------------------------------------------------------===//

TEST(LinearLayers, AreKindsOfTheirOwn) {
  ModelFacts model = expand(hybrid());
  std::vector<std::string> names;
  for (const BlockFacts &block : model.blocks)
    names.push_back(block.name);
  EXPECT_THAT(names, testing::ElementsAre("linear_layer", "full_layer",
                                          "linear_layer", "full_layer"));
}

TEST(LinearLayers, MayHaveOnePart) {
  Architecture arch = hybrid();
  arch.mixerOnly = {0, 2, std::nullopt};
  arch.feedforwardOnly = {1, 2, std::nullopt};
  ModelFacts model = expand(arch);
  EXPECT_EQ(model.blocks[0].name, "linear_layer");
  EXPECT_EQ(model.blocks[1].name, "mlp_layer");
  EXPECT_FALSE(findKernel(model.blocks[0], "mlp1"));
  EXPECT_FALSE(findKernel(model.blocks[1], "in_proj"));
  EXPECT_FALSE(findKernel(model.blocks[1], "qkv"));
  // Together they are the parts of one whole layer and keep the same tensors.
  arch.mixerOnly = arch.feedforwardOnly = LayerSet::none();
  BlockFacts whole = blockOf(arch);
  EXPECT_EQ(model.blocks[0].parameters + model.blocks[1].parameters,
            whole.parameters);
  EXPECT_EQ(model.blocks[0].activationBytes + model.blocks[1].activationBytes,
            whole.activationBytes);
}

TEST(LinearLayers, AreChecked) {
  Architecture arch = hybrid();
  EXPECT_EQ(errorOf(arch), "");
  arch.linear->keyHeads = 3;
  EXPECT_EQ(errorOf(arch),
            "linear_attention.value_heads: expected a multiple of the 3 "
            "key_heads, found 4");
  arch = hybrid();
  arch.linear->timeRank = 2;
  EXPECT_EQ(errorOf(arch), "linear_attention: time_rank and inner_norms need "
                           "recurrence mamba, found gated_delta");
  arch = hybrid();
  arch.recomputed.operations = true;
  EXPECT_EQ(errorOf(arch), "recomputed: operations need layers with plain "
                           "fused attention and an MLP");
  arch = hybrid();
  arch.mixerOnly = arch.feedforwardOnly = {3, 1, std::nullopt};
  EXPECT_EQ(errorOf(arch), "mixer_only: layer 3 is in feedforward_only, too");
}

//===----------------------------------------------------------------------===//
// Kernels
//===----------------------------------------------------------------------===//

/// T = 16 tokens, 64 rows of a token and head, C = 8, d_k = 4, d_v = 6, two
/// chunks of 4 heads with states of 24 elements.
TEST(GatedDelta, KernelsByHand) {
  BlockFacts block = blockOf(hybrid());
  // 2 x 8 keys and queries, 2 x 24 values and gates, 2 x 4 decays.
  EXPECT_EQ(kernelOf(block, "in_proj").forward.flops,
            2 * 16 * 24 * (16 + 48 + 8));
  const Kernel &scores = kernelOf(block, "delta_scores");
  EXPECT_EQ(scores.forward.flops, 64 * (2 * 8 * 4 + 64 / 3));
  EXPECT_EQ(scores.forward.bytes, 2 * 64 * (4 + 8));
  const Kernel &vectors = kernelOf(block, "delta_vectors");
  EXPECT_EQ(vectors.forward.flops, 64 * 2 * 8 * (4 + 6));
  EXPECT_EQ(vectors.inputGrad.flops, 3 * vectors.forward.flops);
  const Kernel &states = kernelOf(block, "delta_states");
  EXPECT_EQ(states.forward.flops, 64 * 4 * 4 * 6);
  EXPECT_EQ(states.forward.bytes, 2 * (64 * 2 * (4 + 6) + 2 * 4 * 24));
  const Kernel &outputs = kernelOf(block, "delta_outputs");
  EXPECT_EQ(outputs.forward.flops, 64 * (2 * 4 * 6 + 2 * 8 * (4 + 6)));
  EXPECT_EQ(outputs.inputGrad.flops, 2 * outputs.forward.flops);
  EXPECT_TRUE(outputs.weightGrad.isZero());
  EXPECT_FALSE(findKernel(block, "attention"));
  // Bytes of 16-bit elements: queries and keys of 4 heads, values, inverses,
  // inputs of convolution, norm and its gate, output projection; gates.
  int64_t core = 2 * 16 * (2 * 16 + 24 + 4 * 8 + 40 + 24 + 24 + 24) + 10 * 64;
  Architecture mlp = hybrid();
  mlp.linear.reset();
  mlp.feedforwardOnly = {0, 1, std::nullopt};
  // And the input of the layer and its norm's output in addition to the MLP's
  // own.
  int64_t rest = blockOf(mlp).activationBytes + 2 * 2 * 16 * 24;
  EXPECT_EQ(block.activationBytes, core + rest);
}

TEST(Mamba2, KernelsByHand) {
  BlockFacts block = blockOf(hybrid(Recurrence::Mamba2));
  // Gate and input of 24, B and C of two groups of 4, 4 step sizes.
  EXPECT_EQ(kernelOf(block, "in_proj").forward.flops,
            2 * 16 * 24 * (2 * 24 + 2 * 8 + 4));
  EXPECT_EQ(kernelOf(block, "ssd_scores").forward.flops, 2 * 16 * 8 * 8);
  EXPECT_EQ(kernelOf(block, "ssd_states").forward.flops, 2 * 16 * 24 * 4);
  EXPECT_EQ(kernelOf(block, "ssd_pass").forward.flops, 2 * 2 * 24 * 4);
  EXPECT_EQ(kernelOf(block, "ssd_outputs").forward.flops,
            2 * 16 * 24 * (8 + 4));
  EXPECT_TRUE(kernelOf(block, "convolution_again").forward.isZero());
  EXPECT_EQ(kernelOf(block, "gated_norm").forward.bytes, 3 * 2 * 16 * 24);
}

TEST(Mamba, KernelsByHand) {
  BlockFacts block = blockOf(hybrid(Recurrence::Mamba));
  EXPECT_EQ(kernelOf(block, "in_proj").forward.flops, 2 * 16 * 24 * 48);
  EXPECT_EQ(kernelOf(block, "x_proj").forward.flops, 2 * 16 * 24 * (3 + 8));
  EXPECT_EQ(kernelOf(block, "dt_proj").forward.flops, 2 * 16 * 3 * 24);
  EXPECT_EQ(kernelOf(block, "selective_scan").forward.flops,
            16 * 24 * (9 * 4 + 8));
  EXPECT_EQ(kernelOf(block, "selective_scan").engine, Engine::Vector);
  // All accelerators need these whole: step sizes, B and C in 16 bits.
  EXPECT_EQ(block.whole.activation, 2 * 16 * (3 + 8));
}

TEST(ShortConvolution, KernelsByHand) {
  BlockFacts block = blockOf(hybrid(Recurrence::Convolution));
  EXPECT_EQ(kernelOf(block, "in_proj").forward.flops, 2 * 16 * 24 * 72);
  EXPECT_EQ(kernelOf(block, "convolution").forward.flops, 2 * 4 * 16 * 24);
  EXPECT_EQ(kernelOf(block, "gate_out").forward.bytes, 3 * 2 * 16 * 24);
}

/// Twice the tokens are twice the work and twice the memory, where attention
/// has four times the scores.
TEST(LinearLayers, GrowWithTheSequence) {
  for (Recurrence recurrence : {Recurrence::GatedDelta, Recurrence::Mamba2,
                                Recurrence::Mamba, Recurrence::Convolution}) {
    Architecture arch = hybrid(recurrence);
    BlockFacts once = blockOf(arch);
    arch.sequence *= 2;
    BlockFacts twice = blockOf(arch);
    EXPECT_EQ(twice.activationBytes, 2 * once.activationBytes);
    for (auto [a, b] : llvm::zip_equal(once.kernels, twice.kernels)) {
      EXPECT_EQ(b.forward.flops, 2 * a.forward.flops) << a.name;
      EXPECT_EQ(b.inputGrad.flops, 2 * a.inputGrad.flops) << a.name;
    }
  }
}

/// A chunk that is longer than the sequence is as long as it.
TEST(LinearLayers, ChunksAreNotLongerThanSequences) {
  Architecture arch = hybrid();
  arch.linear->chunk = 16;
  BlockFacts one = blockOf(arch);
  arch.linear->chunk = int64_t(1) << 40;
  EXPECT_EQ(blockOf(arch), one);
}

TEST(AttentionGate, IsComputedBesideTheQueries) {
  Architecture arch = hybrid();
  arch.linear.reset();
  BlockFacts plain = blockOf(arch);
  arch.attentionGate = true;
  BlockFacts gated = blockOf(arch);
  EXPECT_EQ(gated.parameters - plain.parameters, 24 * 24);
  EXPECT_EQ(gated.activationBytes - plain.activationBytes, 2 * 2 * 16 * 24);
  EXPECT_EQ(kernelOf(gated, "qkv").forward.flops, 2 * 16 * 24 * 96);
  EXPECT_EQ(kernelOf(gated, "attention_gate").forward.flops, 5 * 16 * 24);
}

//===----------------------------------------------------------------------===//
// Ranks and slices
//===----------------------------------------------------------------------===//

/// A worker of two accelerators that divide the sequence, one byte a ps.
static SystemFacts twoRanks() {
  SystemFacts system = toySystem();
  system.accelerators = system.contextParallel = 2;
  system.link = {1000000000000, 0, {}};
  return system;
}

/// Ranks keep half of the data that they exchange: before the recurrence
/// in_proj's 72 outputs of 16 tokens, after it 24; the part of a rank is half
/// of that.
TEST(LinearLayers, RanksOfSequencesExchangeHeads) {
  Architecture arch = hybrid();
  arch.layers = 1;
  ModelFacts model = expand(arch);
  Placement placement =
      llvm::cantFail(Placement::create(1, 1, {placeLinear(1)}));
  PhaseSet phases = PhaseSet(Phase::Forward) | PhaseSet(Phase::InputGrad) |
                    PhaseSet(Phase::WeightGrad);
  StageCost cost =
      llvm::cantFail(costRoofline(placement, model, twoRanks(), phases))
          .stages.front();
  int64_t bytes = 2 * 16 * (72 + 24);
  for (Phase phase : {Phase::Forward, Phase::InputGrad}) {
    Exchange found = cost.cells.on(Resource::Context, phase);
    EXPECT_EQ(found.ps, bytes / 4);
    EXPECT_EQ(found.exposedPs, bytes / 4);
    EXPECT_EQ(found.bytes, bytes / 2);
  }
}

/// Slices add up to the microbatch, and have no keys and values to keep.
TEST(LinearLayers, SlicesAddUp) {
  Architecture arch = hybrid();
  arch.layers = 1;
  ModelFacts model = expand(arch);
  BlockFacts a = takeSlice(model, {0, 8}).blocks.front();
  BlockFacts b = takeSlice(model, {8, 16}).blocks.front();
  EXPECT_EQ(keyValueBytes(model.blocks.front()), 0);
  EXPECT_EQ(a.activationBytes + b.activationBytes,
            model.blocks.front().activationBytes);
  for (llvm::StringRef name : {"delta_scores", "delta_outputs", "gated_norm"})
    EXPECT_EQ(kernelOf(a, name).forward.flops + kernelOf(b, name).forward.flops,
              kernelOf(model.blocks.front(), name).forward.flops);
}
