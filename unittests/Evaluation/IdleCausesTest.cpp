//===- IdleCausesTest.cpp - Why workers wait ------------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The causes of idle time add up, none is negative, and with free messages none
// of it is communication, for all families at random times.
//
//===----------------------------------------------------------------------===//

#include "../Support/FamilyCases.h"
#include "../Support/TestSupport.h"
#include "PipeSched/Analysis/Graph/IdleSpans.h"
#include "PipeSched/Evaluation/Evaluate.h"
#include "PipeSched/Facts/ProfileText.h"
#include <map>
#include <numeric>
#include <random>

using namespace pipesched;

namespace {
class IdleCauses : public testing::TestWithParam<const Family *> {
protected:
  int64_t upTo(int64_t most) {
    return static_cast<int64_t>(random() % most) + 1;
  }
  /// Every stage has separate times.
  CostInputs randomCosts(size_t numStages, bool areMessagesFree) {
    Profile profile;
    for (Phase phase :
         {Phase::Forward, Phase::InputGrad, Phase::WeightGrad, Phase::Logits,
          Phase::LogitsGrad, Phase::Lookup, Phase::LookupGrad})
      for (size_t stage = 0; stage < numStages; ++stage)
        profile.phasePs[phase].push_back(upTo(99));
    if (!areMessagesFree) {
      profile.commPs = {upTo(30)};
      profile.sendPs = {upTo(30)};
    }
    CostInputs costs;
    costs.profile = profile;
    return costs;
  }

  std::mt19937 random;
};
} // namespace

/// Nothing where the messages of this order deadlock.
static std::optional<Execution> tryToExecute(const Table &table,
                                             const CostInputs &costs,
                                             Transport transport,
                                             ReceivePlacement receives) {
  TimingOptions timing;
  timing.transport = transport;
  timing.receivePlacement = receives;
  llvm::Expected<Execution> execution =
      executeTable(table.view(), costs, timing);
  if (execution)
    return std::move(*execution);
  llvm::Error rest =
      llvm::handleErrors(execution.takeError(), [](const DeadlockError &) {});
  EXPECT_FALSE(bool(rest)) << llvm::toString(std::move(rest));
  return std::nullopt;
}

static Execution execute(const Table &table, const CostInputs &costs,
                         Transport transport) {
  return *tryToExecute(table, costs, transport, ReceivePlacement::Arrival);
}

/// The sum of a cause over all workers.
static int64_t totalOf(const std::vector<int64_t> &perWorkerPs) {
  return std::accumulate(perWorkerPs.begin(), perWorkerPs.end(), int64_t(0));
}

static void expectAddUp(const Execution &execution) {
  const IdleTimes &idle = execution.idle;
  for (size_t worker = 0; worker < idle.busyPs.size(); ++worker) {
    int64_t sum = idle.busyPs[worker];
    for (const IdleCause &cause : kIdleCauses) {
      EXPECT_GE((idle.*cause.ps)[worker], 0) << cause.key.str();
      sum += (idle.*cause.ps)[worker];
    }
    EXPECT_EQ(sum, execution.timeline.makespanPs);
  }
}

/// Imbalance is the time that a worker has to wait because the cells of another
/// one take longer, as far as it waits between cells.
static void expectImbalance(const Execution &execution) {
  const IdleTimes &idle = execution.idle;
  IdleTimes undivided =
      computeIdle(execution.graph, execution.times, execution.timeline);
  int64_t longestPs = *llvm::max_element(undivided.busyPs);
  for (size_t worker = 0; worker < idle.busyPs.size(); ++worker) {
    EXPECT_EQ(idle.cellsPs(worker), undivided.busyPs[worker]);
    int64_t waitsPs =
        undivided.dependencyPs[worker] + undivided.queueOrderPs[worker];
    EXPECT_EQ(idle.imbalancePs[worker],
              std::min(longestPs - undivided.busyPs[worker], waitsPs));
    EXPECT_LE(idle.queueOrderPs[worker], undivided.queueOrderPs[worker]);
  }
}

