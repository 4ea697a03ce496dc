//===- MeasuredTimesTest.cpp - Times of a run in an execution -------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A run that takes as long as predicted gives back the prediction, for every
// family and kind of instruction; other times give profiles of these times.
//
//===----------------------------------------------------------------------===//

#include "PipeSched/Evaluation/MeasuredTimes.h"
#include "../Support/AllFamilies.h"
#include "../Support/TestSupport.h"
#include "../Support/TestTables.h"
#include "PipeSched/Evaluation/MeasuredProfile.h"
#include "PipeSched/Facts/ProfileText.h"
#include "PipeSched/Schedule/Edit/Offload.h"
#include "PipeSched/Schedule/Edit/OptimizerStep.h"
#include "PipeSched/Schedule/Edit/Recompute.h"
#include <map>

using namespace pipesched;

namespace {

/// Measured times, owned.
struct MeasuredRun {
  std::vector<int64_t> startPs, endPs;
  int64_t makespanPs = 0;

  operator MeasuredTimes() const { return {startPs, endPs, makespanPs}; }
};

/// An instruction as other tables name it: worker, kind, stage, phase,
/// microbatch, and the key that distinguishes all-reduces of one G.
using InstructionName = std::tuple<int64_t, int, int, int, int, int64_t>;

} // namespace

static int64_t nameBlocks(int64_t begin, int64_t end) {
  return begin * 1000 + end;
}

/// Times of each stage, as multiples of the divisors of its blocks' shares.
static CostInputs distinctTimes(int64_t numStages) {
  constexpr int64_t kUnit = 5040;
  CostInputs costs;
  Profile &profile = costs.profile.emplace();
  for (int64_t stage = 0; stage < numStages; ++stage) {
    kCostedPhases.forEach([&](Phase phase) {
      profile.phasePs[phase].push_back(
          kUnit * (100 + static_cast<int>(phase) + 10 * stage));
    });
    profile.commPs.push_back(kUnit * (3 + stage));
  }
  return costs;
}

/// The number of stages of each path, or 1 if they differ.
static int64_t numStagesOf(const Table &table) {
  int64_t numStages = table.placement.getPath(0).getNumStages();
  for (int64_t path = 1; path < table.placement.getNumPaths(); ++path)
    if (table.placement.getPath(path).getNumStages() != numStages)
      return 1;
  return numStages;
}

static Execution execute(const Table &table,
                         Transport transport = Transport::Delay) {
  TimingOptions timing;
  timing.transport = transport;
  return llvm::cantFail(
      executeTable(table.view(), distinctTimes(numStagesOf(table)), timing));
}

/// The tasks of an execution by name. A message has two names.
static std::map<InstructionName, uint32_t> nameTasks(const Execution &execution,
                                                     bool hasGroups) {
  const TaskGraph &graph = execution.graph;
  std::map<InstructionName, uint32_t> tasks;
  for (uint32_t task = 0; task < graph.size(); ++task) {
    Cell cell = graph.cell[task];
    auto add = [&](int64_t worker, InstructionKind kind, Cell named,
                   int64_t block) {
      tasks[{worker, int(kind), named.getStage(), int(named.getPhase()),
             named.getUnit(), block}] = task;
    };
    if (graph.is(task, InstructionRole::Collective)) {
      int32_t number = graph.peer[task];
      for (uint32_t member = graph.groupBegins[number];
           hasGroups && member < graph.groupBegins[number + 1]; ++member)
        add(graph.groupWorkers[member], graph.kind[task],
            graph.groupCells[member],
            nameBlocks(graph.groups[number].blocks.begin,
                       graph.groups[number].blocks.end));
      continue;
    }
    add(graph.worker[task], graph.kind[task], cell, -1);
    if (graph.isMessage(task))
      add(graph.peer[task], InstructionKind::Recv, cell, -1);
  }
  return tasks;
}

