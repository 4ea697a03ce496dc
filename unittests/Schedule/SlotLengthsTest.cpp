//===- SlotLengthsTest.cpp - Tables in their own slots --------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Alignment, verification and metrics by lengths: small tables by hand, tables
// of every family compared with a search for the earliest slots that uses no
// table index, and invalid lengths.
//
//===----------------------------------------------------------------------===//

#include "PipeSched/Schedule/Table/SlotLengths.h"
#include "../Support/AllFamilies.h"
#include "PipeSched/Schedule/Program/Lowering.h"

using namespace pipesched;
using Counts = std::vector<int64_t>;
using Rows = std::vector<std::string>;

static Table withSlots(Table table, std::vector<StageSlots> slots) {
  table.slots = std::move(slots);
  return table;
}

TEST(SlotLengths, StretchCells) {
  Table table = makeTable(makeLinear(2, 2), {"0F0 0F1 0B0 0B1", //
                                             "1F0 1B0 1F1 1B1"});
  table.slots = {StageSlots::makeWeighted(2), StageSlots::makeWeighted(4)};
  Table aligned = align(table);
  EXPECT_EQ(printRows(aligned.rows),
            Rows({"0F0 0F1 _10 0B0 _8 0B1", "_2 1F0 1B0 1F1 1B1 _4"}));
  EXPECT_TRUE(isSound(aligned));

  TableMetrics metrics = measure(aligned);
  EXPECT_EQ(metrics.slots, 30);
  EXPECT_EQ(metrics.busySlots, Counts({12, 24}));
  EXPECT_EQ(metrics.fillSlots, Counts({0, 2}));
  EXPECT_EQ(metrics.drainSlots, Counts({0, 4}));
  EXPECT_EQ(metrics.maxRetentionSlots, Counts({28, 12}));
  EXPECT_DOUBLE_EQ(metrics.bubbleRatio, 24.0 / 60);
}

TEST(SlotLengths, SplitIdleSlotsThatOneEntryCannotCount) {
  Table table = makeTable(makeLinear(2, 1), {"0F0 0B0", "1F0 1B0"});
  table.slots = {StageSlots(), StageSlots(3000000000, 1, 1)};
  Table aligned = align(table);
  EXPECT_EQ(printRows(aligned.rows),
            Rows({"0F0 _2147483647 _852516355 0B0", "_ 1F0 1B0 _2"}));
  EXPECT_TRUE(isSound(aligned));
  EXPECT_EQ(measure(aligned).slots, 3000000005);
}

TEST(SlotLengths, RefuseRowsThatDoNotFitATable) {
  // 2^62 slots are 2^31 idle entries.
  Table table = makeTable(makeLinear(2, 1), {"0F0 0B0", "1F0 1B0"});
  table.slots = {StageSlots(0, 0, 0), StageSlots(kMaxSlots, 0, 0)};
  EXPECT_FALSE(verifySlotLengths(table.view()));
  EXPECT_EQ(errorOf(alignRows(table.view())),
            "aligned, the rows of 4611686018427387904 slots would have "
            "2147483654 entries, of at most 2147483647 idle slots each: a "
            "table may have 268435456");
}

