//===- WalkBatchTest.cpp - Many scenarios in one walk ---------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Scenarios side by side give the same picoseconds, bytes, causes and slots as
// one by one, in any combination: for all families, random tables, and costs
// with which walks repeat and with which they do not.
//
//===----------------------------------------------------------------------===//

#include "../Support/AllFamilies.h"
#include "../Support/ChangedTables.h"
#include "../Support/RandomCosts.h"
#include "../Support/RandomTables.h"
#include "../Support/SameWalks.h"
#include "../Support/TestEffort.h"
#include "PipeSched/Analysis/Walk/WalkTable.h"
#include "PipeSched/Schedule/Edit/OptimizerStep.h"
#include "PipeSched/Schedule/Edit/Recompute.h"
#include "PipeSched/Schedule/Walk/Lanes.h"
#include "gtest/gtest.h"

using namespace pipesched;

namespace {

/// Counts the comparisons of the tests.
struct Compared {
  int batches = 0, pairs = 0, recomputed = 0, varied = 0, memories = 0;
  int copied = 0, reduced = 0;
  int leapt = 0; ///< scenarios that leapt side by side
};

/// Scenarios of one table, with all that they refer to.
class Scenarios {
public:
  /// `isSteady`: all of one cost except for a factor, so that walks repeat.
  Scenarios(const Table &table, uint32_t seed, int64_t count, bool isSteady);

  llvm::ArrayRef<WalkInputs> get() const { return inputs; }

private:
  Groups groups;
  std::vector<StageCosts> costs;
  std::vector<MemoryFacts> memories;
  std::vector<WalkInputs> inputs;
};

} // namespace

/// Cells of worker 1 and of odd stages take longer.
static int64_t slowDown(int32_t worker, Cell cell, std::optional<Cell> second,
                        int64_t ps) {
  int64_t more = cell.getStage() % 2 + (second ? second->getStage() % 2 : 0);
  return ps * (worker == 1 ? 3 : 2) / 2 + more;
}

static int64_t slowDownSome(int32_t worker, Cell cell,
                            std::optional<Cell> second, int64_t ps) {
  return slowDown(worker, cell, second, ps) + cell.getUnit() % 5;
}

static void multiply(StageCosts &costs, int64_t factor) {
  for (StageCost &stage : costs.stages) {
    CellCosts &cells = stage.cells;
    for (int64_t slice = 0; slice < cells.getNumSlices(); ++slice)
      kCostedPhases.forEach([&](Phase phase) {
        llvm::SmallVector<Segment> segments(cells.segmentsOf(phase, slice));
        for (Segment &segment : segments)
          segment.ps *= factor;
        llvm::cantFail(cells.setSegments(phase, segments, slice));
      });
    if (stage.overlappedPs)
      *stage.overlappedPs *= factor;
  }
}

Scenarios::Scenarios(const Table &table, uint32_t seed, int64_t count,
                     bool isSteady)
    : groups(llvm::cantFail(Groups::create(table.view()))), costs(count),
      memories(count), inputs(count) {
  RandomCosts random(seed);
  const Groups *all = canWalkGroups(groups) ? &groups : nullptr;
  int64_t numStages = table.placement.getNumGlobalStages();
  for (int64_t i = 0; i != count; ++i) {
    if (isSteady && i != 0) {
      costs[i] = costs[0];
      multiply(costs[i], 1 + random.draw(4));
    } else {
      costs[i] = random.drawCosts(numStages, table.placement.getNumSlices());
    }
    memories[i] = i != 0 && random.draw(2) ? memories[i - 1]
                                           : random.drawMemory(numStages);
    if (all && random.draw(4) != 0)
      costs[i].reductions = random.drawReductions(all->size());
    inputs[i].costs = &costs[i];
    inputs[i].groups = all && all->size() != 0 ? all : nullptr;
    inputs[i].transport =
        random.draw(4) ? Transport::Overlap : Transport::Delay;
    inputs[i].mayLeap = random.draw(8) != 0;
    if (random.draw(3))
      inputs[i].memoryFacts = &memories[i];
  }
  int64_t changes = random.draw(4);
  for (WalkInputs &scenario : inputs) {
    if (changes == 0 || random.draw(2))
      continue;
    scenario.changeVaries = changes == 1;
    scenario.changePs = changes == 1 ? slowDownSome : slowDown;
  }
}

