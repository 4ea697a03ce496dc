//===- OptimizerStepTest.cpp - O and G cells of a table -------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Rows by hand; and many placements, even and uneven, whose workers hold any
// number of replicas: tables are complete and sound, and no semantics has a
// deadlock that was not there before.
//
//===----------------------------------------------------------------------===//

#include "PipeSched/Schedule/Edit/OptimizerStep.h"
#include "../Support/CheckTable.h"
#include "../Support/RunProcesses.h"
#include "../Support/TestEffort.h"
#include "PipeSched/Analysis/Proof/Messages.h"
#include "PipeSched/Schedule/Family/Generators.h"
#include "PipeSched/Schedule/Program/Lowering.h"
#include <random>

using namespace pipesched;
using Rows = std::vector<std::string>;

static constexpr ReductionPlace kPlaces[] = {
    ReductionPlace::End, ReductionPlace::Eager, ReductionPlace::None};

static Table withStep(const Table &table, ReductionPlace place) {
  Table result = table;
  result.rows = llvm::cantFail(addOptimizerStep(table.view(), place)).rows;
  return result;
}

static Table mirrored() {
  return makeTable(
      makePlacement(2, 2,
                    {pathOn({0, 1}, {{0, 1, 1}}), pathOn({1, 0}, {{1, 2, 1}})}),
      {"0F0 1F1 1B1 0B0", "0F1 1F0 1B0 0B1"});
}

//===----------------------------------------------------------------------===//
// By hand
//===----------------------------------------------------------------------===//

TEST(OptimizerStep, EagerReductionsStandWhereAllAreReady) {
  // slots    0   1   2 3 4 5            both stages 1 are done at slot 4
  // row 0   0F0 1F1 1B1 0B0
  // row 1   0F1 1F0 1B0 0B1
  EXPECT_EQ(printRows(withStep(mirrored(), ReductionPlace::Eager).rows),
            Rows({"0F0 1F1 1B1 1G1 0B0 0G0 1O1 0O0",
                  "0F1 1F0 1B0 1G0 0B1 0G1 1O0 0O1"}));
  // Here worker 1 is late: worker 0 continues first.
  Table table = makeTable(
      makePlacement(2, 3,
                    {pathOn({0, 1}, {{0, 1, 1}}), pathOn({1, 0}, {{1, 3, 1}})}),
      {"0F0 1F1 1B1 0B0 1F2 1B2", "0F1 0F2 0B1 0B2 1F0 1B0"});
  table.rows[0] = parseRow("0F0 1F1 1B1 1F2 1B2 0B0");
  table.rows[1] = parseRow("0F1 0F2 0B1 1F0 1B0 0B2");
  EXPECT_EQ(printRows(withStep(table, ReductionPlace::Eager).rows),
            Rows({"0F0 1F1 1B1 1F2 1B2 1G1 0B0 0G0 1O1 0O0",
                  "0F1 0F2 0B1 1F0 1B0 1G0 0B2 0G1 1O0 0O1"}));
}

TEST(OptimizerStep, JoinsStayWithTheirCells) {
  Table table = mirrored();
  table.rows[0] = parseRow("0F0 0D0 1F1 1B1 0U0 0u0 0B0");
  EXPECT_EQ(printRow(withStep(table, ReductionPlace::Eager).rows[0]),
            "0F0 0D0 1F1 1B1 0U0 1G1 0u0 0B0 0G0 1O1 0O0");
}

TEST(OptimizerStep, UnevenReplicasComeByTheEndOfTheirBlocks) {
  // Worker 0 has blocks 0 to 4 by path 0 and 1 to 2 by path 1: the former end
  // last, so path 0 owns them all. Worker 1 has blocks 4 to 6 by path 0, and
  // among blocks 2 to 6 by path 1.
  std::vector<Path> paths = {pathOn({0, 1}, {{0, 1, 1}}),
                             pathOn({1, 0, 1}, {{1, 2, 1}})};
  paths[0].blocks = {4, 2};
  paths[1].blocks = {1, 1, 4};
  Table table = makeTable(makePlacement(2, 2, paths),
                          {"0F0 1F1 1B1 0B0", "0F1 1F0 1B0 2F1 2B1 0B1"});
  EXPECT_EQ(printRows(withStep(table, ReductionPlace::End).rows),
            Rows({"0F0 1F1 1B1 0B0 0G0 0O0",
                  "0F1 1F0 1B0 2F1 2B1 0B1 0G1 2G1 0O1 2O1"}));
}

