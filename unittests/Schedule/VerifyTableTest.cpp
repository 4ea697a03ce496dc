//===- VerifyTableTest.cpp - Checks of a whole table ----------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Each finding once: incomplete, cyclic, at wrong slots. Tables that only claim
// to be huge are refused at once.
//
//===----------------------------------------------------------------------===//

#include "../Support/TestTables.h"
#include "PipeSched/Schedule/Check/Verify.h"
#include "PipeSched/Schedule/Table/Dependences.h"
#include "PipeSched/Schedule/Walk/TopologicalOrder.h"
#include <random>

using namespace pipesched;

static std::string find(const Table &table) {
  std::optional<Violation> violation = verifyTable(table.view());
  return violation ? toString(*violation) : "";
}

static std::string find(int64_t microbatches,
                        std::initializer_list<llvm::StringRef> rows) {
  return find(makeTable(makeLinear(rows.size(), microbatches), rows));
}

TEST(VerifyTable, AcceptsCompleteTables) {
  EXPECT_EQ(find(1, {"0F0 0B0", "1F0 1B0"}), "");
  EXPECT_EQ(find(1, {"0F0 0D0 0U0 0R0 0I0 0W0 0O0", "1F0 1B0"}), "");
}

TEST(VerifyTable, FindsTheFirstMissingForward) {
  EXPECT_EQ(find(3, {"0F0 0F1 0F2 0B0 0B1 0B2", "1F2 1F0 1B0 1B2"}),
            "1F1 is missing: worker 1 never runs it");
  EXPECT_EQ(find(2, {"", ""}), "0F0 is missing: worker 0 never runs it");
  Placement paths = makePlacement(
      2, 4, {pathOn({0, 1}, {{0, 4, 2}}), pathOn({1, 0}, {{1, 4, 2}})});
  EXPECT_EQ(find(makeTable(paths, {"0F0 0F2 1F1", "0F1 0F3 1F0 1F2"})),
            "1F3 is missing: worker 0 never runs it");
}

TEST(VerifyTable, FindsTheFirstMissingBackward) {
  std::optional<Violation> violation = verifyTable(
      makeTable(makeLinear(2, 2), {"0F0 0F1 0B0 0B1", "1F0 1F1 1B1"}).view());
  ASSERT_TRUE(violation);
  EXPECT_EQ(toString(*violation),
            "1B0 is missing: worker 1 runs 1F0 but no backward, whole (B) or "
            "split (I and W)");
  EXPECT_EQ(violation->at->row, 1);
  EXPECT_EQ(violation->at->index, 0);
  EXPECT_EQ(find(1, {"0F0 0B0", "1F0 1I0"}),
            "1W0 is missing: worker 1 runs 1I0 without it");
}

TEST(VerifyTable, FindsOffloadsWithoutReload) {
  EXPECT_EQ(find(1, {"0F0 0D0 0B0", "1F0 1B0"}),
            "0U0 is missing: worker 0 offloads with 0D0 and never reloads");
}

TEST(VerifyTable, FindsReductionsThatReplicasLack) {
  // Path 0 cuts the model at 4 of 6, path 1 at 2.
  std::vector<Path> paths = {pathOn({0, 1}, {{0, 1, 1}}),
                             pathOn({2, 3}, {{1, 2, 1}})};
  paths[0].blocks = {4, 2};
  paths[1].blocks = {2, 4};
  Table table = makeTable(makePlacement(4, 2, std::move(paths)),
                          {"0F0 0B0 0G0", "1F0 1B0", "0F1 0B1", "1F1 1B1"});
  EXPECT_EQ(find(table), "0G1 is missing: worker 0 runs 0G0 and worker 2 "
                         "holds the same blocks");
}

TEST(VerifyTable, FindsDuplicates) {
  EXPECT_EQ(find(1, {"0F0 0F0 0B0", "1F0 1B0"}), "0F0 occurs twice");
}

TEST(VerifyTable, FindsWrongRowCounts) {
  EXPECT_EQ(find(makeTable(makeLinear(3, 1), {"0F0 0B0", "1F0 1B0"})),
            "the table has 2 rows for 3 workers");
}

TEST(VerifyTable, FindsPathsThatTakeNothing) {
  Placement placement = makePlacement(2, 2, {pathOn({0, 1}), pathOn({1, 0})});
  EXPECT_EQ(find(makeTable(placement, {"", ""})),
            "the schedule has several paths without microbatches: state them "
            "with 'takes'");
}

TEST(VerifyTable, PrintsTheCycleEdgeByEdge) {
  // Worker 0 waits for the gradient of 0 before it runs F1, worker 1 the
  // reverse.
  Table table =
      makeTable(makeLinear(2, 2), {"0F0 0B0 0F1 0B1", "1F0 1F1 1B0 1B1"});
  std::optional<Violation> violation = verifyTable(table.view());
  ASSERT_TRUE(violation);
  EXPECT_EQ(toString(*violation),
            "the rows deadlock: 0B0 waits for itself in a cycle of 4\n"
            "note: 0B0 on worker 0 waits for 1B0 on worker 1\n"
            "note: 1B0 on worker 1 runs after 1F1 in its row\n"
            "note: 1F1 on worker 1 waits for 0F1 on worker 0\n"
            "note: 0F1 on worker 0 runs after 0B0 in its row");
  EXPECT_EQ(violation->notes[1].at->row, 1);
  EXPECT_EQ(violation->notes[1].at->index, 2);
  ASSERT_EQ(violation->cycle.size(), 4u);
  EXPECT_EQ(violation->cycle[1].row, 1);
  EXPECT_EQ(violation->cycle[1].index, 2);
}

