//===- SlicesTest.cpp - Costs and memory of slices ------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Cuts against a published one and against the work that they divide; facts of
// slices against the facts of the microbatch that they make up; memory by hand.
//
//===----------------------------------------------------------------------===//

#include "PipeSched/CostModel/Layers/Slices.h"
#include "../Support/ErrorText.h"
#include "PipeSched/CostModel/CostModel.h"
#include "ToyArchitecture.h"
#include "gtest/gtest.h"

using namespace pipesched;

static std::vector<int64_t> sizesOf(const std::vector<TokenSpan> &slices) {
  std::vector<int64_t> sizes;
  for (TokenSpan span : slices)
    sizes.push_back(span.size());
  return sizes;
}

/// The cut of Seq1F1B's sp_utils.py for 16384 tokens of a model with 24 layers
/// of width 4096, 32 heads of 128, feedforward 16384 and 32000 words, in four
/// slices of a multiple of two.
TEST(Slices, AreCutByWorkAsPublished) {
  constexpr double kLayers = 24, kHidden = 4096, kFeedforward = 16384,
                   kHeads = 32, kHead = 128, kVocabulary = 32000;
  SequenceWork work;
  work.perToken =
      4 * kHidden * kVocabulary +
      kLayers * (8 * kHidden * kHeads * kHead + 4 * kHidden * kFeedforward);
  work.perPair = kLayers * kHeads * (4 * kHead + 3);
  EXPECT_EQ(sizesOf(llvm::cantFail(cutByWork(16384, 4, 2, work))),
            (std::vector<int64_t>{4930, 4238, 3776, 3440}));
}

TEST(Slices, OfEqualWorkHaveEqualWork) {
  for (double perPair : {0.0, 0.001, 1.0})
    for (int64_t numSlices : {2, 3, 7, 16}) {
      SequenceWork work = {100, perPair};
      std::vector<TokenSpan> slices =
          llvm::cantFail(cutByWork(65536, numSlices, 1, work));
      double all = work.perToken * 65536 + perPair * 65536.0 * 65536 / 2;
      EXPECT_EQ(slices.front().begin, 0);
      EXPECT_EQ(slices.back().end, 65536);
      for (TokenSpan span : slices) {
        auto size = double(span.size());
        double own = work.perToken * size +
                     perPair * (size * double(span.end) - size * size / 2);
        EXPECT_NEAR(own / all, 1 / double(numSlices), 0.001);
      }
    }
}

static ModelFacts expandToy(Attention attention, Recompute recompute) {
  ExpansionOptions options;
  options.microbatchSize = 2;
  options.recompute = recompute;
  return llvm::cantFail(
      expandArchitecture(toyArchitecture(attention), options));
}

static SystemFacts toySystem(int64_t tensor, int64_t context) {
  SystemFacts system;
  system.name = "toy";
  system.accelerators = tensor * context;
  system.contextParallel = context;
  return system;
}

TEST(Slices, AreMultiplesOfWhatRanksDivide) {
  ModelFacts model = expandToy(Attention::Fused, Recompute::None);
  SystemFacts system = toySystem(2, 2);
  EXPECT_EQ(sizesOf(llvm::cantFail(cutSequence(model, 3, &system))),
            (std::vector<int64_t>{32, 32, 32}));
  EXPECT_EQ(errorOf(cutSequence(model, 5, &system)),
            "sequences of 96 tokens are not divided into 5 equal slices of a "
            "multiple of 8 tokens, as their ranks divide them; the nearest "
            "numbers of slices that do are 4 and 6, or cut them by work "
            "(slice-cut=work)");
  system.sliceCut = SliceCut::Work;
  int64_t before = 96;
  for (TokenSpan span : llvm::cantFail(cutSequence(model, 5, &system))) {
    EXPECT_EQ(span.size() % 8, 0);
    EXPECT_LE(span.size(), before);
    before = span.size();
  }
  EXPECT_EQ(errorOf(cutSequence(model, 96, &system)),
            "slice 95 of 96 would have no token: sequences have 96 tokens, and "
            "slices of equal work are rounded down to multiples of 8; take "
            "fewer slices");
  model.sequence = 0;
  EXPECT_EQ(errorOf(cutSequence(model, 2, nullptr)),
            "microbatches have 2 slices, and model 'toy' does not say how many "
            "tokens a sequence has");
}

static int64_t sumOf(const ModelFacts &model, Work Kernel::*phase,
                     bool ofWeights) {
  int64_t sum = 0;
  for (const BlockFacts &block : model.blocks)
    for (const Kernel &kernel : block.kernels)
      if (kernel.onParameters == ofWeights)
        sum += block.count * (kernel.*phase).flops;
  return sum;
}

