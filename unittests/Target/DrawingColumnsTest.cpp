//===- DrawingColumnsTest.cpp - Tests of the columns of drawings ----------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Which item waits for which, on timelines that can be checked by hand.
//
//===----------------------------------------------------------------------===//

#include "PipeSched/Target/DrawingColumns.h"
#include "Results.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

using namespace pipesched;
using namespace pipesched::test;
using testing::ElementsAre;
using testing::HasSubstr;

static constexpr int64_t us = 1000000;

/// F 10 us, B 20 us; a message holds its queues for 3 us and arrives 2 us
/// later.
///
///   worker 0   0F0 [0,10]                             0B0 [50,70]
///   worker 1              1F0 [15,25]  1B0 [25,45]
///
///   items      0 0F0   1 0B0   2 1F0   3 1B0   4 send 0F0   5 send 1B0
TEST(DrawingColumns, ItemsWaitForItems) {
  DrawingColumns columns =
      drawingColumnsOf(evaluate1F1B("s", 2, 1, profileWithMessages()));
  EXPECT_THAT(columns.rowBegins, ElementsAre(0, 2, 4));
  EXPECT_THAT(columns.worker, ElementsAre(0, 0, 1, 1, 0, 1));
  EXPECT_THAT(columns.peer, ElementsAre(-1, -1, -1, -1, 1, 0));
  EXPECT_THAT(columns.stage, ElementsAre(0, 0, 1, 1, 0, 1));
  EXPECT_THAT(columns.phase, ElementsAre(0, 1, 0, 1, 0, 1));
  EXPECT_THAT(columns.startPs,
              ElementsAre(0, 50 * us, 15 * us, 25 * us, 10 * us, 45 * us));
  EXPECT_THAT(columns.releasePs, ElementsAre(10 * us, 70 * us, 25 * us, 45 * us,
                                             13 * us, 48 * us));
  EXPECT_THAT(columns.endPs, ElementsAre(10 * us, 70 * us, 25 * us, 45 * us,
                                         15 * us, 50 * us));
  EXPECT_THAT(columns.awaited, ElementsAre(-1, 5, 4, 2, 0, 3));
  EXPECT_THAT(columns.criticalPath, ElementsAre(0, 4, 2, 3, 5, 1));
  EXPECT_THAT(columns.secondStage, ElementsAre());

  EXPECT_THAT(columns.idleWorker, ElementsAre(0, 0, 1, 1));
  EXPECT_THAT(columns.idleCause, ElementsAre(2, 4, 0, 1));
  EXPECT_THAT(columns.idleBefore, ElementsAre(1, 1, 2, -1));
  EXPECT_THAT(columns.idleBeginPs, ElementsAre(10 * us, 45 * us, 0, 45 * us));
  EXPECT_THAT(columns.idleEndPs,
              ElementsAre(45 * us, 50 * us, 15 * us, 70 * us));

  EXPECT_THAT(columns.memoryBegins, ElementsAre(0, 2, 4));
  EXPECT_THAT(columns.memoryPs, ElementsAre(0, 70 * us, 15 * us, 45 * us));
  EXPECT_THAT(columns.memoryHeld, ElementsAre(1, 0, 1, 0));
  EXPECT_THAT(columns.facts, HasSubstr(R"("makespan_ps":70000000)"));
  EXPECT_THAT(columns.facts, HasSubstr(R"("memory":{"unit":"activations"})"));
}

/// If messages hold rows, a Recv is a separate item.
TEST(DrawingColumns, ReceivesThatHoldRows) {
  TimingOptions timing;
  timing.transport = Transport::Blocking;
  DrawingColumns columns =
      drawingColumnsOf(evaluate1F1B("s", 2, 1, profileWithMessages(), timing));
  size_t numReceives =
      llvm::count(columns.kind, static_cast<int8_t>(InstructionKind::Recv));
  EXPECT_EQ(columns.getNumCells(), 4u);
  EXPECT_EQ(columns.size(), 8u);
  EXPECT_EQ(numReceives, 2u);
  for (size_t item = 0; item < columns.size(); ++item)
    if (int32_t awaited = columns.awaited[item]; awaited >= 0) {
      EXPECT_TRUE(columns.startPs[item] == columns.releasePs[awaited] ||
                  columns.startPs[item] == columns.endPs[awaited]);
    }
}

/// DualPipe overlaps F and B.
TEST(DrawingColumns, Pairs) {
  static Table table = llvm::cantFail(generate(*findFamily("dualpipe"), 4, 8));
  NamedEvaluation result;
  result.name = "pairs";
  result.placement = table.placement;
  result.table = table.view();
  result.evaluation =
      llvm::cantFail(evaluateTable(result.tableView(), "", {}, {}));
  DrawingColumns columns = drawingColumnsOf(result);
  ASSERT_EQ(columns.secondPhase.size(), columns.getNumCells());
  size_t numPairs = llvm::count_if(columns.secondPhase,
                                   [](int8_t phase) { return phase >= 0; });
  EXPECT_GT(numPairs, 0u);
  size_t numCells = 0;
  for (int64_t worker = 0; worker < table.placement.getNumWorkers(); ++worker)
    numCells += table.rows[worker].size();
  EXPECT_EQ(columns.getNumCells() + numPairs, numCells);
}
