//===- WalkTableTest.cpp - The walk against the task graph ----------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A walk finds the same picoseconds, bytes, causes, path and slots as program,
// graph and timeline: for all families, random tables, and costs with many
// equal ones, so that ties are common.
//
//===----------------------------------------------------------------------===//

#include "PipeSched/Analysis/Walk/WalkTable.h"
#include "../Support/AllFamilies.h"
#include "../Support/ChangedTables.h"
#include "../Support/RandomCosts.h"
#include "../Support/RandomTables.h"
#include "../Support/SameWalks.h"
#include "../Support/TestEffort.h"
#include "PipeSched/Schedule/Edit/Offload.h"
#include "PipeSched/Schedule/Edit/OptimizerStep.h"
#include "PipeSched/Schedule/Edit/Recompute.h"
#include "gtest/gtest.h"

using namespace pipesched;

namespace {

/// Counts the comparisons of the tests.
struct Compared {
  int walked = 0, pairs = 0, recomputed = 0, late = 0, queued = 0;
  int copied = 0, joined = 0, heldUp = 0; ///< heldUp: copies make it longer
  int reduced = 0, shared = 0;            ///< by several workers
  int endsReduced = 0, awaited = 0; ///< an all-reduce ends last, or sooner
  int leapt = 0;   ///< tables whose walk left out at least half
  int unequal = 0; ///< tables with costs by microbatch
};

} // namespace

/// Everything by way of the graph. Requires a complete table.
static void expectAsByGraph(const Table &table, const WalkInputs &inputs,
                            const WalkedTable &walked) {
  const Placement &placement = table.placement;
  const MemoryFacts &facts = *inputs.memoryFacts;
  Transport transport = inputs.transport;
  TableView view = table.view();
  TaskGraph graph = llvm::cantFail(buildTaskGraph(
      llvm::cantFail(lowerTable(view, ReceivePlacement::Arrival)), transport));
  const StageCosts &costs = *inputs.costs;
  TaskTimes times =
      llvm::cantFail(computeTaskTimes(graph, placement, costs, transport));
  Timeline timeline = computeTimeline(graph, times);
  EXPECT_EQ(walked.makespanPs, timeline.makespanPs);
  EXPECT_EQ(walked.freeMakespanPs, freeMakespan(graph, times, timeline));
  EXPECT_EQ(walked.criticalPath,
            describePath(graph, criticalPath(graph, times, timeline)));
  expectSameIdle(walked.idle, computeIdle(graph, times, timeline));
  expectSameMemory(
      *walked.memory,
      llvm::cantFail(computeMemory(graph, times, timeline, placement, facts)));
  Traffic wanted = llvm::cantFail(computeTraffic(graph, placement, costs));
  std::optional<Traffic> traffic =
      sumTraffic(view, countPhases(view), costs, inputs.groups);
  ASSERT_TRUE(traffic);
  EXPECT_EQ(traffic->messages, wanted.messages);
  EXPECT_EQ(traffic->copies, wanted.copies);
  EXPECT_EQ(traffic->bytesSent, wanted.bytesSent);
  for (Resource resource : {Resource::Sharding, Resource::Context})
    EXPECT_EQ(traffic->exchanges[resource], wanted.exchanges[resource]);
  EXPECT_EQ(walked.dispatches, wanted.exchanges[Resource::Experts]);
  CellIndex index = llvm::cantFail(CellIndex::create(view));
  SlotAssignment slots = llvm::cantFail(alignUnitSlots(view, index));
  TableView inUnits = view;
  inUnits.slots.clear();
  expectSameMetrics(walked.unitMetrics, computeMetrics(inUnits, index, slots));
}