/// A run with the times of an execution, in the order of WorkerPrograms.
static MeasuredRun runOf(const Table &table, const Execution &execution) {
  WorkerPrograms rows =
      llvm::cantFail(listWorkerPrograms(test::lower(table), table.placement));
  std::map<InstructionName, uint32_t> tasks = nameTasks(execution, true);
  MeasuredRun run;
  run.makespanPs = execution.timeline.makespanPs;
  for (int64_t worker = 0; worker < rows.getNumWorkers(); ++worker)
    for (uint32_t i = rows.rowBegins[worker]; i < rows.rowBegins[worker + 1];
         ++i) {
      if (rows.kind[i] == int8_t(InstructionKind::Wait)) {
        run.startPs.push_back(-1); // It is not read.
        run.endPs.push_back(-1);
        continue;
      }
      int64_t block = rows.group[i] < 0
                          ? -1
                          : nameBlocks(rows.firstBlock[rows.group[i]],
                                       rows.endBlock[rows.group[i]]);
      InstructionName name = {worker,
                              rows.kind[i],
                              rows.first.stage[i],
                              rows.first.phase[i],
                              rows.first.microbatch[i],
                              block};
      auto found = tasks.find(name);
      EXPECT_NE(found, tasks.end()) << "worker " << worker << ", " << i;
      uint32_t task = found->second;
      int64_t start = execution.timeline.startPs[task];
      run.startPs.push_back(start);
      run.endPs.push_back(start + execution.times.occupancyPs[task] +
                          execution.times.latencyPs[task]);
    }
  return run;
}

static void expectSame(const Execution &found, const Execution &wanted) {
  EXPECT_EQ(found.timeline.makespanPs, wanted.timeline.makespanPs);
  EXPECT_EQ(found.timeline.startPs, wanted.timeline.startPs);
  for (uint32_t task = 0; task < wanted.graph.size(); ++task)
    ASSERT_EQ(found.times.occupancyPs[task] + found.times.latencyPs[task],
              wanted.times.occupancyPs[task] + wanted.times.latencyPs[task])
        << wanted.graph.cell[task].str();
  EXPECT_EQ(found.idle.busyPs, wanted.idle.busyPs);
  for (const IdleCause &cause : kIdleCauses)
    EXPECT_EQ(found.idle.*cause.ps, wanted.idle.*cause.ps) << cause.key.str();
}

/// The profile of a run, whose workers post receives at once.
static Profile profileOf(const Table &table, const MeasuredRun &run) {
  WorkerPrograms rows =
      llvm::cantFail(listWorkerPrograms(test::lower(table), table.placement));
  WorkerStages stages = llvm::cantFail(listWorkerStages(table.placement));
  std::vector<int64_t> posted(run.startPs.size(), 0), unknown(posted);
  std::vector<int64_t> end = run.endPs, arrived(posted);
  for (size_t i = 0; i < end.size(); ++i) {
    bool isRecv = rows.kind[i] == int8_t(InstructionKind::Recv);
    arrived[i] = isRecv ? run.endPs[i] : kUnknownNs;
    unknown[i] = kUnknownNs;
    if (isRecv)
      end[i] = 0;
  }
  std::vector<WorkerStamps> workers;
  for (int64_t worker = 0; worker < rows.getNumWorkers(); ++worker) {
    size_t begin = rows.rowBegins[worker];
    size_t size = rows.rowBegins[worker + 1] - begin;
    auto slice = [&](const std::vector<int64_t> &times) {
      return llvm::ArrayRef(times).slice(begin, size);
    };
    workers.push_back({slice(posted), slice(run.startPs), slice(end),
                       slice(unknown), slice(arrived)});
  }
  return llvm::cantFail(makeProfile(rows, stages, {1, workers}, false));
}

/// The name in a profile of the time that an instruction shows; "" if it shows
/// none.
static llvm::StringRef shownBy(const WorkerPrograms &rows, uint32_t i) {
  auto kind = static_cast<InstructionKind>(rows.kind[i]);
  if (kind == InstructionKind::Send)
    return "comm";
  bool isHidden = kind == InstructionKind::Recv ||
                  kind == InstructionKind::Wait || rows.second.stage[i] >= 0;
  // A sum has the times of its first member.
  if (traitsOf(kind).role == InstructionRole::Collective)
    isHidden = llvm::is_contained(llvm::ArrayRef(rows.group).take_front(i),
                                  rows.group[i]);
  // A collective of a microbatch takes as long as its slowest member.
  if (isHidden || traitsOf(kind).grouping == Grouping::Unit)
    return "";
  return enumName(*phaseFromCode(rows.first.phase[i]));
}

/// Expects the profile of the prediction, where it shows: ps are taken for ns.
static void expectProfileBack(const Table &table, const Execution &execution) {
  Profile found = profileOf(table, runOf(table, execution));
  Profile given = *distinctTimes(numStagesOf(table)).profile;
  WorkerPrograms rows =
      llvm::cantFail(listWorkerPrograms(test::lower(table), table.placement));
  auto timeOf = [](Profile &profile, llvm::StringRef name, size_t stage) {
    const std::vector<int64_t> &times = *findTimes(profile, name);
    EXPECT_FALSE(times.empty()) << name.str();
    return times[times.size() == 1 ? 0 : stage];
  };
  for (uint32_t i = 0; i < rows.kind.size(); ++i)
    if (llvm::StringRef name = shownBy(rows, i); !name.empty())
      ASSERT_EQ(timeOf(found, name, rows.first.stage[i]),
                1000 * timeOf(given, name, rows.first.stage[i]))
          << name.str() << " of stage " << rows.first.stage[i];
}