static void expectSame(const WalkedTable &found, const WalkedTable &wanted) {
  EXPECT_EQ(found.makespanPs, wanted.makespanPs);
  EXPECT_EQ(found.freeMakespanPs, wanted.freeMakespanPs);
  expectSameIdle(found.idle, wanted.idle);
  EXPECT_EQ(found.dispatches, wanted.dispatches);
  expectSameMetrics(found.unitMetrics, wanted.unitMetrics);
  EXPECT_TRUE(found.criticalPath.empty());
  ASSERT_EQ(found.memory.has_value(), wanted.memory.has_value());
  if (found.memory)
    expectSameMemory(*found.memory, *wanted.memory);
}

/// Batches of all sizes around the sizes that fill lanes.
static void compare(const Table &table, uint32_t seed, bool isSteady,
                    Compared &compared) {
  if (hasShards(table))
    return; // the graph times them
  TableView view = table.view();
  PhaseCounts counts = countPhases(view);
  constexpr int64_t kSizes[] = {1, 2, 3, 5, 8, 9, 11, 16, 17, 20, 33};
  int64_t count = kSizes[seed % std::size(kSizes)];
  Scenarios scenarios(table, seed, count, isSteady);
  std::vector<std::optional<WalkedTable>> found =
      walkTables(view, counts, scenarios.get());
  ASSERT_EQ(found.size(), scenarios.get().size());
  for (auto [scenario, walked] : llvm::zip_equal(scenarios.get(), found)) {
    std::optional<WalkedTable> alone = walkTable(view, counts, scenario);
    ASSERT_EQ(walked.has_value(), alone.has_value());
    if (!alone)
      continue;
    expectSame(*walked, *alone);
    compared.leapt += count > 2 && walked->numLeapt > 0;
    compared.varied += scenario.changePs && scenario.changeVaries;
    compared.memories += walked->memory.has_value();
  }
  ++compared.batches;
  compared.recomputed += counts.has(Phase::Recompute);
  compared.copied += counts.has(Phase::Offload);
  compared.reduced += counts.has(Phase::AllReduce) && found.front();
  compared.pairs += llvm::any_of(table.rows, [](const Row &row) {
    return llvm::any_of(row, [](Cell cell) { return cell.overlapsNext(); });
  });
}

static Table reduce(Table table) {
  table.rows =
      llvm::cantFail(addOptimizerStep(table.view(), ReductionPlace::End,
                                      ReducedStages::All))
          .rows;
  return table;
}

TEST(WalkBatch, AllFamilies) {
  Compared compared;
  uint32_t seed = 1;
  int64_t numForms = 0;
  forAllFamilies(6, 9, {}, [&](const Family &, const Table &table) {
    compare(table, seed, seed % 2, compared);
    ++seed;
    std::optional<Table> again = recomputed(table);
    if (!again)
      return;
    compare(*again, seed, seed % 2, compared);
    ++seed;
    // The forms with copies take turns: sizes of all families see each of them.
    int64_t turn = numForms++ % 4;
    const Table &whole = turn == 0 ? table : *again;
    if (turn == 2)
      compare(withCopies(reduce(table), seed, 2), seed, seed % 2, compared);
    else if (turn != 3)
      compare(withCopies(whole, seed, 2), seed, seed % 2, compared);
    else if (std::optional<Table> sliced = withSlices(whole, 2))
      compare(withCopies(*sliced, seed, 3), seed, seed % 2, compared);
    ++seed;
  });
  EXPECT_GT(compared.batches, 500);
  EXPECT_GT(compared.pairs, 20);
  EXPECT_GT(compared.recomputed, 100);
  EXPECT_GT(compared.copied, 500);
  EXPECT_GT(compared.reduced, 200);
  EXPECT_GT(compared.varied, 500);
  EXPECT_GT(compared.memories, 1000);
}

