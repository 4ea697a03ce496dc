//===- Propagation.h - Time windows of cells --------------------*- C++ -*-===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Time windows of all cells if the schedule is to be no longer than a given
// makespan. Precedences narrow them, and so do all orders that a worker's row
// can have (docs/Optimize.md, "Rows as paths").
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_LIB_OPTIMIZE_BOUNDS_PROPAGATION_H
#define PIPESCHED_LIB_OPTIMIZE_BOUNDS_PROPAGATION_H

#include "RowPaths.h"

namespace pipesched::optimize {

/// Finds out when each cell can still start under a makespan. For one row alone
/// this is exact: each edge that is kept lies on an order of the row that
/// respects windows and memory.
class Propagation {
public:
  explicit Propagation(const BoundsGraph &graph);

  /// Finds the windows under a makespan. False: no schedule is that short.
  /// After the deadline the remaining rows get no paths, which makes the
  /// windows wider but not wrong.
  bool start(Windows &windows, int64_t makespan, const Deadline &deadline);

  /// Narrows the windows of a longer makespan to those of a shorter one.
  bool shorten(Windows &windows, int64_t makespan, const Deadline &deadline);

  /// Duration of a cell, or of the R of a stage (RowEdge::cell).
  int64_t durationOf(int32_t cell) const { return durations[cell]; }

  /// Narrows windows until nothing changes. False: one is empty.
  bool narrow(Windows &windows, const Deadline &deadline) {
    return narrow(windows, windows.rows, /*dropEdges=*/true, deadline);
  }

  /// Cuts off the ends of windows where the cell cannot start (shaving, Martin
  /// and Shmoys 1996). False: one is empty.
  bool shave(Windows &windows, const Deadline &deadline);

private:
  enum class Side : uint8_t { Early, Late };

  bool narrow(Times &times, std::vector<RowPaths> &rows, bool dropEdges,
              const Deadline &deadline);
  bool sweep(Times &times) const;
  bool narrowRow(Times &times, RowPaths &row, int64_t worker, bool dropEdges);
  bool readForward(const Times &times, const RowPaths &row);
  void readBackward(const Times &times, RowPaths &row, bool dropEdges);
  bool tighten(Times &times, int64_t worker);
  void boundCopies(const Times &times, int64_t worker);
  int64_t earliest(const Times &times, const RowEdge &edge) const;
  int64_t latestOf(const Times &times, const RowEdge &edge) const;
  bool canStartWithin(Windows &windows, int32_t cell, Side side, int64_t ticks,
                      const Deadline &deadline);
  bool shaveCell(Windows &windows, int32_t cell, Side side, bool &changed,
                 const Deadline &deadline);

  const BoundsGraph &graph;
  std::vector<int64_t> durations; ///< by cell, then of R by stage
  Times probe;
  // Of the current row. By state: the earliest time to reach it and the latest
  // to leave it. By cell: its first and last start on any path. By n: when n
  // offloads can be over, and when the last n reloads have to begin.
  std::vector<int64_t> reached, left, first, final;
  std::vector<int64_t> offloaded, reloaded;
};

} // namespace pipesched::optimize

#endif // PIPESCHED_LIB_OPTIMIZE_BOUNDS_PROPAGATION_H
