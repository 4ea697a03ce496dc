//===- GeneratorsTest.cpp - GPipe and 1F1B --------------------------------===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The tables of their papers, split backwards, and refusals.
//
//===----------------------------------------------------------------------===//

#include "PipeSched/Schedule/Family/Generators.h"
#include "../Support/TestTables.h"

using namespace pipesched;
using Rows = std::vector<std::string>;

static GeneratorOptions split() {
  GeneratorOptions options;
  options.splitBackward = true;
  return options;
}

TEST(GPipe, RunsAllForwardsThenAllBackwards) {
  Table table = llvm::cantFail(generateGPipe(makeLinear(2, 3)));
  EXPECT_EQ(printRows(table.rows),
            Rows({"0F0 0F1 0F2 0B0 0B1 0B2", "1F0 1F1 1F2 1B0 1B1 1B2"}));
  EXPECT_EQ(table.gradientAfter, GradientAfter::InputGrad);
}

TEST(OneFOneB, IsTheTableOfThePaper) {
  Table table = llvm::cantFail(generate1F1B(makeLinear(4, 4)));
  EXPECT_EQ(printRows(table.rows), Rows({"0F0 0F1 0F2 0F3 0B0 0B1 0B2 0B3",
                                         "1F0 1F1 1F2 1B0 1F3 1B1 1B2 1B3",
                                         "2F0 2F1 2B0 2F2 2B1 2F3 2B2 2B3",
                                         "3F0 3B0 3F1 3B1 3F2 3B2 3F3 3B3"}));
}

TEST(OneFOneB, WarmsUpWithNoMoreThanThereIs) {
  Table table = llvm::cantFail(generate1F1B(makeLinear(4, 2)));
  EXPECT_EQ(printRow(table.rows[0]), "0F0 0F1 0B0 0B1");
  EXPECT_EQ(printRow(table.rows[2]), "2F0 2F1 2B0 2B1");
  EXPECT_EQ(printRow(table.rows[3]), "3F0 3B0 3F1 3B1");
}

TEST(OneFOneB, FollowsThePathAcrossWorkers) {
  Placement placement = makePlacement(2, 2, {pathOn({1, 0})});
  Table table = llvm::cantFail(generate1F1B(placement));
  EXPECT_EQ(printRows(table.rows),
            Rows({"1F0 1B0 1F1 1B1", "0F0 0F1 0B0 0B1"}));
}

TEST(Generators, SplitBackwardIntoAnAdjacentPair) {
  Table table = llvm::cantFail(generate1F1B(makeLinear(2, 2), split()));
  EXPECT_EQ(printRows(table.rows),
            Rows({"0F0 0F1 0I0 0W0 0I1 0W1", "1F0 1I0 1W0 1F1 1I1 1W1"}));
  EXPECT_EQ(table.gradientAfter, GradientAfter::WeightGrad);
  GeneratorOptions options = split();
  options.gradientAfter = GradientAfter::InputGrad;
  table = llvm::cantFail(generateGPipe(makeLinear(2, 2), options));
  EXPECT_EQ(table.gradientAfter, GradientAfter::InputGrad);
}

TEST(Generators, RefuseOtherPlacements) {
  Placement two = makePlacement(2, 2, {pathOn({0, 1}), pathOn({1, 0})});
  EXPECT_EQ(errorOf(generateGPipe(two)), "gpipe takes one path, found 2");
  EXPECT_EQ(errorOf(generate1F1B(makePlacement(2, 2, {pathOn({0, 1, 0, 1})}))),
            "1f1b takes one stage per worker, found 4 stages on 2 workers");
  EXPECT_EQ(errorOf(generate1F1B(makePlacement(2, 2, {pathOn({0, 0})}))),
            "1f1b takes one stage per worker, found 2 on worker 0");
}

TEST(Generators, RefuseMoreCellsThanATableHolds) {
  EXPECT_EQ(errorOf(generateGPipe(makeLinear(1, Cell::kMaxMicrobatches))),
            "gpipe of 2147483647 microbatches on 1 workers has 4294967294 "
            "cells: a table may have 268435456 at most");
  EXPECT_EQ(
      errorOf(generate1F1B(makeLinear(65536, Cell::kMaxMicrobatches), split())),
      "1f1b of 2147483647 microbatches on 65536 workers has 422212464869376 "
      "cells: a table may have 268435456 at most");
}
