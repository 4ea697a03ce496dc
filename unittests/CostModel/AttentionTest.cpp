//===- AttentionTest.cpp - Attention kernels with separate rates ----------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Scores counted token by token, times on the toy system by hand, keys and
// values that are copied to all heads, and gradients that are summed by a
// separate kernel. Two query heads of four elements share a key and a
// value; five sequences of six tokens.
//
//===----------------------------------------------------------------------===//

#include "../Support/ErrorText.h"
#include "../Support/ToyCosts.h"
#include "FindKernel.h"
#include "PipeSched/CostModel/Kernels/TransformerBlock.h"
#include "PipeSched/CostModel/Layers/ModelSummary.h"
#include "gtest/gtest.h"

using namespace pipesched;

static constexpr int64_t kSequences = 5, kTokens = 30;

static Architecture tiny(Attention attention) {
  Architecture arch;
  arch.name = "tiny";
  arch.hidden = arch.attentionWidth = 8;
  arch.feedforward = 12;
  arch.sequence = 6;
  arch.layers = 1;
  arch.attentionHeads = 2;
  arch.keyValueHeads = 1;
  arch.norm = Norm::RMSNorm;
  arch.attention = attention;
  return arch;
}

static ModelFacts expand(const Architecture &arch,
                         Recompute recompute = Recompute::None) {
  ExpansionOptions options;
  options.microbatchSize = kSequences;
  options.recompute = recompute;
  return llvm::cantFail(expandArchitecture(arch, options));
}

static Kernel kernelOf(const Architecture &arch, llvm::StringRef name) {
  return *findKernel(expand(arch).blocks.front(), name);
}

/// The toy system with FlashAttention-2 for heads of four: 0.5 TFLOP/s forward
/// and 0.25 backward with six tokens, 1 and 0.5 with three.
static SystemFacts flashSystem() {
  SystemFacts system = toySystem();
  system.memory.bytesPerSecond = 1000000000000000; // does not matter
  system.attention = {{FlashKernel::Flash2,
                       4,
                       1000000000000,
                       {{{3, 1000000}, {6, 500000}}},
                       {{{3, 500000}, {6, 250000}}}}};
  return system;
}

static Placement one() {
  return llvm::cantFail(Placement::create(1, 1, {placeLinear(1)}));
}

static StageCost costOf(const ModelFacts &model, const SystemFacts &system,
                        PhaseSet more = {}) {
  PhaseSet phases = PhaseSet(Phase::Forward) | PhaseSet(Phase::InputGrad) |
                    PhaseSet(Phase::WeightGrad) | more;
  return llvm::cantFail(costRoofline(one(), model, system, phases))
      .stages.front();
}

/// The layer without all kernels but one.
static ModelFacts alone(ModelFacts model, llvm::StringRef name) {
  llvm::erase_if(model.blocks.front().kernels,
                 [&](const Kernel &kernel) { return kernel.name != name; });
  return model;
}

//===----------------------------------------------------------------------===//
// Work
//===----------------------------------------------------------------------===//

/// Query and value take 2 FLOPs per element and score each; the backward has
/// three GEMMs over queries and two over values.
TEST(Attention, CountsTheScoresThatTokensSee) {
  for (int64_t window = 1; window <= 7; ++window) {
    Architecture arch = tiny(Attention::Flash2);
    arch.window = {window, LayerSet::none()};
    int64_t scores = 0, all = 0;
    for (int64_t token = 1; token <= arch.sequence; ++token) {
      scores += std::min(token, window);
      all += std::min(arch.sequence, window);
    }
    Kernel kernel = kernelOf(arch, "attention");
    EXPECT_EQ(kernel.engine, Engine::Attention);
    EXPECT_EQ(kernel.forward.flops, 2 * 2 * kSequences * 8 * scores);
    EXPECT_EQ(kernel.inputGrad.flops, 5 * 2 * kSequences * 8 * scores);
    ASSERT_TRUE(kernel.attention);
    EXPECT_EQ(kernel.attention->maskedFlops,
              2 * 2 * kSequences * 8 * (all - scores));
    EXPECT_EQ(kernel.attention->headSize, 4);
    EXPECT_EQ(kernel.attention->sequence, 6);
  }
}

