//===- LoweringTest.cpp - From a table to what each worker runs -----------===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Whole programs as listings: order within a slot, operands, partners, copies,
// joins and overlapped pairs.
//
//===----------------------------------------------------------------------===//

#include "PipeSched/Schedule/Program/Lowering.h"
#include "../Support/TestTables.h"
#include "PipeSched/Schedule/Family/Generators.h"
#include "PipeSched/Schedule/Table/Groups.h"
#include "PipeSched/Schedule/Table/Slots.h"

using namespace pipesched;
using Listing = std::vector<std::string>;

static Program lower(const Table &table,
                     ReceivePlacement placement = ReceivePlacement::Arrival) {
  TableView view = table.view();
  CellIndex index = llvm::cantFail(CellIndex::create(view));
  SlotAssignment slots = llvm::cantFail(alignSlots(view, index));
  return llvm::cantFail(lowerTable(view, index, slots, placement));
}

static std::vector<BlockSpan> blocksOf(llvm::ArrayRef<GroupName> groups) {
  std::vector<BlockSpan> blocks;
  for (const GroupName &group : groups)
    blocks.push_back(group.blocks);
  return blocks;
}

/// Prints `kind cell [to|from peer] [after operand, ...]`; operands are
/// positions in the row, such as `#2`.
static Listing list(const Program &program, int64_t row) {
  Listing lines;
  uint32_t begin = program.rowBegins[row], end = program.rowBegins[row + 1];
  for (uint32_t i = begin; i < end; ++i) {
    const Instruction &instruction = program.instructions[i];
    std::string line =
        (enumName(instruction.kind) + " " + instruction.cell.str()).str();
    if (instruction.kind == InstructionKind::Send)
      line += " to " + std::to_string(instruction.peer);
    if (instruction.kind == InstructionKind::Recv)
      line += " from " + std::to_string(instruction.peer);
    const char *separator = " after #";
    for (uint32_t operand : program.operandsOf(i)) {
      line += separator + std::to_string(operand - begin);
      separator = ", #";
    }
    lines.push_back(line);
  }
  return lines;
}

TEST(Lowering, ReceivesStandWhereTheyArrive) {
  // slot      0    1    2 3  4    5 6  7 8
  // row 0   0F0  0F1    _ _  0B0  _    0B1
  // row 1     _  1F0  1B0    1F1  1B1
  Program program = lower(llvm::cantFail(generate1F1B(makeLinear(2, 2))));
  EXPECT_EQ(list(program, 0),
            Listing({"compute 0F0", "send 0F0 to 1 after #0", "compute 0F1",
                     "send 0F1 to 1 after #2", "recv 1B0 from 1",
                     "compute 0B0 after #0, #4", "recv 1B1 from 1",
                     "compute 0B1 after #2, #6"}));
  EXPECT_EQ(list(program, 1),
            Listing({"recv 0F0 from 0", "compute 1F0 after #0",
                     "recv 0F1 from 0", "compute 1B0 after #1",
                     "send 1B0 to 0 after #3", "compute 1F1 after #2",
                     "compute 1B1 after #5", "send 1B1 to 0 after #6"}));
}

TEST(Lowering, ReceivesStandBeforeTheirConsumers) {
  Program program = lower(llvm::cantFail(generate1F1B(makeLinear(2, 2))),
                          ReceivePlacement::Consumer);
  EXPECT_EQ(list(program, 1),
            Listing({"recv 0F0 from 0", "compute 1F0 after #0",
                     "compute 1B0 after #1", "send 1B0 to 0 after #2",
                     "recv 0F1 from 0", "compute 1F1 after #4",
                     "compute 1B1 after #5", "send 1B1 to 0 after #6"}));
}