TEST(AlignSlots, IgnoresIdleThatIsThere) {
  Table table =
      makeTable(makeLinear(2, 1), {"_5 0F0 _9 0B0 _", "_3 1F0 _2 1B0"});
  EXPECT_EQ(printRows(align(table).rows), Rows({"0F0 _3 0B0", "_ 1F0 1B0 _2"}));
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

//===----------------------------------------------------------------------===//
// Verification
//===----------------------------------------------------------------------===//

TEST(SlotLengths, AreVerifiedInAlignedTables) {
  Table table = makeTable(makeLinear(2, 1), {"0F0 _6 0B0", "_ 1F0 1B0 _2"});
  table.aligned = true;
  table.slots = {StageSlots(), StageSlots::makeWeighted(2)};
  EXPECT_FALSE(verifyTable(table.view()));
  table.slots[1] = StageSlots::makeWeighted(3);
  EXPECT_EQ(toString(*verifyTable(table.view())),
            "cell 2 (0B0) of worker 0 starts at slot 7, but 1B0 ends only at "
            "slot 10\nnote: 1B0 is cell 2 of worker 1 and starts at slot 4");
}

TEST(SlotLengths, MustBeKnownForCellsThatAreThere) {
  Table table = makeTable(makeLinear(1, 2), {"0F0 0B0 0F1 0I1 0W1"});
  StageSlots onlyWhole(1, StageSlots::kUnknown, StageSlots::kUnknown);
  onlyWhole.set(Phase::Backward, 5);
  table.slots = {onlyWhole};
  EXPECT_EQ(toString(*verifySlotLengths(table.view())),
            "cell 3 (0I1) has no number of slots: the schedule's slots give B; "
            "give I and W too");
  table.rows = {parseRow("0F0 0B0 0F1 0B1")};
  EXPECT_FALSE(verifySlotLengths(table.view()));
}

TEST(SlotLengths, MustAddUp) {
  Table table = makeTable(makeLinear(1, 2), {"0F0 0B0 0F1 0B1"});
  table.slots = {StageSlots(kMaxSlots / 2, 0, 0)};
  EXPECT_FALSE(verifySlotLengths(table.view()));
  table.slots = {StageSlots(kMaxSlots / 2, 0, 1)};
  EXPECT_EQ(toString(*verifySlotLengths(table.view())),
            "the cells up to cell 2 (0F1) of worker 0, which takes "
            "2305843009213693952 slots, take more than 4611686018427387904 in "
            "all");
  // A pair counts once, with its own length.
  table.rows = {parseRow("0F0 0F1+0B0 0B1")};
  table.slots = {StageSlots(kMaxSlots, 0, 0)};
  EXPECT_TRUE(verifySlotLengths(table.view()));
  table.slots[0].overlapped = 0;
  EXPECT_FALSE(verifySlotLengths(table.view()));
}

//===----------------------------------------------------------------------===//
// Every family
//===----------------------------------------------------------------------===//

namespace {
/// Finds the starts by sweeping over all rows until nothing changes. It
/// searches for cells instead of using an index.
class EarliestStarts {
public:
  explicit EarliestStarts(const Table &table) : table(table) {
    for (const Row &row : table.rows)
      starts.emplace_back(row.size(), 0);
    while (sweep())
      ;
  }

  std::vector<std::vector<int64_t>> starts;

private:
  int64_t lengthOf(int64_t row, int64_t index) const {
    const Row &cells = table.rows[row];
    int64_t first = index - (index > 0 && cells[index - 1].overlapsNext());
    auto own = [&](int64_t i) {
      const StageSlots &stage =
          table.slots[table.placement.globalStage(cells[i])];
      return stage.of(cells[i].getPhase());
    };
    if (!cells[first].overlapsNext())
      return own(first);
    const StageSlots &stage =
        table.slots[table.placement.globalStage(cells[first])];
    return stage.overlapped.value_or(own(first) + own(first + 1));
  }

  /// The end of the first of these cells that exists in the table.
  int64_t endOf(std::initializer_list<Cell> wanted) const {
    for (Cell cell : wanted)
      for (size_t row = 0; row < table.rows.size(); ++row)
        for (size_t i = 0; i < table.rows[row].size(); ++i)
          if (table.rows[row][i].withOverlap(false) == cell)
            return starts[row][i] + lengthOf(row, i);
    return 0;
  }

  int64_t readyAt(Cell cell) const {
    int64_t stage = cell.getStage(), microbatch = cell.getUnit();
    int64_t last =
        table.placement.getNumStages(table.placement.pathOf(cell)) - 1;
    if (cell.is(Phase::Forward) && stage > 0)
      return endOf({Cell(stage - 1, Phase::Forward, microbatch)});
    bool waits = cell.is(Phase::Backward) || cell.is(Phase::InputGrad);
    if (!waits || stage == last)
      return 0;
    Phase half = table.gradientAfter == GradientAfter::InputGrad
                     ? Phase::InputGrad
                     : Phase::WeightGrad;
    return endOf({Cell(stage + 1, Phase::Backward, microbatch),
                  Cell(stage + 1, half, microbatch)});
  }

  bool sweep() {
    bool moved = false;
    for (size_t row = 0; row < table.rows.size(); ++row) {
      const Row &cells = table.rows[row];
      int64_t clock = 0;
      for (size_t i = 0; i < cells.size(); ++i) {
        int64_t start = std::max(clock, readyAt(cells[i]));
        bool isPair = cells[i].overlapsNext();
        if (isPair)
          start = std::max(start, readyAt(cells[i + 1]));
        moved |= starts[row][i] != start;
        starts[row][i] = start;
        if (isPair)
          starts[row][++i] = start;
        clock = start + lengthOf(row, i);
      }
    }
    return moved;
  }

  const Table &table;
};

/// Random lengths; the same seed gives the same.
class Lengths {
public:
  explicit Lengths(uint64_t seed) : state(seed) {}

  int64_t next(int64_t most) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return static_cast<int64_t>(state >> 33) % (most + 1);
  }
  std::vector<StageSlots> stages(const Placement &placement) {
    std::vector<StageSlots> stages;
    for (int64_t i = 0; i < placement.getNumGlobalStages(); ++i) {
      stages.emplace_back(next(5), next(5), next(5));
      stages.back().set(Phase::Backward, next(9));
      if (i % 2 == 0)
        stages.back().overlapped = next(12);
    }
    return stages;
  }

private:
  uint64_t state;
};
} // namespace