/// The kernel makes no difference to tensors, nor to the FLOPs of a model.
TEST(Attention, KeepsWhatFusedAttentionKeeps) {
  ModelFacts fused = expand(tiny(Attention::Fused), Recompute::Selective);
  for (Attention attention :
       {Attention::Flash2, Attention::Flash3, Attention::Cudnn}) {
    ModelFacts flash = expand(tiny(attention), Recompute::Selective);
    Kernel kernel = kernelOf(tiny(attention), "attention");
    EXPECT_EQ(kernel.attention->kernel, *flashKernelOf(attention));
    EXPECT_EQ(kernel.forward.bytes,
              kernelOf(tiny(Attention::Fused), "attention").forward.bytes);
    EXPECT_EQ(flash.blocks.front().activationBytes,
              fused.blocks.front().activationBytes);
    EXPECT_EQ(flash.blocks.front().coreBytes, fused.blocks.front().coreBytes);
    EXPECT_EQ(llvm::cantFail(summarize(flash)).flopsPerToken,
              llvm::cantFail(summarize(fused)).flopsPerToken);
    EXPECT_EQ(llvm::cantFail(summarize(flash)).attentionFlopsPerToken,
              llvm::cantFail(summarize(fused)).attentionFlopsPerToken);
  }
}

//===----------------------------------------------------------------------===//
// Times
//===----------------------------------------------------------------------===//

/// 21 scores of each sequence: 3,360 FLOPs forward at 0.5 TFLOP/s, 8,400
/// backward at 0.25.
TEST(Attention, RunsAtItsRate) {
  ModelFacts model = alone(expand(tiny(Attention::Flash2)), "attention");
  StageCost cost = costOf(model, flashSystem());
  EXPECT_EQ(ps(cost, Phase::Forward), 3360 * 2);
  EXPECT_EQ(ps(cost, Phase::InputGrad), 8400 * 4);
  EXPECT_EQ(ps(cost, Phase::WeightGrad), 0);
}

/// Accelerators share heads, so that the rate stays; accelerators that divide a
/// sequence have three tokens of it each, at twice the rate.
TEST(Attention, AcceleratorsShareIt) {
  ModelFacts model = alone(expand(tiny(Attention::Flash2)), "attention");
  SystemFacts system = flashSystem();
  system.accelerators = 2;
  system.link = {1000000000000, 0, {}};
  EXPECT_EQ(ps(costOf(model, system), Phase::Forward), 3360);
  system.contextParallel = 2;
  model.sequence = 8; // divisible by the four pieces of two ranks
  EXPECT_EQ(ps(costOf(model, system), Phase::Forward), 3360 / 2);
  EXPECT_EQ(ps(costOf(model, system), Phase::InputGrad), 8400);
}

TEST(Attention, SelectiveRecomputeRunsItAgain) {
  for (Recompute recompute : {Recompute::Selective, Recompute::Full}) {
    ModelFacts model =
        alone(expand(tiny(Attention::Flash2), recompute), "attention");
    StageCost split = costOf(model, flashSystem(), PhaseSet(Phase::Recompute));
    EXPECT_EQ(ps(split, Phase::Recompute), 3360 * 2);
    EXPECT_EQ(ps(split, Phase::InputGrad), 8400 * 4);
    EXPECT_EQ(ps(costOf(model, flashSystem()), Phase::InputGrad),
              3360 * 2 + 8400 * 4);
  }
}

//===----------------------------------------------------------------------===//
// Keys and values for each head
//===----------------------------------------------------------------------===//

