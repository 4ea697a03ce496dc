//===- PlacementTest.cpp - Paths, their checks and their indexing ---------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Each refusal once, the literature's placements, and huge sizes, which must
// not take time or memory. Names of microbatches and sizes in the errors are
// part of the tests.
//
//===----------------------------------------------------------------------===//

#include "../Support/TestTables.h"
#include "PipeSched/Schedule/Table/PathText.h"

using namespace pipesched;
using Counts = std::vector<int64_t>;
using Workers = std::vector<int32_t>;

static std::string refuse(int64_t workers, int64_t microbatches,
                          std::vector<Path> paths) {
  return errorOf(Placement::create(workers, microbatches, std::move(paths)));
}

static Path withBlocks(Path path, std::vector<int64_t> blocks) {
  path.blocks = std::move(blocks);
  return path;
}

static Path withWeights(Path path, std::vector<int64_t> weights) {
  path.weights = std::move(weights);
  return path;
}

/// Slices of a microbatch are units in a row, on the path of the microbatch;
/// the pairs of all stages and units are numbered without gaps.
TEST(Placement, NumbersUnitsOfSlices) {
  Path down = pathOn({0, 1}), up = pathOn({1, 0});
  down.takes = {{0, 3, 2}};
  up.takes = {{1, 2, 1}};
  Placement placement =
      llvm::cantFail(Placement::create(2, 3, {down, up}, /*numSlices=*/2));
  EXPECT_EQ(placement.getNumMicrobatches(), 3);
  EXPECT_EQ(placement.getNumUnits(), 6);
  EXPECT_EQ(placement.countOnPath(0), 4);
  EXPECT_EQ(placement.countOnPath(1), 2);
  EXPECT_EQ(placement.getNumPairs(), 2 * 4 + 2 * 2);
  std::vector<int64_t> ranks, paths;
  std::vector<bool> isPair(placement.getNumPairs());
  for (int64_t unit = 0; unit < placement.getNumUnits(); ++unit) {
    EXPECT_EQ(
        placement.unitOf(placement.microbatchOf(unit), placement.sliceOf(unit)),
        unit);
    ranks.push_back(placement.rankOnPath(unit));
    paths.push_back(placement.pathOf(unit));
    for (int64_t stage : {0, 1}) {
      Cell cell(stage, Phase::Forward, unit);
      EXPECT_FALSE(isPair[placement.pairOf(cell)]);
      isPair[placement.pairOf(cell)] = true;
    }
  }
  EXPECT_EQ(paths, (std::vector<int64_t>{0, 0, 1, 1, 0, 0}));
  EXPECT_EQ(ranks, (std::vector<int64_t>{0, 1, 0, 1, 2, 3}));
  EXPECT_EQ(llvm::count(isPair, true), placement.getNumPairs());
  EXPECT_EQ(placement.getNumLocalPairs(0), 4 + 2);
}

TEST(Placement, RefusesSlicesThatDoNotFit) {
  EXPECT_EQ(errorOf(Placement::create(1, 4, {pathOn({0})}, 0)),
            "0 slices of each of 4 microbatches: there may be 1 to 536870911");
  EXPECT_EQ(errorOf(Placement::create(1, 4, {pathOn({0})}, 536870912)),
            "536870912 slices of each of 4 microbatches: there may be 1 to "
            "536870911");
}

TEST(Placement, ErrorsNameTheirPath) {
  auto pathOfError = [](std::vector<Path> paths) -> int64_t {
    llvm::Expected<Placement> placement =
        Placement::create(2, 2, std::move(paths));
    int64_t path = -1;
    llvm::handleAllErrors(
        placement.takeError(),
        [&](const PathError &error) { path = error.getPath(); },
        [](const llvm::ErrorInfoBase &) {});
    return path;
  };
  Path first, second;
  first.workers = {0, 1};
  first.takes = {{0, 1, 1}};
  second.workers = {0, 2};
  second.takes = {{1, 2, 1}};
  EXPECT_EQ(pathOfError({first, second}), 1);
  EXPECT_EQ(pathOfError({second, first}), 0);
  // That two paths take a microbatch is not a mistake of one of them.
  second = first;
  EXPECT_EQ(pathOfError({first, second}), -1);
}

TEST(Placement, LooksUpSeveralPaths) {
  Placement placement = makePlacement(
      2, 5, {pathOn({0, 1}, {{0, 5, 2}}), pathOn({1, 0}, {{1, 5, 2}})});
  EXPECT_EQ(placement.pathOf(3), 1);
  EXPECT_EQ(placement.rankOnPath(4), 2);
  EXPECT_EQ(placement.countOnPath(0), 3);
  EXPECT_EQ(placement.countOnPath(1), 2);
  EXPECT_EQ(placement.globalStage(parseCell("1F3")), 3);
  EXPECT_EQ(placement.globalStage(parseCell("1O0")), 1);
  EXPECT_EQ(placement.workerOf(3), 0);
  EXPECT_EQ(placement.getNumPairs(), 10);
}

