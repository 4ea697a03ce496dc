//===- PairsTest.cpp - A queue per pair of workers ------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The transport and the message semantics `pairs`: times of small programs, a
// closed form for GPipe, and proofs held against processes.
//
//===----------------------------------------------------------------------===//

#include "../Support/FamilyCases.h"
#include "../Support/PairProcesses.h"
#include "../Support/TestSupport.h"
#include "PipeSched/Analysis/Proof/Messages.h"
#include "PipeSched/Schedule/Program/Lowering.h"

using namespace pipesched;

static Program lower(const Table &table, ReceivePlacement receives) {
  return llvm::cantFail(lowerTable(table.view(), receives));
}

static bool isProven(const Program &program) {
  llvm::Error error = verifyMessages(program, MessageSemantics::Pairs);
  bool isProven = !error;
  llvm::consumeError(std::move(error));
  return isProven;
}

/// Whether a family's claim, the proof, the processes and the task graph of the
/// transport say the same.
static void expectVerdict(const Family &family, const Table &table,
                          ReceivePlacement receives) {
  Program program = lower(table, receives);
  bool finishes = isProven(program);
  EXPECT_EQ(PairProcesses(program).finish(), finishes);
  llvm::Expected<TaskGraph> graph = buildTaskGraph(program, Transport::Pairs);
  EXPECT_EQ(bool(graph), finishes);
  llvm::consumeError(graph.takeError());
  if (family.finishesUnder(MessageSemantics::Pairs, receives)) {
    EXPECT_TRUE(finishes);
  }
}

namespace {
class Pairs : public testing::TestWithParam<const Family *> {};
} // namespace

TEST_P(Pairs, AgreesWithProcesses) {
  for (int64_t workers : {1, 2, 3, 4, 6, 8})
    for (int64_t microbatches : {1, 2, 3, 4, 8, 12, 16})
      for (ReceivePlacement receives :
           {ReceivePlacement::Arrival, ReceivePlacement::Consumer}) {
        SCOPED_TRACE(testing::Message()
                     << "D=" << workers << " N=" << microbatches);
        llvm::Expected<Table> table =
            generate(*GetParam(), workers, microbatches);
        if (table)
          expectVerdict(*GetParam(), *table, receives);
        llvm::consumeError(table.takeError());
      }
}

INSTANTIATE_TEST_SUITE_P(All, Pairs, testing::ValuesIn(allFamilies()),
                         printFamily);

/// In these families all messages of a time have one direction. On two workers,
/// where messages between the chunks of looped families return to the same
/// worker, only GPipe is left, over slices TeraPipe. Other families finish at
/// some sizes only.
TEST(Pairs, FamiliesOfOneWayFinishOnThreeWorkers) {
  for (const Family &family : families())
    for (ReceivePlacement receives :
         {ReceivePlacement::Arrival, ReceivePlacement::Consumer}) {
      SCOPED_TRACE(family.name.str());
      bool alwaysFinishes = true;
      for (int64_t workers : {3, 4, 6, 8})
        for (int64_t microbatches : {4, 8, 12, 16, 24}) {
          llvm::Expected<Table> table = generate(family, workers, microbatches);
          if (table)
            alwaysFinishes &= isProven(lower(*table, receives));
          llvm::consumeError(table.takeError());
        }
      bool isOneWay = llvm::is_contained(
          {"gpipe", "terapipe", "looped-bfs", "mpmd-circular"}, family.name);
      EXPECT_EQ(alwaysFinishes, isOneWay);
    }
}

/// The receive of a message is issued after the cell before it, so that each
/// message is exposed: with D > 1 workers, forwards and backwards take
/// (N + D - 2) (F + B + 2 c) + F + B.
TEST(Pairs, GPipeHasAClosedForm) {
  test::UniformCosts costs;
  costs.occupancy = 2;
  costs.latency = 1;
  for (int64_t workers : {2, 3, 4, 8})
    for (int64_t microbatches : {1, 2, 4, 8, 16}) {
      Table table =
          llvm::cantFail(generate(*findFamily("gpipe"), workers, microbatches));
      test::Timed timed(lower(table, ReceivePlacement::Arrival),
                        table.placement, costs.on(table.placement),
                        Transport::Pairs);
      EXPECT_EQ(timed.timeline.makespanPs,
                (microbatches + workers - 2) * (10 + 20 + 2 * 3) + 10 + 20)
          << "D=" << workers << " N=" << microbatches;
    }
}

/// 0F1 is computed at 20 and comes after the receive of 2F0 in no queue: it
/// is of another pair. Its own receive is issued when 1F0 is done, at 23.
TEST(Pairs, HaveAQueueEach) {
  test::ProgramBuilder builder;
  builder.beginRow();
  uint32_t f0 = builder.compute("0F0");
  builder.send("0F0", 1, {f0});
  uint32_t f1 = builder.compute("0F1");
  builder.send("0F1", 1, {f1});
  builder.beginRow();
  uint32_t r0 = builder.recv("0F0", 0);
  builder.compute("1F0", {r0});
  builder.recv("2F0", 2);
  uint32_t r1 = builder.recv("0F1", 0);
  builder.compute("1F1", {r1});
  builder.beginRow();
  uint32_t other = builder.compute("2F0");
  builder.send("2F0", 1, {other});
  Program program = builder.build();
  TaskGraph graph = llvm::cantFail(buildTaskGraph(program, Transport::Pairs));
  TaskTimes times;
  for (uint32_t task = 0; task < graph.size(); ++task) {
    bool isLong = graph.cell[task].getStage() == 2;
    times.occupancyPs.push_back(graph.isMessage(task) ? 2 : isLong ? 50 : 10);
    times.latencyPs.push_back(graph.isMessage(task) ? 1 : 0);
  }
  Timeline timeline = computeTimeline(graph, times);
  uint32_t last = graph.row(1).back();
  EXPECT_EQ(timeline.startPs[last], 26);
}
