//===- DisturbanceTest.cpp - Tests of slow workers and jitter -------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Compares every compute task, of every family and phase, with its own time
// multiplied by hand.
//
//===----------------------------------------------------------------------===//

#include "PipeSched/Evaluation/Disturbance.h"
#include "../Support/AllFamilies.h"
#include "PipeSched/Evaluation/Evaluate.h"
#include "PipeSched/Schedule/Edit/OptimizerStep.h"
#include "PipeSched/Schedule/Edit/Recompute.h"

using namespace pipesched;

/// Each phase takes a separate time, a multiple of 100 ps.
static CostInputs distinctTimes() {
  Profile profile;
  kCostedPhases.forEach([&](Phase phase) {
    profile.phasePs[phase] = {1000 + 100 * static_cast<int>(phase)};
  });
  profile.commPs = {300};
  CostInputs costs;
  costs.profile = profile;
  return costs;
}

static Execution execute(const Table &table, llvm::StringRef disturbance) {
  TimingOptions timing;
  timing.disturbance = llvm::cantFail(parseDisturbance(disturbance));
  Execution execution =
      llvm::cantFail(executeTable(table.view(), distinctTimes(), timing));
  Evaluation walked =
      llvm::cantFail(evaluateTable(table.view(), "", distinctTimes(), timing));
  EXPECT_EQ(walked.totals.makespanPs, execution.makespanPs);
  EXPECT_EQ(walked.totals.idle.busyPs, execution.idle.busyPs);
  return execution;
}

/// The time of a cell on a slow worker 1 (1.5) or of a slow stage 2 (1.2), in
/// picoseconds.
static int64_t slowed(const Execution &execution, uint32_t task) {
  auto of = [&](Cell cell) {
    int64_t ps = 1000 + 100 * static_cast<int64_t>(cell.getPhase());
    return ps * (cell.getStage() == 2 ? 12 : 10);
  };
  const TaskGraph &graph = execution.graph;
  Cell cell = graph.cell[task];
  int64_t tenths = of(cell);
  if (cell.overlapsNext())
    tenths += of(graph.overlapped[task]);
  if (!cell.isPerPath())
    tenths /= graph.numSlices;
  return llvm::divideNearest(tenths * (graph.worker[task] == 1 ? 15 : 10), 100);
}

static PhaseSet expectSlowed(const Table &table) {
  Execution plain = execute(table, "");
  Execution slow = execute(table, "worker1=1.5,stage2=1.2");
  PhaseSet phases;
  for (uint32_t task = 0; task < slow.graph.size(); ++task) {
    EXPECT_EQ(slow.times.latencyPs[task], plain.times.latencyPs[task]);
    if (!slow.graph.is(task, InstructionRole::Compute)) {
      EXPECT_EQ(slow.times.occupancyPs[task], plain.times.occupancyPs[task]);
      continue;
    }
    phases |= slow.graph.cell[task].getPhase();
    // Slices divide a time in whole picoseconds.
    EXPECT_NEAR(double(slow.times.occupancyPs[task]),
                double(slowed(slow, task)), slow.graph.numSlices > 1 ? 2 : 0)
        << slow.graph.cell[task].str() << " on " << slow.graph.worker[task];
  }
  EXPECT_GT(slow.timeline.makespanPs, plain.timeline.makespanPs);
  return phases;
}

/// F, B, I and W of all families, R, and O of the replicas of bidirectional
/// ones; placements with several stages a worker and several paths are among
/// them.
TEST(Disturbance, SlowsEveryPhaseOfItsWorkerAndStage) {
  PhaseSet phases;
  forAllFamilies(4, 6, {}, [&](const Family &, const Table &table) {
    if (table.placement.getNumWorkers() < 2 ||
        table.placement.getPath(0).getNumStages() < 3)
      return;
    phases |= expectSlowed(table);
    Table recomputed = table;
    recomputed.rows = llvm::cantFail(addRecompute(table.view())).rows;
    phases |= expectSlowed(recomputed);
    Table step = table;
    step.rows = llvm::cantFail(addOptimizerStep(table.view())).rows;
    phases |= expectSlowed(step);
  });
  PhaseSet wanted =
      PhaseSet({Phase::Forward, Phase::Backward, Phase::InputGrad,
                Phase::WeightGrad, Phase::Recompute, Phase::Optimizer});
  EXPECT_EQ(phases & wanted, wanted);
}

static Table oneFOneB(int64_t workers, int64_t microbatches) {
  return llvm::cantFail(
      generate(*findFamily("1f1b"), workers, microbatches, FamilyOptions()));
}

TEST(Disturbance, JitterIsBoundedCentredAndTheSameForTheSameCell) {
  Table table = oneFOneB(4, 64);
  Execution plain = execute(table, ""),
            one = execute(table, "jitter=5%,seed=1");
  Execution again = execute(table, "jitter=5%,seed=1");
  Execution two = execute(table, "jitter=5%,seed=2");
  EXPECT_EQ(one.times.occupancyPs, again.times.occupancyPs);
  EXPECT_NE(one.times.occupancyPs, two.times.occupancyPs);
  double sum = 0, count = 0;
  for (uint32_t task = 0; task < plain.graph.size(); ++task) {
    double ratio = 1;
    if (plain.times.occupancyPs[task] != 0)
      ratio = double(one.times.occupancyPs[task]) /
              double(plain.times.occupancyPs[task]);
    if (!plain.graph.is(task, InstructionRole::Compute)) {
      EXPECT_EQ(ratio, 1);
      continue;
    }
    EXPECT_GE(ratio, 0.949);
    EXPECT_LE(ratio, 1.051);
    sum += ratio;
    ++count;
  }
  EXPECT_NEAR(sum / count, 1, 0.01);
}

TEST(Disturbance, ReadsItsText) {
  Disturbance read = llvm::cantFail(
      parseDisturbance("worker3=1.3, stage5=1.25,jitter=0.5%,seed=7"));
  EXPECT_EQ(read.workers.front().number, 3);
  EXPECT_EQ(read.workers.front().factor, 1'300'000);
  EXPECT_EQ(read.stages.front().factor, 1'250'000);
  EXPECT_EQ(read.jitter, 5'000);
  EXPECT_EQ(read.seed, 7);
  EXPECT_TRUE(llvm::cantFail(parseDisturbance("")).isEmpty());
  for (auto [text, said] :
       {std::pair("worker3", "expected a factor"),
        std::pair("worker3=0", "expected a factor"),
        std::pair("worker-1=2", "expected a number of at least 0"),
        std::pair("worker3=2,worker3=2", "worker3 is given twice"),
        std::pair("jitter=5", "expected a part below 100 %"),
        std::pair("jitter=100%", "expected a part below 100 %"),
        std::pair("seed=-1", "expected an integer"),
        std::pair("seed=1,seed=2", "seed is given twice"),
        std::pair("gpu3=2", "expected worker<number>")}) {
    llvm::Expected<Disturbance> refused = parseDisturbance(text);
    ASSERT_FALSE(bool(refused)) << text;
    EXPECT_TRUE(
        llvm::StringRef(llvm::toString(refused.takeError())).contains(said))
        << text;
  }
}
