//===- SlotsTest.cpp - Slot alignment -------------------------------------===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Earliest slots by hand, with overlapped pairs and copies; aligning and
// compacting are inverse.
//
//===----------------------------------------------------------------------===//

#include "PipeSched/Schedule/Table/Slots.h"
#include "../Support/TestTables.h"
#include "PipeSched/Schedule/Check/Verify.h"
#include "PipeSched/Schedule/Family/Generators.h"

using namespace pipesched;
using Rows = std::vector<std::string>;

static Table align(const Table &table) {
  TableView view = table.view();
  CellIndex index = llvm::cantFail(CellIndex::create(view));
  SlotAssignment slots = llvm::cantFail(alignSlots(view, index));
  Table aligned = table;
  aligned.rows = withIdleSlots(view, slots);
  aligned.aligned = true;
  return aligned;
}

static Rows alignRows(Placement placement,
                      std::initializer_list<llvm::StringRef> rows) {
  return printRows(align(makeTable(std::move(placement), rows)).rows);
}

TEST(AlignSlots, GivesEachCellItsEarliestSlot) {
  EXPECT_EQ(alignRows(makeLinear(2, 2), {"0F0 0F1 0B0 0B1", "1F0 1B0 1F1 1B1"}),
            Rows({"0F0 0F1 _2 0B0 _ 0B1", "_ 1F0 1B0 1F1 1B1 _2"}));
}

TEST(AlignSlots, IgnoresIdleThatIsThere) {
  EXPECT_EQ(alignRows(makeLinear(2, 1), {"_5 0F0 _9 0B0 _", "_3 1F0 _2 1B0"}),
            Rows({"0F0 _3 0B0", "_ 1F0 1B0 _2"}));
}

TEST(AlignSlots, OverlappedPairsStartAndEndTogether) {
  // 1B0 waits only for 1F0; 1F1 arrives at slot 2 and delays the pair.
  EXPECT_EQ(alignRows(makeLinear(2, 2), {"0F0 0F1 0B0 0B1", "1F0 1F1+1B0 1B1"}),
            Rows({"0F0 0F1 _3 0B0 0B1", "_ 1F0 1F1+1B0 1B1 _2"}));
}

TEST(AlignSlots, CopiesTakeNoSlotsAndHoldNothing) {
  EXPECT_EQ(alignRows(makeLinear(2, 1), {"0F0 0D0 0d0 0U0 0u0 0B0", "1F0 1B0"}),
            Rows({"0F0 0D0 0d0 0U0 _3 0u0 0B0", "_ 1F0 1B0 _2"}));
}

TEST(AlignSlots, ReportsTheCycle) {
  Table table =
      makeTable(makeLinear(2, 2), {"0F0 0B0 0F1 0B1", "1F0 1F1 1B0 1B1"});
  TableView view = table.view();
  CellIndex index = llvm::cantFail(CellIndex::create(view));
  EXPECT_EQ(errorOf(alignSlots(view, index)).substr(0, 56),
            "the rows deadlock: 0B0 waits for itself in a cycle of 4\n");
}

static std::vector<int64_t>
startsOf(Placement placement, std::initializer_list<llvm::StringRef> rows) {
  Table table = makeTable(std::move(placement), rows);
  TableView view = table.view();
  CellIndex index = llvm::cantFail(CellIndex::create(view));
  return alignUntilDeadlock(view, index).start;
}

TEST(AlignUntilDeadlock, StartsAllThatCanRun) {
  EXPECT_EQ(startsOf(makeLinear(2, 2), {"0F0 0B0 0F1 0B1", "1F0 1F1 1B0 1B1"}),
            (std::vector<int64_t>{0, -1, -1, -1, 1, -1, -1, -1}));
  // Worker 0 is on no cycle, and the last gradient never comes to it.
  EXPECT_EQ(startsOf(makeLinear(3, 2), {"0F0 _ 0F1 0B0 0B1", "1F0 1B0 1F1 1B1",
                                        "2F0 2F1 2B0 2B1"}),
            (std::vector<int64_t>{0, 1, 2, -1, -1, //
                                  1, -1, -1, -1,   //
                                  2, -1, -1, -1}));
}

TEST(AlignUntilDeadlock, KnowsCollectives) {
  // The reductions of a queue in different orders.
  EXPECT_EQ(startsOf(makeLinear(2, 2),
                     {"0F0 0X0 0F1 0X1 0S0 0S1 0Y1 0Y0 0T0 0T1 0B0 0B1",
                      "1F0 1X0 1F1 1X1 1S0 1S1 1Y0 1Y1 1T0 1T1 1B0 1B1"}),
            (std::vector<int64_t>{0, 1, 2, 3, 4, 5, 6, 7, -1, -1, -1, -1, //
                                  1, 2, 3, 4, 5, 6, 7, 8, -1, -1, -1, -1}));
}

TEST(AlignUntilDeadlock, StartsAllOfRowsThatEnd) {
  EXPECT_EQ(startsOf(makeLinear(2, 1), {"0F0 0D0 0d0 0U0 0u0 0B0", "1F0 1B0"}),
            (std::vector<int64_t>{0, 1, 2, 3, 4, 5, 1, 2}));
}

TEST(AlignSlots, IsReadBackAndCompactedAway) {
  for (int64_t workers = 1; workers <= 6; ++workers)
    for (int64_t microbatches = 1; microbatches <= 8; ++microbatches) {
      Table table =
          llvm::cantFail(generate1F1B(makeLinear(workers, microbatches)));
      Table aligned = align(table);
      TableView view = aligned.view();
      EXPECT_FALSE(verifyTable(view));
      CellIndex index = llvm::cantFail(CellIndex::create(view));
      SlotAssignment read = readSlots(view, index);
      SlotAssignment again = llvm::cantFail(alignSlots(view, index));
      EXPECT_EQ(read.numSlots, again.numSlots);
      EXPECT_EQ(withIdleSlots(view, read), aligned.rows);
      EXPECT_EQ(withIdleSlots(view, again), aligned.rows);
      EXPECT_EQ(compactRows(view), table.rows);
    }
}

TEST(ReadSlots, CountsIdleButNotAtTheEnd) {
  Table table = makeTable(makeLinear(1, 2), {"_2 0F0 _1000000000 0B0 0F1+0O0 "
                                             "_7 0B1 _9"});
  TableView view = table.view();
  CellIndex index = llvm::cantFail(CellIndex::create(view));
  SlotAssignment slots = readSlots(view, index);
  EXPECT_EQ(slots.start,
            (std::vector<int64_t>{0, 2, 3, 1000000003, 1000000005, 1000000005,
                                  1000000007, 1000000014, 1000000016}));
  EXPECT_EQ(slots.numSlots, 1000000016);
  EXPECT_EQ(slots.start[4] + slotsOf(view, {0, 4}), 1000000007);
}

TEST(WithIdleSlots, SplitsWhatOneEntryCannotCount) {
  Table table =
      makeTable(makeLinear(1, 1), {"0F0 _2147483647 _2147483647 _5 0B0"});
  TableView view = table.view();
  CellIndex index = llvm::cantFail(CellIndex::create(view));
  EXPECT_EQ(printRows(withIdleSlots(view, readSlots(view, index))),
            Rows({"0F0 _2147483647 _2147483647 _5 0B0"}));
}
