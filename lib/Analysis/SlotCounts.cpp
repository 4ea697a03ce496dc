//===- SlotCounts.cpp - Level 2 of a walk ---------------------------------===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Reads which activations are recomputed, and sums rows.
//
//===----------------------------------------------------------------------===//

#include "SlotCounts.h"

using namespace pipesched;

SlotCounts::SlotCounts(const TableView &table, const PhaseCounts &counts)
    : placement(*table.placement), live(placement.getNumGlobalStages()),
      rows(table.rows.size()) {
  offsets.push_back(0);
  for (auto [stage, place] : llvm::enumerate(live)) {
    place.allocate(4, allocator);
    offsets.push_back(offsets.back() +
                      placement.countOnPath(placement.pathOfStage(stage)));
  }
  if (!counts.has(Phase::Recompute))
    return;
  recomputed.assign(offsets.back(), false);
  for (llvm::ArrayRef<Cell> row : table.rows)
    for (Cell cell : row)
      if (cell.is(Phase::Recompute))
        recomputed[offsets[placement.globalStage(cell)] +
                   placement.rankOnPath(cell.getMicrobatch())] = true;
}

TableMetrics SlotCounts::take() const {
  TableMetrics metrics;
  for (const RowCounts &row : rows)
    metrics.slots = std::max<int64_t>(metrics.slots, row.last);
  for (const RowCounts &row : rows) {
    RowMetrics sums;
    bool isEmpty = row.last == 0;
    sums.busy = row.busy;
    sums.first = isEmpty ? -1 : int64_t(row.first);
    sums.last = row.last;
    sums.peak = row.peak;
    sums.numRetained = row.numRetained;
    sums.maxRetention = row.maxRetention;
    sums.totalRetention = static_cast<double>(row.totalRetention);
    append(metrics, sums);
  }
  setBubbleRatio(metrics);
  return metrics;
}
