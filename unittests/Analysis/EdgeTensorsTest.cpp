//===- EdgeTensorsTest.cpp - Messages and memory of edges by hand ---------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// test/python/schedules/test_graphs.py compares random graphs with a simulator.
//
//===----------------------------------------------------------------------===//

#include "../Support/TestSupport.h"
#include "PipeSched/Analysis/Graph/MessageCosts.h"

using namespace pipesched;
using namespace pipesched::test;

namespace {

using Starts = std::vector<std::vector<int64_t>>;

/// Four stages with an activation of 1 each, and skips of 1 to the last one.
Table makeSkips(std::vector<AddedEdge> skips) {
  Placement placement = llvm::cantFail(Placement::create(
      4, 3, {pathOn({0, 1, 2, 3})}, 1, {{}, std::move(skips)}));
  return makeTable(std::move(placement),
                   {"0F0 0F1 0F2 0B0 0B1 0B2", "1F0 1F1 1F2 1B0 1B1 1B2",
                    "2F0 2F1 2B0 2F2 2B1 2B2", "3F0 3B0 3F1 3B1 3F2 3B2"});
}

/// Tensors of skips hold queues for 12, tensors of the chain for 2.
StageCosts costSkips(const Placement &placement, int64_t latencyOfSkips) {
  StageCosts costs = UniformCosts().on(placement);
  for (int32_t from = 0; from != 4; ++from)
    for (int32_t to : placement.getEdges().targetsOf(Flow::Activation, from)) {
      MessageCost message =
          to == from + 1 ? MessageCost{2, 1} : MessageCost{12, latencyOfSkips};
      costs.edges.push_back({{{message, message}, {}}, from, to});
    }
  return costs;
}

Starts startsOf(const Timed &timed) {
  Starts starts;
  for (int64_t worker = 0; worker != timed.graph.getNumWorkers(); ++worker) {
    starts.emplace_back();
    for (uint32_t task : timed.graph.row(worker))
      starts.back().push_back(timed.timeline.startPs[task]);
  }
  return starts;
}

std::vector<int64_t> peaksOf(const Timed &timed, const Placement &placement) {
  MemoryFacts facts;
  StageMemory stage;
  stage.activationBytes = 1;
  facts.stages.assign(4, stage);
  for (int32_t from = 0; from != 4; ++from)
    for (int32_t to : placement.getEdges().targetsOf(Flow::Activation, from))
      facts.edges.push_back({from, to, to == from + 1 ? 0 : 1, 0});
  MemoryUsage usage = llvm::cantFail(computeMemory(
      timed.graph, timed.times, timed.timeline, placement, facts));
  std::vector<int64_t> peaks;
  for (const WorkerMemory &worker : usage.workers)
    peaks.push_back(worker.peakActivationBytes);
  return peaks;
}

TEST(EdgeTensors, TwoSkips) {
  Table table = makeSkips({{0, 3, true, "skip"}, {1, 3, true, "skip"}});
  StageCosts costs = costSkips(table.placement, 1);
  Timed delayed(table, costs, Transport::Delay);
  EXPECT_EQ(startsOf(delayed), Starts({{0, 10, 20, 118, 148, 184},
                                       {13, 23, 33, 95, 125, 161},
                                       {26, 36, 72, 92, 102, 138},
                                       {39, 49, 69, 79, 105, 115}}));
  EXPECT_EQ(peaksOf(delayed, table.placement),
            std::vector<int64_t>({3, 3, 2, 7}));
  Timed queued(table, costs, Transport::Overlap);
  EXPECT_EQ(startsOf(queued), Starts({{0, 10, 20, 180, 217, 270},
                                      {13, 27, 41, 157, 194, 247},
                                      {26, 53, 134, 154, 171, 224},
                                      {77, 87, 107, 117, 167, 177}}));
  EXPECT_EQ(peaksOf(queued, table.placement),
            std::vector<int64_t>({3, 3, 2, 7}));
}

TEST(EdgeTensors, ASkipThatComesLaterThanTheChain) {
  Table table = makeSkips({{0, 3, true, "skip"}});
  StageCosts costs = costSkips(table.placement, 100);
  Timed delayed(table, costs, Transport::Delay);
  EXPECT_EQ(startsOf(delayed), Starts({{0, 10, 20, 264, 294, 330},
                                       {13, 23, 33, 178, 208, 244},
                                       {26, 36, 155, 175, 185, 221},
                                       {122, 132, 152, 162, 188, 198}}));
  EXPECT_EQ(peaksOf(delayed, table.placement),
            std::vector<int64_t>({3, 3, 2, 4}));
  Timed queued(table, costs, Transport::Overlap);
  EXPECT_EQ(startsOf(queued), Starts({{0, 10, 20, 266, 296, 344},
                                      {13, 27, 41, 192, 222, 270},
                                      {26, 40, 169, 189, 199, 247},
                                      {124, 134, 154, 164, 202, 212}}));
  EXPECT_EQ(peaksOf(queued, table.placement),
            std::vector<int64_t>({3, 3, 2, 4}));
}

/// Stage 2 gives gradients to stages 0 and 1 of worker 0: a message has both.
TEST(EdgeTensors, OneMessageHasAllTensors) {
  Placement placement = llvm::cantFail(Placement::create(
      2, 1, {pathOn({0, 0, 1})}, 1, {{}, {{0, 2, true, "skip"}}}));
  Table table = makeTable(std::move(placement), {"0F0 1F0 1B0 0B0", "2F0 2B0"});
  StageCosts costs = UniformCosts().on(table.placement);
  costs.edges = {{{{{1, 0, 1}, {1, 0, 1}}, {}}, 0, 1},
                 {{{{5, 2, 50}, {6, 3, 60}}, {}}, 0, 2},
                 {{{{7, 1, 70}, {8, 4, 80}}, {}}, 1, 2}};
  for (Transport transport : {Transport::Overlap, Transport::Blocking}) {
    Timed timed(table, costs, transport);
    MessageCosts messages(timed.graph, table.placement, costs);
    auto costOf = [&](llvm::StringRef cell) {
      return messages.of(timed.task(cell, InstructionKind::Send));
    };
    EXPECT_EQ(costOf("0F0"), (MessageCost{5, 2, 50}));
    EXPECT_EQ(costOf("1F0"), (MessageCost{7, 1, 70}));
    EXPECT_EQ(costOf("2B0"), (MessageCost{14, 4, 140}));
  }
}

} // namespace
