//===- ForwardSendsTest.cpp - Forwards that wait for their messages -------===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Checks which computes get an operand, and which operand.
//
//===----------------------------------------------------------------------===//

#include "PipeSched/Schedule/Program/ForwardSends.h"
#include "../Support/TestTables.h"
#include "PipeSched/Schedule/Program/Lowering.h"

using namespace pipesched;
using Waits = std::vector<std::string>;

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
  // 0F0 stays on its worker, 1F0 goes to worker 1, 2F0 stays there.
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