TEST(Placement, RefusesTakes) {
  auto refuseTakes = [](const std::vector<MicrobatchRange> &a,
                        const std::vector<MicrobatchRange> &b) {
    return refuse(2, 4, {pathOn({0, 1}, a), pathOn({1, 0}, b)});
  };
  EXPECT_EQ(refuseTakes({{0, 2, 1}}, {{3, 4, 1}}),
            "microbatch 2 is on no path");
  EXPECT_EQ(refuseTakes({{0, 3, 1}}, {{2, 4, 1}}),
            "microbatch 2 is on path 0 and on path 1");
  EXPECT_EQ(refuseTakes({{0, 2, 1}, {1, 2, 1}}, {{2, 4, 1}}),
            "path 0 takes microbatch 1 twice");
  EXPECT_EQ(refuseTakes({{0, 4, 1}}, {}), "path 1 takes no microbatch");
  EXPECT_EQ(refuseTakes({{0, 5, 1}}, {{2, 4, 1}}),
            "path 0 takes [0:5:1], which is not within the 4 microbatches (0 "
            "to 3)");
  EXPECT_EQ(refuseTakes({{2, 2, 1}}, {{2, 4, 1}}),
            "path 0 takes [2:2:1], which is empty");
  EXPECT_EQ(refuseTakes({{0, 4, 0}}, {{2, 4, 1}}),
            "path 0 takes [0:4:0]: the step must be 1 or more");
  EXPECT_EQ(refuse(1, 3, {pathOn({0}, {{0, 2, 1}})}),
            "microbatch 2 is on no path");
}

TEST(Placement, RefusesBlocks) {
  EXPECT_EQ(refuse(2, 1, {withBlocks(pathOn({0, 1}), {3})}),
            "path 0 has 2 stages but blocks for 1");
  EXPECT_EQ(refuse(2, 1, {withBlocks(pathOn({0, 1}), {3, -1})}),
            "stage 1 of path 0 has -1 blocks: there cannot be fewer than 0");
  EXPECT_EQ(refuse(2, 1, {withBlocks(pathOn({0, 1}), {0, 0})}),
            "path 0 has no block on any stage");
  EXPECT_EQ(refuse(2, 1, {withBlocks(pathOn({0, 1}), {INT64_MAX, 1})}),
            "the blocks of path 0 add up to more than 2^63 - 1");
}

TEST(Placement, RefusesWeights) {
  EXPECT_EQ(refuse(2, 1, {withWeights(pathOn({0, 1}), {3})}),
            "path 0 has 2 stages but weights for 1");
  EXPECT_EQ(refuse(2, 1, {withWeights(pathOn({0, 1}), {0, 3})}),
            "stage 0 of path 0 has weight 0: it must be 1 or more");
  EXPECT_EQ(refuse(2, 1, {withWeights(pathOn({0, 1}), {INT64_MAX, 1})}),
            "the weights of path 0 add up to more than 2^63 - 1");
  EXPECT_EQ(
      refuse(2, 1, {withWeights(withBlocks(pathOn({0, 1}), {1, 1}), {1, 1})}),
      "path 0 has blocks and weights: expected only one of them");
}

TEST(Placement, MeasuresStages) {
  auto lengthsOf = [](std::vector<Path> paths) {
    return llvm::cantFail(stageLengths(makePlacement(3, 3, std::move(paths))));
  };
  using Lengths = std::vector<int64_t>;
  EXPECT_EQ(lengthsOf({pathOn({0, 1, 1}), pathOn({0, 1})}),
            Lengths({1, 1, 1, 1, 1}));
  EXPECT_EQ(lengthsOf({withWeights(pathOn({0, 1}), {2, 4})}), Lengths({2, 4}));
  EXPECT_EQ(lengthsOf({withBlocks(pathOn({0, 1}), {0, 4})}), Lengths({0, 4}));
  // Every path holds the whole model.
  EXPECT_EQ(lengthsOf({withBlocks(pathOn({0, 1}), {20, 40}),
                       withWeights(pathOn({0, 1}), {1, 1}), pathOn({0, 1, 2})}),
            Lengths({20, 40, 30, 30, 20, 20, 20}));
  EXPECT_EQ(lengthsOf({withWeights(pathOn({0, 1}), {1, 2}), pathOn({0, 1})}),
            Lengths({2, 4, 3, 3}));
}

TEST(Placement, RefusesLengthsWithoutACommonMeasure) {
  int64_t prime = (int64_t(1) << 61) - 1;
  Placement placement =
      makePlacement(2, 1,
                    {withWeights(pathOn({0, 1}), {prime - 1, 1}),
                     withWeights(pathOn({0, 1}), {prime - 1, 2})});
  EXPECT_EQ(errorOf(stageLengths(placement)),
            "the stages of the paths have no common measure below 2^63: give "
            "blocks or weights that add up to the same on every path");
}

