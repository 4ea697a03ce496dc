//===- DualPipeTest.cpp - dualpipe and dualpipe-v -------------------------===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A small table, the golden files, and refusals.
//
//===----------------------------------------------------------------------===//

#include "../Support/CheckTable.h"
#include "../Support/Golden.h"
#include "PipeSched/Schedule/Family/Generators.h"

using namespace pipesched;
using llvm::Expected;
using Rows = std::vector<std::string>;
using Times = FormulaInputs::Times;

static Placement makeV(int64_t workers, int64_t microbatches) {
  return makePlacement(workers, microbatches, {placeV(workers)});
}

static Placement makePair(int64_t workers, int64_t microbatches,
                          Assign assign = Assign::Halves) {
  return makePlacement(
      workers, microbatches,
      llvm::cantFail(placeBidirectional(workers, microbatches, 1, assign)));
}

TEST(DualPipe, TakesHalvesWhateverThePathsTook) {
  Table table =
      llvm::cantFail(generateDualPipe(makePair(4, 8, Assign::Alternate)));
  expectGoldenOrder(table, "deepseek_dualpipe_D4_N8");
  EXPECT_EQ(table.placement.getPath(0).takes,
            std::vector<MicrobatchRange>({{0, 4, 1}}));
  EXPECT_EQ(table.placement.getPath(1).takes,
            std::vector<MicrobatchRange>({{4, 8, 1}}));
}

TEST(DualPipe, AssignsPathsThatTakeNothing) {
  Placement problem =
      makePlacement(4, 8, {pathOn({0, 1, 2, 3}), pathOn({3, 2, 1, 0})});
  expectGoldenOrder(llvm::cantFail(generateDualPipe(problem)),
                    "deepseek_dualpipe_D4_N8");
}

TEST(DualPipe, RefusesSizesWithoutARule) {
  Placement odd = makePlacement(3, 8, {pathOn({0, 1, 2}), pathOn({2, 1, 0})});
  EXPECT_EQ(errorOf(generateDualPipe(odd)),
            "dualpipe takes an even number of workers, found 3; the nearest "
            "are 2 and 4");
  EXPECT_EQ(errorOf(generateDualPipe(makePair(4, 6))),
            "dualpipe takes at least two microbatches per worker, found 6 on 4 "
            "workers; the nearest is 8");
  EXPECT_EQ(errorOf(generateDualPipe(makePair(4, 9, Assign::Alternate))),
            "dualpipe takes an even number of microbatches, half of them for "
            "each direction, found 9; the nearest are 8 and 10");
  EXPECT_EQ(errorOf(generateDualPipeV(makeV(4, 7))),
            "dualpipe-v takes at least two microbatches per worker, found 7 on "
            "4 workers; the nearest is 8");
}

TEST(DualPipe, RefusesOtherPlacements) {
  Placement up = makePlacement(2, 4, {pathOn({1, 0})});
  EXPECT_EQ(errorOf(generateDualPipe(up)),
            "dualpipe takes two mirrored paths, found 1");
  Placement same = makePlacement(2, 4, {pathOn({0, 1}), pathOn({0, 1})});
  EXPECT_EQ(errorOf(generateDualPipe(same)),
            "dualpipe takes a bidirectional placement, with stage 0 of path 1 "
            "on worker 1, found it on worker 0");
  EXPECT_EQ(errorOf(generateDualPipeV(up)),
            "dualpipe-v takes a V path, down all workers and up again in 4 "
            "stages on 2 workers, found 2 stages");
  GeneratorOptions options;
  options.gradientAfter = GradientAfter::WeightGrad;
  EXPECT_EQ(errorOf(generateDualPipe(makePair(2, 4), options)),
            "dualpipe puts W off, so that it sends the gradient after I; after "
            "W it would wait for itself");
}

TEST(DualPipeFormulas, Refuse) {
  FormulaInputs inputs{4, 4, 8, std::nullopt};
  EXPECT_EQ(errorOf(evaluateFormula("dualpipe", inputs)),
            "the formula of dualpipe holds for two paths and even numbers of "
            "workers and microbatches, found 1, 4 and 8");
  EXPECT_EQ(errorOf(evaluateFormula("dualpipe-v", {4, 8, 7, std::nullopt})),
            "the formula of dualpipe-v holds for at least two microbatches per "
            "worker, found 7 on 4 workers");
}

TEST(DualPipeFormulas, SayWhyThereIsNoGeneralForm) {
  for (Times times :
       {Times{1, 2, 1, 0}, Times{1, 1, 1, 1}, Times{2, 2, 2, 0, 5}}) {
    FormulaResult result =
        llvm::cantFail(evaluateFormula("dualpipe-v", {4, 8, 8, times}));
    EXPECT_FALSE(result.bubbleRatioGeneral);
    EXPECT_EQ(result.generalConditions,
              "no general form is known: it takes F = I, F&B = F + B and free "
              "messages");
  }
  EXPECT_TRUE(llvm::cantFail(evaluateFormula("dualpipe-v",
                                             {4, 8, 8, Times{2, 2, 2, 0, 6}}))
                  .bubbleRatioGeneral);
}
