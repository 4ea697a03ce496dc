//===- ReplicasTest.cpp - Blocks that several paths place -----------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Pieces and segments of even and uneven splits by hand, and properties of any
// split.
//
//===----------------------------------------------------------------------===//

#include "../Support/RandomPaths.h"
#include "PipeSched/Schedule/Table/ParameterSets.h"

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

//===----------------------------------------------------------------------===//
// Blocks of a worker
//===----------------------------------------------------------------------===//

/// The picture of the header: 3 + 3 and 2 + 4 blocks.
TEST(ParameterSets, StagesMayShareSomeOfTheirBlocks) {
  Placement placement = makePlacement(2, 2,
                                      {pathWith({0, 0}, {3, 3}, {0, 1, 1}),
                                       pathWith({1, 0}, {2, 4}, {1, 2, 1})});
  ParameterSets sets = llvm::cantFail(ParameterSets::create(placement));
  EXPECT_EQ(sets.ownedBlocksOf(0), (BlockSpan{0, 2}));
  EXPECT_TRUE(sets.ownsAny(0));
  EXPECT_FALSE(sets.ownsAll(0));
  EXPECT_FALSE(sets.ownsAny(1));
  EXPECT_EQ(sets.ownedBlocksOf(1).size(), 0);
  EXPECT_EQ(sets.ownedBlocksOf(3), (BlockSpan{2, 6}));
  EXPECT_TRUE(sets.ownsAll(3));
  // All blocks of worker 1 are replicated; on worker 0 only the same blocks.
  EXPECT_TRUE(sets.isReplicated(0));
  EXPECT_FALSE(sets.isReplicated(1));
  EXPECT_TRUE(sets.isReplicated(2));
  EXPECT_FALSE(sets.isReplicated(3));
  EXPECT_EQ(sets.getSetBegins(), llvm::ArrayRef<int64_t>({0, 3, 4}));
  EXPECT_EQ(sets.getStages(), llvm::ArrayRef<int64_t>({0, 0, 3, 1, 3, 2}));
  for (auto [set, owner] : llvm::enumerate(std::vector<int64_t>{0, 3, 3, 2}))
    EXPECT_EQ(sets.ownerOf(set), owner);
  EXPECT_EQ(sets.stagesOf(1), llvm::ArrayRef<int64_t>({0, 3}));
}

/// The stages of a worker that hold a piece, ascending.
static std::vector<int64_t> holdersOn(const Placement &placement,
                                      const Replicas &replicas, int64_t piece,
                                      int64_t worker) {
  std::vector<int64_t> stages;
  for (int64_t path = 0; path < placement.getNumPaths(); ++path)
    if (int64_t stage = replicas.holderOf(piece, path);
        placement.workerOf(stage) == worker)
      stages.push_back(stage);
  return stages;
}

/// Each pair of a worker and a piece that it holds is in one set, with all the
/// stages that hold it; owners own one run, and their users are as they say.
static void checkSets(const Placement &placement, const ParameterSets &sets) {
  const Replicas &replicas = sets.getReplicas();
  int64_t numHeld = 0, numInSets = 0, numOwned = 0;
  for (int64_t worker = 0; worker < placement.getNumWorkers(); ++worker) {
    for (int64_t piece = 0; piece < replicas.getNumPieces(); ++piece)
      numHeld += !holdersOn(placement, replicas, piece, worker).empty();
    int64_t lastEnd = -1;
    for (int64_t set : sets.setsOfWorker(worker)) {
      EXPECT_GE(*sets.piecesOf(set).begin(), lastEnd);
      lastEnd = *sets.piecesOf(set).end();
      EXPECT_TRUE(llvm::is_contained(sets.stagesOf(set), sets.ownerOf(set)));
      for (int64_t piece : sets.piecesOf(set)) {
        EXPECT_EQ(sets.stagesOf(set), llvm::ArrayRef(holdersOn(
                                          placement, replicas, piece, worker)));
        ++numInSets;
      }
    }
  }
  for (int64_t stage = 0; stage < placement.getNumGlobalStages(); ++stage) {
    std::vector<int64_t> users, found;
    for (int64_t piece : sets.ownedPiecesOf(stage)) {
      ++numOwned;
      llvm::append_range(users, holdersOn(placement, replicas, piece,
                                          placement.workerOf(stage)));
    }
    llvm::sort(users);
    users.erase(std::unique(users.begin(), users.end()), users.end());
    sets.forEachUser(stage, [&](int64_t other) { found.push_back(other); });
    llvm::sort(found);
    EXPECT_EQ(found, users);
    EXPECT_EQ(sets.ownsAny(stage), !sets.ownedPiecesOf(stage).empty());
    EXPECT_EQ(sets.ownsAll(stage), sets.ownedPiecesOf(stage).size() ==
                                       replicas.piecesOf(stage).size());
  }
  EXPECT_EQ(numInSets, numHeld);
  EXPECT_EQ(numOwned, numHeld);
}

/// The owners of a worker, by the ends of their blocks, are in the order of the
/// model: none starts before another's blocks end.
static void checkOrder(const Placement &placement, const ParameterSets &sets) {
  for (int64_t worker = 0; worker < placement.getNumWorkers(); ++worker) {
    int64_t last = -1;
    for (int64_t set : sets.setsOfWorker(worker)) {
      int64_t owner = sets.ownerOf(set);
      if (set != *sets.ownedSetsOf(owner).begin())
        continue;
      EXPECT_GE(*sets.ownedPiecesOf(owner).begin(), last);
      last = *sets.ownedPiecesOf(owner).end();
      EXPECT_EQ(*sets.ownedPiecesOf(owner).begin(),
                sets.getReplicas().firstPieceOf(owner));
    }
  }
}

TEST(ParameterSets, OfAnyPlacement) {
  std::mt19937 random(1);
  int numShared = 0;
  for (int round = 0; round < 2000 && !HasFailure(); ++round) {
    SCOPED_TRACE(round);
    Placement placement = makeRandomPaths(random, 5, 6);
    ParameterSets sets = llvm::cantFail(ParameterSets::create(placement));
    checkSets(placement, sets);
    checkOrder(placement, sets);
    for (int64_t set = 0; set < sets.getNumSets(); ++set)
      numShared += sets.stagesOf(set).size() > 1;
  }
  EXPECT_GT(numShared, 1000);
}