/// If microbatches are unequal, every unit has separate costs.
static void compare(const Table &table, uint32_t seed, Compared &compared,
                    bool isUnequal = false) {
  TableView view = table.view();
  for (Transport transport : {Transport::Overlap, Transport::Delay}) {
    RandomCosts random(seed);
    const Placement &placement = table.placement;
    StageCosts costs = random.drawCosts(placement.getNumGlobalStages(),
                                        isUnequal ? placement.getNumUnits()
                                                  : placement.getNumSlices());
    MemoryFacts facts =
        random.drawMemory(costs.stages.size(), placement.getNumSlices());
    Groups groups = llvm::cantFail(Groups::create(view));
    if (!canWalkGroups(groups))
      return; // the graph times them
    WalkInputs inputs;
    if (groups.size() != 0)
      inputs.groups = &groups;
    if (random.draw(4) != 0)
      costs.reductions = random.drawReductions(groups.size());
    inputs.costs = &costs;
    inputs.transport = transport;
    inputs.memoryFacts = &facts;
    PhaseCounts counts = countPhases(view);
    std::optional<WalkedTable> walked = walkTable(view, counts, inputs);
    ASSERT_TRUE(walked);
    inputs.mayLeap = false;
    std::optional<WalkedTable> eachCell = walkTable(view, counts, inputs);
    ASSERT_TRUE(eachCell);
    EXPECT_EQ(eachCell->makespanPs, walked->makespanPs);
    expectAsByGraph(table, inputs, *walked);
    ++compared.walked;
    if (llvm::any_of(costs.stages, [&](const StageCost &stage) {
          return stage.cells.getNumSlices() > placement.getNumSlices();
        })) {
      ++compared.unequal;
      EXPECT_EQ(walked->numLeapt, 0);
    }
    compared.leapt += 2 * walked->numLeapt >= view.getNumCells();
    compared.late += walked->makespanPs > walked->freeMakespanPs;
    compared.queued += llvm::any_of(walked->idle.queueOrderPs,
                                    [](int64_t ps) { return ps > 0; });
    compared.recomputed += counts.has(Phase::Recompute);
    compared.copied += counts.has(Phase::Offload);
    compared.joined += counts.has(Phase::OffloadJoin);
    compared.heldUp +=
        llvm::any_of(walked->criticalPath,
                     [](const PathStep &step) { return step.cell.isCopy(); });
    compared.reduced += counts.has(Phase::AllReduce);
    auto members = [&](int64_t number) {
      return groups.membersOf(number).size();
    };
    compared.shared +=
        llvm::any_of(llvm::seq(groups.size()),
                     [&](int64_t number) { return members(number) > 1; });
    compared.endsReduced +=
        !walked->criticalPath.empty() &&
        walked->criticalPath.back().kind == InstructionKind::AllReduce;
    compared.awaited +=
        llvm::any_of(walked->criticalPath, [](const PathStep &step) {
          return step.kind == InstructionKind::AllReduce;
        });
    compared.pairs += llvm::any_of(table.rows, [](const Row &row) {
      return llvm::any_of(row, [](Cell cell) { return cell.overlapsNext(); });
    });
  }
}

TEST(WalkTable, AllFamilies) {
  Compared compared;
  uint32_t seed = 1;
  forAllFamilies(6, 9, {}, [&](const Family &, const Table &table) {
    compare(table, seed++, compared);
    compare(align(table), seed++, compared);
  });
  FamilyOptions split;
  split.splitBackward = true;
  for (GradientAfter after :
       {GradientAfter::InputGrad, GradientAfter::WeightGrad}) {
    split.gradientAfter = after;
    forAllFamilies(4, 8, split, [&](const Family &, const Table &table) {
      compare(table, seed++, compared);
    });
  }
  EXPECT_GT(compared.walked, 1000);
  EXPECT_GT(compared.pairs, 20);
  EXPECT_GT(compared.late, 500);
  EXPECT_GT(compared.queued, 100);
}

/// Slices of a microbatch have separate costs, as if they were microbatches
/// of several kinds.
TEST(WalkTable, SlicesOfTheirOwnCosts) {
  Compared compared;
  uint32_t seed = 1;
  FamilyOptions split;
  split.splitBackward = true;
  for (const FamilyOptions &options : {FamilyOptions(), split})
    forAllFamilies(5, 8, options, [&](const Family &, const Table &table) {
      for (int64_t numSlices : {2, 3, 4}) {
        std::optional<Table> sliced = withSlices(table, numSlices);
        if (!sliced)
          continue;
        compare(*sliced, seed, compared);
        compare(withCopies(*sliced, seed, 2), seed, compared);
        ++seed;
      }
    });
  EXPECT_GT(compared.walked, 200);
  EXPECT_GT(compared.copied, 50);
  EXPECT_GT(compared.pairs, 2);
}

