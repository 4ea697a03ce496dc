//===- SameWalks.h - Compares results of walks ------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_UNITTESTS_SUPPORT_SAMEWALKS_H
#define PIPESCHED_UNITTESTS_SUPPORT_SAMEWALKS_H

#include "PipeSched/Analysis/Walk/WalkTable.h"
#include "gtest/gtest.h"

namespace pipesched {

inline void expectSameIdle(const IdleTimes &found, const IdleTimes &wanted) {
  for (const IdleCause &cause : kIdleCauses)
    EXPECT_EQ(found.*cause.ps, wanted.*cause.ps) << cause.key.str();
  EXPECT_EQ(found.busyPs, wanted.busyPs);
  EXPECT_EQ(found.firstPs, wanted.firstPs);
  EXPECT_EQ(found.lastPs, wanted.lastPs);
  EXPECT_EQ(found.offloadPs, wanted.offloadPs);
  EXPECT_EQ(found.reloadPs, wanted.reloadPs);
}

inline void expectSameMemory(const MemoryUsage &found,
                             const MemoryUsage &wanted) {
  EXPECT_EQ(found.bottleneckWorker, wanted.bottleneckWorker);
  EXPECT_EQ(found.capacityBytes, wanted.capacityBytes);
  for (auto [one, other] : llvm::zip_equal(found.workers, wanted.workers)) {
    EXPECT_EQ(one.weightBytes, other.weightBytes);
    EXPECT_EQ(one.peakActivationBytes, other.peakActivationBytes);
    EXPECT_EQ(one.peakPs, other.peakPs);
    EXPECT_EQ(one.peakCell, other.peakCell);
    EXPECT_EQ(one.peakMicrobatches, other.peakMicrobatches);
    EXPECT_EQ(one.offloadedBytes, other.offloadedBytes);
    EXPECT_EQ(one.reloadedBytes, other.reloadedBytes);
  }
}

inline void expectSameMetrics(const TableMetrics &found,
                              const TableMetrics &wanted) {
  EXPECT_EQ(found.slots, wanted.slots);
  EXPECT_EQ(found.busySlots, wanted.busySlots);
  EXPECT_EQ(found.bubbleRatio, wanted.bubbleRatio);
  EXPECT_EQ(found.fillSlots, wanted.fillSlots);
  EXPECT_EQ(found.drainSlots, wanted.drainSlots);
  EXPECT_EQ(found.peakActivations, wanted.peakActivations);
  EXPECT_EQ(found.meanRetentionSlots, wanted.meanRetentionSlots);
  EXPECT_EQ(found.maxRetentionSlots, wanted.maxRetentionSlots);
}

} // namespace pipesched

#endif // PIPESCHED_UNITTESTS_SUPPORT_SAMEWALKS_H
