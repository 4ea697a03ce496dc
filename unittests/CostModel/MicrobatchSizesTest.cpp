//===- MicrobatchSizesTest.cpp - One batch in other microbatches ----------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Sizes that divide and sizes that do not, shares of paths, and common parts of
// resized models.
//
//===----------------------------------------------------------------------===//

#include "PipeSched/CostModel/Layers/MicrobatchSizes.h"
#include "../Support/TestTables.h"

using namespace pipesched;

TEST(MicrobatchSizes, MakeUpTheSameBatch) {
  for (int64_t own = 1; own <= 6; ++own)
    for (int64_t count = 1; count <= 12; ++count)
      for (int64_t size = 1; size <= own * count; ++size) {
        llvm::Expected<int64_t> found = countMicrobatches(size, own, count);
        EXPECT_EQ(bool(found), own * count % size == 0);
        if (found)
          EXPECT_EQ(*found * size, own * count);
        else
          llvm::consumeError(found.takeError());
      }
  EXPECT_EQ(errorOf(countMicrobatches(5, 2, 12)),
            "has a batch of 24 sequences (12 microbatches of 2), which "
            "microbatches of 5 do not divide; sizes that do: 4 and 6");
  EXPECT_EQ(errorOf(countMicrobatches(100, 2, 12)),
            "has a batch of 24 sequences (12 microbatches of 2), which "
            "microbatches of 100 do not divide; sizes that do: 24");
  EXPECT_EQ(errorOf(countMicrobatches(1, int64_t(1) << 62, 2)),
            "has 2 microbatches of 4611686018427387904 sequences, more than "
            "2^63 - 1 sequences in all");
}

/// Two paths with their microbatches.
static Placement twoPaths(int64_t numMicrobatches,
                          std::vector<MicrobatchRange> first,
                          std::vector<MicrobatchRange> second) {
  Path down, up;
  down.workers = {0, 1};
  up.workers = {1, 0};
  down.takes = std::move(first);
  up.takes = std::move(second);
  return llvm::cantFail(Placement::create(2, numMicrobatches, {down, up}));
}

TEST(MicrobatchSizes, PathsKeepTheirShares) {
  Placement halves = twoPaths(8, {{0, 4, 1}}, {{4, 8, 1}});
  Placement turns = twoPaths(8, {{0, 8, 2}}, {{1, 8, 2}});
  Placement thirds =
      twoPaths(6, {{0, 2, 1}, {4, 6, 1}}, {{2, 3, 1}, {3, 4, 1}});
  for (int64_t count : {2, 4, 8, 16, 24}) {
    Placement dealt = llvm::cantFail(dealAnew(halves, count));
    EXPECT_EQ(dealt.getNumMicrobatches(), count);
    EXPECT_EQ(dealt.pathOf(count / 2 - 1), 0);
    EXPECT_EQ(dealt.pathOf(count / 2), 1);
    dealt = llvm::cantFail(dealAnew(turns, count));
    for (int64_t microbatch = 0; microbatch < count; ++microbatch)
      EXPECT_EQ(dealt.pathOf(microbatch), microbatch % 2);
    dealt = llvm::cantFail(dealAnew(makeLinear(2, 8), count));
    EXPECT_EQ(dealt.getNumMicrobatches(), count);
  }
  EXPECT_EQ(llvm::cantFail(dealAnew(thirds, 12)).countOnPath(1), 4);
  EXPECT_EQ(errorOf(dealAnew(thirds, 4)),
            "path 0 takes microbatches from 0 to 2 of 6, which is not a whole "
            "number of 4");
  EXPECT_EQ(errorOf(dealAnew(turns, 1)),
            "path 1 takes [1:1:2], which is empty");
  EXPECT_EQ(errorOf(dealAnew(makeLinear(2, 8), int64_t(1) << 40)),
            "1099511627776 microbatches: there must be 1 to 2147483647");
}

TEST(MicrobatchSizes, ModelsDifferInWorkAlone) {
  ModelFacts model;
  model.source = "made up";
  BlockFacts block;
  block.name = "layer";
  block.parameters = 10;
  block.kernels.push_back({"linear", Engine::Matrix, {2, 3}, {2, 3}, {2, 3}});
  model.blocks = {block, block};
  ModelFacts other = model;
  other.name = "other";
  other.microbatchSize = 2;
  other.boundaryBytes = 7;
  other.blocks[1].activationBytes = 5;
  other.blocks[1].kernels[0].forward.bytes = 6;
  EXPECT_TRUE(areSizesOfOne(model, other));
  auto differs = [&](llvm::function_ref<void(ModelFacts &)> change) {
    ModelFacts changed = other;
    change(changed);
    return !areSizesOfOne(model, changed);
  };
  EXPECT_TRUE(differs([](ModelFacts &facts) { facts.source = "else"; }));
  EXPECT_TRUE(differs([](ModelFacts &facts) { facts.sequence = 8; }));
  EXPECT_TRUE(differs([](ModelFacts &facts) { facts.vocabulary = 8; }));
  EXPECT_TRUE(
      differs([](ModelFacts &facts) { facts.recompute = Recompute::Full; }));
  EXPECT_TRUE(differs([](ModelFacts &facts) { facts.blocks.pop_back(); }));
  EXPECT_TRUE(differs([](ModelFacts &facts) { facts.blocks[0].count = 2; }));
  EXPECT_TRUE(
      differs([](ModelFacts &facts) { facts.blocks[0].parameters = 11; }));
  EXPECT_TRUE(
      differs([](ModelFacts &facts) { facts.blocks[0].kernels.clear(); }));
  EXPECT_TRUE(differs([](ModelFacts &facts) {
    facts.blocks[0].kernels[0].engine = Engine::MatrixFp8;
  }));
}