TEST(OptimizerStep, StagesThatAreCutAreReducedAtTheEnd) {
  // Path 0 cuts blocks 0 to 4 at 1 and path 1 at 3; blocks 4 to 6 are not cut.
  std::vector<Path> paths = {pathOn({0, 1, 0}, {{0, 1, 1}}),
                             pathOn({1, 0, 1}, {{1, 2, 1}})};
  paths[0].blocks = {1, 3, 2};
  paths[1].blocks = {3, 1, 2};
  Table table =
      makeTable(makePlacement(2, 2, paths),
                {"0F0 1F1 2F0 2B0 1B1 0B0", "0F1 1F0 2F1 2B1 1B0 0B1"});
  EXPECT_EQ(printRow(withStep(table, ReductionPlace::Eager).rows[0]),
            "0F0 1F1 2F0 2B0 2G0 1B1 0B0 0G0 1G1 2O0 0O0 1O1");
}

TEST(OptimizerStep, AlignedTablesAreAlignedAgain) {
  Table table = mirrored();
  table.aligned = true;
  table.rows = {parseRow("0F0 _ 1F1 1B1 0B0"), parseRow("0F1 1F0 _ 1B0 0B1")};
  Table stepped = withStep(table, ReductionPlace::Eager);
  EXPECT_EQ(printRows(stepped.rows), Rows({"0F0 1F1 1B1 1G1 0B0 0G0 1O1 0O0",
                                           "0F1 1F0 1B0 1G0 0B1 0G1 1O0 0O1"}));
  EXPECT_TRUE(isSound(stepped));
  // Without G the idle slots stay where they are.
  table.aligned = false;
  EXPECT_EQ(printRow(withStep(table, ReductionPlace::End).rows[0]),
            "0F0 _ 1F1 1B1 0B0 0G0 1G1 0O0 1O1");
}

TEST(OptimizerStep, RefusesAStepThatIsThere) {
  Table table = mirrored();
  table.rows[1] = parseRow("0F1 1F0 1B0 0B1 0O1");
  EXPECT_EQ(errorOf(addOptimizerStep(table.view())),
            "cell 4 (0O1): the schedule has optimizer steps or all-reduces "
            "already");
  table.rows[1] = parseRow("0F1 1F0 1B0");
  EXPECT_EQ(errorOf(addOptimizerStep(table.view())),
            "0B1 is missing: worker 1 runs 0F1 but no backward, whole (B) or "
            "split (I and W)");
}

//===----------------------------------------------------------------------===//
// Any table
//===----------------------------------------------------------------------===//

static bool proves(const Table &table, MessageSemantics semantics,
                   ReceivePlacement placement) {
  Program program = llvm::cantFail(lowerTable(table.view(), placement));
  bool isProven = !errorToBool(verifyMessages(program, semantics));
  EXPECT_EQ(isProven, Processes(program, semantics).finish());
  return isProven;
}

/// Expects one O per block and worker, and one G for blocks that are replicated
/// elsewhere unless there are none.
static void expectComplete(const Table &table, ReductionPlace place) {
  const Placement &placement = table.placement;
  ParameterSets sets = llvm::cantFail(ParameterSets::create(placement));
  std::vector<int> steps(placement.getNumGlobalStages()),
      reductions(placement.getNumGlobalStages());
  for (const Row &row : table.rows)
    for (Cell cell : row) {
      steps[placement.globalStage(cell)] += cell.is(Phase::Optimizer);
      reductions[placement.globalStage(cell)] += cell.is(Phase::AllReduce);
    }
  for (int64_t stage = 0; stage < placement.getNumGlobalStages(); ++stage) {
    EXPECT_EQ(steps[stage], sets.ownsAny(stage));
    EXPECT_EQ(reductions[stage],
              place != ReductionPlace::None && sets.isReplicated(stage));
  }
}

/// A complete table without a cycle finishes under some semantics; with eager G
/// it still does. With G at the end, a table that finished without the step
/// finishes with it.
static void expectFinishes(const Table &table, const Table &stepped,
                           ReductionPlace place) {
  for (MessageSemantics semantics :
       {MessageSemantics::Unbounded, MessageSemantics::Fifo,
        MessageSemantics::Rendezvous, MessageSemantics::Batched})
    for (ReceivePlacement receives :
         {ReceivePlacement::Arrival, ReceivePlacement::Consumer}) {
      bool isSafe = receives == ReceivePlacement::Arrival
                        ? semantics != MessageSemantics::Rendezvous
                        : semantics == MessageSemantics::Unbounded;
      if (place == ReductionPlace::Eager ? isSafe
                                         : proves(table, semantics, receives))
        EXPECT_TRUE(proves(stepped, semantics, receives))
            << enumName(semantics).str();
    }
}

static void expectStep(const Table &table) {
  for (ReductionPlace place : kPlaces) {
    Table stepped = withStep(table, place);
    ASSERT_TRUE(isSound(stepped));
    expectComplete(stepped, place);
    expectFinishes(table, stepped, place);
    Table aligned = stepped;
    aligned.aligned = true;
    aligned.rows = llvm::cantFail(alignRows(stepped.view()));
    EXPECT_TRUE(isSound(aligned));
  }
}

