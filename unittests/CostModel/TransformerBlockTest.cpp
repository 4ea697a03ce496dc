//===- TransformerBlockTest.cpp - Kernels, tensors, parameters ------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The paper's kernels one by one, Korthikanti's activation formula, and
// variants compared with sums by hand.
//
//===----------------------------------------------------------------------===//

#include "PipeSched/CostModel/Kernels/TransformerBlock.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/MemoryBuffer.h"
#include "gtest/gtest.h"

using namespace pipesched;
namespace json = llvm::json;

/// The paper's block: unfused, with dropout, GELU, LayerNorm and without
/// biases.
static Architecture megatron(int64_t hidden, int64_t sequence, int64_t heads) {
  Architecture arch;
  arch.name = "megatron";
  arch.hidden = arch.attentionWidth = hidden;
  arch.feedforward = 4 * hidden;
  arch.sequence = sequence;
  arch.layers = 1;
  arch.attentionHeads = arch.keyValueHeads = heads;
  arch.attention = Attention::Unfused;
  arch.dropout = true;
  return arch;
}

static ModelFacts expand(const Architecture &arch, int64_t microbatchSize,
                         Recompute recompute = Recompute::None) {
  ExpansionOptions options;
  options.microbatchSize = microbatchSize;
  options.recompute = recompute;
  return llvm::cantFail(expandArchitecture(arch, options));
}

static const BlockFacts &layerOf(const ModelFacts &model) {
  for (const BlockFacts &block : model.blocks)
    if (block.position == BlockPosition::Layer)
      return block;
  llvm::report_fatal_error("the model has no layers");
}

static const Kernel &kernelOf(const BlockFacts &block, llvm::StringRef name) {
  for (const Kernel &kernel : block.kernels)
    if (kernel.name == name)
      return kernel;
  llvm::report_fatal_error("no such kernel");
}

static std::string errorOf(const Architecture &arch, ExpansionOptions options) {
  llvm::Expected<ModelFacts> model = expandArchitecture(arch, options);
  return model ? "" : llvm::toString(model.takeError());
}

//===----------------------------------------------------------------------===//
// The paper's table
//===----------------------------------------------------------------------===//

namespace {
/// Table of the paper's kernels: FLOPs and bytes of each phase (its "A" is I).
class PaperOps : public testing::Test {
protected:
  void SetUp() override {
    auto buffer = llvm::MemoryBuffer::getFile(PAPER_OPS_JSON, /*IsText=*/true);
    ASSERT_TRUE(bool(buffer)) << PAPER_OPS_JSON;
    table = llvm::cantFail(json::parse((*buffer)->getBuffer()));
    const json::Object &setup = *table.getAsObject();
    ASSERT_EQ(setup.getInteger("bytes"), 2);
    model =
        expand(megatron(*setup.getInteger("hidden"), *setup.getInteger("seq"),
                        *setup.getInteger("heads")),
               *setup.getInteger("microbatch"));
  }

  static void expectWork(const json::Object &phases, llvm::StringRef letter,
                         const Work &work, const std::string &name) {
    const json::Object *expected = phases.getObject(letter);
    EXPECT_EQ(work.flops, expected ? expected->getInteger("flops") : 0)
        << name << " " << letter.str();
    EXPECT_EQ(work.bytes, expected ? expected->getInteger("bytes") : 0)
        << name << " " << letter.str();
  }

  json::Value table = nullptr;
  ModelFacts model;
};
} // namespace

TEST_F(PaperOps, EveryKernelMatches) {
  std::vector<const Kernel *> kernels;
  for (const Kernel &kernel : layerOf(model).kernels)
    if (kernel.engine != Engine::Link && kernel.engine != Engine::Context)
      kernels.push_back(&kernel);
  const json::Array &ops = *table.getAsObject()->getArray("ops");
  ASSERT_EQ(kernels.size(), ops.size());
  for (size_t i = 0; i < ops.size(); ++i) {
    const json::Object &op = *ops[i].getAsObject();
    const Kernel &kernel = *kernels[i];
    EXPECT_EQ(kernel.name, op.getString("op")->str());
    EXPECT_EQ(kernel.engine,
              op.getString("engine") == "mat" ? Engine::Matrix : Engine::Vector)
        << kernel.name;
    const json::Object &phases = *op.getObject("phases");
    expectWork(phases, "F", kernel.forward, kernel.name);
    expectWork(phases, "A", kernel.inputGrad, kernel.name);
    expectWork(phases, "W", kernel.weightGrad, kernel.name);
  }
}

