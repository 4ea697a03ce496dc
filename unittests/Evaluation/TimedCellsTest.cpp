//===- TimedCellsTest.cpp - The cells of an execution against its table ---===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Every family with every kind of cell: worker, cell and time of each entry
// follow from the rows of the table and the times of the phases.
//
//===----------------------------------------------------------------------===//

#include "PipeSched/Evaluation/TimedCells.h"
#include "../Support/AllFamilies.h"
#include "PipeSched/Schedule/Edit/Offload.h"
#include "PipeSched/Schedule/Edit/OptimizerStep.h"
#include "PipeSched/Schedule/Edit/Recompute.h"

using namespace pipesched;

/// Each phase takes a separate time, so that no cell passes for another.
static CostInputs distinctTimes() {
  Profile profile;
  kCostedPhases.forEach([&](Phase phase) {
    profile.phasePs[phase] = {100 + static_cast<int>(phase)};
  });
  profile.commPs = {3};
  CostInputs costs;
  costs.profile = profile;
  return costs;
}

static Execution execute(const Table &table, Transport transport) {
  TimingOptions timing;
  timing.transport = transport;
  return llvm::cantFail(executeTable(table.view(), distinctTimes(), timing));
}

static std::vector<TimedCell> listCells(const Execution &execution) {
  std::vector<TimedCell> cells;
  forEachTimedCell(execution,
                   [&](const TimedCell &cell) { cells.push_back(cell); });
  EXPECT_EQ(cells.size(), countTimedCells(execution));
  return cells;
}

//===----------------------------------------------------------------------===//
// Against the table
//===----------------------------------------------------------------------===//

/// The time of an entry of a row, all slices of it: both halves of a pair take
/// the sum.
static int64_t durationAt(const Row &row, size_t index) {
  auto of = [&](size_t i) -> int64_t {
    return 100 + static_cast<int64_t>(row[i].getPhase());
  };
  if (row[index].overlapsNext())
    return of(index) + of(index + 1);
  if (index > 0 && row[index - 1].overlapsNext())
    return of(index - 1) + of(index);
  return of(index);
}

/// Compute cells of a row follow each other; the halves of a pair coincide.
static void expectRowOrder(llvm::ArrayRef<TimedCell> row) {
  const TimedCell *last = nullptr;
  for (const TimedCell &entry : row) {
    if (!entry.cell.isCompute() || entry.cell.is(Phase::AllReduce))
      continue;
    if (last && last->cell.overlapsNext())
      EXPECT_EQ(entry.startPs, last->startPs) << entry.cell.str();
    else if (last)
      EXPECT_GE(entry.startPs, last->endPs) << entry.cell.str();
    last = &entry;
  }
}

/// One entry per cell that takes time, row by row. `phases` collects the phases
/// that occurred.
static void expectCellsOf(const Table &table, PhaseSet &phases) {
  phases |= phasesInUse(table.view());
  for (Transport transport :
       {Transport::Overlap, Transport::Delay, Transport::Blocking}) {
    std::vector<TimedCell> cells = listCells(execute(table, transport));
    size_t next = 0;
    for (auto [worker, row] : llvm::enumerate(table.rows)) {
      size_t begin = next;
      for (auto [index, cell] : llvm::enumerate(row)) {
        if (cell.isIdle() || cell.isJoin())
          continue;
        ASSERT_LT(next, cells.size());
        const TimedCell &found = cells[next++];
        ASSERT_EQ(found.worker, static_cast<int64_t>(worker));
        ASSERT_EQ(found.cell, cell) << found.cell.str();
        int64_t slices = cell.isPerPath() ? 1 : table.placement.getNumSlices();
        if (!cell.is(Phase::AllReduce))
          ASSERT_LT(std::abs(slices * (found.endPs - found.startPs) -
                             durationAt(row, index)),
                    slices)
              << cell.str();
      }
      expectRowOrder(llvm::ArrayRef(cells).slice(begin, next - begin));
    }
    ASSERT_EQ(next, cells.size());
  }
}

TEST(TimedCells, AreThoseOfEveryFamily) {
  PhaseSet phases;
  forAllFamilies(4, 8, {}, [&](const Family &, const Table &table) {
    expectCellsOf(table, phases);
    expectCellsOf(align(table), phases);
  });
  FamilyOptions options;
  options.embedding = true;
  for (const Family &family : families())
    if (family.takes(FamilyOption::Embedding))
      expectCellsOf(llvm::cantFail(generate(family, 4, 8, options)), phases);
  PhaseSet wanted = {Phase::Forward, Phase::Backward, Phase::InputGrad,
                     Phase::WeightGrad};
  EXPECT_EQ(phases, wanted | kSpreadPhases);
}