/// Tables long enough to repeat. Whether the times do depends on the costs.
TEST(WalkTable, LongTables) {
  uint32_t seed = 1;
  for (const Family &family : families()) {
    SCOPED_TRACE(family.name.str());
    Compared compared;
    bool spreadsVocabulary = false;
    for (int64_t workers : {2, 3, 4, 6})
      for (int64_t microbatches : {48, 61, 120, 240}) {
        SCOPED_TRACE(testing::Message()
                     << "D=" << workers << " N=" << microbatches);
        llvm::Expected<Table> table = generate(family, workers, microbatches);
        if (!table) {
          llvm::consumeError(table.takeError());
          continue;
        }
        spreadsVocabulary = hasShards(*table);
        for (int round = 0; round < numRounds(3); ++round)
          compare(*table, seed++, compared);
      }
    if (spreadsVocabulary)
      continue; // the graph times them
    EXPECT_GT(compared.walked, 0);
    // Breadth-first schedules hold more with every microbatch.
    bool isBreadthFirst = llvm::is_contained(
        {"gpipe", "terapipe", "looped-bfs", "mpmd-circular"}, family.name);
    EXPECT_EQ(compared.leapt > 0, !isBreadthFirst);
  }
}

/// Sums over the cells that the walk leaps over must equal the sums of all
/// cells.
TEST(WalkTable, EqualCostsRepeatAtOnce) {
  Table table = llvm::cantFail(generate(*findFamily("1f1b"), 4, 1000));
  StageCosts costs;
  costs.stages.resize(4);
  for (StageCost &stage : costs.stages) {
    kAllPhases.forEach([&](Phase phase) { stage.cells.set(phase, 10); });
    stage.cells.set(Phase::Backward, 20);
    stage.activation = stage.gradient = {3, 1, 5};
  }
  WalkInputs inputs;
  inputs.costs = &costs;
  TableView view = table.view();
  std::optional<WalkedTable> walked =
      walkTable(view, countPhases(view), inputs);
  ASSERT_TRUE(walked);
  EXPECT_GT(walked->numLeapt, view.getNumCells() * 9 / 10);
  EXPECT_EQ(walked->idle.busyPs, std::vector<int64_t>(4, 1000 * 30));
  EXPECT_EQ(walked->unitMetrics.slots, (1000 + 3) * 3);
}

TEST(WalkTable, Recomputed) {
  Compared compared;
  uint32_t seed = 1;
  forAllFamilies(4, 6, {}, [&](const Family &, const Table &table) {
    std::optional<Table> again = recomputed(table);
    if (!again)
      return;
    compare(*again, seed++, compared);
  });
  EXPECT_GT(compared.recomputed, 100);
}

TEST(WalkTable, Offloaded) {
  Compared compared;
  uint32_t seed = 1;
  forAllFamilies(4, 6, {}, [&](const Family &, const Table &table) {
    compare(withCopies(table, seed, 1 + seed % 3), seed, compared);
    ++seed;
    std::optional<Table> again = recomputed(table);
    if (!again)
      return;
    compare(withCopies(*again, seed, 1 + seed % 3), seed, compared);
    ++seed;
  });
  EXPECT_GT(compared.copied, 500);
  EXPECT_GT(compared.joined, 300);
  EXPECT_GT(compared.recomputed, 100);
  EXPECT_GT(compared.heldUp, 100);
}

/// Every microbatch is offloaded in the same way, so long tables repeat.
TEST(WalkTable, LongOffloadedTables) {
  Compared compared;
  uint32_t seed = 1;
  for (llvm::StringRef family : {"1f1b", "interleaved-1f1b", "zb-h1", "zb-v"})
    for (int64_t workers : {2, 4})
      for (int64_t ahead : {0, 1, 3})
        for (int64_t memory : {int64_t(0), int64_t(0), 3 * workers}) {
          SCOPED_TRACE(testing::Message() << family.str() << " D=" << workers
                                          << " ahead=" << ahead);
          Table table =
              llvm::cantFail(generate(*findFamily(family), workers, 240));
          OffloadOptions options;
          options.ahead = ahead;
          options.memory = memory;
          llvm::Expected<OffloadChange> change =
              addOffload(table.view(), options);
          ASSERT_TRUE(static_cast<bool>(change));
          table.rows = std::move(change->rows);
          compare(table, seed++, compared);
        }
  EXPECT_GT(compared.copied, 100);
  EXPECT_GT(compared.leapt, 50);
  EXPECT_GT(compared.heldUp, 20);
}