TEST_F(PaperOps, MessagesAndParametersMatch) {
  EXPECT_EQ(model.boundaryBytes, int64_t(1) << 29);
  EXPECT_EQ(layerOf(model).parameters, 12 * 4096 * 4096 + 4 * 4096);
}

//===----------------------------------------------------------------------===//
// Saved tensors
//===----------------------------------------------------------------------===//

/// s b h (34 + 5 a s / h), Korthikanti et al. (2205.05198), equation 1.
TEST(SavedTensors, UnfusedMatchesKorthikanti) {
  for (auto [h, s, a, b] : {std::array<int64_t, 4>{4096, 4096, 80, 16},
                            {6144, 2048, 64, 4},
                            {12288, 2048, 96, 1},
                            {8, 3, 2, 5}}) {
    ModelFacts model = expand(megatron(h, s, a), b);
    EXPECT_EQ(layerOf(model).activationBytes,
              34 * s * b * h + 5 * a * s * s * b);
  }
}

/// Selective recomputation leaves 34 s b h, full 2 s b h (their table 2).
TEST(SavedTensors, RecomputeKeepsLess) {
  int64_t sbh = 2048 * 4 * 6144;
  Architecture arch = megatron(6144, 2048, 64);
  BlockFacts layer = layerOf(expand(arch, 4));
  EXPECT_EQ(layer.activationBytes - layer.coreBytes, 34 * sbh);
  EXPECT_EQ(layer.recomputedBytes, 2 * sbh);
  // The facts do not depend on the recomputation.
  EXPECT_EQ(layerOf(expand(arch, 4, Recompute::Selective)), layer);
  EXPECT_EQ(layerOf(expand(arch, 4, Recompute::Full)), layer);
}

/// The M_W of the zero-bubble paper (2401.10241, table 1) is 32 s b h: inputs
/// and output gradients of the linear layers. The norms, which it leaves out,
/// add 2 s b h of input and of output gradient each.
TEST(SavedTensors, WeightGradientHoldsInputsAndOutputGradients) {
  int64_t sbh = 2048 * 4 * 6144;
  ModelFacts model = expand(megatron(6144, 2048, 64), 4);
  EXPECT_EQ(layerOf(model).weightGradBytes, 32 * sbh + 2 * (2 + 2) * sbh);
}

/// Without the scores: 34 s b h and a 4-byte statistic per row and head.
TEST(SavedTensors, FusedDropsTheScores) {
  Architecture arch = megatron(6144, 2048, 64);
  arch.attention = Attention::Fused;
  int64_t tokens = 2048 * 4;
  EXPECT_EQ(layerOf(expand(arch, 4)).activationBytes,
            34 * tokens * 6144 + 4 * 64 * tokens);
  EXPECT_EQ(layerOf(expand(arch, 4)).coreBytes, 4 * 64 * tokens);
}

/// Without dropout there are no masks and one copy of the probabilities.
TEST(SavedTensors, NoDropoutNoMasks) {
  Architecture arch = megatron(8, 3, 2);
  arch.dropout = false;
  int64_t x = 5 * 3 * 8, n = 2 * 3 * 3 * 5;
  EXPECT_EQ(layerOf(expand(arch, 5)).activationBytes, 32 * x + 2 * n);
}

//===----------------------------------------------------------------------===//
// Variants, by hand: hidden 8, feedforward 12, 4 query heads of 2, 2 key-value
// heads, sequence 3, microbatch 5: T = 15 tokens.
//===----------------------------------------------------------------------===//

static Architecture llamaLike(Attention attention) {
  Architecture arch = megatron(8, 3, 4);
  arch.feedforward = 12;
  arch.keyValueHeads = 2;
  arch.activation = Activation::SwiGLU;
  arch.norm = Norm::RMSNorm;
  arch.attention = attention;
  arch.dropout = false;
  return arch;
}

