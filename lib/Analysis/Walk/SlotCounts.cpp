//===- SlotCounts.cpp - Level 2 of a walk ---------------------------------===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Sums the counts of rows when a walk has ended.
//
//===----------------------------------------------------------------------===//

#include "SlotCounts.h"

using namespace pipesched;

SlotCounts::SlotCounts(const TableView &table, const PhaseCounts &counts)
    : placement(*table.placement), live(placement.getNumGlobalStages()),
      recomputed(table, counts), rows(table.rows.size()) {
  for (InFlight<int64_t> &place : live)
    place.allocate(4, allocator);
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
