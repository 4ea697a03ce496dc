//===- RecomputeTest.cpp - Where activations are computed again -----------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Rows by hand, then over all families: the cells that get an R, its place, and
// its slots.
//
//===----------------------------------------------------------------------===//

#include "PipeSched/Schedule/Edit/Recompute.h"
#include "../Support/AllFamilies.h"
#include "../Support/RandomTables.h"
#include "../Support/TestEffort.h"

using namespace pipesched;

static Table apply(Table table, const RecomputeOptions &options = {}) {
  table.rows = llvm::cantFail(addRecompute(table.view(), options)).rows;
  return table;
}

static std::string applyTo(std::initializer_list<llvm::StringRef> rows,
                           int64_t microbatches,
                           const RecomputeOptions &options = {}) {
  Table table = makeTable(makeLinear(rows.size(), microbatches), rows);
  return printRow(apply(table, options).rows[0]);
}

static int64_t countOf(const Table &table, Phase phase) {
  int64_t count = 0;
  for (const Row &row : table.rows)
    count += llvm::count_if(row, [&](Cell cell) { return cell.is(phase); });
  return count;
}

static RecomputeOptions ahead(int64_t most) {
  RecomputeOptions options;
  options.ahead = most;
  return options;
}

/// The most activations held whole at once, by row. F holds an activation that
/// is not recomputed, else R holds it, until B or W.
static std::vector<int64_t> wholeActivations(const Table &table) {
  TableView view = table.view();
  CellIndex index = llvm::cantFail(CellIndex::create(view));
  std::vector<int64_t> peaks;
  for (const Row &row : table.rows) {
    int64_t held = 0, peak = 0;
    for (Cell cell : row) {
      bool isRecomputed = !cell.isIdle() && !cell.isPerPath() &&
                          index.lookup(cell.getStage(), Phase::Recompute,
                                       cell.getUnit()) != CellIndex::kNone;
      held += cell.is(Phase::Recompute) ||
              (cell.is(Phase::Forward) && !isRecomputed);
      peak = std::max(peak, held);
      held -= cell.is(Phase::Backward) || cell.is(Phase::WeightGrad);
    }
    peaks.push_back(peak);
  }
  return peaks;
}

//===----------------------------------------------------------------------===//
// By hand
//===----------------------------------------------------------------------===//

TEST(AddRecompute, KeepsWhatIsThere) {
  Table table = makeTable(makeLinear(1, 3), {"0F0 0F1 0F2 0R1 0B0 0B1 0B2"});
  RecomputeChange change = llvm::cantFail(addRecompute(table.view()));
  EXPECT_EQ(printRow(change.rows[0]), "0F0 0F1 0F2 0R1 0R0 0B0 0B1 0R2 0B2");
  EXPECT_EQ(change.numAdded, 2);
  EXPECT_EQ(change.numPresent, 1);
  table.rows = change.rows;
  change = llvm::cantFail(addRecompute(table.view()));
  EXPECT_EQ(change.rows, table.rows);
  EXPECT_EQ(change.numAdded, 0);
  EXPECT_EQ(change.numPresent, 3);
}

TEST(AddRecompute, SelectsStagesWorkersAndMicrobatches) {
  Table table = makeTable(makePlacement(2, 3, {pathOn({0, 1, 0})}),
                          {"0F0 0F1 0F2 2F0 2B0 2F1 2B1 2F2 2B2 0B0 0B1 0B2",
                           "1F0 1F1 1F2 1B0 1B1 1B2"});
  RecomputeOptions options;
  options.stages = {{0, 1, 1}};
  EXPECT_EQ(printRows(apply(table, options).rows),
            (std::vector<std::string>{
                "0F0 0F1 0F2 2F0 2B0 2F1 2B1 2F2 2B2 0R0 0B0 0R1 0B1 0R2 0B2",
                "1F0 1F1 1F2 1B0 1B1 1B2"}));
  options.stages = {};
  options.workers = {{1, 2, 1}};
  options.microbatches = {{0, 3, 2}};
  EXPECT_EQ(printRows(apply(table, options).rows),
            (std::vector<std::string>{
                "0F0 0F1 0F2 2F0 2B0 2F1 2B1 2F2 2B2 0B0 0B1 0B2",
                "1F0 1F1 1F2 1R0 1B0 1B1 1R2 1B2"}));
}