/// O and G cells, of replicas in other paths and in other pipelines.
TEST(TimedCells, AreThoseOfEveryOptimizerStep) {
  PhaseSet phases;
  for (ReductionPlace place : {ReductionPlace::End, ReductionPlace::Eager})
    for (ReducedStages reduced :
         {ReducedStages::Replicated, ReducedStages::All})
      forAllFamilies(4, 6, {}, [&](const Family &, const Table &table) {
        Table step = table;
        step.rows =
            llvm::cantFail(addOptimizerStep(table.view(), place, reduced)).rows;
        expectCellsOf(step, phases);
      });
  PhaseSet wanted = PhaseSet({Phase::AllReduce, Phase::Optimizer});
  EXPECT_EQ(phases & wanted, wanted);
}

/// R cells, and D and U cells with joins, which have no separate entry.
TEST(TimedCells, AreThoseOfEveryRecomputeAndOffload) {
  PhaseSet phases;
  forAllFamilies(4, 6, {}, [&](const Family &, const Table &table) {
    Table recomputed = table;
    recomputed.rows = llvm::cantFail(addRecompute(table.view())).rows;
    expectCellsOf(recomputed, phases);
    OffloadOptions options;
    options.memory = 4;
    llvm::Expected<OffloadChange> change = addOffload(table.view(), options);
    if (!change)
      return llvm::consumeError(change.takeError());
    Table offloaded = table;
    offloaded.rows = std::move(change->rows);
    expectCellsOf(offloaded, phases);
  });
  PhaseSet wanted = PhaseSet({Phase::Recompute, Phase::Offload, Phase::Reload});
  EXPECT_EQ(phases & wanted, wanted);
}

//===----------------------------------------------------------------------===//
// All-reduces
//===----------------------------------------------------------------------===//

/// Chimera on two workers: stage 0 is 0G0 on worker 0 and 0G1 on worker 1.
TEST(TimedCells, GroupsReportEachMemberOnItsOwnWorker) {
  Table table = makeTable(
      makePlacement(2, 2,
                    {pathOn({0, 1}, {{0, 2, 2}}), pathOn({1, 0}, {{1, 2, 2}})}),
      {"0F0 1F1 1B1 0B0 0G0 1G1 0O0 1O1", "0F1 1F0 1B0 0B1 0G1 1G0 0O1 1O0"});
  std::vector<TimedCell> cells = listCells(execute(table, Transport::Overlap));
  ASSERT_EQ(cells.size(), 16u);
  auto timeOf = [&](int64_t worker, llvm::StringRef text) {
    auto found = llvm::find_if(cells, [&](const TimedCell &entry) {
      return entry.worker == worker && entry.cell == parseCell(text);
    });
    EXPECT_NE(found, cells.end()) << text.str();
    return std::pair(found->startPs, found->endPs);
  };
  EXPECT_EQ(timeOf(0, "0G0"), timeOf(1, "0G1"));
  EXPECT_EQ(timeOf(0, "1G1"), timeOf(1, "1G0"));
  // 0F0, a message, 1F0, 1B0, a message, 0B0; then the all-reduce.
  int64_t endPs = 100 + 3 + 100 + 101 + 3 + 101;
  EXPECT_EQ(timeOf(0, "0B0").second, endPs);
  EXPECT_EQ(timeOf(0, "0G0"), std::pair(endPs, endPs + 108));
}

/// Path 1 cuts the model elsewhere, so that a G takes part in two all-reduces:
///
///   path 0    |  stage 0  |  stage 1  |      on [0, 1], blocks 2 and 2
///   path 1    | 0 |      stage 1      |      on [2, 3], blocks 1 and 3
TEST(TimedCells, AGOfSeveralGroupsIsOneEntry) {
  Path down = pathOn({0, 1}, {{0, 2, 2}}), up = pathOn({2, 3}, {{1, 2, 2}});
  down.blocks = {2, 2};
  up.blocks = {1, 3};
  Table table = makeTable(makePlacement(4, 2, {down, up}),
                          {"0F0 0B0", "1F0 1B0", "0F1 0B1", "1F1 1B1"});
  table.rows = llvm::cantFail(addOptimizerStep(table.view())).rows;
  Execution execution = execute(table, Transport::Overlap);
  EXPECT_GT(execution.graph.groupCells.size(), 4u);
  PhaseSet phases;
  expectCellsOf(table, phases);
}
