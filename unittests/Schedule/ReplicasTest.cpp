//===- ReplicasTest.cpp - Blocks that several paths place -----------------===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Pieces and segments of even and uneven splits by hand, and properties of any
// split.
//
//===----------------------------------------------------------------------===//

#include "PipeSched/Schedule/Table/Replicas.h"
#include "../Support/RandomPaths.h"

using namespace pipesched;

/// Prints pieces as "begin-end:holders of the paths", with bars between
/// segments.
static std::string describe(const Placement &placement) {
  Replicas replicas = llvm::cantFail(Replicas::create(placement));
  std::string text;
  llvm::raw_string_ostream os(text);
  for (int64_t piece = 0; piece < replicas.getNumPieces(); ++piece) {
    if (piece > 0)
      os << (replicas.segmentOf(piece) == replicas.segmentOf(piece - 1)
                 ? " "
                 : " | ");
    BlockSpan blocks = replicas.blocksOf(piece);
    os << blocks.begin << '-' << blocks.end << ':';
    for (int64_t path = 0; path < placement.getNumPaths(); ++path)
      os << replicas.holderOf(piece, path) - placement.stageOffset(path);
  }
  return text;
}

TEST(Replicas, EvenPathsShareStages) {
  EXPECT_EQ(describe(makeLinear(3, 2)), "0-1:0 | 1-2:1 | 2-3:2");
  EXPECT_EQ(
      describe(makePlacement(
          2, 2, {pathOn({0, 1}, {{0, 1, 1}}), pathOn({1, 0}, {{1, 2, 1}})})),
      "0-1:00 | 1-2:11");
}

TEST(Replicas, PathsOfOtherLengthsAreCutFiner) {
  // Two stages and three stages: pieces are sixths.
  EXPECT_EQ(
      describe(makePlacement(
          2, 2, {pathOn({0, 1}, {{0, 1, 1}}), pathOn({1, 0, 1}, {{1, 2, 1}})})),
      "0-2:00 2-3:01 3-4:11 4-6:12");
  EXPECT_EQ(describe(makePlacement(2, 2,
                                   {pathWith({0, 1}, {4, 2}, {0, 1, 1}),
                                    pathOn({1, 0}, {{1, 2, 1}})})),
            "0-3:00 3-4:01 4-6:11");
}

TEST(Replicas, SegmentsEndWhereAllStagesDo) {
  EXPECT_EQ(describe(makePlacement(
                2, 2,
                {pathWith({0, 1, 0, 1}, {1, 3, 2, 2}, {0, 1, 1}),
                 pathWith({1, 0, 1, 0}, {3, 1, 2, 2}, {1, 2, 1})})),
            "0-1:00 1-3:10 3-4:11 | 4-6:22 | 6-8:33");
}

TEST(Replicas, EmptyStagesAtTheEndsHoldWhatIsPinned) {
  EXPECT_EQ(
      describe(makePlacement(2, 2,
                             {pathWith({0, 1, 0}, {0, 2, 2}, {0, 1, 1}),
                              pathWith({1, 0, 1}, {2, 2, 0}, {1, 2, 1})})),
      "0-0:00 0-2:10 | 2-4:21 4-4:22");
  // The stages in between hold nothing.
  Placement placement = makePlacement(
      2, 2,
      {pathWith({0, 1, 0}, {2, 0, 2}, {0, 1, 1}), pathOn({1, 0}, {{1, 2, 1}})});
  EXPECT_EQ(describe(placement), "0-2:00 | 2-4:21");
  Replicas replicas = llvm::cantFail(Replicas::create(placement));
  EXPECT_TRUE(replicas.piecesOf(1).empty());
}

TEST(Replicas, BlocksAreFoundInPieces) {
  // The pieces are 0-0, 0-2, 2-4, 4-4.
  Placement placement =
      makePlacement(2, 2,
                    {pathWith({0, 1, 0}, {0, 2, 2}, {0, 1, 1}),
                     pathWith({1, 0, 1}, {2, 2, 0}, {1, 2, 1})});
  Replicas replicas = llvm::cantFail(Replicas::create(placement));
  auto find = [&](int64_t begin, int64_t end) {
    auto pieces = replicas.piecesIn({begin, end});
    return std::pair(*pieces.begin(), *pieces.begin() + int64_t(pieces.size()));
  };
  EXPECT_EQ(find(0, 0), std::pair(int64_t(0), int64_t(1)));
  EXPECT_EQ(find(0, 1), std::pair(int64_t(1), int64_t(2)));
  EXPECT_EQ(find(0, 4), std::pair(int64_t(1), int64_t(3)));
  EXPECT_EQ(find(1, 3), std::pair(int64_t(1), int64_t(3)));
  EXPECT_EQ(find(4, 4), std::pair(int64_t(3), int64_t(4)));
  for (auto [begin, end] : {std::pair(2, 2), {1, 1}, {4, 5}, {7, 9}, {5, 5}})
    EXPECT_TRUE(replicas.piecesIn({begin, end}).empty()) << begin;
}

TEST(Replicas, OneWorkerHoldsNoReplicas) {
  Placement placement = makePlacement(
      2, 2, {pathOn({0, 1}, {{0, 1, 1}}), pathOn({0, 0}, {{1, 2, 1}})});
  Replicas replicas = llvm::cantFail(Replicas::create(placement));
  EXPECT_FALSE(replicas.isHeldElsewhere(0, 0));
  EXPECT_TRUE(replicas.isHeldElsewhere(1, 0));
  EXPECT_TRUE(replicas.isHeldElsewhere(1, 1));
}

TEST(Replicas, RefuseWhatHasNoMeasure) {
  int64_t large = (int64_t(1) << 62) - 57;
  Placement placement = makePlacement(1, 2,
                                      {pathWith({0}, {large}, {0, 1, 1}),
                                       pathWith({0}, {large - 2}, {1, 2, 1})});
  EXPECT_NE(errorOf(Replicas::create(placement)).find("no common measure"),
            std::string::npos);
}

/// On any placement stages and pieces agree with each other.
TEST(Replicas, StagesAreTheirPieces) {
  std::mt19937 random(1);
  for (int round = 0; round < 500; ++round) {
    Placement placement = makeRandomPaths(random, 4, 5);
    Replicas replicas = llvm::cantFail(Replicas::create(placement));
    for (int64_t path = 0; path < placement.getNumPaths(); ++path) {
      int64_t next = 0, length = 0;
      for (int64_t stage = 0; stage < placement.getNumStages(path); ++stage) {
        int64_t global = placement.stageOffset(path) + stage;
        EXPECT_EQ(replicas.firstPieceOf(global), next);
        for (int64_t piece : replicas.piecesOf(global)) {
          EXPECT_EQ(replicas.holderOf(piece, path), global);
          length += replicas.blocksOf(piece).size();
        }
        next = replicas.endPieceOf(global);
      }
      EXPECT_EQ(next, replicas.getNumPieces());
      EXPECT_EQ(length, replicas.getNumBlocks());
    }
  }
}