/// The cells and the idle spans of each worker follow each other without a gap,
/// and the spans of a cause add up to its time.
static void expectSpansFillRows(const Execution &execution) {
  const TaskGraph &graph = execution.graph;
  std::vector<std::vector<IdleSpan>> rows =
      listIdle(graph, execution.times, execution.timeline, execution.idle);
  ASSERT_EQ(static_cast<int64_t>(rows.size()), graph.getNumWorkers());
  for (auto [worker, spans] : llvm::enumerate(rows)) {
    std::array<int64_t, kNumIdleCauses> sums = {};
    const IdleSpan *next = spans.data(), *end = next + spans.size();
    int64_t atPs = 0;
    auto skipIdle = [&, worker = worker](uint32_t before) {
      for (; next != end && next->before == before; ++next) {
        EXPECT_EQ(next->worker, static_cast<int32_t>(worker));
        EXPECT_EQ(next->beginPs, atPs);
        EXPECT_LT(next->beginPs, next->endPs);
        sums[next->cause] += next->endPs - next->beginPs;
        atPs = next->endPs;
      }
    };
    for (uint32_t task : graph.row(worker)) {
      skipIdle(task);
      EXPECT_EQ(execution.timeline.startPs[task], atPs);
      atPs += execution.times.occupancyPs[task];
    }
    skipIdle(TaskGraph::kNone);
    EXPECT_EQ(next, end);
    EXPECT_EQ(atPs, execution.timeline.makespanPs);
    for (auto [cause, sum] : llvm::zip_equal(kIdleCauses, sums))
      EXPECT_EQ((execution.idle.*cause.ps)[worker], sum) << cause.key.str();
  }
}

TEST_P(IdleCauses, AddUpAndFreeMessagesAreNoCommunication) {
  constexpr ReceivePlacement kPlacements[] = {ReceivePlacement::Arrival,
                                              ReceivePlacement::Consumer};
  std::map<Transport, int> numTimed;
  for (int64_t workers : {2, 3, 4, 8})
    for (int64_t microbatches : {4, 7, 16}) {
      llvm::Expected<Table> table =
          generate(*GetParam(), workers, microbatches);
      if (!table) {
        llvm::consumeError(table.takeError());
        continue;
      }
      size_t numStages = table->placement.getPath(0).workers.size();
      for (const EnumName<Transport> &transport : EnumNames<Transport>::values)
        for (ReceivePlacement receives : kPlacements) {
          SCOPED_TRACE(testing::Message()
                       << "D=" << workers << " N=" << microbatches << ' '
                       << transport.name.str());
          std::optional<Execution> free = tryToExecute(
              *table, randomCosts(numStages, true), transport.value, receives);
          if (!free)
            continue;
          ++numTimed[transport.value];
          expectAddUp(*free);
          expectSpansFillRows(*free);
          EXPECT_EQ(totalOf(free->idle.communicationPs), 0);
          std::optional<Execution> paid = tryToExecute(
              *table, randomCosts(numStages, false), transport.value, receives);
          expectAddUp(*paid);
          expectImbalance(*paid);
          expectSpansFillRows(*paid);
        }
    }
  EXPECT_GT(numTimed[Transport::Overlap], 0);
  EXPECT_GT(numTimed[Transport::Delay], 0);
  EXPECT_GT(numTimed[Transport::Blocking], 0);
}

INSTANTIATE_TEST_SUITE_P(All, IdleCauses, testing::ValuesIn(allFamilies()),
                         printFamily);

/// A V placement with one long stage: worker 0 needs a message that is
/// after another in its receive queue which was not sent yet.
TEST(IdleCauses, QueueOrderIsNotCommunication) {
  Table table = llvm::cantFail(generate(*findFamily("zb-v"), 4, 16));
  CostInputs costs;
  costs.profile = llvm::cantFail(
      parseProfile("F=[10us,1us,1us,1us,1us,1us,1us,1us],I=2us,W=1us"));
  Execution overlap = execute(table, costs, Transport::Overlap);
  IdleTimes undivided =
      computeIdle(overlap.graph, overlap.times, overlap.timeline);
  EXPECT_GT(totalOf(undivided.queueOrderPs), 0);
  EXPECT_EQ(totalOf(undivided.communicationPs), 0);
  Execution delay = execute(table, costs, Transport::Delay);
  EXPECT_EQ(totalOf(delay.idle.queueOrderPs), 0);
}