/// The recomputed or offloaded cells change in the middle, or near an end, so
/// that cells which repeat are followed by other cells than before.
TEST(WalkTable, LongTablesThatChange) {
  Compared compared;
  uint32_t seed = 1;
  for (llvm::StringRef family : {"1f1b", "zb-h1", "zb-v", "chimera"})
    for (int64_t workers : {2, 4})
      for (auto [begin, end] : {std::pair<int64_t, int64_t>(0, 234),
                                {0, 120},
                                {5, 240},
                                {232, 240},
                                {100, 104}})
        for (bool recomputes : {false, true}) {
          SCOPED_TRACE(testing::Message()
                       << family.str() << " D=" << workers << " from " << begin
                       << " to " << end << " recomputes=" << recomputes);
          Table table =
              llvm::cantFail(generate(*findFamily(family), workers, 240));
          RecomputeOptions recompute;
          recompute.microbatches = {{begin, end, 1}};
          OffloadOptions offload;
          offload.microbatches = recompute.microbatches;
          table.rows =
              recomputes
                  ? llvm::cantFail(addRecompute(table.view(), recompute)).rows
                  : llvm::cantFail(addOffload(table.view(), offload)).rows;
          compare(table, seed++, compared);
        }
  EXPECT_GT(compared.copied, 50);
  EXPECT_GT(compared.recomputed, 50);
  EXPECT_GT(compared.leapt, 10);
}

/// 0B1 ends when 0U0 starts, which waited for 0U2: among events at the same
/// time, frees go first.
TEST(WalkTable, FreesBeforeItReloads) {
  auto cell = [](Phase phase, int64_t i) { return Cell(0, phase, i); };
  Table table;
  table.placement = llvm::cantFail(Placement::create(1, 3, {placeLinear(1)}));
  table.rows = {{cell(Phase::Forward, 0), cell(Phase::Offload, 0),
                 cell(Phase::Forward, 2), cell(Phase::Offload, 2),
                 cell(Phase::Forward, 1), cell(Phase::Reload, 2),
                 cell(Phase::Reload, 0), cell(Phase::Backward, 1),
                 cell(Phase::Backward, 2), cell(Phase::Backward, 0)}};
  StageCosts costs;
  costs.stages.resize(1);
  CellCosts &cells = costs.stages[0].cells;
  cells.set(Phase::Forward, 10);
  cells.set(Phase::Backward, 20);
  cells.set(Phase::Offload, 1);
  cells.set(Phase::Reload, 20);
  MemoryFacts facts;
  facts.stages.resize(1);
  facts.stages[0].activationBytes = 100;
  WalkInputs inputs;
  inputs.costs = &costs;
  inputs.memoryFacts = &facts;
  TableView view = table.view();
  std::optional<WalkedTable> walked =
      walkTable(view, countPhases(view), inputs);
  ASSERT_TRUE(walked);
  EXPECT_EQ(walked->memory->workers[0].peakActivationBytes, 200);
  EXPECT_EQ(walked->memory->workers[0].reloadedBytes, 200);
  EXPECT_EQ(walked->idle.reloadPs[0], 40);
  expectAsByGraph(table, inputs, *walked);
}

