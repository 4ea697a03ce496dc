//===- ChimeraTest.cpp - Li & Hoefler's bidirectional schedule ------------===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The basic unit of arXiv 2107.06925, the constructions from it, and refusals.
//
//===----------------------------------------------------------------------===//

#include "../Support/CheckTable.h"
#include "PipeSched/Schedule/Family/Generators.h"

using namespace pipesched;
using Rows = std::vector<std::string>;

static Placement makeHalves(int64_t workers, int64_t microbatches,
                            int64_t pairs = 1) {
  return makePlacement(workers, microbatches,
                       llvm::cantFail(placeBidirectional(
                           workers, microbatches, pairs, Assign::Halves)));
}

static ChimeraOptions constructedBy(ChimeraConstruction construction) {
  ChimeraOptions options;
  options.construction = construction;
  return options;
}

/// The paper's figure with D = N = 4.
TEST(Chimera, IsThePapersBasicUnit) {
  Table table = llvm::cantFail(generateChimera(makeHalves(4, 4)));
  EXPECT_EQ(printRows(table.rows), Rows({"0F0 0F1 3F2 3B2 3F3 3B3 0B0 0B1",
                                         "1F0 2F2 1F1 2F3 2B2 1B0 2B3 1B1",
                                         "1F2 2F0 1F3 2F1 2B0 1B2 2B1 1B3",
                                         "0F2 0F3 3F0 3B0 3F1 3B1 0B2 0B3"}));
}

TEST(Chimera, DoublesForwards) {
  Table table = llvm::cantFail(generateChimera(
      makeHalves(2, 4), constructedBy(ChimeraConstruction::Doubling)));
  EXPECT_EQ(printRows(table.rows), Rows({"0F0 0F1 1F2 1F3 1B2 0B0 1B3 0B1",
                                         "0F2 0F3 1F0 1F1 1B0 0B2 1B1 0B3"}));
}

/// Two pairs: four paths that enter at every worker.
TEST(Chimera, CombinesSeveralPairs) {
  Table table = llvm::cantFail(generateChimera(makeHalves(4, 4, 2)));
  EXPECT_EQ(printRow(table.rows[0]), "0F0 1F3 2F2 3F1 3B1 2B2 1B3 0B0");
  EXPECT_EQ(measure(table).slots, 12);
}

TEST(Chimera, UnitsMayBeIncomplete) {
  Table table = llvm::cantFail(generateChimera(makeLinear(4, 3)));
  EXPECT_EQ(printRow(table.rows[0]), "0F0 0F2 3F1 3B1 0B0 0B2");
}

TEST(Chimera, HalvesRunLikeDoubledForwards) {
  Placement placement = makeHalves(4, 8);
  EXPECT_EQ(llvm::cantFail(
                generateChimera(placement,
                                constructedBy(ChimeraConstruction::Halving)))
                .rows,
            llvm::cantFail(
                generateChimera(placement,
                                constructedBy(ChimeraConstruction::Doubling)))
                .rows);
  EXPECT_EQ(errorOf(generateChimera(
                makeHalves(4, 6), constructedBy(ChimeraConstruction::Halving))),
            "chimera with halving takes an even number of microbatches on each "
            "path, the halves of one being two, found 3 on path 0; the nearest "
            "are 2 and 4");
}

TEST(Chimera, ReplacesTheLinearPath) {
  ChimeraOptions options;
  options.pairs = 2;
  Table table = llvm::cantFail(generateChimera(makeLinear(4, 8), options));
  EXPECT_EQ(table.placement.getNumPaths(), 4);
  EXPECT_EQ(table.placement.pathOf(5), 1);
  EXPECT_EQ(errorOf(generateChimera(makeLinear(3, 4))),
            "3 workers: a bidirectional placement takes an even number; the "
            "nearest are 2 and 4");
  EXPECT_EQ(errorOf(generateChimera(makeLinear(4, 1))),
            "1 microbatches: 2 paths need at least 2");
}

TEST(Chimera, AssignsByTurns) {
  Placement open = makePlacement(2, 4, {pathOn({0, 1}), pathOn({1, 0})});
  EXPECT_EQ(llvm::cantFail(generateChimera(open)).rows,
            llvm::cantFail(generateChimera(makeLinear(2, 4))).rows);
}

TEST(Chimera, HoldsAtLeastHalfOfAUnit) {
  for (int64_t workers : {2, 4, 6, 8})
    for (int64_t peak :
         measure(llvm::cantFail(generateChimera(makeLinear(workers, workers))))
             .peakActivations) {
      EXPECT_GE(peak, workers / 2 + 1);
      EXPECT_LE(peak, workers);
    }
}

TEST(Chimera, RefusesOtherPlacements) {
  auto refusal = [](int64_t workers, std::vector<Path> paths,
                    ChimeraOptions options = {}) {
    return errorOf(
        generateChimera(makePlacement(workers, 8, std::move(paths)), options));
  };
  EXPECT_EQ(refusal(2, {placeV(2)}),
            "chimera takes mirrored pairs of paths, found 1 path");
  EXPECT_EQ(
      refusal(2, {pathOn({0, 1}), pathOn({0, 1})}),
      "chimera takes a bidirectional placement, with stage 0 of path 1 on "
      "worker 1, found it on worker 0");
  EXPECT_EQ(
      refusal(4, {pathOn({0, 1}), pathOn({1, 0})}),
      "chimera takes one stage per worker on each path, found 2 stages on "
      "4 workers on path 0");
  EXPECT_EQ(
      refusal(2, {pathOn({0, 0}), pathOn({0, 0})}),
      "chimera takes a path that visits every worker before it comes back "
      "to one, found stage 1 on worker 0 again");
  EXPECT_EQ(refusal(2, {pathOn({0, 1}), pathOn({1, 0}), pathOn({0, 1}),
                        pathOn({1, 0})}),
            "chimera takes pairs of paths whose number divides half of the 2 "
            "workers, found 2");
  EXPECT_EQ(
      refusal(2, {pathOn({0, 1}, {{0, 6, 1}}), pathOn({1, 0}, {{6, 8, 1}})}),
      "chimera shares microbatches out evenly, found 6 on path 0 and 2 on "
      "path 1");
  ChimeraOptions options;
  options.pairs = 2;
  EXPECT_EQ(refusal(4, {pathOn({0, 1, 2, 3}), pathOn({3, 2, 1, 0})}, options),
            "chimera is asked for 2 pairs, but the paths are 1");
}
