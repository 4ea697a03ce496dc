//===- ArchitectureTest.cpp - Kinds of layers and valid combinations ------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Runs of layers compared with a loop over all layers; every check with its
// error.
//
//===----------------------------------------------------------------------===//

#include "PipeSched/CostModel/Kernels/Architecture.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

using namespace pipesched;

static Architecture tiny(int64_t layers) {
  Architecture arch;
  arch.hidden = arch.attentionWidth = 8;
  arch.feedforward = 32;
  arch.sequence = 16;
  arch.layers = layers;
  arch.attentionHeads = arch.keyValueHeads = 4;
  return arch;
}

static Experts experts(LayerSet layers) {
  Experts experts;
  experts.count = 4;
  experts.perToken = 2;
  experts.feedforward = 6;
  experts.layers = std::move(layers);
  return experts;
}

static std::string errorOf(const Architecture &arch) {
  return llvm::toString(checkArchitecture(arch));
}

//===----------------------------------------------------------------------===//
// Runs
//===----------------------------------------------------------------------===//

TEST(LayerRuns, AllAlikeIsOneRunOfAnyLength) {
  Architecture arch = tiny(int64_t(1) << 60);
  std::vector<LayerRun> runs = layerRuns(arch);
  ASSERT_EQ(runs.size(), 1u);
  EXPECT_EQ(runs[0].count, int64_t(1) << 60);
  arch.experts = experts(LayerSet());
  EXPECT_TRUE(layerRuns(arch)[0].hasExperts);
  EXPECT_EQ(errorOf(arch), "");
}

/// Every first and stride, compared with the layers one by one.
TEST(LayerRuns, AreTheLayersInOrder) {
  for (int64_t layers = 1; layers <= 9; ++layers)
    for (int64_t first = 0; first <= layers; ++first)
      for (int64_t every = 0; every <= 3; ++every)
        for (int64_t full = 0; full <= 3; ++full) {
          Architecture arch = tiny(layers);
          arch.experts = experts({first, every, std::nullopt});
          arch.window = {4, {full, full, std::nullopt}};
          int64_t layer = 0;
          const LayerRun *previous = nullptr;
          std::vector<LayerRun> runs = layerRuns(arch);
          for (const LayerRun &run : runs) {
            EXPECT_FALSE(previous && previous->hasExperts == run.hasExperts &&
                         previous->hasWindow == run.hasWindow);
            previous = &run;
            for (int64_t i = 0; i < run.count; ++i, ++layer) {
              bool isExpert =
                  every > 0 && layer >= first && (layer - first) % every == 0;
              bool isFull =
                  full > 0 && layer >= full && (layer - full) % full == 0;
              EXPECT_EQ(run.hasExperts, isExpert) << layer;
              EXPECT_EQ(run.hasWindow, !isFull) << layer;
            }
          }
          EXPECT_EQ(layer, layers);
        }
}

TEST(LayerRuns, ListedLayers) {
  Architecture arch = tiny(5);
  arch.experts = experts({0, 1, std::vector<int64_t>{1, 2, 4}});
  std::vector<int64_t> counts;
  for (const LayerRun &run : layerRuns(arch))
    counts.push_back(run.count);
  EXPECT_THAT(counts, testing::ElementsAre(1, 2, 1, 1));
}

/// A window that hides nothing, or whose scores are all computed anyway, makes
/// no difference.
TEST(LayerRuns, WindowsThatDoNotMatter) {
  Architecture arch = tiny(5);
  arch.window = {16, {1, 2, std::nullopt}};
  EXPECT_EQ(layerRuns(arch).size(), 1u);
  arch.window.size = 15;
  EXPECT_EQ(layerRuns(arch).size(), 5u);
  arch.attention = Attention::Unfused;
  EXPECT_EQ(layerRuns(arch).size(), 1u);
}

//===----------------------------------------------------------------------===//
// Checks
//===----------------------------------------------------------------------===//

TEST(CheckArchitecture, Sizes) {
  EXPECT_EQ(errorOf(tiny(2)), "");
  Architecture arch = tiny(2);
  arch.feedforward = 0;
  EXPECT_EQ(errorOf(arch), "feedforward: expected at least 1, found 0");
  arch.experts = experts(LayerSet());
  EXPECT_EQ(errorOf(arch), "");
  arch.experts->layers.first = 1;
  EXPECT_EQ(errorOf(arch), "feedforward: expected at least 1, found 0");
  arch = tiny(kMaxMixedLayers + 1);
  arch.experts = experts({1, 2, std::nullopt});
  EXPECT_EQ(errorOf(arch), "layers: expected at most 4096 of several kinds, "
                           "found 4097");
}

TEST(CheckArchitecture, Experts) {
  Architecture arch = tiny(2);
  arch.experts = experts(LayerSet());
  arch.experts->perToken = 5;
  EXPECT_EQ(errorOf(arch),
            "experts.per_token: expected at most the 4 experts, found 5");
  arch.experts->perToken = 2;
  arch.experts->sharedGate = true;
  EXPECT_EQ(errorOf(arch), "experts.shared_gate: there is no shared expert, "
                           "experts.shared_feedforward is 0");
}

TEST(CheckArchitecture, LatentAttention) {
  Architecture arch = tiny(2);
  arch.keyValueHeads = arch.attentionWidth = 0; // not used
  arch.latent = LatentAttention{0, 4, 2, 1, 2};
  EXPECT_EQ(errorOf(arch), "");
  arch.queryKeyNorm = QueryKeyNorm::Head;
  EXPECT_EQ(errorOf(arch),
            "query_key_norm: latent attention already has norms");
  arch.latent->keyValueRank = 0;
  EXPECT_EQ(errorOf(arch),
            "latent_attention.key_value_rank: expected at least 1, found 0");
}

TEST(CheckArchitecture, Form) {
  Architecture arch = tiny(2);
  arch.branches = Branches::Parallel;
  arch.norms = NormPlacement::After;
  EXPECT_EQ(errorOf(arch), "norms: parallel branches have theirs before");
  arch = tiny(2);
  arch.attentionWidth = 10; // like the paper's 80 heads in 4096
  EXPECT_EQ(errorOf(arch), "");
  arch.queryKeyNorm = QueryKeyNorm::Head;
  EXPECT_EQ(errorOf(arch), "query_key_norm: the 4 attention_heads have no "
                           "common size in a width of 10");
  arch = tiny(2);
  arch.tiedEmbeddings = true;
  EXPECT_EQ(errorOf(arch), "vocabulary: learned_positions, tied_embeddings, "
                           "embedding_norm and embedding_width need it");
  arch.vocabulary = 100;
  arch.learnedPositions = 15;
  EXPECT_EQ(errorOf(arch),
            "sequence: expected at most the 15 learned_positions, found 16");
}