/// Walks leap only where all scenarios repeat, at separate periods.
TEST(WalkBatch, LongTables) {
  Compared compared;
  uint32_t seed = 1;
  for (const Family &family : families())
    for (int64_t workers : {2, 4, 6})
      for (int64_t microbatches : {48, 61, 120, 240}) {
        SCOPED_TRACE(testing::Message() << family.name.str() << " D=" << workers
                                        << " N=" << microbatches);
        llvm::Expected<Table> table = generate(family, workers, microbatches);
        if (!table) {
          llvm::consumeError(table.takeError());
          continue;
        }
        for (bool isSteady : {false, true, true})
          compare(*table, seed++, isSteady, compared);
      }
  EXPECT_GT(compared.batches, 300);
  EXPECT_GT(compared.leapt, 300);
}

TEST(WalkBatch, RandomTables) {
  Compared compared;
  for (int seed = 0; seed < numRounds(2000); ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Table table = RandomTable(seed).make();
    for (Row &row : table.rows)
      llvm::erase_if(row,
                     [](Cell cell) { return cell.isCopy() || cell.isJoin(); });
    compare(table, seed, seed % 2, compared);
  }
  EXPECT_GT(compared.batches, numRounds(1000));
  EXPECT_GT(compared.pairs, 10);
}

/// Doubles represent no times from 2^53 ps on exactly, so such scenarios are
/// walked separately.
TEST(WalkBatch, LongTimes) {
  Table table = llvm::cantFail(generate(*findFamily("zb-h1"), 4, 40));
  TableView view = table.view();
  PhaseCounts counts = countPhases(view);
  constexpr int64_t kOdd = 1'000'003;
  std::vector<StageCosts> costs(12);
  std::vector<WalkInputs> scenarios(costs.size());
  for (auto [number, cost] : llvm::enumerate(costs)) {
    cost.stages.resize(4);
    // From a part of 2^53 to a hundred times as much.
    int64_t ps = (kExactPs / 3000 << (2 * number / 3)) + kOdd;
    for (StageCost &stage : cost.stages) {
      kAllPhases.forEach([&](Phase phase) { stage.cells.set(phase, ps); });
      stage.activation = stage.gradient = {ps / 3, 1, 5};
    }
    scenarios[number].costs = &cost;
    ASSERT_TRUE(canAddUp(table.placement, counts, cost,
                         std::numeric_limits<int64_t>::max()));
  }
  std::vector<std::optional<WalkedTable>> found =
      walkTables(view, counts, scenarios);
  int numLong = 0;
  for (auto [scenario, walked] : llvm::zip_equal(scenarios, found)) {
    expectSame(*walked, *walkTable(view, counts, scenario));
    numLong += walked->makespanPs >= kExactPs && walked->makespanPs % 2 != 0;
  }
  EXPECT_GT(numLong, 2);
  EXPECT_LT(found.front()->makespanPs, kExactPs);
}

TEST(WalkBatch, DeadlockHasNoEnd) {
  Table table = llvm::cantFail(generate(*findFamily("1f1b"), 2, 2));
  std::swap(table.rows[0].front(), table.rows[0].back());
  TableView view = table.view();
  StageCosts costs;
  costs.stages.resize(2);
  WalkInputs scenario;
  scenario.costs = &costs;
  std::vector<WalkInputs> scenarios(9, scenario);
  PhaseCounts counts = countPhases(view);
  for (const auto &walked : walkTables(view, counts, scenarios))
    EXPECT_FALSE(walked);
}