TEST(Lowering, WithinASlotSendsComeBeforeReceivesBySource) {
  // In slot 1 worker 1 ends 1F0, while 0F1 and 0F2 arrive from workers 0 and 2.
  Table table = makeTable(
      makePlacement(
          3, 3, {pathOn({0, 1, 2}, {{0, 2, 1}}), pathOn({2, 1}, {{2, 3, 1}})}),
      {"0F0 0F1 0B0 0B1", "1F0 1F1 1F2 1B2 1B0 1B1",
       "2F0 2B0 0F2 2F1 2B1 0B2"});
  table.rows[2] = parseRow("0F2 2F0 2B0 2F1 2B1 0B2");
  Program program = lower(table);
  EXPECT_EQ(list(program, 1),
            Listing({"recv 0F0 from 0", "recv 0F2 from 2",
                     "compute 1F0 after #0", "send 1F0 to 2 after #2",
                     "recv 0F1 from 0", "compute 1F1 after #4",
                     "send 1F1 to 2 after #5", "compute 1F2 after #1",
                     "compute 1B2 after #7", "recv 2B0 from 2",
                     "send 1B2 to 2 after #8", "compute 1B0 after #2, #9",
                     "send 1B0 to 0 after #11", "recv 2B1 from 2",
                     "compute 1B1 after #5, #13", "send 1B1 to 0 after #14"}));
}

TEST(Lowering, GradientsAreSentByWhatTheScheduleSays) {
  Table table = makeTable(makeLinear(2, 1), {"0F0 0I0 0W0", "1F0 1I0 1W0"});
  EXPECT_EQ(list(lower(table), 1),
            Listing({"recv 0F0 from 0", "compute 1F0 after #0",
                     "compute 1I0 after #1", "send 1I0 to 0 after #2",
                     "compute 1W0 after #2"}));
  table.gradientAfter = GradientAfter::WeightGrad;
  EXPECT_EQ(list(lower(table), 1),
            Listing({"recv 0F0 from 0", "compute 1F0 after #0",
                     "compute 1I0 after #1", "compute 1W0 after #2",
                     "send 1W0 to 0 after #3"}));
}

TEST(Lowering, CopiesAndJoinsWaitForTheirIssuePoints) {
  Table table = makeTable(makeLinear(1, 2),
                          {"0F0 0F1 0D0 0D1 0d0 0U0 0R0 0B0 0U1 0u1 0B1 0O0"});
  EXPECT_EQ(list(lower(table), 0),
            Listing({"compute 0F0", "compute 0F1", "offload 0D0 after #1, #0",
                     "offload 0D1 after #1", "wait 0d0 after #2",
                     "reload 0U0 after #1, #2", "compute 0R0 after #0, #5",
                     "compute 0B0 after #0, #6, #5", "reload 0U1 after #7, #3",
                     "wait 0u1 after #8", "compute 0B1 after #1, #8",
                     "compute 0O0 after #10"}));
}

TEST(Lowering, OverlappedPairsStayTogether) {
  Table table =
      makeTable(makeLinear(2, 2), {"0F0 0F1 0B0 0B1", "1F0 1F1+1B0 1B1"});
  for (ReceivePlacement placement :
       {ReceivePlacement::Arrival, ReceivePlacement::Consumer}) {
    Program program = lower(table, placement);
    EXPECT_EQ(list(program, 1),
              Listing({"recv 0F0 from 0", "compute 1F0 after #0",
                       "recv 0F1 from 0", "compute 1F1 after #2",
                       "compute 1B0 after #1", "send 1B0 to 0 after #4",
                       "compute 1B1 after #3", "send 1B1 to 0 after #6"}));
    EXPECT_TRUE(
        program.instructions[program.rowBegins[1] + 3].cell.overlapsNext());
  }
}