/// A greedy table on paths of one to five stages on three workers, with equal
/// or different blocks.
static Table randomTable(std::mt19937 &random) {
  int64_t numPaths = 1 + random() % 4, total = 1 + random() % 9;
  std::vector<Path> paths;
  for (int64_t p = 0; p < numPaths; ++p) {
    std::vector<int32_t> workers(1 + random() % 5);
    for (int32_t &worker : workers)
      worker = random() % 3;
    paths.push_back(pathOn(workers, {{p, p + numPaths + 1, numPaths}}));
    if (random() % 3 == 0)
      continue;
    paths.back().blocks.assign(workers.size(), 0);
    for (int64_t block = 0; block < total; ++block)
      ++paths.back().blocks[random() % workers.size()];
  }
  GreedyOptions options;
  options.splitBackward = random() % 2;
  return llvm::cantFail(
      generateGreedy(makePlacement(3, 2 * numPaths, paths), options));
}

TEST(OptimizerStep, OfAnyPaths) {
  std::mt19937 random(1);
  for (int round = 0; round < numRounds(400); ++round) {
    SCOPED_TRACE(round);
    expectStep(randomTable(random));
    if (HasFailure())
      return;
  }
}

//===----------------------------------------------------------------------===//
// G cells at any position
//===----------------------------------------------------------------------===//

/// Inserts a G for each stage that owns blocks, anywhere after the last weight
/// gradient of these blocks.
static void addReductions(Table &table, std::mt19937 &random) {
  const Placement &placement = table.placement;
  ParameterSets sets = llvm::cantFail(ParameterSets::create(placement));
  for (int64_t path = 0; path < placement.getNumPaths(); ++path)
    for (int64_t stage = 0; stage < placement.getNumStages(path); ++stage) {
      int64_t global = placement.stageOffset(path) + stage;
      if (!sets.ownsAny(global))
        continue;
      std::vector<int64_t> users;
      sets.forEachUser(global, [&](int64_t user) { users.push_back(user); });
      Row &row = table.rows[placement.workerOf(global)];
      size_t first = row.size();
      while (row[first - 1].isPerPath() ||
             !llvm::is_contained(users, placement.globalStage(row[first - 1])))
        --first;
      row.insert(row.begin() + first + random() % (row.size() - first + 1),
                 Cell(stage, Phase::AllReduce, path));
    }
}

/// Runs the rows against each other, each as far as it can, without any index.
/// A G is done when the rows of its group have reached theirs.
static bool rowsFinish(const Table &table) {
  TableView view = table.view();
  CellIndex index = llvm::cantFail(CellIndex::create(view));
  Dependences dependences(view, index);
  const Groups &groups = *index.getGroups();
  std::vector<int64_t> next(view.rows.size());
  auto canRun = [&](CellRef at) {
    Cell cell = view.rows[at.row][at.index];
    if (Dependences::Producer producer = dependences.producerOf(cell))
      return producer.flat - index.rowBegin(producer.worker) <
             next[producer.worker];
    if (!cell.is(Phase::AllReduce))
      return true;
    for (int64_t group : groups.groupsOf(cell))
      for (CellRef member : groups.membersOf(group))
        if (next[member.row] < member.index)
          return false;
    return true;
  };
  for (bool hasProgress = true; hasProgress;) {
    hasProgress = false;
    for (int64_t row = 0, end = view.rows.size(); row < end; ++row)
      while (next[row] < int64_t(view.rows[row].size()) &&
             canRun({row, next[row]})) {
        ++next[row];
        hasProgress = true;
      }
  }
  return llvm::all_of(llvm::zip(next, view.rows), [](auto pair) {
    return std::get<0>(pair) == int64_t(std::get<1>(pair).size());
  });
}

/// The cycle that verifyTable finds exists; if it finds none, the program
/// finishes too.
TEST(OptimizerStep, ReductionsAnywhereFinishOrAreRefused) {
  std::mt19937 random(1);
  int numFinished = 0, numRefused = 0;
  for (int round = 0; round < numRounds(3000) && !HasFailure(); ++round) {
    SCOPED_TRACE(round);
    Table table = randomTable(random);
    addReductions(table, random);
    std::optional<Violation> violation = verifyTable(table.view());
    EXPECT_EQ(!violation, rowsFinish(table));
    ++(violation ? numRefused : numFinished);
    if (violation) {
      EXPECT_TRUE(
          llvm::StringRef(violation->message).contains("the rows deadlock"));
      continue;
    }
    for (ReceivePlacement receives :
         {ReceivePlacement::Arrival, ReceivePlacement::Consumer})
      EXPECT_TRUE(proves(table, MessageSemantics::Unbounded, receives));
    Table aligned = table;
    aligned.aligned = true;
    aligned.rows = llvm::cantFail(alignRows(table.view()));
    EXPECT_TRUE(isSound(aligned));
  }
  EXPECT_GT(numFinished, numRounds(300));
  EXPECT_GT(numRefused, numRounds(300));
}
