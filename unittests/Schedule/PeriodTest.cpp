//===- PeriodTest.cpp - Rows that repeat ----------------------------------===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Periods of families by hand, and the parts of a walk that keep what is under
// way. WalkTableTest shows what walks make of them.
//
//===----------------------------------------------------------------------===//

#include "PipeSched/Schedule/Table/Period.h"
#include "PipeSched/Schedule/Family/Families.h"
#include "PipeSched/Schedule/Walk/WavefrontParts.h"
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

TEST(InFlight, GrowsWhenRanksMeet) {
  llvm::BumpPtrAllocator allocator;
  InFlight<int> places;
  places.allocate(2, allocator);
  for (int rank : {5, 0, 1000, 7, 64})
    *places.insert(rank, allocator) = rank;
  EXPECT_EQ(places.insert(64, allocator), nullptr) << "is there already";
  EXPECT_EQ(places.find(6), nullptr);
  for (int rank : {5, 0, 1000, 7, 64}) {
    ASSERT_TRUE(places.find(rank));
    EXPECT_EQ(*places.find(rank), rank);
  }
  InFlight<int>::remove(places.find(7));
  EXPECT_EQ(places.find(7), nullptr);
  std::vector<std::pair<int32_t, int>> items;
  places.takeAll(items);
  std::vector<std::pair<int32_t, int>> wanted = {
      {0, 0}, {5, 5}, {64, 64}, {1000, 1000}};
  EXPECT_EQ(items, wanted);
  EXPECT_EQ(places.find(5), nullptr);
}

TEST(SlotCalendar, TakesWorkersInAscendingOrder) {
  SlotCalendar calendar(130);
  for (uint32_t worker : {129, 3, 64})
    calendar.add(worker, 2);
  calendar.add(7, 1);
  std::vector<std::pair<uint64_t, uint32_t>> taken;
  std::vector<uint64_t> left;
  calendar.takeAll(
      [&](uint32_t worker, uint64_t slot) {
        taken.emplace_back(slot, worker);
        if (slot == 2 && worker == 3)
          calendar.add(3, 6);
      },
      [&](uint64_t slot) { left.push_back(slot); });
  std::vector<std::pair<uint64_t, uint32_t>> wanted = {
      {1, 7}, {2, 3}, {2, 64}, {2, 129}, {6, 3}};
  EXPECT_EQ(taken, wanted);
  EXPECT_EQ(left, (std::vector<uint64_t>{1, 2, 6}));
}

TEST(SlotCalendar, LeapsWithAllThatIsBehind) {
  SlotCalendar calendar(130);
  calendar.add(129, 2);
  calendar.add(3, 4);
  calendar.add(64, 5);
  std::vector<std::pair<uint64_t, uint32_t>> taken;
  calendar.takeAll(
      [&](uint32_t worker, uint64_t slot) { taken.emplace_back(slot, worker); },
      [&](uint64_t slot) {
        if (slot == 2)
          calendar.leap(1003);
      });
  std::vector<std::pair<uint64_t, uint32_t>> wanted = {
      {2, 129}, {1007, 3}, {1008, 64}};
  EXPECT_EQ(taken, wanted);
}
