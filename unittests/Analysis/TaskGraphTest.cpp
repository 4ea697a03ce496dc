//===- TaskGraphTest.cpp - Tasks, edges and deadlocks of programs ---------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "../Support/ErrorText.h"
#include "../Support/TestSupport.h"

using namespace pipesched;
using namespace pipesched::test;
using testing::Test;

namespace {

TEST(TaskGraph, CopiesRunBesideCompute) {
  // The offloads are issued by 10 and 20 and take 15 each, one after the other:
  // [10,25), [25,40). Reloads have a separate queue.
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
    // It runs alongside compute unless messages hold rows.
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
  // 0F0 is sent from 10 to 17. The all-reduce comes after that send on worker
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
            "expected 1 or 2, or 2 of all microbatches");
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

/// No data flows in a circle, but each row receives before it sends.
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
  EXPECT_EQ(deadlockText(program, Transport::Blocking),
            "deadlock: a cycle of 4 waits\n"
            "  recv 1F0 from 1 on worker 0 waits for send 1F0 to 0 on worker 1 "
            "(its message)\n"
            "  send 1F0 to 0 comes after recv 0F0 from 0 in the row of worker "
            "1\n"
            "  recv 0F0 from 0 on worker 1 waits for send 0F0 to 1 on worker 0 "
            "(its message)\n"
            "  send 0F0 to 1 comes after recv 1F0 from 1 in the row of worker "
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
      "  recv 0F0 from 0 comes after recv 0F1 from 0 in the receive queue of "
      "worker 1\n"
      "  recv 0F1 from 0 on worker 1 waits for send 0F1 to 1 on worker 0 (its "
      "message)\n"
      "  send 0F1 to 1 comes after send 0F0 to 1 in the send queue of worker "
      "0\n"
      "  send 0F0 to 1 on worker 0 waits for recv 0F0 from 0 on worker 1 (its "
      "message)");
}

/// A ring of three workers: nine waits; eight are printed.
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
