//===- Metrics.h - Level 2: what a slot table tells -------------*- C++ -*-===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Slots, idle, fill and drain, retention and activation peaks of a table, in
// its slots (arXiv 2605.24006, section on instantiated tables).
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_SCHEDULE_METRICS_H
#define PIPESCHED_SCHEDULE_METRICS_H

#include "PipeSched/Schedule/Slots.h"

namespace pipesched {

/// Counts in the table's slots. Vectors have one entry per worker. Only cells
/// of the compute queue count; for a worker without any, all slots are fill.
struct TableMetrics {
  int64_t slots = 0;
  std::vector<int64_t> busySlots;
  double bubbleRatio = 0;          ///< idle slots / all slots
  std::vector<int64_t> fillSlots;  ///< idle before the first cell
  std::vector<int64_t> drainSlots; ///< idle after the last cell
  /// Most activations (of one stage and microbatch) held at once: +1 at F, or
  /// at the R that recomputes them, -1 after B or W.
  std::vector<int64_t> peakActivations;
  /// Slots from the start of the F or R that makes activations to the end of
  /// the B or W that releases them.
  std::vector<double> meanRetentionSlots;
  std::vector<int64_t> maxRetentionSlots;
};

/// Linear in cells. `slots` come from alignSlots or readSlots.
TableMetrics computeMetrics(const TableView &table, const CellIndex &index,
                            const SlotAssignment &slots);

} // namespace pipesched

#endif // PIPESCHED_SCHEDULE_METRICS_H