static void expectPredictionBack(const Table &table) {
  Execution wanted = execute(table);
  Execution found =
      llvm::cantFail(withMeasuredTimes(wanted, runOf(table, wanted)));
  expectSame(found, wanted);
  EXPECT_TRUE(found.criticalPath.empty());
  expectProfileBack(table, wanted);
}

TEST(MeasuredTimes, OfTheFamiliesAreThePrediction) {
  forAllFamilies(4, 8, {}, [&](const Family &, const Table &table) {
    expectPredictionBack(table);
  });
}

TEST(MeasuredTimes, OfOptimizerStepsAreThePrediction) {
  for (ReducedStages reduced : {ReducedStages::Replicated, ReducedStages::All})
    forAllFamilies(4, 4, {}, [&](const Family &, const Table &table) {
      Table step = table;
      step.rows = llvm::cantFail(addOptimizerStep(table.view(),
                                                  ReductionPlace::End, reduced))
                      .rows;
      expectPredictionBack(step);
    });
}

/// Stages of two paths share blocks on a worker, and own some of theirs.
TEST(MeasuredTimes, OfSharedBlocksAreThePrediction) {
  Path halves = pathOn({0, 1}, {{0, 4, 2}}),
       others = pathOn({1, 0}, {{1, 4, 2}});
  halves.blocks = {2, 2};
  others.blocks = {1, 3};
  Table table;
  table.placement = makePlacement(2, 4, {halves, others});
  table.rows = {
      parseRow("0F0 0F2 1F1 1F3 1B1 1B3 0B0 0B2"),
      parseRow("0F1 0F3 1F0 1F2 1B0 1B2 0B1 0B3"),
  };
  table.rows =
      llvm::cantFail(addOptimizerStep(table.view(), ReductionPlace::End,
                                      ReducedStages::All))
          .rows;
  expectPredictionBack(table);
}

/// Several paths whose stages differ in number have one time.
TEST(MeasuredTimes, OfPathsOfOtherLengthsAreThePrediction) {
  Table table;
  table.placement = makePlacement(
      2, 2, {pathOn({0, 1}, {{0, 2, 2}}), pathOn({0, 1, 1, 0}, {{1, 2, 2}})});
  table.rows = {parseRow("0F0 0F1 3F1 3B1 0B0 0B1"),
                parseRow("1F0 1F1 2F1 1B0 2B1 1B1")};
  expectPredictionBack(table);
}

/// 2F runs only in pairs: it has half of one with 0F, and a third of one with
/// 0B. A cell that a stage also runs by itself has the time of that run.
TEST(MeasuredTimes, PairsAreDividedAmongTheirStages) {
  Table table = test::makeTable(
      2, {0, 1, 0}, {"0F0 0F1+2F0 2B0 2F1+0B0 2B1 0B1", "1F0 1F1 1B0 1B1"});
  MeasuredRun run;
  WorkerPrograms rows =
      llvm::cantFail(listWorkerPrograms(test::lower(table), table.placement));
  for (uint32_t i = 0; i < rows.kind.size(); ++i) {
    bool isPair = rows.second.stage[i] >= 0;
    run.startPs.push_back(0);
    run.endPs.push_back(isPair ? 9 : rows.first.phase[i] == 0 ? 4 : 7);
  }
  Profile profile = profileOf(table, run);
  EXPECT_EQ(profile.overlappedPs, (std::vector<int64_t>{9000}));
  EXPECT_EQ(profile.phasePs[Phase::Forward],
            (std::vector<int64_t>{4000, 4000, 3750}));
  EXPECT_EQ(profile.phasePs[Phase::Backward], (std::vector<int64_t>{7000}));
}

TEST(MeasuredTimes, OfRecomputeAndOffloadAreThePrediction) {
  int64_t numOffloaded = 0;
  forAllFamilies(4, 6, {}, [&](const Family &, const Table &table) {
    Table recomputed = table;
    recomputed.rows = llvm::cantFail(addRecompute(table.view())).rows;
    expectPredictionBack(recomputed);
    OffloadOptions options;
    options.memory = 4;
    llvm::Expected<OffloadChange> change = addOffload(table.view(), options);
    if (!change)
      return llvm::consumeError(change.takeError());
    Table offloaded = table;
    offloaded.rows = std::move(change->rows);
    expectPredictionBack(offloaded);
    ++numOffloaded;
  });
  EXPECT_GT(numOffloaded, 0);
}

