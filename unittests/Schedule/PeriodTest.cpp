//===- PeriodTest.cpp - Rows that repeat ----------------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Periods of families by hand. WalkTableTest shows how walks use them.
//
//===----------------------------------------------------------------------===//

#include "PipeSched/Schedule/Table/Period.h"
#include "PipeSched/Schedule/Family/Families.h"
#include "gtest/gtest.h"

using namespace pipesched;

static std::optional<TablePeriod>
periodOf(llvm::StringRef family, int64_t workers, int64_t microbatches) {
  Table table =
      llvm::cantFail(generate(*findFamily(family), workers, microbatches));
  std::optional<TablePeriod> period = findPeriod(table.view());
  if (period)
    for (auto [row, repeats] : llvm::zip_equal(table.rows, period->rows))
      for (int64_t i = repeats.begin + repeats.length; i < repeats.end; ++i)
        EXPECT_EQ(row[i].getRaw(),
                  row[i - repeats.length].getRaw() + period->units);
  return period;
}

TEST(Period, OneForwardAndOneBackward) {
  std::optional<TablePeriod> period = periodOf("1f1b", 4, 40);
  ASSERT_TRUE(period);
  EXPECT_EQ(period->units, 1);
  EXPECT_EQ(period->ranks, std::vector<int64_t>{1});
  EXPECT_EQ(period->rows[3].begin, 0); // F0 B0 F1 B1 ..
  EXPECT_EQ(period->rows[3].end, 80);
  EXPECT_EQ(period->rows[3].length, 2);
  EXPECT_EQ(period->rows[0].begin, 3); // F0 F1 F2 | F3 B0 F4 B1 ..
  EXPECT_EQ(period->rows[0].end, 77);
  TablePeriod three = period->times(3);
  EXPECT_EQ(three.getNumMicrobatches(), 3);
  EXPECT_EQ(three.rows[0].length, 6);
  EXPECT_EQ(three.rows[0].end, 77);
}

TEST(Period, ChunksTakeTurnsByGroups) {
  std::optional<TablePeriod> period = periodOf("interleaved-1f1b", 4, 64);
  ASSERT_TRUE(period);
  EXPECT_EQ(period->units, 4);
  EXPECT_EQ(period->rows[0].length, 2 * 2 * 4);
}

TEST(Period, PathsInTurnAndInHalves) {
  std::optional<TablePeriod> inTurn = periodOf("chimera", 4, 64);
  ASSERT_TRUE(inTurn);
  EXPECT_EQ(inTurn->ranks.size(), 2u);
  EXPECT_EQ(inTurn->units, inTurn->getNumMicrobatches());
  std::optional<TablePeriod> inHalves = periodOf("dualpipe", 4, 64);
  ASSERT_TRUE(inHalves);
  EXPECT_EQ(2 * inHalves->units, inHalves->getNumMicrobatches());
}

TEST(Period, ShortTablesHaveNone) {
  EXPECT_FALSE(periodOf("1f1b", 4, 4));
  EXPECT_FALSE(periodOf("interleaved-1f1b", 4, 8));
}

TEST(Period, RowsOfAnotherOrderHaveNone) {
  Table table = llvm::cantFail(generate(*findFamily("1f1b"), 4, 40));
  std::swap(table.rows[1][38], table.rows[1][40]);
  std::swap(table.rows[1][44], table.rows[1][48]);
  EXPECT_FALSE(findPeriod(table.view()));
}