TEST(VerifyTable, FindsCyclesThroughOverlappedPairs) {
  Table table =
      makeTable(makePlacement(1, 1, {pathOn({0, 0})}), {"0F0+1F0 1B0 0B0"});
  EXPECT_EQ(find(table),
            "the rows deadlock: 1F0 waits for itself in a cycle of 2\n"
            "note: 1F0 on worker 0 waits for 0F0 on worker 0\n"
            "note: 0F0 on worker 0 is overlapped with 1F0 in its row");
}

TEST(VerifyTable, PrintsEightEdgesAndCountsTheRest) {
  // A ring: worker k receives microbatch k-1 before it starts its own.
  std::vector<Path> paths;
  paths.reserve(6);
  for (int32_t k = 0; k < 6; ++k)
    paths.push_back(pathOn({k, (k + 1) % 6}, {{k, k + 1, 1}}));
  Table table;
  table.placement = makePlacement(6, 6, std::move(paths));
  for (int64_t k = 0; k < 6; ++k) {
    int64_t other = (k + 5) % 6;
    table.rows.push_back(
        {Cell(1, Phase::Forward, other), Cell(0, Phase::Forward, k),
         Cell(1, Phase::Backward, other), Cell(0, Phase::Backward, k)});
  }
  std::optional<Violation> violation = verifyTable(table.view());
  ASSERT_TRUE(violation);
  EXPECT_EQ(violation->message,
            "the rows deadlock: 1F5 waits for itself in a cycle of 12");
  ASSERT_EQ(violation->notes.size(), 9u);
  EXPECT_EQ(violation->notes[8].message, "and 4 more");
}

/// Rows of a V placement in random order, each backward after its forward.
static Table makeRandomTable(std::mt19937 &random, int64_t workers,
                             int64_t microbatches) {
  Table table;
  table.placement = makePlacement(workers, microbatches, {placeV(workers)});
  for (int64_t worker = 0; worker < workers; ++worker) {
    Row &row = table.rows.emplace_back();
    for (int64_t stage : {worker, 2 * workers - 1 - worker})
      for (int64_t m = 0; m < microbatches; ++m)
        for (Phase phase : {Phase::Forward, Phase::Backward})
          row.insert(row.begin() + random() % (row.size() + 1),
                     Cell(stage, phase, m));
    for (size_t i = 0; i < row.size(); ++i)
      for (size_t j = i + 1; j < row.size(); ++j)
        if (row[i].is(Phase::Backward) &&
            row[j] == row[i].withPhase(Phase::Forward))
          std::swap(row[i], row[j]);
  }
  return table;
}

/// Whether the cells, with the order of their rows, form a cycle.
static bool isCyclic(const TableView &view) {
  struct Edge {
    uint32_t node;
  };
  CellIndex index = llvm::cantFail(CellIndex::create(view));
  Dependences dependences(view, index);
  auto listEdges = [&](uint32_t flat, std::vector<Edge> &edges) {
    CellRef ref = index.refOf(flat);
    dependences.forEachPredecessor(
        view.rows[ref.row][ref.index],
        [&](uint32_t before) { edges.push_back({before}); });
    if (ref.index > 0)
      edges.push_back({flat - 1});
  };
  auto ignore = [](uint32_t, llvm::ArrayRef<Edge>) {};
  return orderTopologically<Edge>(view.getNumCells(), listEdges, ignore)
      .isCyclic();
}

TEST(VerifyTable, FindsACycleWhereverThereIsOne) {
  std::mt19937 random(1);
  int64_t numCyclic = 0;
  for (int i = 0; i < 20000; ++i) {
    Table table = makeRandomTable(random, 1 + i % 3, 1 + i % 2);
    bool expected = isCyclic(table.view());
    ASSERT_EQ(verifyTable(table.view()).has_value(), expected)
        << printRow(table.rows[0]);
    numCyclic += expected;
  }
  EXPECT_GT(numCyclic, 1000);
  EXPECT_LT(numCyclic, 19900);
}

TEST(VerifyTable, AlignedTablesKeepTheirSlots) {
  Table table = makeTable(makeLinear(2, 1), {"0F0 _3 0B0", "_ 1F0 1B0"});
  table.aligned = true;
  EXPECT_EQ(find(table), "");
  table.rows[0] = parseRow("0F0 _2 0B0");
  EXPECT_EQ(find(table),
            "cell 2 (0B0) of worker 0 starts at slot 3, but 1B0 ends only at "
            "slot 4\nnote: 1B0 is cell 2 of worker 1 and starts at slot 2");
}

TEST(VerifyTable, GradientGoesByWhatTheScheduleSays) {
  Table table = makeTable(makeLinear(2, 1), {"0F0 _2 0B0", "_ 1F0 1I0 1W0"});
  table.aligned = true;
  EXPECT_EQ(find(table), "");
  table.gradientAfter = GradientAfter::WeightGrad;
  EXPECT_EQ(find(table),
            "cell 2 (0B0) of worker 0 starts at slot 3, but 1W0 ends only at "
            "slot 4\nnote: 1W0 is cell 3 of worker 1 and starts at slot 3");
}

TEST(VerifyTable, CostsNothingForSizesThatAreOnlyClaimed) {
  Table table;
  table.placement = makeLinear(kMaxWorkers, Cell::kMaxMicrobatches);
  table.rows.resize(kMaxWorkers);
  table.rows[0] = parseRow("0F0 0F1 0F2147483646");
  EXPECT_EQ(find(table), "0F2 is missing: worker 0 never runs it");
}

TEST(CellIndex, RefusesTablesItWouldNotBeLinearIn) {
  Table table = makeTable(makeLinear(1, 1000), {"0F0 0F999"});
  EXPECT_EQ(errorOf(CellIndex::create(table.view())),
            "the table has 2 of 1000 forward cells");
}