TEST(Variants, GatedGroupedParameters) {
  // q 8x8, k and v 8x4, o 8x8; three matrices of 8x12; two norms of 8.
  ModelFacts model = expand(llamaLike(Attention::Fused), 5);
  EXPECT_EQ(layerOf(model).parameters, 64 + 2 * 32 + 64 + 3 * 96 + 2 * 8);
}

TEST(Variants, BiasesAreParameters) {
  Architecture arch = megatron(8, 3, 4);
  arch.biases.queryKeyValue = arch.biases.output = arch.biases.mlp = true;
  EXPECT_EQ(layerOf(expand(arch, 1)).parameters, 12 * 64 + 13 * 8);
}

TEST(Variants, FusedGatedGroupedKernels) {
  ModelFacts model = expand(llamaLike(Attention::Fused), 5);
  const BlockFacts &layer = layerOf(model);
  // One GEMM 8 -> 8 + 4 + 4 and one 8 -> 24.
  EXPECT_EQ(kernelOf(layer, "qkv").forward,
            (Work{2 * 15 * 8 * 16, 2 * (15 * 8 + 15 * 16 + 8 * 16)}));
  EXPECT_EQ(kernelOf(layer, "mlp1").weightGrad,
            (Work{2 * 15 * 8 * 24, 2 * (15 * 8 + 15 * 24 + 8 * 24)}));
  // Two GEMMs of 2 T s q; q and o of 8, k and v of 4; 4 heads of statistics.
  const Kernel &attention = kernelOf(layer, "attention");
  EXPECT_EQ(attention.forward,
            (Work{2 * 2 * 15 * 3 * 8, 2 * 15 * (8 + 8 + 4 + 4) + 4 * 4 * 15}));
  EXPECT_EQ(attention.inputGrad.flops * 2, attention.forward.flops * 5);
  EXPECT_TRUE(attention.weightGrad.isZero());
  EXPECT_EQ(kernelOf(layer, "swiglu").forward,
            (Work{6 * 15 * 12, 3 * 2 * 15 * 12}));
}

TEST(Variants, FusedGatedGroupedTensors) {
  ModelFacts model = expand(llamaLike(Attention::Fused), 5);
  // ln1, qkv, q, o, ln2, mlp1 inputs of 8; k, v of 4; gate, up, product of 12.
  EXPECT_EQ(layerOf(model).activationBytes,
            2 * 15 * (6 * 8 + 2 * 4 + 3 * 12) + 4 * 4 * 15);
}

TEST(Variants, UnfusedGateHasItsOwnKernels) {
  ModelFacts model = expand(llamaLike(Attention::Unfused), 5);
  const BlockFacts &layer = layerOf(model);
  Work gate{2 * 15 * 8 * 12, 2 * (15 * 8 + 15 * 12 + 8 * 12)};
  EXPECT_EQ(kernelOf(layer, "mlp_gate").forward, gate);
  EXPECT_EQ(kernelOf(layer, "mlp1").forward, gate);
  EXPECT_EQ(kernelOf(layer, "gate_mul").inputGrad,
            (Work{2 * 15 * 12, 5 * 2 * 15 * 12}));
  // Scores are 4 heads of 3 x 3 for 5 sequences; without dropout one copy.
  EXPECT_EQ(layer.activationBytes,
            2 * 15 * (6 * 8 + 2 * 4 + 4 * 12) + 2 * 4 * 9 * 5);
}

TEST(Variants, TensorParallelReduces) {
  ModelFacts model = expand(llamaLike(Attention::Fused), 5);
  int64_t payload = 2 * 15 * 8, count = 0;
  for (const Kernel &kernel : layerOf(model).kernels) {
    if (kernel.engine != Engine::Link)
      continue;
    ++count;
    EXPECT_EQ(kernel.forward, (Work{0, payload}));
    EXPECT_EQ(kernel.inputGrad, (Work{0, payload}));
    EXPECT_TRUE(kernel.weightGrad.isZero());
  }
  EXPECT_EQ(count, 2);
}