TEST(Placement, CostsNothingPerMicrobatchOfOnePath) {
  Placement placement = makeLinear(4, Cell::kMaxMicrobatches);
  EXPECT_EQ(placement.countOnPath(0), Cell::kMaxMicrobatches);
  EXPECT_EQ(placement.rankOnPath(Cell::kMaxMicrobatches - 1),
            Cell::kMaxMicrobatches - 1);
  Path all = pathOn({0}, {{0, Cell::kMaxMicrobatches, 1}});
  EXPECT_TRUE(makePlacement(1, Cell::kMaxMicrobatches, {all}).isAssigned());
}

TEST(Placement, LimitsMicrobatchesOfSeveralPaths) {
  int64_t count = Cell::kMaxMicrobatches;
  EXPECT_EQ(
      refuse(2, count,
             {pathOn({0}, {{0, count, 2}}), pathOn({1}, {{1, count, 2}})}),
      "2147483647 microbatches: there may be 268435456 at most if paths state "
      "their microbatches");
}

TEST(Placements, FollowTheirRules) {
  EXPECT_EQ(placeLinear(3).workers, Workers({0, 1, 2}));
  EXPECT_EQ(placeV(3).workers, Workers({0, 1, 2, 2, 1, 0}));
  EXPECT_EQ(llvm::cantFail(placeInterleaved(2, 3)).workers,
            Workers({0, 1, 0, 1, 0, 1}));
  EXPECT_EQ(llvm::cantFail(placeWave(2, 2)).workers,
            Workers({0, 1, 1, 0, 0, 1, 1, 0}));
}

TEST(Placements, BidirectionalPairsMirrorEachOther) {
  std::vector<Path> one =
      llvm::cantFail(placeBidirectional(4, 5, 1, Assign::Alternate));
  ASSERT_EQ(one.size(), 2u);
  EXPECT_EQ(one[0].workers, Workers({0, 1, 2, 3}));
  EXPECT_EQ(one[1].workers, Workers({3, 2, 1, 0}));
  EXPECT_EQ(one[1].takes.front(), (MicrobatchRange{1, 5, 2}));

  std::vector<Path> two =
      llvm::cantFail(placeBidirectional(4, 8, 2, Assign::Halves));
  ASSERT_EQ(two.size(), 4u);
  EXPECT_EQ(two[2].workers, Workers({2, 3, 0, 1}));
  EXPECT_EQ(two[3].workers, Workers({1, 0, 3, 2}));
  EXPECT_EQ(two[3].takes.front(), (MicrobatchRange{6, 8, 1}));
}

TEST(Placements, BidirectionalRefusalsNameTheNearestSizes) {
  auto refusePlace = [](int64_t workers, int64_t microbatches, int64_t pairs,
                        Assign assign = Assign::Alternate) {
    return errorOf(placeBidirectional(workers, microbatches, pairs, assign));
  };
  EXPECT_EQ(refusePlace(5, 4, 1),
            "5 workers: a bidirectional placement takes an even number; the "
            "nearest are 4 and 6");
  EXPECT_EQ(refusePlace(16, 64, 3),
            "3 pairs: the number of pairs must divide half of the 16 workers; "
            "the nearest are 2 and 4");
  EXPECT_EQ(refusePlace(8, 64, 9),
            "9 pairs: the number of pairs must divide half of the 8 workers; "
            "the nearest is 4");
  EXPECT_EQ(refusePlace(8, 3, 2), "3 microbatches: 4 paths need at least 4");
  EXPECT_EQ(refusePlace(4, 7, 1, Assign::Halves),
            "7 microbatches cannot be divided equally over 2 paths; the "
            "nearest numbers are 6 and 8");
  EXPECT_EQ(refusePlace(65536, 1 << 20, 1 << 15),
            "32768 pairs on 65536 workers make 4294967296 stages: there may be "
            "16777216 at most");
}

static std::vector<Path> read(llvm::StringRef text) {
  return llvm::cantFail(parsePaths(text));
}

TEST(PathText, ReadsWorkers) {
  EXPECT_EQ(read("0,1,2")[0].workers, Workers({0, 1, 2}));
  EXPECT_EQ(read(" [ 0 , 1 ] ")[0].workers, Workers({0, 1}));
  EXPECT_EQ(read("0:4, 7, 3:-1:-1")[0].workers,
            Workers({0, 1, 2, 3, 7, 3, 2, 1, 0}));
  EXPECT_EQ(read("0:7:3,6:1:-2")[0].workers, Workers({0, 3, 6, 6, 4, 2}));
  std::vector<Path> paths = read("0,1;1,0");
  ASSERT_EQ(paths.size(), 2u);
  EXPECT_EQ(paths[1].workers, Workers({1, 0}));
  EXPECT_TRUE(paths[1].takes.empty());
}

