//===- SolutionTest.cpp - Times, memory and checks of rows ----------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Compares small rows with times computed by hand, random ones with the
// timeline of schedules, and their period with many steps in a row.
//
//===----------------------------------------------------------------------===//

#include "PipeSched/Analysis/Graph/Timeline.h"
#include "PipeSched/Schedule/Program/Lowering.h"
#include "RandomProblems.h"

using namespace pipesched;
using namespace pipesched::optimize;
using optimize::test::makeProblem;
using optimize::test::RandomProblem;
using optimize::test::timeRows;

namespace {

using Times = std::vector<int64_t>;

Solution time(const Problem &problem,
              std::initializer_list<llvm::StringRef> rows) {
  return llvm::cantFail(timeRows(problem, rows));
}

//===----------------------------------------------------------------------===//
// Times
//===----------------------------------------------------------------------===//

TEST(TimesTest, SharesACopyQueue) {
  Problem problem = makeProblem(makeLinear(1, 2));
  problem.stages[0].offload = 50;
  llvm::StringRef row = "0F0 0D0 0F1 0U0 0D1 0U1 0I0 0I1 0W0 0W1";
  Solution two = time(problem, {row});
  EXPECT_EQ(two.starts[0], Times({0, 10, 10, 60, 60, 110, 65, 115, 127, 135}));
  problem.sharedCopyQueue = true;
  Solution one = time(problem, {row});
  EXPECT_EQ(one.starts[0], Times({0, 10, 10, 60, 65, 115, 65, 120, 132, 140}));
}

TEST(TimesTest, PassesOverIdleSlots) {
  Solution solution =
      time(makeProblem(makeLinear(1, 1)), {"_3 0F0 _ 0R0 0I0 0W0"});
  EXPECT_EQ(solution.starts[0], Times({0, 0, 10, 10, 20, 32}));
}

TEST(TimesTest, RefusesRows) {
  Problem problem = makeProblem(makeLinear(2, 1));
  EXPECT_EQ(pipesched::errorOf(timeRows(problem, {"0F0 0I0 0W0"})),
            "there are 1 rows, expected one for each of 2 workers");
  EXPECT_EQ(pipesched::errorOf(timeRows(problem, {"0F0 0I0 0W0", "1F0 1I0"})),
            "1W0 is missing: worker 1 runs 1I0 without it");
  EXPECT_EQ(
      pipesched::errorOf(timeRows(problem, {"0F0 0I0 0W0", "1F0 1I0 0W0 1W0"})),
      "worker 1: cell 2 (0W0): path 0 puts stage 0 on worker 0, not on worker "
      "1");
  EXPECT_EQ(pipesched::errorOf(timeRows(problem, {"0F0 0B0", "1F0 1I0 1W0"})),
            "worker 0: cell 1 (0B0) is a whole backward: I and W are wanted");
  EXPECT_EQ(
      pipesched::errorOf(timeRows(problem, {"0F0 0I0 0W0 0O0", "1F0 1I0 1W0"})),
      "worker 0: cell 3 (0O0) is not part of the problem, which ends with the "
      "backwards");
  problem.techniques.splitBackward = false;
  EXPECT_EQ(pipesched::errorOf(timeRows(problem, {"0F0 0B0", "1F0 1I0 1W0"})),
            "worker 1: cell 1 (1I0) is part of a split backward: a whole one, "
            "B, is wanted");
}

TEST(TimesTest, RefusesRowsThatWaitForEachOther) {
  Problem problem = makeProblem(makeLinear(2, 2));
  std::string error = pipesched::errorOf(timeRows(
      problem, {"0F0 0I0 0W0 0F1 0I1 0W1", "1F1 1I1 1W1 1F0 1I0 1W0"}));
  EXPECT_NE(error.find("wait"), std::string::npos) << error;
}

/// The costs of a problem.
StageCosts costOf(const Problem &problem) {
  StageCosts stageCosts;
  for (const StageFacts &facts : problem.stages) {
    StageCost stage;
    auto set = [&](Phase phase, int64_t ticks) {
      stage.cells.set(phase, ticks);
    };
    set(Phase::Forward, facts.forward);
    set(Phase::Backward, facts.inputGrad);
    set(Phase::InputGrad, facts.inputGrad);
    set(Phase::WeightGrad, facts.weightGrad);
    set(Phase::Recompute, facts.recompute);
    set(Phase::Offload, facts.offload);
    set(Phase::Reload, facts.reload);
    stage.activation.latencyPs = facts.activationDelay;
    stage.gradient.latencyPs = facts.gradientDelay;
    stageCosts.stages.push_back(stage);
  }
  return stageCosts;
}

/// Starts of the cells of a table by its timeline, sorted by row and cell.
std::vector<std::vector<std::pair<uint64_t, int64_t>>>
timelineStarts(const Table &table, const Problem &problem, int64_t &makespan) {
  Program program =
      llvm::cantFail(lowerTable(table.view(), ReceivePlacement::Arrival));
  TaskGraph graph = llvm::cantFail(buildTaskGraph(program, Transport::Delay));
  TaskTimes times = llvm::cantFail(computeTaskTimes(
      graph, table.placement, costOf(problem), Transport::Delay));
  Timeline timeline = computeTimeline(graph, times);
  makespan = timeline.makespanPs;
  std::vector<std::vector<std::pair<uint64_t, int64_t>>> starts(
      table.rows.size());
  for (uint32_t task = 0; task < graph.size(); ++task)
    if (graph.kind[task] != InstructionKind::Send)
      starts[graph.worker[task]].emplace_back(graph.cell[task].getRaw(),
                                              timeline.startPs[task]);
  for (auto &row : starts)
    llvm::sort(row);
  return starts;
}

/// A D waits until the output of its F has arrived on another worker.
void delayOffloads(Problem &problem) {
  const Placement &placement = problem.placement;
  for (int64_t path = 0; path < placement.getNumPaths(); ++path)
    for (int64_t s = 0; s + 1 < placement.getNumStages(path); ++s) {
      int64_t stage = placement.stageOffset(path) + s;
      bool isSent = placement.workerOf(stage) != placement.workerOf(stage + 1);
      StageFacts &facts = problem.stages[stage];
      facts.offloadDelay = isSent ? facts.activationDelay : 0;
    }
}

TEST(RandomRowsTest, HaveTheTimesOfTheTimeline) {
  int64_t numChecked = 0, numJoins = 0;
  for (uint32_t seed = 1; seed <= 2000; ++seed) {
    RandomProblem random(seed);
    if (!random.canRun())
      continue;
    random.problem.sharedCopyQueue = false; // a timeline has two copy queues
    delayOffloads(random.problem);
    Solution solution =
        llvm::cantFail(timeRows(random.problem, random.table.rows));
    int64_t makespan = 0;
    auto expected = timelineStarts(random.table, random.problem, makespan);
    EXPECT_EQ(solution.makespan, makespan) << seed;
    for (auto [worker, row] : llvm::enumerate(solution.rows)) {
      std::vector<std::pair<uint64_t, int64_t>> starts;
      for (auto [cell, start] : llvm::zip(row, solution.starts[worker])) {
        if (!cell.isIdle() && !cell.isJoin())
          starts.emplace_back(cell.getRaw(), start);
        numJoins += cell.isJoin();
      }
      llvm::sort(starts);
      EXPECT_EQ(starts, expected[worker]) << seed;
    }
    ++numChecked;
  }
  EXPECT_GT(numChecked, 1000);
  EXPECT_GT(numJoins, 1000);
}

//===----------------------------------------------------------------------===//
// Period
//===----------------------------------------------------------------------===//

int64_t periodOf(const Problem &problem,
                 std::initializer_list<llvm::StringRef> rows) {
  return time(problem, rows).period;
}

TEST(PeriodTest, CountsCopyQueues) {
  Problem problem = makeProblem(makeLinear(1, 1));
  problem.stages[0].offload = 70;
  problem.stages[0].reload = 90;
  // 10 + 70 + 90 + 12 + 8: I waits for U.
  EXPECT_EQ(periodOf(problem, {"0F0 0D0 0U0 0I0 0W0"}), 190);
}

/// The rows of many steps as one step: microbatch m of step k is m + k x N.
std::vector<Row> repeat(const Problem &problem, const std::vector<Row> &rows,
                        int64_t numSteps) {
  int64_t numMicrobatches = problem.placement.getNumMicrobatches();
  std::vector<Row> repeated(rows.size());
  for (int64_t step = 0; step < numSteps; ++step)
    for (auto [row, all] : llvm::zip(rows, repeated))
      for (Cell cell : row)
        all.push_back(cell.isIdle()
                          ? cell
                          : Cell(cell.getStage(), cell.getPhase(),
                                 cell.getUnit() + step * numMicrobatches));
  return repeated;
}

int64_t makespanOf(const RandomProblem &random, int64_t numSteps) {
  const Placement &placement = random.problem.placement;
  Problem problem = random.problem;
  std::vector<Path> paths = placement.getPaths();
  int64_t numMicrobatches = placement.getNumMicrobatches() * numSteps;
  for (Path &path : paths)
    for (MicrobatchRange &range : path.takes)
      range.end = numMicrobatches;
  problem.placement =
      makePlacement(placement.getNumWorkers(), numMicrobatches, paths);
  return llvm::cantFail(timeRows(problem, repeat(random.problem,
                                                 random.table.rows, numSteps)))
      .makespan;
}

/// The period is the time that one more step adds, rounded up; the steady state
/// keeps all rules.
TEST(RandomRowsTest, HaveThePeriodOfManySteps) {
  int64_t numChecked = 0;
  for (uint32_t seed = 1; seed <= 400; ++seed) {
    RandomProblem random(seed);
    const Placement &placement = random.problem.placement;
    bool isRegular =
        placement.getNumPaths() == 1 || placement.getNumMicrobatches() % 2 == 0;
    if (!isRegular || !random.canRun())
      continue;
    constexpr int64_t numSteps = 48;
    int64_t growth =
        makespanOf(random, 3 * numSteps) - makespanOf(random, 2 * numSteps);
    std::vector<llvm::ArrayRef<Cell>> rows(random.table.rows.begin(),
                                           random.table.rows.end());
    Solution steady = llvm::cantFail(steadyState(random.problem, rows));
    EXPECT_EQ(steady.period, (growth + numSteps - 1) / numSteps) << seed;
    EXPECT_FALSE(bool(verifySolution(random.problem, steady))) << seed;
    EXPECT_LE(makespanOf(random, 7), 6 * steady.period + steady.makespan);
    ++numChecked;
  }
  EXPECT_GT(numChecked, 150);
}

//===----------------------------------------------------------------------===//
// Memory
//===----------------------------------------------------------------------===//

int64_t peakOf(const Problem &problem, llvm::StringRef row) {
  Solution solution = time(problem, {row});
  return peakMemory(problem, solution).front();
}

TEST(MemoryTest, FreesAtTheEndOfW) {
  Problem problem = makeProblem(makeLinear(1, 2));
  EXPECT_EQ(peakOf(problem, "0F0 0I0 0W0 0F1 0I1 0W1"), 4);
  EXPECT_EQ(peakOf(problem, "0F0 0I0 0F1 0W0 0I1 0W1"), 8);
  problem.stages[0].freedByInputGrad = 3;
  EXPECT_EQ(peakOf(problem, "0F0 0I0 0F1 0W0 0I1 0W1"), 5);
  problem.stages[0].freedByInputGrad = -3; // I leaves more than it found
  EXPECT_EQ(peakOf(problem, "0F0 0I0 0W0 0F1 0I1 0W1"), 7);
  EXPECT_EQ(peakOf(problem, "0F0 0I0 0F1 0I1 0W0 0W1"), 14);
}

TEST(MemoryTest, FreesWholeBackwardsAtOnce) {
  Problem problem = makeProblem(makeLinear(1, 2));
  problem.techniques.splitBackward = false;
  EXPECT_EQ(peakOf(problem, "0F0 0B0 0F1 0B1"), 4);
}

TEST(MemoryTest, FreesAtTheEndOfD) {
  Problem problem = makeProblem(makeLinear(1, 2));
  EXPECT_EQ(peakOf(problem, "0F0 0D0 0F1 0I1 0W1 0U0 0I0 0W0"), 8);
  EXPECT_EQ(peakOf(problem, "0F0 0D0 0d0 0F1 0I1 0W1 0U0 0I0 0W0"), 4);
  problem.stages[0].offload = 0; // freed before F1 starts
  EXPECT_EQ(peakOf(problem, "0F0 0D0 0F1 0I1 0W1 0U0 0I0 0W0"), 4);
}

/// An F that is recomputed holds the whole activation until its end.
TEST(MemoryTest, KeepsCheckpoints) {
  Problem problem = makeProblem(makeLinear(1, 2));
  EXPECT_EQ(peakOf(problem, "0F0 0F1 0I1 0W1 0R0 0I0 0W0"), 5);
  EXPECT_EQ(peakOf(problem, "0F0 0F1 0R0 0I1 0W1 0I0 0W0"), 8);
}

//===----------------------------------------------------------------------===//
// Checks
//===----------------------------------------------------------------------===//

/// Every start is as early as possible: one tick less breaks a rule.
TEST(RandomRowsTest, HoldAndCannotStartEarlier) {
  for (uint32_t seed = 1; seed <= 300; ++seed) {
    RandomProblem random(seed);
    if (!random.canRun())
      continue;
    Problem &problem = random.problem;
    Solution solution = llvm::cantFail(timeRows(problem, random.table.rows));
    problem.capacity = peakMemory(problem, solution);
    EXPECT_EQ(llvm::toString(verifySolution(problem, solution)), "") << seed;
    for (auto [worker, row] : llvm::enumerate(solution.rows))
      for (auto [i, cell] : llvm::enumerate(row)) {
        if (cell.isIdle() || cell.isJoin())
          continue;
        Solution early = solution;
        --early.starts[worker][i];
        EXPECT_NE(llvm::toString(verifySolution(problem, early)), "")
            << seed << ": " << cell.str();
      }
    for (int64_t &capacity : problem.capacity) {
      if (capacity == 0)
        continue;
      --capacity;
      std::string error = errorOf(verifySolution(problem, solution));
      EXPECT_NE(error.find("1 over its capacity"), std::string::npos) << error;
      ++capacity;
    }
  }
}

/// The error of a solution for one worker and two microbatches after a change.
template <typename Change>
std::string errorWith(Change &&change) {
  Problem problem = makeProblem(makeLinear(1, 2));
  Solution solution = time(problem, {"0F0 0D0 0d0 0F1 0I1 0W1 0U0 0I0 0W0"});
  change(problem, solution);
  return errorOf(verifySolution(problem, solution));
}

TEST(VerifySolutionTest, NamesWhatIsWrong) {
  EXPECT_EQ(errorWith([](Problem &, Solution &s) { s.rows.pop_back(); }),
            "the solution has 0 rows and starts of 1, expected 1 of each");
  EXPECT_EQ(errorWith([](Problem &, Solution &s) { s.starts[0].pop_back(); }),
            "worker 0 has 9 cells and 8 starts");
  EXPECT_EQ(errorWith([](Problem &, Solution &s) {
              s.rows[0].pop_back();
              s.starts[0].pop_back();
            }),
            "0W0 is missing");
  EXPECT_EQ(errorWith([](Problem &, Solution &s) {
              s.rows[0][8] = Cell(0, Phase::WeightGrad, 1);
            }),
            "worker 0: cell 8 (0W1) occurs twice");
  EXPECT_EQ(errorWith([](Problem &, Solution &s) {
              s.rows[0][8] = Cell(1, Phase::WeightGrad, 1);
            }),
            "worker 0: cell 8 (1W1): its path has 1 stages");
  EXPECT_EQ(errorWith([](Problem &, Solution &s) {
              s.rows[0][8] = Cell(0, Phase::WeightGrad, 2);
            }),
            "worker 0: cell 8 (0W2): there are 2 microbatches");
  EXPECT_EQ(
      errorWith([](Problem &p, Solution &) { p.techniques.offload = false; }),
      "worker 0: cell 1 (0D0) is not allowed");
  EXPECT_EQ(errorWith([](Problem &, Solution &s) { s.starts[0][3] = 14; }),
            "worker 0: cell 3 (0F1) starts at 14, its worker is free at 15");
  EXPECT_EQ(errorWith([](Problem &, Solution &s) { s.starts[0][7] = 49; }),
            "worker 0: 0I0 starts at 49, 0U0 ends at 50 with a delay of 0");
  EXPECT_EQ(errorWith([](Problem &, Solution &s) { ++s.makespan; }),
            "the last cell ends at 70, the makespan is given as 71");
  EXPECT_EQ(errorWith([](Problem &, Solution &s) { ++s.period; }),
            "steps of these rows follow each other every 70, the period is "
            "given as 71");
  EXPECT_EQ(errorWith([](Problem &p, Solution &) { p.capacity[0] = 3; }),
            "worker 0 holds 4 from 0 at 0F0 on, 1 over its capacity of 3");
}

TEST(VerifySolutionTest, RefusesBothRecomputeAndCopies) {
  Problem problem = makeProblem(makeLinear(1, 1));
  Solution solution = time(problem, {"0F0 0D0 0U0 0R0 0I0 0W0"});
  EXPECT_EQ(errorOf(verifySolution(problem, solution)),
            "0R0 and 0D0: what is offloaded is not recomputed");
}

} // namespace
