//===- ParameterSetsTest.cpp - Blocks that a worker holds -----------------===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Sets by hand, and on any placement against a search over all workers, pieces
// and stages.
//
//===----------------------------------------------------------------------===//

#include "PipeSched/Schedule/Table/ParameterSets.h"
#include "../Support/RandomPaths.h"

using namespace pipesched;

/// A stage as "stage of its path / path".
static std::string nameOf(const Placement &placement, int64_t globalStage) {
  int64_t path = 0;
  while (placement.stageOffset(path + 1) <= globalStage)
    ++path;
  return std::to_string(globalStage - placement.stageOffset(path)) + "/" +
         std::to_string(path);
}

/// Prints the sets of each worker as "begin-end:stages", the owner with a star.
static std::vector<std::string> describe(const Placement &placement) {
  ParameterSets sets = llvm::cantFail(ParameterSets::create(placement));
  std::vector<std::string> result;
  for (int64_t worker = 0; worker < placement.getNumWorkers(); ++worker) {
    std::string &text = result.emplace_back();
    llvm::raw_string_ostream os(text);
    for (int64_t set : sets.setsOfWorker(worker)) {
      EXPECT_EQ(sets.workerOf(set), worker);
      BlockSpan blocks = sets.blocksOf(set);
      os << (text.empty() ? "" : " | ") << blocks.begin << '-' << blocks.end
         << ':';
      for (int64_t stage : sets.stagesOf(set))
        os << ' ' << nameOf(placement, stage)
           << (stage == sets.ownerOf(set) ? "*" : "");
    }
  }
  return result;
}
using Sets = std::vector<std::string>;

TEST(ParameterSets, OnePathSharesNothing) {
  EXPECT_EQ(describe(makePlacement(2, 1, {pathOn({0, 1, 1, 0})})),
            Sets({"0-1: 0/0* | 3-4: 3/0*", "1-2: 1/0* | 2-3: 2/0*"}));
}

TEST(ParameterSets, TheMiddleOfMirroredPathsIsHeldOnce) {
  EXPECT_EQ(describe(makePlacement(3, 2,
                                   {pathOn({0, 1, 2}, {{0, 1, 1}}),
                                    pathOn({2, 1, 0}, {{1, 2, 1}})})),
            Sets({"0-1: 0/0* | 2-3: 2/1*", "1-2: 1/0* 1/1",
                  "0-1: 0/1* | 2-3: 2/0*"}));
  // Microbatches need not be assigned yet.
  EXPECT_EQ(describe(makePlacement(1, 1, {pathOn({0}), pathOn({0})})),
            Sets({"0-1: 0/0* 0/1"}));
}

/// The picture of the header: 3 + 3 and 2 + 4 blocks.
TEST(ParameterSets, StagesMayShareSomeOfTheirBlocks) {
  Placement placement = makePlacement(2, 2,
                                      {pathWith({0, 0}, {3, 3}, {0, 1, 1}),
                                       pathWith({1, 0}, {2, 4}, {1, 2, 1})});
  EXPECT_EQ(describe(placement),
            Sets({"0-2: 0/0* | 2-3: 0/0 1/1* | 3-6: 1/0 1/1*", "0-2: 0/1*"}));
  ParameterSets sets = llvm::cantFail(ParameterSets::create(placement));
  EXPECT_EQ(sets.ownedBlocksOf(0), (BlockSpan{0, 2}));
  EXPECT_TRUE(sets.ownsAny(0));
  EXPECT_FALSE(sets.ownsAll(0));
  EXPECT_FALSE(sets.ownsAny(1));
  EXPECT_EQ(sets.ownedBlocksOf(1).size(), 0);
  EXPECT_EQ(sets.ownedBlocksOf(3), (BlockSpan{2, 6}));
  EXPECT_TRUE(sets.ownsAll(3));
  // All that worker 1 has is replicated; of worker 0 only the same blocks.
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

/// Without blocks stages are fractions of the model: halves and thirds.
TEST(ParameterSets, PathsOfOtherLengthsShareFractions) {
  EXPECT_EQ(
      describe(makePlacement(
          2, 2, {pathOn({0, 1}, {{0, 1, 1}}), pathOn({1, 0, 1}, {{1, 2, 1}})})),
      Sets({"0-2: 0/0* | 2-3: 0/0 1/1* | 3-4: 1/1*",
            "0-2: 0/1* | 3-4: 1/0* | 4-6: 1/0* 2/1"}));
}

/// A first stage without blocks holds the embedding; one in between nothing.
TEST(ParameterSets, PinnedBlocksAreHeldOnceToo) {
  EXPECT_EQ(
      describe(makePlacement(2, 2,
                             {pathWith({0, 1, 0}, {0, 2, 2}, {0, 1, 1}),
                              pathWith({0, 0, 1}, {2, 2, 0}, {1, 2, 1})})),
      Sets({"0-0: 0/0 0/1* | 0-2: 0/1* | 2-4: 2/0* 1/1 | 4-4: 2/0*",
            "0-2: 1/0* | 4-4: 2/1*"}));
  Placement placement = makePlacement(
      2, 2,
      {pathWith({0, 1, 0}, {2, 0, 2}, {0, 1, 1}), pathOn({1, 0}, {{1, 2, 1}})});
  ParameterSets sets = llvm::cantFail(ParameterSets::create(placement));
  EXPECT_TRUE(sets.setsOf(1).empty());
  EXPECT_FALSE(sets.ownsAny(1));
}

//===----------------------------------------------------------------------===//
// Any placement
//===----------------------------------------------------------------------===//

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

/// The owners of a worker, by the ends of what they own, are in the order of
/// the model: none begins before another's blocks end.
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