TEST(AddRecompute, SkipsBackwardsRightBehindTheirForward) {
  RecomputeOptions options;
  options.skipAdjacent = true;
  EXPECT_EQ(applyTo({"0F0 _3 0B0 0F1 0F2 0B1 0B2"}, 3, options),
            "0F0 _3 0B0 0F1 0F2 0R1 0B1 0R2 0B2");
  EXPECT_EQ(applyTo({"0F0 0F1+0B0 0F2+0B1 0I2 0W2"}, 3, options),
            "0F0 0F1+0B0 0F2+0B1 0I2 0W2");
  EXPECT_EQ(applyTo({"0F0 0D0 0U0 0B0 0F1 0B1 0O0"}, 2, options),
            "0F0 0D0 0U0 0R0 0B0 0F1 0B1 0O0");
}

TEST(AddRecompute, KeepsTheFirstActivationsThatFindRoom) {
  RecomputeOptions options;
  options.keep = 1;
  EXPECT_EQ(applyTo({"0F0 0F1 0F2 0B0 0F3 0B1 0B2 0B3"}, 4, options),
            "0F0 0F1 0F2 0B0 0F3 0R1 0B1 0R2 0B2 0B3");
  // W frees an activation, not I; in a pair the F comes before the B frees.
  EXPECT_EQ(applyTo({"0F0 0I0 0F1 0W0 0F2+0B1 0B2"}, 3, options),
            "0F0 0I0 0F1 0W0 0R1 0F2+0B1 0B2");
}

TEST(AddRecompute, RunsAheadWhereTheRowWaits) {
  // Worker 0 waits for 1B0 in slots 3 and 4, and never again.
  Table table = makeTable(
      makeLinear(2, 3), {"0F0 0F1 0F2 0B0 0B1 0B2", "1F0 1B0 1F1 1B1 1F2 1B2"});
  RecomputeOptions options;
  options.workers = {{0, 1, 1}};
  EXPECT_EQ(printRow(apply(table, options).rows[0]),
            "0F0 0F1 0F2 0R0 0B0 0R1 0B1 0R2 0B2");
  table.rows[1] = parseRow("1F0 1F1 1B0 1B1 1F2 1B2");
  options.ahead = 1;
  EXPECT_EQ(printRow(apply(table, options).rows[0]),
            "0F0 0F1 0F2 0R1 0R0 0B0 0B1 0R2 0B2");
}

TEST(AddRecompute, RunsAheadBehindReloads) {
  Table table = makeTable(makeLinear(2, 2),
                          {"0F0 0F1 0D1 0U1 0B0 0B1", "1F0 1F1 1B0 1B1"});
  RecomputeOptions options = ahead(4);
  options.workers = {{0, 1, 1}};
  EXPECT_EQ(printRow(apply(table, options).rows[0]),
            "0F0 0F1 0D1 0U1 0R1 0R0 0B0 0B1");
  table.rows[0] = parseRow("0F0 0F1 0D1 0B0 0U1 0B1");
  EXPECT_EQ(printRow(apply(table, options).rows[0]),
            "0F0 0F1 0D1 0R0 0B0 0U1 0R1 0B1");
}

//===----------------------------------------------------------------------===//
// Over all families
//===----------------------------------------------------------------------===//

/// Every backward has its R right before it, with only other R between.
static void expectRightBefore(const Row &row) {
  for (size_t i = 0; i < row.size(); ++i) {
    if (!row[i].is(Phase::Backward) && !row[i].is(Phase::InputGrad))
      continue;
    size_t at = i;
    if (at > 0 && row[at - 1].overlapsNext())
      --at;
    bool isFound = false;
    while (at-- > 0 && row[at].is(Phase::Recompute))
      isFound |= row[at] ==
                 Cell(row[i].getStage(), Phase::Recompute, row[i].getUnit());
    EXPECT_TRUE(isFound) << row[i].str() << " in " << printRow(row);
  }
}

TEST(AddRecompute, ServesEveryFamily) {
  for (int64_t most : {0, 1, 3})
    forAllFamilies(6, 13, {}, [&](const Family &, const Table &table) {
      RecomputeChange change =
          llvm::cantFail(addRecompute(table.view(), ahead(most)));
      Table result = table;
      result.rows = change.rows;
      ASSERT_TRUE(isSound(result));
      EXPECT_EQ(change.numAdded, table.placement.getNumPairs());
      EXPECT_EQ(countOf(result, Phase::Recompute), change.numAdded);
      // Only R cells are added, and no cell changes its place.
      for (auto [row, before] : llvm::zip_equal(result.rows, table.rows)) {
        Row others;
        llvm::copy_if(row, std::back_inserter(others),
                      [](Cell cell) { return !cell.is(Phase::Recompute); });
        EXPECT_EQ(others, before);
        if (most == 0)
          expectRightBefore(row);
      }
    });
}