/// With and without the O cells that wait for all-reduces.
TEST(WalkTable, Reduced) {
  Compared compared;
  uint32_t seed = 1;
  auto compareReduced = [&](const Table &table, ReductionPlace place,
                            ReducedStages stages) {
    llvm::Expected<OptimizerChange> change =
        addOptimizerStep(table.view(), place, stages);
    if (!change)
      return llvm::consumeError(change.takeError());
    Table reduced = table;
    reduced.rows = std::move(change->rows);
    compare(reduced, seed++, compared);
    for (Row &row : reduced.rows)
      llvm::erase_if(row, [](Cell cell) { return cell.is(Phase::Optimizer); });
    compare(reduced, seed++, compared);
  };
  forAllFamilies(4, 6, {}, [&](const Family &, const Table &table) {
    for (ReductionPlace place : {ReductionPlace::End, ReductionPlace::Eager})
      for (ReducedStages stages :
           {ReducedStages::Replicated, ReducedStages::All})
        compareReduced(seed % 3 ? table : withCopies(table, seed, 3), place,
                       stages);
  });
  EXPECT_GT(compared.reduced, 1000);
  EXPECT_GT(compared.shared, 100);
  EXPECT_GT(compared.copied, 300);
  EXPECT_GT(compared.endsReduced, 100);
  EXPECT_GT(compared.awaited, 300);
}

TEST(WalkTable, RandomTables) {
  Compared compared;
  for (int seed = 0; seed < numRounds(4000); ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Table table = RandomTable(seed).make();
    compare(table, seed, compared);
    for (Row &row : table.rows)
      llvm::erase_if(row,
                     [](Cell cell) { return cell.isCopy() || cell.isJoin(); });
    compare(withCopies(table, seed, 2), seed, compared);
  }
  EXPECT_GT(compared.walked, numRounds(4000));
  EXPECT_GT(compared.pairs, 20);
  EXPECT_GT(compared.recomputed, 20);
  EXPECT_GT(compared.queued, 10);
  EXPECT_GT(compared.copied, 100);
}

TEST(WalkTable, UnequalMicrobatches) {
  Compared compared;
  for (int seed = 0; seed < numRounds(2000); ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    compare(RandomTable(seed).make(), seed, compared, /*isUnequal=*/true);
  }
  EXPECT_GT(compared.unequal, numRounds(1000));
  EXPECT_GT(compared.pairs, 20);
  EXPECT_GT(compared.recomputed, 20);
  EXPECT_GT(compared.copied, 50);
}

/// Stages that do not train have fewer cells, and fewer messages.
TEST(WalkTable, FrozenTables) {
  Compared compared;
  for (int seed = 0; seed < numRounds(4000); ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    compare(makeFrozenTable(seed), seed, compared);
  }
  EXPECT_GT(compared.walked, numRounds(2000));
  EXPECT_GT(compared.recomputed, 20);
  EXPECT_GT(compared.copied, 100);
}

/// The same table with its first stage as a node before the path, if there is
/// one path with other stages.
static Table moveFirstToNode(Table table) {
  Path path = table.placement.getPath(0);
  int32_t last = path.getNumStages() - 1;
  if (table.placement.getNumPaths() > 1 || last == 0)
    return table;
  std::vector<int64_t> &frozen = path.backward.frozen;
  StageNode node = {last, path.workers.front()};
  if (path.backward.isNone)
    node.kind = StageKind::NoBackward;
  if (!frozen.empty() && frozen.front() == 0) {
    node.kind = StageKind::Frozen;
    frozen.erase(frozen.begin());
  }
  for (int64_t &stage : frozen)
    --stage;
  path.workers.erase(path.workers.begin());
  table.placement = llvm::cantFail(Placement::create(
      table.placement.getNumWorkers(), table.placement.getNumMicrobatches(),
      {path}, 1, {{node}, {{last, 0}}}));
  for (Row &row : table.rows)
    for (Cell &cell : row)
      if (!cell.isIdle())
        cell = Cell(cell.getStage() == 0 ? last : cell.getStage() - 1,
                    cell.getPhase(), cell.getNumber())
                   .withOverlap(cell.overlapsNext());
  if (!table.slots.empty())
    std::rotate(table.slots.begin(), table.slots.begin() + 1,
                table.slots.end());
  return table;
}

/// Stages in lines can be walked, however they are numbered.
TEST(WalkTable, NodesBeforeAPath) {
  Compared compared;
  int64_t numNodes = 0;
  for (int seed = 0; seed < numRounds(1000); ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Table table = moveFirstToNode(makeFrozenTable(seed));
    numNodes += !table.placement.getAdded().isEmpty();
    ASSERT_TRUE(isSound(table));
    compare(table, seed, compared);
  }
  EXPECT_GT(numNodes, numRounds(300));
  EXPECT_GT(compared.walked, numRounds(1000));
}