TEST(Lowering, InboxesMergeManySources) {
  // Five sources send to worker 5; each sends in slot 0 and again in slot 1.
  std::vector<Path> paths;
  paths.reserve(5);
  for (int32_t source = 0; source < 5; ++source)
    paths.push_back(pathOn({source, 5}, {{2 * source, 2 * source + 2, 1}}));
  Table table;
  table.placement = makePlacement(6, 10, std::move(paths));
  table.rows.resize(6);
  for (Phase phase : {Phase::Forward, Phase::Backward})
    for (int64_t m = 0; m < 10; ++m) {
      table.rows[m / 2].push_back(Cell(0, phase, m));
      table.rows[5].push_back(Cell(1, phase, m));
    }
  Listing receives;
  for (std::string &line : list(lower(table), 5))
    if (llvm::StringRef(line).starts_with("recv"))
      receives.push_back(line);
  EXPECT_EQ(receives,
            Listing({"recv 0F0 from 0", "recv 0F2 from 1", "recv 0F4 from 2",
                     "recv 0F6 from 3", "recv 0F8 from 4", "recv 0F1 from 0",
                     "recv 0F3 from 1", "recv 0F5 from 2", "recv 0F7 from 3",
                     "recv 0F9 from 4"}));
}

/// The members of the group of an instruction, starting with it.
static Listing groupOf(const Program &program, uint32_t first) {
  Listing members;
  uint32_t instruction = first;
  do {
    members.push_back(program.instructions[instruction].cell.str());
    instruction = program.partner[instruction];
  } while (instruction != first);
  return members;
}

TEST(Lowering, ReplicasAreReducedTogether) {
  // 0G0 and 0G1 are replicas, and so are 1G1 and 1G0; the last B of stage 0 of
  // path 0 is not the cell before its G.
  Table table = makeTable(
      makePlacement(2, 2,
                    {pathOn({0, 1}, {{0, 1, 1}}), pathOn({1, 0}, {{1, 2, 1}})}),
      {"0F0 1F1 0B0 1B1 0G0 1G1 0O0 1O1", "1F0 0F1 1B0 0B1 0G1 1G0 0O1 1O0"});
  Program program = lower(table, ReceivePlacement::Consumer);
  EXPECT_EQ(list(program, 0),
            Listing({"compute 0F0", "send 0F0 to 1 after #0", "recv 0F1 from 1",
                     "compute 1F1 after #2", "recv 1B0 from 1",
                     "compute 0B0 after #0, #4", "compute 1B1 after #3",
                     "send 1B1 to 1 after #6", "all_reduce 0G0 after #6, #5",
                     "all_reduce 1G1 after #6", "compute 0O0 after #8",
                     "compute 1O1 after #9"}));
  EXPECT_EQ(groupOf(program, 8), Listing({"0G0", "0G1"}));
  EXPECT_EQ(groupOf(program, 9), Listing({"1G1", "1G0"}));
  EXPECT_EQ(blocksOf(program.groups), std::vector<BlockSpan>({{0, 1}, {1, 2}}));
  EXPECT_EQ(program.instructions[9].peer, 1);
}

/// Rows reach 1G1 before 0G0, whose blocks come first in the model.
TEST(Lowering, AllReducesAreNumberedByTheirBlocks) {
  Table table = makeTable(
      makePlacement(2, 2,
                    {pathOn({0, 1}, {{0, 1, 1}}), pathOn({1, 0}, {{1, 2, 1}})}),
      {"0F0 1F1 0B0 1B1 1G1 0G0 0O0 1O1", "1F0 0F1 1B0 0B1 1G0 0G1 0O1 1O0"});
  Program program = lower(table, ReceivePlacement::Consumer);
  EXPECT_EQ(blocksOf(program.groups), std::vector<BlockSpan>({{0, 1}, {1, 2}}));
  EXPECT_EQ(list(program, 0)[8], "all_reduce 1G1 after #6");
  EXPECT_EQ(program.instructions[8].peer, 1);
  EXPECT_EQ(program.instructions[9].peer, 0);
  Groups groups = llvm::cantFail(Groups::create(table.view()));
  EXPECT_TRUE(groups.getNames() == llvm::ArrayRef(program.groups));
}

