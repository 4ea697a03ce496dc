//===- LoopGeneratorsTest.cpp - Families on interleaved paths -------------===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Small tables, the choice of chunks and groups, and refusals.
//
//===----------------------------------------------------------------------===//

#include "../Support/TestTables.h"
#include "PipeSched/Schedule/Family/Generators.h"

using namespace pipesched;
using Rows = std::vector<std::string>;

static InterleavedOptions withGroup(int64_t group) {
  InterleavedOptions options;
  options.chunks = 2;
  options.group = group;
  return options;
}

static LoopOptions withChunks(int64_t chunks) {
  LoopOptions options;
  options.chunks = chunks;
  return options;
}

TEST(Combined1F1B, TakesASingleChunkOfAnySize) {
  Table table = llvm::cantFail(generateCombined1F1B(makeLinear(2, 5)));
  EXPECT_EQ(printRows(table.rows),
            Rows({"0F0 0F1 0F2 0F3+0B0 0F4+0B1 0B2 0B3 0B4",
                  "1F0 1F1+1B0 1F2+1B1 1F3+1B2 1F4+1B3 1B4"}));
  EXPECT_EQ(
      printRows(llvm::cantFail(generateCombined1F1B(makeLinear(1, 3))).rows),
      Rows({"0F0 0F1+0B0 0F2+0B1 0B2"}));
}

TEST(Interleaved1F1B, TheLastGroupMayBeRagged) {
  Table table =
      llvm::cantFail(generateInterleaved1F1B(makeLinear(2, 5), withGroup(3)));
  EXPECT_EQ(printRow(table.rows[1]), "1F0 1F1 1F2 3F0 3B0 3F1 3B1 3F2 3B2 1F3 "
                                     "1B0 1F4 1B1 3F3 1B2 3F4 3B3 3B4 1B3 1B4");
}

TEST(Loops, SplitBackwardIntoAnAdjacentPair) {
  LoopOptions options = withChunks(1);
  options.splitBackward = true;
  Table table = llvm::cantFail(generateLoopedBFS(makeLinear(1, 2), options));
  EXPECT_EQ(printRow(table.rows[0]), "0F0 0F1 0I1 0W1 0I0 0W0");
  EXPECT_EQ(table.gradientAfter, GradientAfter::WeightGrad);
}

TEST(Loops, FollowThePathAcrossWorkers) {
  Placement placement = makePlacement(2, 1, {pathOn({1, 0, 1, 0})});
  Table table = llvm::cantFail(generateInterleaved1F1B(placement));
  EXPECT_EQ(printRows(table.rows),
            Rows({"1F0 3F0 3B0 1B0", "0F0 2F0 2B0 0B0"}));
}

TEST(Loops, ReadTheirChunksFromThePath) {
  Placement placement = makePlacement(2, 2, {pathOn({0, 1, 0, 1})});
  EXPECT_EQ(
      llvm::cantFail(generateLoopedBFS(placement)).rows,
      llvm::cantFail(generateLoopedBFS(makeLinear(2, 2), withChunks(2))).rows);
  EXPECT_EQ(errorOf(generateLoopedBFS(placement, withChunks(3))),
            "looped-bfs is asked for 3 chunks, but the path has 2 stages on "
            "each worker");
  EXPECT_EQ(errorOf(generateLoopedBFS(makeLinear(2, 2), withChunks(0))),
            "0 chunks: there must be 1 to 8388608 with 2 workers, for at most "
            "16777216 stages");
}

TEST(Loops, RefuseOtherPlacements) {
  auto refusal = [](int64_t workers, std::vector<Path> paths) {
    return errorOf(
        generateInterleaved1F1B(makePlacement(workers, 2, std::move(paths))));
  };
  EXPECT_EQ(refusal(2, {pathOn({0, 1}), pathOn({1, 0})}),
            "interleaved-1f1b takes one path, found 2");
  EXPECT_EQ(refusal(2, {pathOn({0, 1, 0})}),
            "interleaved-1f1b takes the same number of stages on every worker, "
            "found 3 stages on 2 workers");
  EXPECT_EQ(refusal(2, {pathOn({0, 0, 1, 1})}),
            "interleaved-1f1b takes a path that visits every worker before it "
            "comes back to one, found stage 1 on worker 0 again");
  EXPECT_EQ(refusal(2, {placeV(2)}),
            "interleaved-1f1b takes an interleaved path, with stage 2 on "
            "worker 0 as stage 0 is, found it on worker 1");
}

TEST(Loops, RefuseGroupsThatAreNotDefined) {
  InterleavedOptions pytorch;
  EXPECT_EQ(errorOf(generateInterleaved1F1B(makeLinear(4, 9), pytorch)),
            "interleaved-1f1b shares 9 microbatches on 4 workers out into 2 "
            "equal groups, but 2 does not divide 9; the nearest are 8 and 10, "
            "or give a group");
  EXPECT_EQ(errorOf(generateInterleaved1F1B(makeLinear(4, 10), withGroup(4))),
            "interleaved-1f1b on 4 workers takes a group that leaves none or "
            "at least 4 of the 10 microbatches to the last group, found 4, "
            "which leaves 2; the nearest is 5");
  EXPECT_EQ(errorOf(generateInterleavedZB(makeLinear(4, 8), withGroup(2))),
            "interleaved-zb on 4 workers takes a group of at least 4 and at "
            "most all 8 microbatches, found 2; the nearest is 4");
  EXPECT_EQ(errorOf(generateInterleavedZB(makeLinear(4, 8), withGroup(9))),
            "interleaved-zb on 4 workers takes a group of at least 4 and at "
            "most all 8 microbatches, found 9; the nearest is 8");
}

TEST(ZeroBubble, RefusesTheGradientAfterW) {
  GeneratorOptions options;
  options.gradientAfter = GradientAfter::WeightGrad;
  for (auto generate : {generateZBH1, generateZBH2})
    EXPECT_NE(errorOf(generate(makeLinear(2, 2), options))
                  .find("puts W off, so that it sends the gradient after I"),
              std::string::npos);
  InterleavedOptions interleaved;
  interleaved.gradientAfter = GradientAfter::WeightGrad;
  EXPECT_EQ(errorOf(generateInterleavedZB(makeLinear(2, 2), interleaved)),
            "interleaved-zb puts W off, so that it sends the gradient after I; "
            "after W it would wait for itself");
}