/// FLOPs and activations of all slices are the microbatch's; each slice
/// adds its gradients to the sum by itself.
TEST(Slices, MakeUpTheMicrobatch) {
  ModelFacts model = expandToy(Attention::Fused, Recompute::None);
  for (int64_t numSlices : {1, 2, 6}) {
    int64_t forward = 0, backward = 0, activations = 0, messages = 0;
    for (TokenSpan span :
         llvm::cantFail(cutSequence(model, numSlices, nullptr))) {
      ModelFacts slice = takeSlice(model, span);
      forward += sumOf(slice, &Kernel::forward, false);
      backward += sumOf(slice, &Kernel::inputGrad, false) +
                  sumOf(slice, &Kernel::weightGrad, false);
      EXPECT_EQ(sumOf(slice, &Kernel::weightGrad, true),
                sumOf(model, &Kernel::weightGrad, true));
      for (const BlockFacts &block : slice.blocks)
        activations += block.count * block.activationBytes;
      messages += slice.boundaryBytes;
    }
    auto expectNear = [&](int64_t found, int64_t wanted) {
      EXPECT_NEAR(double(found), double(wanted), 1e-4 * double(wanted));
    };
    expectNear(forward, sumOf(model, &Kernel::forward, false));
    expectNear(backward, sumOf(model, &Kernel::inputGrad, false) +
                             sumOf(model, &Kernel::weightGrad, false));
    int64_t whole = 0;
    for (const BlockFacts &block : model.blocks)
      whole += block.count * block.activationBytes;
    EXPECT_EQ(activations, whole);
    EXPECT_EQ(messages, model.boundaryBytes);
  }
}

/// Kernels that write scores need none with keys of later slices: with k slices
/// (k + 1) / 2k of the square are left.
TEST(Slices, SkipScoresOfLaterSlices) {
  ModelFacts model = expandToy(Attention::Unfused, Recompute::None);
  auto scoresOf = [](const ModelFacts &facts) {
    int64_t sum = 0;
    for (const BlockFacts &block : facts.blocks)
      for (const Kernel &kernel : block.kernels)
        if (kernel.name == "qk")
          sum += kernel.forward.flops;
    return sum;
  };
  int64_t sliced = 0, core = 0;
  for (TokenSpan span : llvm::cantFail(cutSequence(model, 4, nullptr))) {
    ModelFacts slice = takeSlice(model, span);
    sliced += scoresOf(slice);
    for (const BlockFacts &block : slice.blocks)
      core += block.coreBytes;
  }
  EXPECT_EQ(sliced * 8, scoresOf(model) * 5);
  int64_t whole = 0;
  for (const BlockFacts &block : model.blocks)
    whole += block.coreBytes;
  EXPECT_EQ(core * 8, whole * 5);
}

/// A window of 8 of 96 tokens: after the first slice each has as much work.
TEST(Slices, OfWindowsHaveEqualWork) {
  ModelFacts model = expandToy(Attention::Fused, Recompute::None);
  for (BlockFacts &block : model.blocks)
    for (Kernel &kernel : block.kernels)
      if (kernel.seen > 0)
        kernel.seen = 8;
  auto coreOf = [&](int64_t begin) {
    int64_t sum = 0;
    for (const BlockFacts &block : takeSlice(model, {begin, begin + 24}).blocks)
      for (const Kernel &kernel : block.kernels)
        if (kernel.seen > 0)
          sum += kernel.forward.flops;
    return sum;
  };
  EXPECT_LT(coreOf(0), coreOf(24));
  EXPECT_EQ(coreOf(24), coreOf(72));
}

/// 1 worker, 3 slices. g are the gradients of keys and values of one slice: B
/// of the last slice leaves the gradients of the two others, and each later B
/// frees its own.
TEST(Slices, PassGradientsOfKeysAndValues) {
  ModelFacts model = expandToy(Attention::Fused, Recompute::None);
  Placement placement =
      llvm::cantFail(Placement::create(1, 1, {placeLinear(1)}, 3));
  MemoryFacts facts = llvm::cantFail(
      computeMemoryFacts(placement, model, nullptr, Phase::Forward));
  // 2 bytes x 2 sequences x 32 tokens x (32 + 32) of two heads, four layers.
  int64_t g = 2 * 2 * 32 * (32 + 32) * 4;
  EXPECT_EQ(facts.memoryOf(0, 0).leftForSlicesBytes, -g);
  EXPECT_EQ(facts.memoryOf(0, 1).leftForSlicesBytes, -g);
  EXPECT_EQ(facts.memoryOf(0, 2).leftForSlicesBytes, 2 * g);
  EXPECT_EQ(facts.memoryOf(0, 2).workingBytes, 2 * g);
  EXPECT_EQ(facts.memoryOf(0, 0).workingBytes, 0);
}

/// Under full recomputation later slices still need keys and values.
TEST(Slices, KeepKeysAndValuesThatAreRecomputed) {
  ModelFacts model = expandToy(Attention::Fused, Recompute::Full);
  ModelFacts slice = takeSlice(model, {0, 48});
  for (auto [whole, part] : llvm::zip_equal(model.blocks, slice.blocks)) {
    int64_t keys = keyValueBytes(whole);
    EXPECT_EQ(part.recomputedBytes, (whole.recomputedBytes + keys) / 2)
        << whole.name;
  }
}