/// Worker 1 receives 0F0 and then 0F1 from worker 0, 2F0 from worker 2 between
/// them in program order:
///
///   worker 0   0F0 0F1                      10 each
///   worker 2   2F0 ..........                until 50
///   worker 1   1F0 ............... 1F1
///
/// 0F1 is ready at 20 and waits for 2F0 in the receive queue until 50; then 2F0
/// takes 4 of bandwidth, 0F1 4 more, and 3 of latency.
TEST(IdleCauses, SplitAWaitInThree) {
  test::ProgramBuilder builder;
  builder.beginRow();
  uint32_t f0 = builder.compute("0F0", {});
  builder.send("0F0", 1, {f0});
  uint32_t f1 = builder.compute("0F1", {});
  builder.send("0F1", 1, {f1});
  builder.beginRow();
  uint32_t r0 = builder.recv("0F0", 0, {});
  builder.compute("1F0", {r0});
  builder.recv("2F0", 2, {});
  uint32_t r1 = builder.recv("0F1", 0, {});
  builder.compute("1F1", {r1});
  builder.beginRow();
  uint32_t other = builder.compute("2F0", {});
  builder.send("2F0", 1, {other});
  Program program = builder.build();
  TaskGraph graph = llvm::cantFail(buildTaskGraph(program, Transport::Overlap));
  TaskTimes times;
  for (uint32_t task = 0; task < graph.size(); ++task) {
    bool isMessage = graph.isMessage(task);
    bool isLong = graph.cell[task].getStage() == 2;
    times.occupancyPs.push_back(isMessage ? 4 : isLong ? 50 : 10);
    times.latencyPs.push_back(isMessage ? 3 : 0);
  }
  Timeline timeline = computeTimeline(graph, times);
  IdleTimes idle = computeIdle(graph, times, timeline);
  // 1F0 runs from 17 to 27, 1F1 from 61 to 71.
  EXPECT_EQ(timeline.makespanPs, 71);
  EXPECT_EQ(idle.fillPs[1], 17);
  EXPECT_EQ(idle.dependencyPs[1], 0);
  EXPECT_EQ(idle.queueOrderPs[1], 50 - 27);
  EXPECT_EQ(idle.communicationPs[1], 61 - 50);
}

/// Cells of worker 1 take 160 ns in all, twice as long as the cells of worker
/// 0, which waits for it for 30, 20, 20 and 30 ns.
TEST(IdleCauses, ASlowStageIsImbalance) {
  CostInputs costs;
  costs.profile = llvm::cantFail(parseProfile("F=[10ns,20ns],B=[10ns,20ns]"));
  Execution execution =
      execute(llvm::cantFail(generate(*findFamily("1f1b"), 2, 4)), costs,
              Transport::Delay);
  EXPECT_EQ(execution.makespanPs, 180000);
  EXPECT_EQ(execution.idle.imbalancePs, std::vector<int64_t>({80000, 0}));
  EXPECT_EQ(execution.idle.dependencyPs, std::vector<int64_t>({20000, 0}));
}

/// Waits of cells are taken from the time in which they run, at most all of it.
TEST(IdleCauses, CellsWait) {
  IdleTimes idle;
  idle.busyPs = {100, 60};
  idle.dependencyPs = {5, 30};
  idle.queueOrderPs = {0, 20};
  Traffic traffic(2);
  traffic.exchanges[Resource::Sharding] = {{50, 30, 0}, {0, 0, 0}};
  traffic.exchanges[Resource::Experts] = {{50, 20, 0}, {70, 70, 0}};
  traffic.exchanges[Resource::Context] = {{9, 9, 0}, {5, 5, 0}};
  attributeWaits(traffic, idle);
  EXPECT_EQ(idle.busyPs, std::vector<int64_t>({41, 0}));
  EXPECT_EQ(idle.weightsPs, std::vector<int64_t>({30, 0}));
  EXPECT_EQ(idle.expertsPs, std::vector<int64_t>({20, 60}));
  EXPECT_EQ(idle.contextPs, std::vector<int64_t>({9, 0}));
  EXPECT_EQ(idle.imbalancePs, std::vector<int64_t>({0, 40}));
  EXPECT_EQ(idle.dependencyPs, std::vector<int64_t>({5, 0}));
  EXPECT_EQ(idle.queueOrderPs, std::vector<int64_t>({0, 10}));
  EXPECT_EQ(idle.cellsPs(0), 100);
  EXPECT_EQ(idle.cellsPs(1), 60);
}