TEST(Lowering, PiecesOfAStageAreReducedOneByOne) {
  // Path 0 cuts the model at 4 of 6, path 1 at 2: 0G0 is reduced with 0G1 for
  // the first two blocks and with 1G1 for the next two.
  std::vector<Path> paths = {pathOn({0, 1}, {{0, 1, 1}}),
                             pathOn({2, 3}, {{1, 2, 1}})};
  paths[0].blocks = {4, 2};
  paths[1].blocks = {2, 4};
  Table table = makeTable(makePlacement(4, 2, std::move(paths)),
                          {"0F0 0B0 0G0 0O0", "1F0 1B0 1G0 1O0",
                           "0F1 0B1 0G1 0O1", "1F1 1B1 1G1 1O1"});
  Program program = lower(table, ReceivePlacement::Consumer);
  EXPECT_EQ(list(program, 0),
            Listing({"compute 0F0", "send 0F0 to 1 after #0", "recv 1B0 from 1",
                     "compute 0B0 after #0, #2", "all_reduce 0G0 after #3",
                     "all_reduce 0G0 after #3", "compute 0O0 after #4, #5"}));
  EXPECT_EQ(groupOf(program, 4), Listing({"0G0", "0G1"}));
  EXPECT_EQ(groupOf(program, 5), Listing({"0G0", "1G1"}));
  EXPECT_EQ(blocksOf(program.groups),
            std::vector<BlockSpan>({{0, 2}, {2, 4}, {4, 6}}));
}

/// Worker 0 holds stage 0 of two paths, worker 1 that of a third.
static Placement heldTwice() {
  return makePlacement(2, 3,
                       {pathOn({0}, {{0, 1, 1}}), pathOn({0}, {{1, 2, 1}}),
                        pathOn({1}, {{2, 3, 1}})});
}

TEST(Lowering, AWorkerTakesPartOnce) {
  Table table =
      makeTable(heldTwice(), {"0F0 0B0 0F1 0B1 0G0 0O0", "0F2 0B2 0G2 0O2"});
  Program program = lower(table);
  EXPECT_EQ(list(program, 0),
            Listing({"compute 0F0", "compute 0B0 after #0", "compute 0F1",
                     "compute 0B1 after #2", "all_reduce 0G0 after #3, #1",
                     "compute 0O0 after #4"}));
  EXPECT_EQ(groupOf(program, 4), Listing({"0G0", "0G2"}));
}

TEST(Lowering, AStepWaitsForTheGradientsOfAllPaths) {
  Table table =
      makeTable(heldTwice(), {"0F0 0B0 0F1 0B1 0O0", "0F2 0I2 0W2 0O2"});
  EXPECT_EQ(list(lower(table), 0).back(), "compute 0O0 after #1, #3");
  EXPECT_EQ(list(lower(table), 1).back(), "compute 0O2 after #2");
  // Both halves of a pair end together.
  table.rows[0] = parseRow("0F0 0F1 0B0+0B1 0O0");
  EXPECT_EQ(list(lower(table), 0).back(), "compute 0O0 after #2");
}

TEST(Lowering, PiecesWaitForTheStagesThatHoldThem) {
  // Of six blocks worker 0 holds 0 to 3 by path 0 and 2 to 6 by path 1, which
  // owns those in common; worker 1 holds the rest of path 0.
  std::vector<Path> paths = {pathOn({0, 1}, {{0, 1, 1}}),
                             pathOn({1, 0}, {{1, 2, 1}})};
  paths[0].blocks = {3, 3};
  paths[1].blocks = {2, 4};
  Table table = makeTable(
      makePlacement(2, 2, std::move(paths)),
      {"0F0 0B0 1F1 1B1 0G0 1G1 0O0 1O1", "0F1 1F0 1B0 0B1 0G1 1G0 0O1 1O0"});
  EXPECT_EQ(list(lower(table, ReceivePlacement::Consumer), 0),
            Listing({"compute 0F0", "send 0F0 to 1 after #0", "recv 1B0 from 1",
                     "compute 0B0 after #0, #2", "recv 0F1 from 1",
                     "compute 1F1 after #4", "compute 1B1 after #5",
                     "send 1B1 to 1 after #6", "all_reduce 0G0 after #6, #3",
                     "all_reduce 1G1 after #6, #3", "all_reduce 1G1 after #6",
                     "compute 0O0 after #8", "compute 1O1 after #9, #10"}));
}
