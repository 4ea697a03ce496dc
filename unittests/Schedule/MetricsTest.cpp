//===- MetricsTest.cpp - Level 2 metrics ----------------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Tables small enough to count by hand: idle, peaks and retention, split
// backwards and overlapped pairs.
//
//===----------------------------------------------------------------------===//

#include "PipeSched/Schedule/Table/Metrics.h"
#include "../Support/TestTables.h"

using namespace pipesched;
using Counts = std::vector<int64_t>;

static TableMetrics measure(const Table &table) {
  TableView view = table.view();
  CellIndex index = llvm::cantFail(CellIndex::create(view));
  SlotAssignment slots = llvm::cantFail(assignSlots(view, index));
  return computeMetrics(view, index, slots);
}

TEST(Metrics, AreThoseCountedByHand) {
  // 0F0 0F1 _2  0B0 _ 0B1
  // _   1F0 1B0 1F1 1B1 _2
  TableMetrics metrics = measure(
      makeTable(makeLinear(2, 2), {"0F0 0F1 0B0 0B1", "1F0 1B0 1F1 1B1"}));
  EXPECT_EQ(metrics.slots, 9);
  EXPECT_EQ(metrics.busySlots, Counts({6, 6}));
  EXPECT_DOUBLE_EQ(metrics.bubbleRatio, 1.0 / 3);
  EXPECT_EQ(metrics.fillSlots, Counts({0, 1}));
  EXPECT_EQ(metrics.drainSlots, Counts({0, 2}));
  EXPECT_EQ(metrics.peakActivations, Counts({2, 1}));
  EXPECT_EQ(metrics.maxRetentionSlots, Counts({8, 3}));
  EXPECT_DOUBLE_EQ(metrics.meanRetentionSlots[0], 7.0); // 0..6 and 1..9
  EXPECT_DOUBLE_EQ(metrics.meanRetentionSlots[1], 3.0);
}

TEST(Metrics, CountIdleAsWrittenInAlignedTables) {
  Table table = makeTable(makeLinear(1, 1), {"_3 0F0 _4 0B0 _5"});
  table.aligned = true;
  TableMetrics metrics = measure(table);
  EXPECT_EQ(metrics.slots, 10);
  EXPECT_EQ(metrics.fillSlots, Counts({3}));
  EXPECT_EQ(metrics.drainSlots, Counts({0}));
  EXPECT_DOUBLE_EQ(metrics.bubbleRatio, 0.7);
}

TEST(Metrics, HoldActivationsUntilTheWeightGradient) {
  TableMetrics metrics =
      measure(makeTable(makeLinear(1, 2), {"0F0 0I0 0F1 0I1 0W0 0W1"}));
  EXPECT_EQ(metrics.peakActivations, Counts({2}));
  EXPECT_EQ(metrics.maxRetentionSlots, Counts({5}));
}

TEST(Metrics, HoldRecomputedActivationsFromR) {
  TableMetrics metrics =
      measure(makeTable(makeLinear(1, 3), {"0F0 0F1 0F2 0R1 0B1 0B0 0R2 0B2"}));
  EXPECT_EQ(metrics.peakActivations, Counts({2}));
  EXPECT_EQ(metrics.maxRetentionSlots, Counts({8}));
  EXPECT_DOUBLE_EQ(metrics.meanRetentionSlots[0], (8 + 3 + 3) / 3.0);
}

TEST(Metrics, OverlappedHalvesHoldTheirActivationsTogether) {
  // The pair takes three slots; at their end 0B0 releases.
  TableMetrics metrics =
      measure(makeTable(makeLinear(1, 2), {"0F0 0B0+0F1 0B1"}));
  EXPECT_EQ(metrics.slots, 6);
  EXPECT_EQ(metrics.peakActivations, Counts({2}));
  EXPECT_EQ(metrics.maxRetentionSlots, Counts({5}));
  EXPECT_DOUBLE_EQ(metrics.meanRetentionSlots[0], 4.5);
}