TEST(PathText, ReadsWhatElseAPathSays) {
  std::vector<Path> paths =
      read("0,1 takes 0:8:2, 9 blocks 20*2;[1, 0] weights [1, 2]takes[1:8:2]");
  ASSERT_EQ(paths.size(), 2u);
  EXPECT_EQ(paths[0].takes,
            (std::vector<MicrobatchRange>{{0, 8, 2}, {9, 10, 1}}));
  EXPECT_EQ(paths[0].blocks, Counts({20, 20}));
  EXPECT_EQ(paths[1].weights, Counts({1, 2}));
  EXPECT_EQ(paths[1].takes, (std::vector<MicrobatchRange>{{1, 8, 2}}));
}

TEST(PathText, ReadsCounts) {
  EXPECT_EQ(llvm::cantFail(parseStageCounts("7,8*3,7")),
            (std::vector<Counts>{{7, 8, 8, 8, 7}}));
  EXPECT_EQ(llvm::cantFail(parseStageCounts("[1,2];0*2")),
            (std::vector<Counts>{{1, 2}, {0, 0}}));
}

TEST(PathText, ReadsWhatDoesNotTrain) {
  auto backwardOf = [](llvm::StringRef text) {
    return llvm::cantFail(parsePaths(text)).front().backward;
  };
  EXPECT_TRUE(backwardOf("0:4").isFull());
  EXPECT_TRUE(backwardOf("0:4 none").isNone);
  EXPECT_EQ(backwardOf("0:4 frozen 0:2,3 takes 0").frozen,
            (std::vector<int64_t>{0, 1, 3}));
}

TEST(PathText, NamesTheCharacter) {
  auto refuse = [](llvm::StringRef text) { return errorOf(parsePaths(text)); };
  EXPECT_EQ(refuse(""), "character 1: expected a worker, found the end");
  EXPECT_EQ(refuse("0,1;"), "character 5: expected a worker, found the end");
  EXPECT_EQ(refuse("0,x"), "character 3: expected a worker, found 'x'");
  EXPECT_EQ(refuse("0,-"), "character 3: expected a worker, found '-'");
  EXPECT_EQ(refuse("0 1"),
            "character 3: expected 'takes', 'blocks', 'weights', 'frozen' or "
            "'none', each once, or ';', found '1'");
  EXPECT_EQ(refuse("0 takes 1 takes 2"),
            "character 11: expected 'takes', 'blocks', 'weights', 'frozen' or "
            "'none', each once, or ';', found 't'");
  EXPECT_EQ(refuse("0 block 1"),
            "character 3: expected 'takes', 'blocks', 'weights', 'frozen' or "
            "'none', each once, or ';', found 'b'");
  EXPECT_EQ(refuse("0 none none"),
            "character 8: expected 'takes', 'blocks', 'weights', 'frozen' or "
            "'none', each once, or ';', found 'n'");
  EXPECT_EQ(refuse("0,1 frozen 2"),
            "character 12: the path has no stages 2:3:1");
  EXPECT_EQ(refuse("[0,1;1,0]"), "character 5: expected ',' or ']', found ';'");
  EXPECT_EQ(refuse("0,65536"),
            "character 3: worker 65536 is not one of 0 to 65535");
  EXPECT_EQ(refuse("0,2:-2:-1"),
            "character 3: worker -1 is not one of 0 to 65535");
  EXPECT_EQ(refuse("0,4:2"),
            "character 3: the range of workers 4:2:1 is empty");
  EXPECT_EQ(refuse("0,0:4:0"),
            "character 3: the range of workers 0:4:0 is empty");
  EXPECT_EQ(refuse("0,0:4:"),
            "character 7: expected the step of a range, found the end");
  EXPECT_EQ(refuse("99999999999999999999"),
            "character 1: the number 99999999999999999999 is too large");
  EXPECT_EQ(refuse("0 takes 4611686018427387904"),
            "character 9: the number 4611686018427387904 is too large");
  EXPECT_EQ(refuse("0:2305843009213693952"),
            "character 1: a path may have 16777216 stages at most");
  EXPECT_EQ(refuse("0 blocks 3*0"),
            "character 10: 0 times 3 is not 1 to 16777216 counts");
  EXPECT_EQ(refuse("0 blocks 3*99999999999"),
            "character 10: 99999999999 times 3 is not 1 to 16777216 counts");
  EXPECT_EQ(errorOf(parseStageCounts("1,2 3")),
            "character 5: expected ';' or the end, found '3'");
  EXPECT_EQ(errorOf(parseStageCounts("1;")),
            "character 3: expected a count, found the end");
}
