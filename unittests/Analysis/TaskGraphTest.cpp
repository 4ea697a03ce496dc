//===- TaskGraphTest.cpp - Tasks, edges and deadlocks of programs ---------===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "../Support/ErrorText.h"
#include "../Support/TestSupport.h"
#include "PipeSched/Schedule/Edit/OptimizerStep.h"
#include "PipeSched/Schedule/Family/Generators.h"

using namespace pipesched;
using namespace pipesched::test;
using testing::Test;

namespace {

/// Prints the edges of a task as "1F0>" (release) or "0F0!" (arrival), in
/// order.
std::string edgesOf(const Timed &timed, uint32_t task) {
  std::vector<std::string> names;
  for (Edge edge : timed.graph.edgesOf(task))
    names.push_back(timed.graph.cell[edge.task()].str() +
                    (edge.needsArrival() ? "!" : ">"));
  return llvm::join(names, " ");
}

/// GPipe with two workers and two microbatches.
Table twoByTwo() {
  return makeTable(2, {0, 1}, {"0F0 0F1 0B0 0B1", "1F0 1F1 1B0 1B1"});
}

TEST(TaskGraph, OverlapQueuesMessages) {
  Table table = twoByTwo();
  Timed timed(table, UniformCosts().on(table.placement), Transport::Overlap);
  EXPECT_EQ(timed.graph.size(), 12u);
  EXPECT_EQ(edgesOf(timed, timed.task("0F0")), "");
  // The row implies that a backward waits for its own forward.
  EXPECT_EQ(edgesOf(timed, timed.task("0B0")), "0F1> 1B0!");
  // Producer, send queue, receive queue.
  EXPECT_EQ(edgesOf(timed, timed.task("0F0", InstructionKind::Send)), "0F0>");
  EXPECT_EQ(edgesOf(timed, timed.task("0F1", InstructionKind::Send)),
            "0F1> 0F0> 0F0>");
}

TEST(TaskGraph, DelayHasDataEdgesOnly) {
  Table table = twoByTwo();
  Timed timed(table, UniformCosts().on(table.placement), Transport::Delay);
  EXPECT_EQ(edgesOf(timed, timed.task("0F1", InstructionKind::Send)), "0F1>");
  EXPECT_EQ(edgesOf(timed, timed.task("1F1")), "1F0> 0F1!");
}

TEST(TaskGraph, BlockingChainsTheRow) {
  Table table = twoByTwo();
  Timed timed(table, UniformCosts().on(table.placement), Transport::Blocking);
  EXPECT_EQ(timed.graph.size(), 16u);
  EXPECT_EQ(edgesOf(timed, timed.task("0F0", InstructionKind::Send)), "0F0>");
  EXPECT_EQ(edgesOf(timed, timed.task("0F1")), "0F0>");
  // The cell before it in the row, and its send.
  EXPECT_EQ(edgesOf(timed, timed.task("0F1", InstructionKind::Recv)),
            "1F0> 0F1>");
}

TEST(TaskGraph, IsInTopologicalOrderAndCoversTheProgram) {
  Table table = twoByTwo();
  for (Transport transport : kTransports) {
    Timed timed(table, UniformCosts().on(table.placement), transport);
    for (uint32_t task = 0; task < timed.graph.size(); ++task)
      for (Edge edge : timed.graph.edgesOf(task))
        EXPECT_LT(edge.task(), task);
    for (auto [i, task] : llvm::enumerate(timed.graph.taskOfInstruction)) {
      ASSERT_LT(task, timed.graph.size());
      EXPECT_EQ(timed.graph.cell[task], timed.program.instructions[i].cell);
    }
    std::vector<std::string> row;
    for (uint32_t task : timed.graph.row(1))
      row.push_back(timed.graph.cell[task].str());
    EXPECT_EQ(llvm::join(row, " "), "1F0 1F1 1B0 1B1");
  }
}

TEST(TaskGraph, MergesOverlappedPairs) {
  // 0F0 [0,10), the pair [10,40) as the sum of 10 and 20, 0B1 [40,60).
  Table table = makeTable(2, {0}, {"0F0 0F1+0B0 0B1"});
  UniformCosts stageCosts;
  Timed sum(table, stageCosts.on(table.placement), Transport::Overlap);
  EXPECT_EQ(sum.graph.size(), 3u);
  EXPECT_EQ(sum.graph.overlapped[sum.task("0F1")], parseCell("0B0"));
  EXPECT_TRUE(sum.graph.cell[sum.task("0F1")].overlapsNext());
  EXPECT_EQ(sum.start("0B1"), 40);
  EXPECT_EQ(sum.graph.taskOfInstruction[1], sum.graph.taskOfInstruction[2]);

  stageCosts.overlapped = 25;
  Timed measured(table, stageCosts.on(table.placement), Transport::Overlap);
  EXPECT_EQ(measured.start("0B1"), 35);
}

TEST(TaskGraph, PairsWaitForBothHalves) {
  // Worker 1 runs 1F1 together with 1B0; both halves send at the end.
  Table table = makeTable(2, {0, 1}, {"0F0 0F1 0B0 0B1", "1F0 1F1+1B0 1B1"});
  UniformCosts stageCosts;
  stageCosts.overlapped = 25;
  Timed timed(table, stageCosts.on(table.placement), Transport::Overlap);
  // 1F0 [10,20), the pair [20,45), so 0B0 starts at 45.
  EXPECT_EQ(timed.start("1F1"), 20);
  EXPECT_EQ(timed.start("0B0"), 45);
}

TEST(TaskGraph, WaitsHoldTheNextCompute) {
  //   compute 0F0 [0,10) | D [10,25) | wait D | 0F1 [25,35)
  ProgramBuilder builder;
  builder.beginRow();
  uint32_t forward = builder.compute("0F0");
  uint32_t copy = builder.add(InstructionKind::Offload, "0D0", {forward});
  uint32_t wait = builder.add(InstructionKind::Wait, "0d0", {copy});
  builder.compute("0F1");
  builder.compute("0F2");
  Placement placement =
      llvm::cantFail(Placement::create(1, 3, {placeLinear(1)}));
  UniformCosts stageCosts;
  stageCosts.offload = 15;
  Timed timed(builder.build(), placement, stageCosts.on(placement),
              Transport::Overlap);
  EXPECT_EQ(timed.start("0D0", InstructionKind::Offload), 10);
  EXPECT_EQ(timed.start("0F1"), 25);
  EXPECT_EQ(timed.start("0F2"), 35);
  EXPECT_EQ(edgesOf(timed, timed.task("0F2")), "0F1>");
  EXPECT_EQ(timed.graph.taskOfInstruction[wait], TaskGraph::kNone);
}

TEST(TaskGraph, CopiesRunBesideCompute) {
  // The offloads are issued by 10 and 20 and take 15 each, one after the other:
  // [10,25), [25,40). Reloads have a queue of their own.
  Table table = makeTable(2, {0}, {"0F0 0D0 0F1 0D1 0B1 0U0 0B0 0U1"});
  table.rows[0] = parseRow("0F0 0D0 0F1 0D1 0U1 0B1 0U0 0B0");
  UniformCosts stageCosts;
  stageCosts.offload = 15;
  stageCosts.reload = 5;
  Timed timed(table, stageCosts.on(table.placement), Transport::Overlap);
  EXPECT_EQ(timed.start("0F1"), 10);
  EXPECT_EQ(timed.start("0D0", InstructionKind::Offload), 10);
  EXPECT_EQ(timed.start("0D1", InstructionKind::Offload), 25);
  EXPECT_EQ(timed.start("0U1", InstructionKind::Reload), 40);
  EXPECT_EQ(timed.start("0B1"), 45);
  EXPECT_EQ(timed.start("0U0", InstructionKind::Reload), 65);
  EXPECT_EQ(timed.start("0B0"), 70);
}

/// Two workers with a compute each, an all-reduce, and more computes.
static Program twoThatMeet() {
  ProgramBuilder builder;
  builder.beginRow();
  uint32_t early = builder.compute("0F0");
  uint32_t first = builder.add(InstructionKind::AllReduce, "0G0", {early});
  builder.compute("0F1");
  builder.compute("0O0", {first});
  builder.beginRow();
  builder.compute("1F0");
  uint32_t late = builder.compute("1F1");
  uint32_t second = builder.add(InstructionKind::AllReduce, "1G0", {late});
  builder.compute("1F2");
  builder.compute("1O0", {second});
  builder.group({first, second});
  return builder.build();
}

TEST(TaskGraph, AllReduceStartsWhenTheGroupIsReady) {
  // Worker 0 is ready at 10, worker 1 at 20; the sum is available at 45.
  Placement placement =
      llvm::cantFail(Placement::create(2, 3, {placeLinear(2)}));
  UniformCosts stageCosts;
  stageCosts.allReduce = 25;
  for (Transport transport : kTransports) {
    Timed timed(twoThatMeet(), placement, stageCosts.on(placement), transport);
    ASSERT_EQ(timed.graph.groupTasks.size(), 1u);
    EXPECT_EQ(timed.graph.groupTasks[0],
              timed.task("0G0", InstructionKind::AllReduce));
    EXPECT_EQ(timed.graph.workersOf(0).vec(), std::vector<int32_t>({0, 1}));
    EXPECT_EQ(timed.start("0G0", InstructionKind::AllReduce), 20);
    // It runs beside compute unless messages hold rows.
    bool isBlocking = transport == Transport::Blocking;
    EXPECT_EQ(timed.start("0F1"), isBlocking ? 45 : 10);
    EXPECT_EQ(timed.start("1F2"), isBlocking ? 45 : 20);
    EXPECT_EQ(timed.start("0O0"), isBlocking ? 55 : 45);
    EXPECT_EQ(timed.start("1O0"), isBlocking ? 55 : 45);
  }
}

TEST(TaskGraph, WaitsForAnAllReduceAreIdleTime) {
  Placement placement =
      llvm::cantFail(Placement::create(2, 3, {placeLinear(2)}));
  UniformCosts stageCosts;
  stageCosts.allReduce = 25;
  // Worker 0 computes from 10 to 20 and then waits for its group.
  for (Transport transport : {Transport::Overlap, Transport::Delay}) {
    Timed timed(twoThatMeet(), placement, stageCosts.on(placement), transport);
    IdleTimes idle = timed.idle();
    EXPECT_EQ(idle.dependencyPs, std::vector<int64_t>({0, 0}));
    EXPECT_EQ(idle.communicationPs, std::vector<int64_t>({25, 15}));
    EXPECT_EQ(idle.busyPs, std::vector<int64_t>({20, 30}));
  }
  // Its row waits from 10 on, first for worker 1, then for the sum.
  Timed timed(twoThatMeet(), placement, stageCosts.on(placement),
              Transport::Blocking);
  IdleTimes idle = timed.idle();
  EXPECT_EQ(idle.dependencyPs, std::vector<int64_t>({10, 0}));
  EXPECT_EQ(idle.communicationPs, std::vector<int64_t>({25, 25}));
}

TEST(TaskGraph, AllReducesHaveAQueueOfTheirOwn) {
  // 0F0 is sent from 10 to 17. The all-reduce stands behind that send on worker
  // 0 and ahead of a receive on worker 1, whose message is ready at 20. Neither
  // waits for the other.
  ProgramBuilder builder;
  builder.beginRow();
  uint32_t forward = builder.compute("0F0");
  builder.send("0F0", 2, {forward});
  uint32_t first = builder.add(InstructionKind::AllReduce, "0G0", {forward});
  uint32_t next = builder.compute("0F1");
  builder.send("0F1", 1, {next});
  builder.beginRow();
  uint32_t other = builder.compute("1F2");
  uint32_t second = builder.add(InstructionKind::AllReduce, "1G0", {other});
  uint32_t message = builder.recv("0F1", 0);
  builder.compute("1F1", {message});
  builder.beginRow();
  uint32_t last = builder.recv("0F0", 0);
  builder.compute("2F0", {last});
  builder.group({first, second});
  Program program = builder.build();
  Placement placement =
      llvm::cantFail(Placement::create(3, 3, {placeLinear(3)}));
  UniformCosts stageCosts;
  stageCosts.allReduce = 25;
  stageCosts.occupancy = 7;
  Timed overlap(program, placement, stageCosts.on(placement),
                Transport::Overlap);
  EXPECT_EQ(overlap.start("0G0", InstructionKind::AllReduce), 10);
  EXPECT_EQ(overlap.start("0F1", InstructionKind::Send), 20);
  EXPECT_EQ(overlap.start("1F1"), 27);
  EXPECT_EQ(overlap.idle().communicationPs[1], 7);
  Timed delay(program, placement, stageCosts.on(placement), Transport::Delay);
  EXPECT_EQ(delay.start("0G0", InstructionKind::AllReduce), 10);
  EXPECT_EQ(delay.start("0F1", InstructionKind::Send), 20);
}

/// The order of all-reduces closes no cycle, wherever receives stand.
TEST(TaskGraph, StepsOfReplicasFinish) {
  for (int64_t workers = 2; workers <= 8; workers += 2)
    for (int64_t microbatches = 2; microbatches <= 12; microbatches += 2) {
      Placement linear = llvm::cantFail(
          Placement::create(workers, microbatches, {placeLinear(workers)}));
      for (ReductionPlace place :
           {ReductionPlace::End, ReductionPlace::Eager}) {
        Table table = llvm::cantFail(generateChimera(linear, ChimeraOptions()));
        table.rows = llvm::cantFail(addOptimizerStep(table.view(), place)).rows;
        for (Transport transport : kTransports)
          for (ReceivePlacement receives :
               {ReceivePlacement::Arrival, ReceivePlacement::Consumer}) {
            llvm::Expected<TaskGraph> graph =
                buildTaskGraph(lower(table, receives), transport);
            ASSERT_TRUE(bool(graph)) << llvm::toString(graph.takeError());
            EXPECT_EQ(int64_t(graph->groupTasks.size()), workers);
          }
      }
    }
}

/// A wait delays the next compute, not the all-reduce before it.
TEST(TaskGraph, WaitsPassAllReducesBy) {
  ProgramBuilder builder;
  builder.beginRow();
  uint32_t forward = builder.compute("0F0");
  uint32_t offload = builder.add(InstructionKind::Offload, "0D0", {forward});
  builder.add(InstructionKind::Wait, "0d0", {offload});
  uint32_t reduction =
      builder.add(InstructionKind::AllReduce, "0G0", {forward});
  builder.compute("0F1");
  builder.group({reduction});
  Placement placement =
      llvm::cantFail(Placement::create(1, 2, {placeLinear(1)}));
  Program program = builder.build();
  UniformCosts stageCosts;
  stageCosts.offload = 5;
  for (Transport transport : kTransports) {
    Timed timed(program, placement, stageCosts.on(placement), transport);
    EXPECT_EQ(timed.start("0G0", InstructionKind::AllReduce), 10);
    EXPECT_EQ(timed.start("0F1"), 15);
  }
}

TEST(TaskTimes, RefusesSumsOverInt64) {
  Table table = twoByTwo();
  StageCosts stageCosts = UniformCosts().on(table.placement);
  stageCosts.stages[1].cells.set(Phase::Backward,
                                 std::numeric_limits<int64_t>::max() / 2);
  TaskGraph graph =
      llvm::cantFail(buildTaskGraph(lower(table), Transport::Overlap));
  llvm::Expected<TaskTimes> times =
      computeTaskTimes(graph, table.placement, stageCosts, Transport::Overlap);
  ASSERT_FALSE(times);
  EXPECT_EQ(llvm::toString(times.takeError()),
            "the times of all cells and messages add up to more than 2^63-1 "
            "ps; the largest is cell 1B0 with 4611686018427387903 ps");
}

TEST(TaskTimes, SlicesOfAStageHaveTheirOwn) {
  Table table;
  table.placement =
      llvm::cantFail(Placement::create(1, 1, {placeLinear(1)}, 2));
  table.rows = {
      {parseCell("0F0"), parseCell("0F1"), parseCell("0B1"), parseCell("0B0")}};
  StageCosts stageCosts;
  stageCosts.stages.emplace_back().cells = CellCosts(2);
  CellCosts &cells = stageCosts.stages[0].cells;
  cells.set(Phase::Forward, 10, /*slice=*/0);
  cells.set(Phase::Forward, 13, /*slice=*/1);
  cells.set(Phase::Backward, 20, /*slice=*/0);
  cells.set(Phase::Backward, 26, /*slice=*/1);
  Timed timed(table, stageCosts, Transport::Overlap);
  EXPECT_EQ(timed.start("0F1"), 10);
  EXPECT_EQ(timed.start("0B1"), 23);
  EXPECT_EQ(timed.start("0B0"), 49);
  EXPECT_EQ(timed.timeline.makespanPs, 69);
  cells = CellCosts(3);
  EXPECT_EQ(errorOf(computeTaskTimes(timed.graph, table.placement, stageCosts,
                                     Transport::Overlap)),
            "global stage 0 has costs of 3 slices, microbatches have 2; "
            "expected 1 or 2");
}

//===----------------------------------------------------------------------===//
// Deadlock
//===----------------------------------------------------------------------===//

std::string deadlockText(const Program &program, Transport transport) {
  llvm::Expected<TaskGraph> graph = buildTaskGraph(program, transport);
  if (graph)
    return "";
  std::string text;
  llvm::handleAllErrors(graph.takeError(), [&](const DeadlockError &error) {
    text = error.message();
    // Each wait starts where the previous one ended.
    llvm::ArrayRef<Wait> cycle = error.getDeadlock().cycle;
    for (std::size_t i = 0; i < cycle.size(); ++i)
      EXPECT_EQ(cycle[i].awaited, cycle[(i + 1) % cycle.size()].waiter);
  });
  return text;
}

TEST(Deadlock, TwoWorkersEachReceiveFirst) {
  ProgramBuilder builder;
  builder.beginRow();
  uint32_t recv0 = builder.recv("1F0", 1);
  uint32_t compute0 = builder.compute("0F0", {recv0});
  builder.send("0F0", 1, {compute0});
  builder.beginRow();
  uint32_t recv1 = builder.recv("0F0", 0);
  uint32_t compute1 = builder.compute("1F0", {recv1});
  builder.send("1F0", 0, {compute1});
  Program program = builder.build();
  EXPECT_EQ(deadlockText(program, Transport::Delay),
            "deadlock: a cycle of 6 waits\n"
            "  compute 0F0 on worker 0 waits for recv 1F0 from 1 on worker 0\n"
            "  recv 1F0 from 1 on worker 0 waits for send 1F0 to 0 on worker 1 "
            "(its message)\n"
            "  send 1F0 to 0 on worker 1 waits for compute 1F0 on worker 1\n"
            "  compute 1F0 on worker 1 waits for recv 0F0 from 0 on worker 1\n"
            "  recv 0F0 from 0 on worker 1 waits for send 0F0 to 1 on worker 0 "
            "(its message)\n"
            "  send 0F0 to 1 on worker 0 waits for compute 0F0 on worker 0");
  EXPECT_NE(deadlockText(program, Transport::Overlap), "");
  EXPECT_NE(deadlockText(program, Transport::Blocking), "");
}

/// No data goes in a circle, but each row receives before it sends.
TEST(Deadlock, RowOrderMattersUnderBlockingOnly) {
  ProgramBuilder builder;
  builder.beginRow();
  builder.recv("1F0", 1);
  builder.send("0F0", 1);
  builder.beginRow();
  builder.recv("0F0", 0);
  builder.send("1F0", 0);
  Program program = builder.build();
  EXPECT_EQ(deadlockText(program, Transport::Overlap), "");
  EXPECT_EQ(deadlockText(program, Transport::Delay), "");
  EXPECT_EQ(
      deadlockText(program, Transport::Blocking),
      "deadlock: a cycle of 4 waits\n"
      "  recv 1F0 from 1 on worker 0 waits for send 1F0 to 0 on worker 1 "
      "(its message)\n"
      "  send 1F0 to 0 stands behind recv 0F0 from 0 in the row of worker "
      "1\n"
      "  recv 0F0 from 0 on worker 1 waits for send 0F0 to 1 on worker 0 "
      "(its message)\n"
      "  send 0F0 to 1 stands behind recv 1F0 from 1 in the row of worker "
      "0");
}

/// Messages are sent in another order than they are received.
TEST(Deadlock, QueuesThatDisagree) {
  ProgramBuilder builder;
  builder.beginRow();
  uint32_t first = builder.compute("0F0");
  uint32_t second = builder.compute("0F1");
  builder.send("0F0", 1, {first});
  builder.send("0F1", 1, {second});
  builder.beginRow();
  builder.recv("0F1", 0);
  builder.recv("0F0", 0);
  Program program = builder.build();
  EXPECT_EQ(deadlockText(program, Transport::Delay), "");
  EXPECT_EQ(
      deadlockText(program, Transport::Overlap),
      "deadlock: a cycle of 4 waits\n"
      "  recv 0F0 from 0 stands behind recv 0F1 from 0 in the receive queue of "
      "worker 1\n"
      "  recv 0F1 from 0 on worker 1 waits for send 0F1 to 1 on worker 0 (its "
      "message)\n"
      "  send 0F1 to 1 stands behind send 0F0 to 1 in the send queue of worker "
      "0\n"
      "  send 0F0 to 1 on worker 0 waits for recv 0F0 from 0 on worker 1 (its "
      "message)");
}

/// A ring of three workers: nine waits, of which eight are printed.
TEST(Deadlock, LongCyclesAreCut) {
  ProgramBuilder builder;
  for (int32_t worker = 0; worker < 3; ++worker) {
    int32_t before = (worker + 2) % 3, after = (worker + 1) % 3;
    builder.beginRow();
    uint32_t recv = builder.recv(llvm::utostr(before) + "F0", before);
    std::string cell = llvm::utostr(worker) + "F0";
    builder.send(cell, after, {builder.compute(cell, {recv})});
  }
  std::string text = deadlockText(builder.build(), Transport::Overlap);
  EXPECT_EQ(llvm::StringRef(text).count('\n'), 9u);
  EXPECT_TRUE(llvm::StringRef(text).starts_with("deadlock: a cycle of 9 waits"))
      << text;
  EXPECT_TRUE(llvm::StringRef(text).ends_with("\n  and 1 more")) << text;
}

} // namespace
