//===- SlicedFamiliesTest.cpp - Families over slices ----------------------===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Numbers of the papers, and what families have in common with those without
// slices. FamilyPropertiesTest.cpp tries all sizes.
//
//===----------------------------------------------------------------------===//

#include "../Support/CheckTable.h"
#include "../Support/ErrorText.h"
#include "../Support/FamilyCases.h"

using namespace pipesched;
using llvm::StringRef;

static Table makeSliced(StringRef family, int64_t workers, int64_t microbatches,
                        int64_t slices, FamilyOptions options = {}) {
  options.slices = slices;
  return llvm::cantFail(
      generate(*findFamily(family), workers, microbatches, options));
}

/// Simulated with one slot for an F and two for a B: 3 (N k + D - 1) slots.
TEST(SlicedFamilies, HaveTheMakespansAndPeaksOfTheirPapers) {
  TableMetrics seq = measure(makeSliced("seq1f1b", 4, 4, 2));
  EXPECT_EQ(seq.slots, 33);
  EXPECT_EQ(seq.peakActivations, (std::vector<int64_t>{5, 4, 3, 2}));
  TableMetrics slim = measure(makeSliced("slimpipe", 4, 2, 8));
  EXPECT_EQ(slim.slots, 57);
  EXPECT_EQ(slim.peakActivations, (std::vector<int64_t>{14, 12, 10, 8}));
}

/// Table 4 of SlimPipe: 8 workers, 5 chunks, 16 slices, 8 microbatches have a
/// bubble of 1.08 %.
TEST(SlicedFamilies, HaveThePublishedBubbleOfSlimPipe) {
  FamilyOptions options;
  options.chunks = 5;
  Table table = makeSliced("slimpipe", 8, 8, 16, options);
  FormulaResult formula = llvm::cantFail(
      evaluateFormula("slimpipe", formulaInputsOf(table.placement, options)));
  EXPECT_NEAR(100 * formula.bubbleRatio, 1.08, 0.005);
  EXPECT_EQ(formula.peakActivations, 16 * 5 + 2 * 7);
  EXPECT_EQ(largest(measure(table).peakActivations), formula.peakActivations);
}

/// With one slice each row is that of a family without slices.
TEST(SlicedFamilies, WithOneSliceAreFamiliesWithout) {
  auto expectSame = [](StringRef sliced, FamilyOptions options, StringRef plain,
                       FamilyOptions plainOptions) {
    for (int64_t workers = 1; workers <= 6; ++workers)
      for (int64_t microbatches = 1; microbatches <= 12; ++microbatches) {
        FamilyOptions one = options;
        one.slices = 1;
        llvm::Expected<Table> table =
            generate(*findFamily(sliced), workers, microbatches, one);
        llvm::Expected<Table> wanted =
            generate(*findFamily(plain), workers, microbatches, plainOptions);
        SCOPED_TRACE(testing::Message() << sliced.str() << " D=" << workers
                                        << " N=" << microbatches);
        if (table && wanted)
          EXPECT_EQ(table->rows, wanted->rows);
        llvm::consumeError(table.takeError());
        llvm::consumeError(wanted.takeError());
      }
  };
  expectSame("seq1f1b", {}, "1f1b", {});
  expectSame("slimpipe", {}, "eager-1f1b", {});
  expectSame("terapipe", {}, "gpipe", {});
  for (StringRef family : {"zb-h1", "zb-h2", "zb-v", "greedy"})
    expectSame(family, {}, family, {});
  for (int64_t workers = 2; workers <= 6; ++workers) {
    FamilyOptions chunks, group;
    chunks.chunks = group.chunks = 3;
    group.group = workers;
    for (int64_t microbatches : {workers, 3 * workers})
      EXPECT_EQ(makeSliced("seq1f1b", workers, microbatches, 1, chunks).rows,
                llvm::cantFail(generate(*findFamily("interleaved-1f1b"),
                                        workers, microbatches, group))
                    .rows);
  }
}

/// Slices shorten the bubble of a warm-up: k slices take as long as one.
TEST(SlicedFamilies, HaveAShorterBubble) {
  for (StringRef family : {"seq1f1b", "terapipe", "zb-h1", "zb-v"})
    for (int64_t slices : {2, 4, 8}) {
      double whole = measure(makeSliced(family, 4, 8, 1)).bubbleRatio;
      double sliced = measure(makeSliced(family, 4, 8, slices)).bubbleRatio;
      EXPECT_LT(sliced, whole / (0.7 * double(slices))) << family.str();
    }
}
