//===- OffloadTest.cpp - Where activations go to host memory --------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Rows by hand, then over all families and random tables: which activations are
// offloaded, and where their copies and joins are. The memory limit is tested
// in unittests/Evaluation/OffloadTest.cpp.
//
//===----------------------------------------------------------------------===//

#include "PipeSched/Schedule/Edit/Offload.h"
#include "../Support/AllFamilies.h"
#include "../Support/RandomTables.h"

using namespace pipesched;

static OffloadChange applyTo(const Table &table,
                             const OffloadOptions &options = {}) {
  return llvm::cantFail(addOffload(table.view(), options));
}

/// The row of a single worker.
static std::string rowOf(llvm::StringRef row, int64_t microbatches,
                         const OffloadOptions &options = {}) {
  Table table = makeTable(makeLinear(1, microbatches), {row});
  return printRow(applyTo(table, options).rows[0]);
}

static OffloadOptions ahead(int64_t cells) {
  OffloadOptions options;
  options.ahead = cells;
  return options;
}

static OffloadOptions memory(int64_t activations, int64_t cellsAhead = 1) {
  OffloadOptions options = ahead(cellsAhead);
  options.memory = activations;
  return options;
}

static OffloadOptions half() {
  OffloadOptions options;
  options.amount = OffloadAmount::Half;
  return options;
}

//===----------------------------------------------------------------------===//
// By hand
//===----------------------------------------------------------------------===//

TEST(AddOffload, LeavesOutWhatCannotBeHidden) {
  // There is one cell between 0F0 and 0B0, and none after 0F2.
  Table table = makeTable(makeLinear(1, 3), {"0F0 _9 0F1 0B0 0F2 0I2 0W2 0B1"});
  OffloadChange change = applyTo(table);
  EXPECT_EQ(printRow(change.rows[0]), "0F0 _9 0F1 0D1 0B0 0F2 0I2 0U1 0W2 0B1");
  EXPECT_EQ(change.numAdded, 1);
  EXPECT_EQ(change.numBrief, 2);
  EXPECT_EQ(applyTo(table, ahead(INT64_MAX)).numBrief, 3);
}

TEST(AddOffload, StandsBehindOverlappedPairs) {
  EXPECT_EQ(rowOf("0F0 0F1+0B0 0F2 0F3 0B1+0B2 0I3 0W3", 4),
            "0F0 0F1+0B0 0D1 0F2 0U1 0F3 0B1+0B2 0I3 0W3");
  EXPECT_EQ(rowOf("0F0 0F1 0F2 0F3 0B0+0B1 0B2+0B3", 4),
            "0F0 0D0 0F1 0D1 0F2 0D2 0U0 0U1 0F3 0U2 0B0+0B1 0B2+0B3");
}

TEST(AddOffload, SelectsStagesWorkersAndMicrobatches) {
  Table table = makeTable(makePlacement(2, 3, {pathOn({0, 1, 0})}),
                          {"0F0 0F1 0F2 2F0 2F1 2F2 2B0 2B1 2B2 0B0 0B1 0B2",
                           "1F0 1F1 1F2 1B0 1B1 1B2"});
  OffloadOptions options;
  options.stages = {{0, 2, 1}};
  options.microbatches = {{0, 3, 2}};
  EXPECT_EQ(printRows(applyTo(table, options).rows),
            (std::vector<std::string>{
                "0F0 0D0 0F1 0F2 0D2 2F0 2F1 2F2 2B0 2B1 0U0 2B2 0B0 0U2 0B1 "
                "0B2",
                "1F0 1D0 1F1 1U0 1F2 1D2 1B0 1U2 1B1 1B2"}));
  options.workers = {{1, 2, 1}};
  EXPECT_EQ(printRow(applyTo(table, options).rows[0]), printRow(table.rows[0]));
}

/// Microbatches 1 to 5 live for 6 slots, the others less long.
TEST(AddOffload, HalfOfEqualsIsEveryOther) {
  OffloadOptions options = half();
  options.ahead = 0;
  EXPECT_EQ(rowOf("0F0 0F1 0B0 0F2 0B1 0F3 0B2 0F4 0B3 0F5 0B4 0F6 0B5 0B6", 7,
                  options),
            "0F0 0F1 0D1 0B0 0F2 0D2 0U1 0B1 0F3 0D3 0U2 0B2 0F4 0U3 0B3 0F5 "
            "0D5 0B4 0F6 0U5 0B5 0B6");
}

TEST(AddOffload, KeepsTheFirstActivationsThatFindRoom) {
  OffloadOptions options;
  options.keep = 1;
  EXPECT_EQ(rowOf("0F0 0F1 0F2 0B0 0F3 0B1 0B2 0B3", 4, options),
            "0F0 0F1 0D1 0F2 0D2 0B0 0U1 0F3 0U2 0B1 0B2 0B3");
}

TEST(AddOffload, LeavesWhatIsOffloadedOrRecomputed) {
  Table table =
      makeTable(makeLinear(1, 3), {"0F0 0F1 0F2 0D2 0U2 0R0 0B0 0B1 0B2"});
  OffloadChange change = applyTo(table);
  EXPECT_EQ(printRow(change.rows[0]),
            "0F0 0F1 0D1 0F2 0D2 0U2 0R0 0U1 0B0 0B1 0B2");
  EXPECT_EQ(change.numAdded, 1);
  EXPECT_EQ(change.numPresent, 1);
  EXPECT_EQ(change.numRecomputed, 1);
}