//===----------------------------------------------------------------------===//
// Walks without an end
//===----------------------------------------------------------------------===//

static Table twoWorkers(std::vector<Row> rows) {
  Table table;
  table.placement = llvm::cantFail(Placement::create(2, 1, {placeLinear(2)}));
  table.rows = std::move(rows);
  return table;
}

static bool hasEnd(const Table &table) {
  StageCosts costs;
  costs.stages.resize(2);
  WalkInputs inputs;
  inputs.costs = &costs;
  TableView view = table.view();
  PhaseCounts counts = countPhases(view);
  return walkTable(view, counts, inputs).has_value();
}

TEST(WalkTable, DeadlockHasNoEnd) {
  Cell f0(0, Phase::Forward, 0), b0(0, Phase::Backward, 0);
  Cell f1(1, Phase::Forward, 0), b1(1, Phase::Backward, 0);
  EXPECT_TRUE(hasEnd(twoWorkers({{f0, b0}, {f1, b1}})));
  EXPECT_FALSE(hasEnd(twoWorkers({{b0, f0}, {f1, b1}})));
  EXPECT_FALSE(hasEnd(twoWorkers({{b0}, {f1, b1}}))) << "F0 is missing";
}

TEST(WalkTable, RepeatedCellHasNoEnd) {
  Cell f0(0, Phase::Forward, 0), b0(0, Phase::Backward, 0);
  Cell f1(1, Phase::Forward, 0), b1(1, Phase::Backward, 0);
  EXPECT_FALSE(hasEnd(twoWorkers({{f0, f0, f0, b0}, {f1, b1}})));
}

TEST(WalkTable, LeavesQueuesOfOthersToTheGraph) {
  constexpr auto kArrival = ReceivePlacement::Arrival;
  constexpr auto kConsumer = ReceivePlacement::Consumer;
  constexpr auto kAsync = ForwardSends::Async;
  EXPECT_TRUE(canWalkTables(Transport::Overlap, kArrival, kAsync));
  EXPECT_FALSE(canWalkTables(Transport::Overlap, kConsumer, kAsync));
  EXPECT_TRUE(canWalkTables(Transport::Delay, kConsumer, kAsync));
  EXPECT_FALSE(canWalkTables(Transport::Blocking, kArrival, kAsync));
  EXPECT_FALSE(canWalkTables(Transport::Pairs, kArrival, kAsync));
  EXPECT_FALSE(canWalkTables(Transport::Delay, kArrival, ForwardSends::Sync));
}

/// The graph, or verification, names their mistake.
TEST(WalkTable, CopiesOutOfPlaceHaveNoEnd) {
  Cell f0(0, Phase::Forward, 0), b0(0, Phase::Backward, 0);
  Cell f1(1, Phase::Forward, 0), b1(1, Phase::Backward, 0);
  Cell d0(0, Phase::Offload, 0), u0(0, Phase::Reload, 0);
  Cell awaitD(0, Phase::OffloadJoin, 0), awaitU(0, Phase::ReloadJoin, 0);
  auto ends = [&](Row row) { return hasEnd(twoWorkers({row, {f1, b1}})); };
  EXPECT_TRUE(ends({f0, d0, u0, b0}));
  EXPECT_TRUE(ends({f0, d0, awaitD, u0, awaitU, b0}));
  EXPECT_FALSE(ends({d0, f0, u0, b0}));
  EXPECT_FALSE(ends({f0, u0, d0, b0}));
  EXPECT_FALSE(ends({f0, d0, b0, u0}));
  EXPECT_FALSE(ends({f0, d0, b0})) << "never reloaded";
  EXPECT_FALSE(ends({f0, u0, b0})) << "never offloaded";
  EXPECT_FALSE(ends({f0, d0, d0, u0, b0}));
  EXPECT_FALSE(ends({f0, awaitD, d0, u0, b0}));
  EXPECT_FALSE(ends({f0, d0, awaitU, u0, b0}));
}