TEST(AddRecompute, ServesAnyTable) {
  int64_t numAdded = 0, numPresent = 0;
  for (int seed = 1; seed <= numRounds(1500); ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Table table = makeRandomTable(seed);
    for (const Table &given : {table, align(table)})
      for (int64_t most : {0, 1, 3}) {
        RecomputeOptions options = ahead(most);
        options.keep = seed % 3;
        options.skipAdjacent = seed % 2;
        RecomputeChange change =
            llvm::cantFail(addRecompute(given.view(), options));
        Table result = given;
        result.rows = change.rows;
        ASSERT_TRUE(isSound(result));
        EXPECT_EQ(countOf(result, Phase::Recompute),
                  change.numAdded + change.numPresent);
        numAdded += change.numAdded;
        numPresent += change.numPresent;
        // A second run adds only R for activations that were kept, and for
        // activations that another R now separates from their forward.
        options.keep = 0;
        Table all = apply(result, RecomputeOptions());
        EXPECT_EQ(countOf(all, Phase::Recompute),
                  given.placement.getNumPairs());
        EXPECT_EQ(apply(all, options).rows, all.rows);
      }
  }
  EXPECT_GT(numAdded, numRounds(1000));
  EXPECT_GT(numPresent, numRounds(1000));
}

TEST(AddRecompute, HoldsNoMoreThanKeepAndAheadAllow) {
  FamilyOptions whole;
  whole.splitBackward = false;
  for (int64_t keep : {0, 1, 2, 5})
    for (int64_t most : {0, 1, 2})
      forAllFamilies(5, 11, whole, [&](const Family &, const Table &table) {
        RecomputeOptions options = ahead(most);
        options.keep = keep;
        std::vector<int64_t> before = wholeActivations(table);
        std::vector<int64_t> after = wholeActivations(apply(table, options));
        for (size_t row = 0; row < after.size(); ++row) {
          EXPECT_LE(after[row], keep + 1 + most);
          EXPECT_LE(after[row], before[row]);
        }
      });
}

/// If a worker has w microbatches in flight, Megatron-LM recomputes microbatch
/// i unless i mod w is below the number that it keeps.
TEST(AddRecompute, KeepIsMegatronsPartialCheckpointing) {
  for (int64_t workers = 1; workers <= 8; ++workers)
    for (int64_t n = 1; n <= 24; ++n)
      for (int64_t keep = 0; keep <= workers + 1; ++keep) {
        Table table = llvm::cantFail(generate1F1B(makeLinear(workers, n)));
        RecomputeOptions options;
        options.keep = keep;
        Table result = apply(table, options);
        for (int64_t r = 0; r < workers; ++r) {
          int64_t window = std::min(n, workers - r);
          for (int64_t i = 0; i < n; ++i)
            EXPECT_EQ(llvm::is_contained(result.rows[r],
                                         Cell(r, Phase::Recompute, i)),
                      i % window >= keep);
        }
      }
}

TEST(AddRecompute, AlignedTablesAreAlignedAgain) {
  for (int64_t most : {0, 2})
    forAllFamilies(5, 10, {}, [&](const Family &, const Table &table) {
      Table result = apply(align(table), ahead(most));
      ASSERT_TRUE(isSound(result));
      EXPECT_TRUE(result.aligned);
      EXPECT_EQ(result.rows, align(apply(table, ahead(most))).rows);
    });
}

/// Running R ahead fills idle slots, so no table becomes longer, and some
/// become shorter.
TEST(AddRecompute, AheadIsNeverLonger) {
  int64_t numShorter = 0;
  forAllFamilies(6, 13, {}, [&](const Family &, const Table &table) {
    if (hasShards(table))
      return; // a shard after an R keeps all workers waiting
    int64_t slots = measure(apply(table)).slots;
    for (int64_t most : {1, 2, 4}) {
      int64_t shorter = measure(apply(table, ahead(most))).slots;
      EXPECT_LE(shorter, slots);
      numShorter += shorter < slots;
    }
  });
  EXPECT_GT(numShorter, 100);
}