static int64_t busySlots(const Table &table, const Row &row) {
  int64_t busy = 0;
  GivenSlots lengths(table.placement, table.slots);
  for (size_t i = 0; i < row.size(); ++i)
    if (!row[i].overlapsNext() && !row[i].isIdle())
      busy += slotsOf(lengths, row, i);
  return busy;
}

TEST(SlotLengths, AlignEveryFamily) {
  Lengths lengths(1);
  forAllFamilies(4, 8, {}, [&](const Family &, const Table &generated) {
    Table table = withSlots(generated, lengths.stages(generated.placement));
    EarliestStarts wanted(table);
    TableView view = table.view();
    CellIndex index = llvm::cantFail(CellIndex::create(view));
    SlotAssignment slots = llvm::cantFail(alignSlots(view, index));
    // EarliestStarts has no collectives of microbatches.
    for (size_t row = 0; !hasShards(table) && row < table.rows.size(); ++row)
      EXPECT_EQ(llvm::ArrayRef(slots.start)
                    .slice(index.rowBegin(row), table.rows[row].size()),
                llvm::ArrayRef(wanted.starts[row]));

    // In the aligned table, nothing moves and all slots count.
    Table aligned = align(table);
    ASSERT_TRUE(isSound(aligned));
    TableView alignedView = aligned.view();
    CellIndex alignedIndex = llvm::cantFail(CellIndex::create(alignedView));
    SlotAssignment read = readSlots(alignedView, alignedIndex);
    EXPECT_EQ(read.numSlots, slots.numSlots);
    EXPECT_EQ(withIdleSlots(alignedView, read), aligned.rows);
    EXPECT_EQ(compactRows(alignedView), table.rows);
    TableMetrics metrics = computeMetrics(alignedView, alignedIndex, read);
    for (size_t row = 0; row < table.rows.size(); ++row)
      EXPECT_EQ(metrics.busySlots[row], busySlots(table, table.rows[row]));
  });
}

/// The position of receives does not depend on lengths.
TEST(SlotLengths, LeaveLoweringAlone) {
  Lengths lengths(2);
  forAllFamilies(4, 8, {}, [&](const Family &, const Table &table) {
    Table stretched = withSlots(table, lengths.stages(table.placement));
    Program unit =
        llvm::cantFail(lowerTable(table.view(), ReceivePlacement::Arrival));
    Program given =
        llvm::cantFail(lowerTable(stretched.view(), ReceivePlacement::Arrival));
    ASSERT_EQ(unit.instructions.size(), given.instructions.size());
    for (auto [a, b] : llvm::zip_equal(unit.instructions, given.instructions)) {
      EXPECT_EQ(a.cell, b.cell);
      EXPECT_EQ(a.kind, b.kind);
      EXPECT_EQ(a.peer, b.peer);
    }
    EXPECT_EQ(unit.operands, given.operands);
  });
}