//===----------------------------------------------------------------------===//
// Other times
//===----------------------------------------------------------------------===//

/// One microbatch on two workers. Instructions: 0F0, send, recv, 0B0 on worker
/// 0; recv, 1F0, 1B0, send on worker 1.
static Table smallTable() {
  return test::makeTable(1, {0, 1}, {"0F0 0B0", "1F0 1B0"});
}

static MeasuredRun smallRun() {
  return {{0, 12, 0, 70, 0, 20, 31, 60},
          {10, 12, 66, 90, 15, 30, 50, 60},
          /*makespanPs=*/100};
}

TEST(MeasuredTimes, ArePutInThePlaceOfComputedOnes) {
  Execution found =
      llvm::cantFail(withMeasuredTimes(execute(smallTable()), smallRun()));
  EXPECT_EQ(found.timeline.makespanPs, 100);
  auto tasks = nameTasks(found, false);
  auto spanOf = [&](int64_t worker, InstructionKind kind, int stage,
                    Phase phase) {
    uint32_t task = tasks.at({worker, int(kind), stage, int(phase), 0, -1});
    return std::tuple(found.timeline.startPs[task],
                      found.times.occupancyPs[task],
                      found.times.latencyPs[task]);
  };
  EXPECT_EQ(spanOf(0, InstructionKind::Compute, 0, Phase::Forward),
            std::tuple(0, 10, 0));
  EXPECT_EQ(spanOf(0, InstructionKind::Send, 0, Phase::Forward),
            std::tuple(12, 0, 3));
  EXPECT_EQ(spanOf(1, InstructionKind::Compute, 1, Phase::Forward),
            std::tuple(20, 10, 0));
  EXPECT_EQ(spanOf(1, InstructionKind::Send, 1, Phase::Backward),
            std::tuple(60, 0, 6));
  // Worker 0 waits from 10 to 70, and 10 are left at the end of the step.
  EXPECT_EQ(found.idle.busyPs, (std::vector<int64_t>{30, 29}));
  EXPECT_EQ(found.idle.fillPs, (std::vector<int64_t>{0, 20}));
  EXPECT_EQ(found.idle.drainPs, (std::vector<int64_t>{10, 50}));
}

TEST(MeasuredTimes, AnArrivalBeforeItsSendTakesNoTime) {
  MeasuredRun run = smallRun();
  run.endPs[4] = 11; // of the receive; its send is at 12
  Execution found =
      llvm::cantFail(withMeasuredTimes(execute(smallTable()), run));
  uint32_t task =
      nameTasks(found, false)
          .at({0, int(InstructionKind::Send), 0, int(Phase::Forward), 0, -1});
  EXPECT_EQ(found.times.latencyPs[task], 0);
}

static std::string errorOf(const MeasuredRun &run,
                           Transport transport = Transport::Delay) {
  llvm::Expected<Execution> found =
      withMeasuredTimes(execute(smallTable(), transport), run);
  return found ? "" : llvm::toString(found.takeError());
}

TEST(MeasuredTimes, RefusesWhatDoesNotFit) {
  EXPECT_EQ(errorOf(smallRun()), "");
  EXPECT_EQ(errorOf(smallRun(), Transport::Overlap), "");
  EXPECT_EQ(errorOf(smallRun(), Transport::Blocking),
            "measured times need a transport whose messages do not hold rows, "
            "found 'blocking'");
  MeasuredRun run = smallRun();
  run.startPs.pop_back();
  EXPECT_EQ(errorOf(run), "measured times of 7 starts and 8 ends, but the "
                          "programs have 8 instructions");
  run = smallRun();
  run.startPs.push_back(0);
  run.endPs.push_back(0);
  EXPECT_EQ(errorOf(run), "measured times of 9 starts and 9 ends, but the "
                          "programs have 8 instructions");
  run = smallRun();
  run.endPs[5] = 101;
  EXPECT_EQ(errorOf(run), "worker 1: the end of compute 1F0 is 101 ps, outside "
                          "of the step of 100 ps");
  run = smallRun();
  run.startPs[1] = -2;
  EXPECT_EQ(errorOf(run),
            "worker 0: the start of send 0F0 is -2 ps, outside of "
            "the step of 100 ps");
}
