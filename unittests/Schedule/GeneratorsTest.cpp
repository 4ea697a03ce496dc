//===- GeneratorsTest.cpp - GPipe and 1F1B --------------------------------===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The tables of their papers, and what they promise for all small sizes:
// complete, acyclic, bubble and peak exactly as the closed formulas say.
//
//===----------------------------------------------------------------------===//

#include "PipeSched/Schedule/Generators.h"
#include "../Support/TestTables.h"
#include "PipeSched/Schedule/Formulas.h"
#include "PipeSched/Schedule/Metrics.h"
#include "PipeSched/Schedule/Verify.h"

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

namespace {
struct Case {
  const char *family;
  llvm::Expected<Table> (*generate)(const Placement &,
                                    const GeneratorOptions &);
  bool splitBackward;
};

class LinearFamilies : public testing::TestWithParam<Case> {};
} // namespace

static int64_t expectedPeak(llvm::StringRef family, int64_t workers,
                            int64_t microbatches, int64_t worker) {
  return family == "gpipe" ? microbatches
                           : std::min(microbatches, workers - worker);
}

static void checkSize(const Case &family, int64_t workers,
                      int64_t microbatches) {
  SCOPED_TRACE(testing::Message()
               << family.family << " D=" << workers << " N=" << microbatches);
  GeneratorOptions options;
  options.splitBackward = family.splitBackward;
  Table table = llvm::cantFail(
      family.generate(makeLinear(workers, microbatches), options));
  TableView view = table.view();
  for (int64_t row = 0; row < workers; ++row)
    EXPECT_FALSE(verifyRow(table.placement, row, view.rows[row]));
  EXPECT_FALSE(verifyTable(view));

  CellIndex index = llvm::cantFail(CellIndex::create(view));
  SlotAssignment slots = llvm::cantFail(alignSlots(view, index));
  TableMetrics metrics = computeMetrics(view, index, slots);
  // (slots - 3N) / slots == (D-1) / (N+D-1), in integers.
  EXPECT_EQ((metrics.slots - 3 * microbatches) * (microbatches + workers - 1),
            metrics.slots * (workers - 1));
  FormulaInputs inputs{workers, workers, microbatches, std::nullopt};
  FormulaResult formula =
      llvm::cantFail(evaluateFormula(family.family, inputs));
  EXPECT_NEAR(metrics.bubbleRatio, formula.bubbleRatio, 1e-15);
  EXPECT_EQ(*std::max_element(metrics.peakActivations.begin(),
                              metrics.peakActivations.end()),
            formula.peakActivations);
  for (int64_t worker = 0; worker < workers; ++worker) {
    EXPECT_EQ(metrics.busySlots[worker], 3 * microbatches);
    EXPECT_EQ(metrics.fillSlots[worker], worker);
    EXPECT_EQ(metrics.drainSlots[worker], 2 * worker);
    EXPECT_EQ(metrics.peakActivations[worker],
              expectedPeak(family.family, workers, microbatches, worker));
  }
}

TEST_P(LinearFamilies, KeepTheirPromisesForAllSmallSizes) {
  for (int64_t workers = 1; workers <= 16; ++workers)
    for (int64_t microbatches = 1; microbatches <= 16; ++microbatches)
      checkSize(GetParam(), workers, microbatches);
}

INSTANTIATE_TEST_SUITE_P(Whole, LinearFamilies,
                         testing::Values(Case{"gpipe", generateGPipe, false},
                                         Case{"1f1b", generate1F1B, false}));
INSTANTIATE_TEST_SUITE_P(Split, LinearFamilies,
                         testing::Values(Case{"gpipe", generateGPipe, true},
                                         Case{"1f1b", generate1F1B, true}));