/// Keys and values of 15 tokens, for two heads of four with grouped queries. In
/// I their gradients too.
TEST(Variants, ContextParallelPassesKeysAndValues) {
  Architecture arch = llamaLike(Attention::Fused);
  ModelFacts model = expand(arch, 5);
  int64_t width =
      arch.attentionWidth / arch.attentionHeads * arch.keyValueHeads;
  int64_t count = 0;
  for (const Kernel &kernel : layerOf(model).kernels) {
    if (kernel.engine != Engine::Context)
      continue;
    ++count;
    EXPECT_TRUE(kernel.core);
    EXPECT_EQ(kernel.forward, (Work{0, 2 * 15 * 2 * width}));
    EXPECT_EQ(kernel.inputGrad, (Work{0, 2 * 2 * 15 * 2 * width}));
    EXPECT_TRUE(kernel.weightGrad.isZero());
  }
  EXPECT_EQ(count, 1);
}

TEST(Variants, SelectiveRecomputesTheCore) {
  ModelFacts model = expand(megatron(8, 3, 2), 5);
  std::vector<std::string> names;
  for (const Kernel &kernel : layerOf(model).kernels) {
    EXPECT_TRUE(kernel.recomputed) << kernel.name;
    if (kernel.core)
      names.push_back(kernel.name);
  }
  EXPECT_EQ(names,
            (std::vector<std::string>{"context_exchange", "qk", "scale", "mask",
                                      "sm_max", "sm_sub", "sm_exp", "sm_sum",
                                      "sm_div", "attn_drop", "av"}));
}

TEST(Variants, EmbeddingAndHead) {
  Architecture arch = llamaLike(Attention::Fused);
  arch.vocabulary = 100;
  arch.learnedPositions = 3;
  ModelFacts model = expand(arch, 5, Recompute::Full);
  ASSERT_EQ(model.blocks.size(), 3u);
  const BlockFacts &embedding = model.blocks[0], &head = model.blocks[2];
  EXPECT_EQ(embedding.position, BlockPosition::First);
  EXPECT_EQ(embedding.parameters, 100 * 8 + 3 * 8);
  EXPECT_EQ(embedding.activationBytes, 8 * 15);
  EXPECT_EQ(embedding.weightGradBytes, 8 * 15 + 2 * 15 * 8);
  EXPECT_EQ(head.position, BlockPosition::Last);
  EXPECT_EQ(head.parameters, 100 * 8 + 8);
  EXPECT_EQ(kernelOf(head, "head").forward,
            (Work{2 * 15 * 8 * 100, 2 * (15 * 8 + 15 * 100 + 8 * 100)}));
  // Inputs of norm and head, logits in 4-byte floats; none is recomputed.
  EXPECT_EQ(head.activationBytes, 2 * 2 * 15 * 8 + 4 * 15 * 100);
  EXPECT_EQ(head.recomputedBytes, head.activationBytes);
  EXPECT_EQ(head.coreBytes, 0);
  for (const Kernel &kernel : head.kernels)
    EXPECT_FALSE(kernel.recomputed || kernel.core) << kernel.name;
}

//===----------------------------------------------------------------------===//
// Bad sizes
//===----------------------------------------------------------------------===//

TEST(BadSizes, AreNamed) {
  ExpansionOptions options;
  Architecture arch = megatron(8, 3, 4);
  arch.hidden = 0;
  EXPECT_EQ(errorOf(arch, options), "hidden: expected at least 1, found 0");
  arch = megatron(8, 3, 4);
  arch.keyValueHeads = 3;
  EXPECT_EQ(errorOf(arch, options),
            "key_value_heads: expected a divisor of the 4 attention_heads, "
            "found 3");
  arch.keyValueHeads = 1;
  arch.attentionWidth = 10;
  EXPECT_EQ(errorOf(arch, options),
            "attention_width: expected a multiple of the 4 query heads per "
            "key-value head, found 10");
  options.microbatchSize = -1;
  EXPECT_EQ(errorOf(megatron(8, 3, 4), options),
            "microbatch size: expected at least 1, found -1");
}

TEST(BadSizes, OverflowNamesTheKernel) {
  ExpansionOptions options;
  options.microbatchSize = int64_t(1) << 26;
  EXPECT_EQ(errorOf(megatron(4096, 4096, 80), options),
            "the FLOPs of 'q' in block 'layer' are over 2^63 - 1");
  options.microbatchSize = int64_t(1) << 60;
  EXPECT_EQ(errorOf(megatron(4096, 4096, 80), options),
            "the activation between stages is over 2^63 - 1 bytes");
}
