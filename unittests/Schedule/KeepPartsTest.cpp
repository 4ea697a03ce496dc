//===- KeepPartsTest.cpp - Parts of a table -------------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// New numbers by hand, then over all families and random tables: parts of a
// sound table make a sound table.
//
//===----------------------------------------------------------------------===//

#include "PipeSched/Schedule/Edit/KeepParts.h"
#include "../Support/AllFamilies.h"
#include "../Support/RandomTables.h"

using namespace pipesched;

using Kind = llvm::BitVector TableParts::*;

/// The table without the parts of this kind that have these numbers.
static Table dropFrom(const Table &table, Kind kind,
                      std::initializer_list<int64_t> numbers) {
  TableParts parts(table.view());
  for (int64_t number : numbers)
    (parts.*kind).reset(number);
  return llvm::cantFail(keepParts(table.view(), parts));
}

static std::vector<std::string> rowsWithout(const Table &table, Kind kind,
                                            int64_t number) {
  return printRows(dropFrom(table, kind, {number}).rows);
}

static Table mirrored() {
  return makeTable(
      makePlacement(2, 4,
                    {pathOn({0, 1}, {{0, 3, 2}}), pathOn({1, 0}, {{1, 4, 2}})}),
      {"0F0 1F1+0B0 _2 1B1 0F2 1F3 0B2 1B3 0G0 1G1",
       "0F1 1F0 1B0 0B1 0F3 1F2 1B2 0B3 1G0 0G1"});
}

TEST(KeepParts, NumbersAnewInAllRows) {
  Table table = mirrored();
  EXPECT_EQ(rowsWithout(table, &TableParts::microbatches, 1),
            (std::vector<std::string>{"0F0 0B0 _2 0F1 1F2 0B1 1B2 0G0 1G1",
                                      "1F0 1B0 0F2 1F1 1B1 0B2 1G0 0G1"}));
  EXPECT_EQ(rowsWithout(table, &TableParts::stages, 0), // of the first path
            (std::vector<std::string>{"1F1 _2 1B1 1F3 1B3 1G1",
                                      "0F1 0F0 0B0 0B1 0F3 0F2 0B2 0B3 0G0 "
                                      "0G1"}));
  EXPECT_EQ(
      rowsWithout(table, &TableParts::workers, 1),
      (std::vector<std::string>{"0F0 0F1+0B0 _2 0B1 0F2 0F3 0B2 0B3 0G0 0G1"}));
  EXPECT_EQ(
      rowsWithout(table, &TableParts::cells, 2), // 0B0
      (std::vector<std::string>{"0F0 1F1 _2 1B1 0F2 1F3 0B2 1B3 0G0 1G1",
                                "0F1 1F0 1B0 0B1 0F3 1F2 1B2 0B3 1G0 0G1"}));
}

TEST(KeepParts, DropsPathsWithTheirMicrobatches) {
  Table first = dropFrom(mirrored(), &TableParts::microbatches, {0, 2});
  EXPECT_EQ(printRows(first.rows),
            (std::vector<std::string>{"1F0 _2 1B0 1F1 1B1 1G0",
                                      "0F0 0B0 0F1 0B1 0G0"}));
  ASSERT_EQ(first.placement.getNumPaths(), 1);
  EXPECT_TRUE(first.placement.getPath(0).takes.empty());
  Table second = dropFrom(mirrored(), &TableParts::stages, {0, 1});
  EXPECT_EQ(printRows(second.rows), printRows(first.rows));
  EXPECT_EQ(second.placement.getNumMicrobatches(), 2);
}

TEST(KeepParts, KeepsFactsOfStages) {
  Path path = pathOn({0, 1, 2});
  path.blocks = {3, 4, 5};
  path.backward.frozen = {0, 1};
  Table table =
      makeTable(makePlacement(3, 1, {path}), {"0F0", "1F0", "2F0 2B0"});
  table.slots = {StageSlots(1), StageSlots(2), StageSlots(3)};
  Table smaller = dropFrom(table, &TableParts::workers, {0});
  EXPECT_EQ(smaller.placement.getPath(0).blocks, (std::vector<int64_t>{4, 5}));
  EXPECT_EQ(smaller.placement.getPath(0).backward.frozen,
            (std::vector<int64_t>{0}));
  EXPECT_EQ(smaller.slots[0].of(Phase::Forward), 2);
  TableParts none(table.view());
  none.workers.reset();
  EXPECT_FALSE(!!llvm::expectedToOptional(keepParts(table.view(), none)));
}

static void checkEachPart(const Table &table, Kind kind) {
  int64_t count = (TableParts(table.view()).*kind).size();
  for (int64_t i = 0; count > 1 && i != count; ++i)
    EXPECT_TRUE(isSound(dropFrom(table, kind, {i}))) << i;
}

TEST(KeepParts, LeavesSoundTables) {
  FamilyOptions options;
  forAllFamilies(4, 6, options, [](const Family &, const Table &table) {
    checkEachPart(table, &TableParts::microbatches);
    checkEachPart(table, &TableParts::slices);
    if (hasShards(table)) // each worker of a path has one
      return;
    checkEachPart(table, &TableParts::workers);
    checkEachPart(table, &TableParts::stages);
  });
  for (uint32_t seed = 0; seed != 100; ++seed) {
    bool freezes = seed % 2; // then other stages may have to train
    Table table = RandomTable(seed, freezes).make();
    checkEachPart(table, &TableParts::microbatches);
    if (!freezes)
      checkEachPart(table, &TableParts::stages);
  }
}
