//===- TimelineTest.cpp - Times, critical path and idle by hand -----------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "../Support/TestSupport.h"
#include "PipeSched/Schedule/Family/Generators.h"
#include <random>

using namespace pipesched;
using namespace pipesched::test;

namespace {

/// GPipe on two workers. F takes 10, B 20, a message holds its queues for 12
/// and arrives 3 later, so that a message is longer than a forward.
Table twoByTwo() {
  return makeTable(2, {0, 1}, {"0F0 0F1 0B0 0B1", "1F0 1F1 1B0 1B1"});
}

UniformCosts slowMessages() {
  UniformCosts stageCosts;
  stageCosts.occupancy = 12;
  stageCosts.latency = 3;
  stageCosts.bytes = 100;
  return stageCosts;
}

std::string names(const Timed &timed, llvm::ArrayRef<uint32_t> tasks) {
  std::vector<std::string> words;
  for (uint32_t task : tasks)
    words.push_back(
        (timed.graph.kind[task] == InstructionKind::Compute ? "" : "~") +
        timed.graph.cell[task].str());
  return llvm::join(words, " ");
}

//   worker 0  0F0 0,10 | 0F1 10,20 |            | 0B0 82,102 | 0B1 102,122
//   sent          10,22 +3 | 22,34 +3
//   worker 1      | 1F0 25,35 | 1F1 37,47 | 1B0 47,67 | 1B1 67,87
//   sent                                      67,79 +3 | 87,99 +3
TEST(Timeline, OverlapByHand) {
  Table table = twoByTwo();
  Timed timed(table, slowMessages().on(table.placement), Transport::Overlap);
  EXPECT_EQ(timed.start("0F1", InstructionKind::Send), 22);
  EXPECT_EQ(timed.start("1F0"), 25);
  EXPECT_EQ(timed.start("1F1"), 37);
  EXPECT_EQ(timed.start("1B0"), 47);
  EXPECT_EQ(timed.start("1B0", InstructionKind::Send), 67);
  EXPECT_EQ(timed.start("0B0"), 82);
  EXPECT_EQ(timed.timeline.makespanPs, 122);
  EXPECT_EQ(
      names(timed, criticalPath(timed.graph, timed.times, timed.timeline)),
      "0F0 ~0F0 ~0F1 1F1 1B0 ~1B0 0B0 0B1");

  IdleTimes idle = timed.idle();
  // Worker 0 waits from 20 to 82 for a message that left at 67.
  EXPECT_EQ(idle.dependencyPs[0], 47);
  EXPECT_EQ(idle.communicationPs[0], 15);
  EXPECT_EQ(idle.fillPs[0], 0);
  EXPECT_EQ(idle.drainPs[0], 0);
  // Worker 1 waits from 35 to 37 for a message that was ready at 20.
  EXPECT_EQ(idle.fillPs[1], 25);
  EXPECT_EQ(idle.communicationPs[1], 2);
  EXPECT_EQ(idle.dependencyPs[1], 0);
  EXPECT_EQ(idle.drainPs[1], 35);
  EXPECT_EQ(idle.firstPs[1], 25);
  EXPECT_EQ(idle.lastPs[1], 87);
}

/// Pairs take 25; weight gradients run for `behindPs` of it at the end.
class PairsOf25 : public PairTimes {
public:
  explicit PairsOf25(int64_t behindPs) : behindPs(behindPs) {}
  PairTime timeOf(int64_t, int64_t) const override { return {25, behindPs}; }

private:
  int64_t behindPs;
};

//   worker 0  0F0 0,10 | 0F1 10,20 | 0F2 20,30 |  | 0B0 71,91 | 0B1 96,116 |..
//   sent          10,22 +3 | 22,34 +3 | 34,46 +3
//   worker 1      | 1F0 25,35 | 1F1+1B0 37,62 | 1F2+1B1 62,87 | 1B2 87,107
//   sent                         56,68 +3 | 81,93 +3 | 107,119 +3
TEST(Timeline, MessagesLeavePairsBeforeTheirEnd) {
  Table table = makeTable(
      3, {0, 1}, {"0F0 0F1 0F2 0B0 0B1 0B2", "1F0 1F1+1B0 1F2+1B1 1B2"});
  StageCosts costs = slowMessages().on(table.placement);
  auto timeWith = [&](int64_t behindPs, Transport transport) {
    costs.pairTimes = std::make_shared<PairsOf25>(behindPs);
    return Timed(table, costs, transport);
  };
  Timed timed = timeWith(6, Transport::Overlap);
  EXPECT_EQ(timed.start("1B2"), 87);
  EXPECT_EQ(timed.start("1B0", InstructionKind::Send), 56);
  EXPECT_EQ(timed.start("0B0"), 71);
  EXPECT_EQ(timed.start("1B1", InstructionKind::Send), 81);
  EXPECT_EQ(timed.start("1B2", InstructionKind::Send), 107);
  EXPECT_EQ(timed.start("0B2"), 122);
  // The gradient that worker 0 waits for before 0B0 is not there before
  // 62.
  IdleTimes idle = timed.idle();
  EXPECT_EQ(idle.dependencyPs[0], 62 - 30);
  EXPECT_EQ(idle.communicationPs[0], (71 - 62) + (96 - 91) + (122 - 116));

  // No message arrives before its pair has ended.
  Timed hidden = timeWith(20, Transport::Overlap);
  EXPECT_EQ(hidden.start("1B0", InstructionKind::Send), 62 - 15);
  EXPECT_EQ(hidden.start("0B0"), 62);
  EXPECT_EQ(timeWith(20, Transport::Delay).start("0B0"), 60);
  // A message still waits for the one before it.
  costs.stages[1].gradient.occupancyPs = 40;
  EXPECT_EQ(timeWith(6, Transport::Overlap).start("1B1", InstructionKind::Send),
            56 + 40);
  // Messages that hold rows have nothing after them.
  EXPECT_EQ(timeWith(20, Transport::Blocking).timeline.makespanPs,
            timeWith(0, Transport::Blocking).timeline.makespanPs);
}

//   worker 0  0F0 0,10 | 0F1 10,20 |          | 0B0 72,92 | 0B1 92,112
//   worker 1        | 1F0 25,35 | 1F1 35,45 | 1B0 45,65 | 1B1 65,85
TEST(Timeline, DelayByHand) {
  Table table = twoByTwo();
  Timed timed(table, slowMessages().on(table.placement), Transport::Delay);
  EXPECT_EQ(timed.start("1F1"), 35);
  EXPECT_EQ(timed.start("0B0"), 80);
  EXPECT_EQ(timed.timeline.makespanPs, 120);
  IdleTimes idle = timed.idle();
  EXPECT_EQ(idle.dependencyPs[0], 45); // 20 to 65
  EXPECT_EQ(idle.communicationPs[0], 15);
  EXPECT_EQ(idle.fillPs[1], 25);
  EXPECT_EQ(idle.drainPs[1], 35);
}

// Rows with their messages; a send takes 15:
//   0: 0F0 0,10 | s 10,25 | 0F1 25,35 | s 35,50 | r -95 | 0B0 95,115 | r -130 |
//      0B1 130,150
//   1: r -25 | 1F0 25,35 | r -50 | 1F1 50,60 | 1B0 60,80 | s 80,95 |
//      1B1 95,115 | s 115,130
TEST(Timeline, BlockingByHand) {
  Table table = twoByTwo();
  Timed timed(table, slowMessages().on(table.placement), Transport::Blocking);
  EXPECT_EQ(timed.start("0F1"), 25);
  EXPECT_EQ(timed.start("1F0"), 25);
  EXPECT_EQ(timed.start("1F1"), 50);
  EXPECT_EQ(timed.start("1B0"), 60);
  EXPECT_EQ(timed.start("0B0"), 95);
  EXPECT_EQ(timed.start("1B1"), 95);
  EXPECT_EQ(timed.start("0B1"), 130);
  EXPECT_EQ(timed.timeline.makespanPs, 150);

  IdleTimes idle = timed.idle();
  // Worker 0 sends for 15 and 15. It then waits from 50 for a send that starts
  // at 80 and ends at 95, and from 115 for one that starts then.
  EXPECT_EQ(idle.dependencyPs[0], 30);
  EXPECT_EQ(idle.communicationPs[0], 60);
  // Worker 1 receives from 35 to 50 and sends from 80 to 95.
  EXPECT_EQ(idle.fillPs[1], 25);
  EXPECT_EQ(idle.communicationPs[1], 30);
  EXPECT_EQ(idle.dependencyPs[1], 0);
  EXPECT_EQ(idle.drainPs[1], 35);
}

//===----------------------------------------------------------------------===//
// Properties
//===----------------------------------------------------------------------===//

struct Size {
  int64_t workers, microbatches;
};

std::vector<Size> allSizes(int64_t maxWorkers, int64_t maxMicrobatches) {
  std::vector<Size> sizes;
  for (int64_t workers = 1; workers <= maxWorkers; ++workers)
    for (int64_t n = 1; n <= maxMicrobatches; ++n)
      sizes.push_back({workers, n});
  return sizes;
}

std::vector<Table> bothFamilies(Size size, bool split) {
  Placement placement = llvm::cantFail(Placement::create(
      size.workers, size.microbatches, {placeLinear(size.workers)}));
  GeneratorOptions options;
  options.splitBackward = split;
  return {llvm::cantFail(generateGPipe(placement, options)),
          llvm::cantFail(generate1F1B(placement, options))};
}

/// Costs that differ between stages.
StageCosts randomCosts(const Placement &placement, std::mt19937 &random) {
  auto pick = [&](int64_t most) {
    return std::uniform_int_distribution<int64_t>(0, most)(random);
  };
  StageCosts stageCosts = UniformCosts().on(placement);
  for (StageCost &stage : stageCosts.stages) {
    for (const EnumName<Phase> &phase : enumValues<Phase>())
      stage.cells.set(phase.value, pick(100));
    stage.activation = {pick(30), pick(30), 1};
    stage.gradient = {pick(30), pick(30), 1};
  }
  return stageCosts;
}

/// The length of a path: each task adds the time for which its successor waits.
int64_t lengthOfPath(const Timed &timed, llvm::ArrayRef<uint32_t> path) {
  int64_t length =
      timed.times.occupancyPs[path.back()] + timed.times.latencyPs[path.back()];
  for (std::size_t i = 0; i + 1 < path.size(); ++i) {
    length += timed.times.occupancyPs[path[i]];
    for (Edge edge : timed.graph.edgesOf(path[i + 1]))
      if (edge.task() == path[i] && edge.needsArrival())
        length += timed.times.latencyPs[path[i]];
  }
  return length;
}

TEST(TimelineProperty, CriticalPathIsAsLongAsTheMakespan) {
  std::mt19937 random(3);
  for (Size size : allSizes(5, 6))
    for (const Table &table : bothFamilies(size, true))
      for (Transport transport : kTransports) {
        Timed timed(table, randomCosts(table.placement, random), transport);
        std::vector<uint32_t> path =
            criticalPath(timed.graph, timed.times, timed.timeline);
        EXPECT_EQ(lengthOfPath(timed, path), timed.timeline.makespanPs);
        EXPECT_EQ(timed.timeline.startPs[path.front()], 0);
      }
}

/// Finding 1 of arXiv 2605.24006: under `blocking` GPipe and 1F1B take exactly
/// the same time if all stages have equal times.
TEST(TimelineProperty, BlockingMakesGPipeAnd1F1BEqual) {
  std::mt19937 random(4);
  std::uniform_int_distribution<int64_t> pick(1, 1000);
  for (Size size : allSizes(8, 16)) {
    if (size.workers == 2)
      continue;
    UniformCosts stageCosts;
    stageCosts.forward = pick(random);
    stageCosts.backward = pick(random);
    stageCosts.occupancy = pick(random) / 20;
    stageCosts.latency = pick(random) / 20;
    std::vector<Table> tables = bothFamilies(size, false);
    StageCosts stages = stageCosts.on(tables[0].placement);
    EXPECT_EQ(Timed(tables[0], stages, Transport::Blocking).timeline.makespanPs,
              Timed(tables[1], stages, Transport::Blocking).timeline.makespanPs)
        << size.workers << " workers, " << size.microbatches
        << " microbatches, F " << stageCosts.forward << " B "
        << stageCosts.backward << " message "
        << stageCosts.occupancy + stageCosts.latency;
  }
}

} // namespace
