//===- Metrics.h - Level 2: metrics of slot tables --------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Slots, idle, fill and drain, retention and activation peaks of a table, in
// its slots (arXiv 2605.24006, section on instantiated tables).
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_SCHEDULE_TABLE_METRICS_H
#define PIPESCHED_SCHEDULE_TABLE_METRICS_H

#include "PipeSched/Schedule/Table/Slots.h"

namespace pipesched {

/// Counts in the table's slots. Vectors have one entry per worker. Only cells
/// of the compute queue count; a worker without such cells has only fill slots.
struct TableMetrics {
  int64_t slots = 0;
  std::vector<int64_t> busySlots;
  double bubbleRatio = 0;          ///< idle slots / all slots
  std::vector<int64_t> fillSlots;  ///< idle before the first cell
  std::vector<int64_t> drainSlots; ///< idle after the last cell
  /// The most activations (of one stage and microbatch) held at once: +1 at F,
  /// or at the R that recomputes them, -1 after B or W. Copies to the host have
  /// no slots; if there are copies, an evaluation counts by the times of the
  /// cells instead (countActivations).
  std::vector<int64_t> peakActivations;
  /// Slots from the start of the F or R that makes activations to the end of
  /// the B or W that releases them.
  std::vector<double> meanRetentionSlots;
  std::vector<int64_t> maxRetentionSlots;
};

/// The sums of one row, in slots. `first` is -1 if the row has no cells.
struct RowMetrics {
  int64_t busy = 0, first = -1, last = 0, peak = 0;
  int64_t numRetained = 0, maxRetention = 0;
  double totalRetention = 0; ///< 64 bits may be too few
};

/// Adds the next worker; `metrics.slots` must be known.
void append(TableMetrics &metrics, const RowMetrics &row);
/// Computes the ratio when all workers have been added.
void setBubbleRatio(TableMetrics &metrics);

/// Computes the metrics, linear in cells. `slots` come from alignSlots or
/// readSlots.
TableMetrics computeMetrics(const TableView &table, const CellIndex &index,
                            const SlotAssignment &slots);

} // namespace pipesched

#endif // PIPESCHED_SCHEDULE_TABLE_METRICS_H