TEST(AddOffload, JoinsHoldCellsUntilThereIsRoom) {
  EXPECT_EQ(rowOf("0F0 0F1 0F2 0F3 0B3 0B2 0B1 0B0", 4, memory(2)),
            "0F0 0D0 0F1 0D1 0d0 0F2 0D2 0d1 0F3 0U2 0B3 0U1 0B2 0U0 0B1 0B0");
  EXPECT_EQ(rowOf("0F0 0F1 0F2 0F3 0B3 0B2 0B1 0B0", 4, memory(4)),
            rowOf("0F0 0F1 0F2 0F3 0B3 0B2 0B1 0B0", 4));
}

/// If it were two cells ahead of 0B2, 0U2 would find three activations there.
TEST(AddOffload, ReloadsLaterWhereThatMakesRoom) {
  EXPECT_EQ(rowOf("0F0 0F1 0F2 0F3 0B0 0B1 0B2 0B3", 4, memory(3, 2)),
            "0F0 0D0 0F1 0D1 0F2 0D2 0U0 0d1 0d2 0F3 0D3 0U1 0B0 0U2 0B1 0U3 "
            "0B2 0B3");
  EXPECT_EQ(rowOf("0F0 0F1 0F2 0F3 0B0 0B1 0B2 0B3", 4, memory(2, 2)),
            "0F0 0D0 0F1 0D1 0d0 0F2 0D2 0d1 0d2 0F3 0D3 0U0 0B0 0U1 0B1 0U2 "
            "0B2 0U3 0B3");
}

/// A join that the table has counts, and is moved if an earlier one replaces
/// it.
TEST(AddOffload, CountsTheCopiesOfTheTable) {
  EXPECT_EQ(rowOf("0F0 0D0 0d0 0F1 0F2 0F3 0B3 0B2 0U0 0B0 0B1", 4, memory(3)),
            "0F0 0D0 0d0 0F1 0D1 0F2 0D2 0F3 0U2 0B3 0B2 0U1 0U0 0B0 0B1");
  EXPECT_EQ(rowOf("0F0 0D0 0F1 0F2 0d0 0U0 0B0 0B2 0B1", 3, memory(2)),
            "0F0 0D0 0F1 0D1 0d0 0d1 0F2 0U0 0B0 0U1 0B2 0B1");
}

//===----------------------------------------------------------------------===//
// Over all families and random tables
//===----------------------------------------------------------------------===//

static bool isBeside(Cell cell) { return cell.isCopy() || cell.isJoin(); }

static int64_t countOf(const std::vector<Row> &rows, Phase phase) {
  int64_t count = 0;
  for (const Row &row : rows)
    count += llvm::count_if(row, [&](Cell cell) { return cell.is(phase); });
  return count;
}

static void expectOrderKept(const std::vector<Row> &rows,
                            const std::vector<Row> &before) {
  auto isOther = [](Cell cell) { return !isBeside(cell); };
  for (auto [row, given] : llvm::zip_equal(rows, before)) {
    Row others, givenOthers;
    llvm::copy_if(row, std::back_inserter(others), isOther);
    llvm::copy_if(given, std::back_inserter(givenOthers), isOther);
    EXPECT_EQ(others, givenOthers);
  }
}

/// The table stays sound and has the reported numbers of copies; the rest is
/// unchanged.
static void expectOffloaded(const Table &table, const OffloadChange &change) {
  Table result = table;
  result.rows = change.rows;
  ASSERT_TRUE(isSound(result));
  expectOrderKept(result.rows, table.rows);
  EXPECT_EQ(countOf(result.rows, Phase::Offload),
            change.numAdded + countOf(table.rows, Phase::Offload));
  EXPECT_EQ(countOf(result.rows, Phase::Reload),
            countOf(result.rows, Phase::Offload));
}

TEST(AddOffload, ServesEveryFamily) {
  for (bool split : {false, true})
    for (int64_t cells : {0, 1, 3}) {
      FamilyOptions familyOptions;
      familyOptions.splitBackward = split;
      forAllFamilies(5, 11, familyOptions,
                     [&](const Family &, const Table &table) {
                       OffloadOptions options = ahead(cells);
                       for (const Table &given : {table, align(table)}) {
                         OffloadChange all = applyTo(given, options);
                         expectOffloaded(given, all);
                         EXPECT_EQ(all.numAdded + all.numBrief,
                                   given.placement.getNumPairs());
                         EXPECT_EQ(all.numJoins, 0);
                       }
                     });
    }
}

TEST(AddOffload, ServesAnyTable) {
  int64_t numAdded = 0, numPresent = 0, numJoins = 0;
  for (uint32_t seed = 1; seed <= 1500; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Table table = makeRandomTable(seed);
    OffloadOptions options = memory(seed % 7, seed % 4);
    options.keep = seed % 3;
    options.amount = seed % 2 ? OffloadAmount::Half : OffloadAmount::All;
    llvm::Expected<OffloadChange> change = addOffload(table.view(), options);
    if (!change) {
      EXPECT_GT(options.memory, 0);
      llvm::consumeError(change.takeError());
      continue;
    }
    expectOffloaded(table, *change);
    EXPECT_EQ(change->numPresent, countOf(table.rows, Phase::Offload));
    numAdded += change->numAdded;
    numPresent += change->numPresent;
    numJoins += change->numJoins;
  }
  EXPECT_GT(numAdded, 1000);
  EXPECT_GT(numPresent, 500);
  EXPECT_GT(numJoins, 100);
}

TEST(AddOffload, HalfIsHalfOfEachWorker) {
  forAllFamilies(5, 11, {}, [&](const Family &, const Table &table) {
    OffloadChange all = applyTo(table), some = applyTo(table, half());
    for (auto [row, ofHalf] : llvm::zip_equal(all.rows, some.rows))
      EXPECT_EQ(countOf({ofHalf}, Phase::Offload),
                (countOf({row}, Phase::Offload) + 1) / 2);
  });
}
