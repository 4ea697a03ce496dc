//===- LoweringTest.cpp - From a table to a program -----------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The order of messages within a slot, numbers of groups, and which forwards
// wait for forwards. test/Conversion/pipe-to-exec.mlir has whole programs.
//
//===----------------------------------------------------------------------===//

#include "PipeSched/Schedule/Program/Lowering.h"
#include "../Support/TestTables.h"
#include "PipeSched/Schedule/Program/ForwardSends.h"
#include "PipeSched/Schedule/Table/Groups.h"
#include "PipeSched/Schedule/Table/Slots.h"

using namespace pipesched;
using Waits = std::vector<std::string>;
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

/// Lists the new operands, as "0F1 for 0F0 on 1".
static Waits addedWaits(const Table &table) {
  Program before =
      llvm::cantFail(lowerTable(table.view(), ReceivePlacement::Arrival));
  Program after = before;
  synchronizeForwards(after);
  Waits waits;
  for (uint32_t i = 0; i < before.instructions.size(); ++i) {
    llvm::ArrayRef<uint32_t> own = after.operandsOf(i);
    llvm::ArrayRef<uint32_t> given = before.operandsOf(i);
    EXPECT_EQ(own.take_front(given.size()), given);
    for (uint32_t operand : own.drop_front(given.size())) {
      const Instruction &receive = after.instructions[operand];
      EXPECT_EQ(receive.kind, InstructionKind::Recv);
      int64_t row = llvm::upper_bound(after.rowBegins, operand) -
                    after.rowBegins.begin() - 1;
      waits.push_back(after.instructions[i].cell.str() + " for " +
                      receive.cell.str() + " on " + std::to_string(row));
    }
  }
  return waits;
}

TEST(ForwardSends, HoldForwardsBehindForwards) {
  EXPECT_EQ(
      addedWaits(makeTable(makeLinear(3, 3), {"0F0 0F1 0F2 0B0 0B1 0B2",
                                              "1F0 1F1 1B0 1F2 1B1 1B2",
                                              "2F0 2F1 2B0 2F2 2B1 2B2"})),
      Waits({"0F1 for 0F0 on 1", "0F2 for 0F1 on 1", "1F1 for 1F0 on 2"}));
}

TEST(ForwardSends, GoToOtherWorkersOnly) {
  // 0F0 stays on its worker, 1F0 is sent to worker 1, 2F0 stays there.
  EXPECT_EQ(addedWaits(makeTable(makePlacement(2, 1, {pathOn({0, 0, 1, 1})}),
                                 {"0F0 1F0 1B0 0B0", "2F0 3F0 3B0 2B0"})),
            Waits());
  EXPECT_EQ(addedWaits(makeTable(
                makePlacement(2, 2, {pathOn({0, 0, 1})}),
                {"0F0 1F0 0F1 1F1 1B0 0B0 1B1 0B1", "2F0 2B0 2F1 2B1"})),
            Waits({"0F1 for 1F0 on 1"}));
}

TEST(ForwardSends, LeavePairsAndOtherCellsBetween) {
  EXPECT_EQ(
      addedWaits(makeTable(makeLinear(2, 3), {"0F0 0R0 0F1 0F2+0B0 0B1 0B2",
                                              "1F0 1B0 1F1 1B1 1F2 1B2"})),
      Waits());
  EXPECT_EQ(addedWaits(makeTable(makeLinear(2, 4),
                                 {"0F0 0F1+0B0 0F2 0F3 0B1 0B2 0B3",
                                  "1F0 1B0 1F1 1B1 1F2 1B2 1F3 1B3"})),
            Waits({"0F3 for 0F2 on 1"}));
}

/// A copy between two forwards makes no difference.
TEST(ForwardSends, LookThroughCopies) {
  EXPECT_EQ(
      addedWaits(makeTable(makeLinear(2, 2),
                           {"0F0 0D0 0F1 0U0 0u0 0B0 0B1", "1F0 1B0 1F1 1B1"})),
      Waits({"0F1 for 0F0 on 1"}));
}