/// Keys and values of 4 elements become 8 each, of 2 bytes.
TEST(RepeatedKeyValues, AreCopiedKeptAndExchanged) {
  Architecture shared = tiny(Attention::Flash2), copied = shared;
  copied.repeatedKeyValues = true;
  Kernel kernel = kernelOf(copied, "repeat_kv");
  EXPECT_EQ(kernel.engine, Engine::Vector);
  EXPECT_EQ(kernel.forward, (Work{0, 2 * kTokens * (8 + 16)}));
  EXPECT_EQ(kernel.inputGrad, (Work{kTokens * 16, 2 * kTokens * (8 + 16)}));
  EXPECT_EQ(kernelOf(copied, "context_exchange").forward.bytes,
            2 * kernelOf(shared, "context_exchange").forward.bytes);
  EXPECT_EQ(kernelOf(copied, "attention").forward.bytes -
                kernelOf(shared, "attention").forward.bytes,
            2 * kTokens * 8);
  EXPECT_EQ(expand(copied).blocks.front().activationBytes -
                expand(shared).blocks.front().activationBytes,
            2 * kTokens * 8);
  EXPECT_EQ(expand(copied).blocks.front().parameters,
            expand(shared).blocks.front().parameters);
}

TEST(RepeatedKeyValues, NeedGroups) {
  Architecture arch = tiny(Attention::Fused);
  arch.keyValueHeads = 2;
  ModelFacts plain = expand(arch);
  arch.repeatedKeyValues = true;
  EXPECT_EQ(expand(arch), plain);
  arch.latent = LatentAttention{5, 3, 2, 1, 4};
  EXPECT_EQ(errorOf(expandArchitecture(arch, {})),
            "repeated_key_values: latent attention has keys and values of each "
            "head");
}

//===----------------------------------------------------------------------===//
// Sums of gradients
//===----------------------------------------------------------------------===//

/// The gradient of 2 bytes is read, the sum of 4 read and written.
TEST(SeparateAccumulation, AddsGradientsInW) {
  Architecture arch = tiny(Attention::Fused);
  arch.separateAccumulation = true;
  arch.gradientBytesPerParameter = 4;
  Kernel kernel = kernelOf(arch, "proj_accumulate");
  EXPECT_TRUE(kernel.onParameters);
  EXPECT_TRUE(kernel.forward.isZero() && kernel.inputGrad.isZero());
  EXPECT_EQ(kernel.weightGrad, (Work{8 * 8, 10 * 8 * 8}));
}

/// Tensor-parallel accelerators divide it; each rank that divides a sequence
/// has all parameters.
TEST(SeparateAccumulation, IsNotDividedWithTheSequence) {
  Architecture arch = tiny(Attention::Fused);
  arch.separateAccumulation = true;
  ModelFacts model = alone(expand(arch), "proj_accumulate");
  model.sequence = 8;
  SystemFacts system = toySystem();
  system.link = {1000000000000, 0, {}};
  auto weightGrad = [&](int64_t accelerators, int64_t context) {
    system.accelerators = accelerators;
    system.contextParallel = context;
    return ps(costOf(model, system), Phase::WeightGrad);
  };
  // A vector FLOP takes 10 ps, a byte 1.
  EXPECT_EQ(weightGrad(1, 1), 640);
  EXPECT_EQ(weightGrad(4, 1), 160);
  EXPECT_EQ(weightGrad(4, 2), 320);
  EXPECT_EQ(weightGrad(4, 4), 640);
}

/// A rank sums the experts that it has.
TEST(SeparateAccumulation, RanksSumTheirExperts) {
  Architecture arch = tiny(Attention::Fused);
  arch.separateAccumulation = true;
  arch.experts = Experts{};
  arch.experts->count = 4;
  arch.experts->perToken = 1;
  arch.experts->feedforward = 6;
  ModelFacts model = expand(arch);
  const Kernel *kernel = nullptr;
  for (const Kernel &each : model.blocks.front().kernels)
    if (each.onParameters && each.routed)
      kernel = &each;
  ASSERT_TRUE(kernel);
  model = alone(model, kernel->name);
  int64_t whole = ps(costOf(model, toySystem()), Phase::WeightGrad);
  SystemFacts system = toySystem();
  system.link = {1000000000000, 0, {}};
  system.accelerators = 2;
  system.dataParallel = 2;
  system.acceleratorsPerNode = 4;
  system.expertParallel = 4;
  EXPECT_EQ(ps(costOf(model, system), Phase::WeightGrad), whole / 4);
}
