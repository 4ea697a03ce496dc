//===- Propagation.h - When cells can still run -----------------*- C++ -*-===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Time windows of all cells under a makespan that is asked for, narrowed by
// precedences and by all orders that a worker's row can have (docs/Optimize.md,
// "Rows as paths").
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_LIB_OPTIMIZE_BOUNDS_PROPAGATION_H
#define PIPESCHED_LIB_OPTIMIZE_BOUNDS_PROPAGATION_H

#include "RowPaths.h"

namespace pipesched::optimize {

/// Finds what a makespan leaves open. Exact for a row alone: each edge that is
/// kept lies on an order of the row that respects windows and memory.
class Propagation {
public:
  explicit Propagation(const BoundsGraph &graph);

  /// Windows of a makespan. False: no schedule is that short. Where the
  /// deadline comes first rows are left without paths, which is weaker but
  /// holds.
  bool start(Windows &windows, int64_t makespan, const Deadline &deadline);

  /// Windows of a shorter makespan from those of a longer one.
  bool shorten(Windows &windows, int64_t makespan, const Deadline &deadline);

  /// Of a cell, or of the R of a stage (RowEdge).
  int64_t durationOf(int32_t cell) const { return durations[cell]; }

  /// Narrows windows until nothing changes; false: nothing is left.
  bool narrow(Windows &windows, const Deadline &deadline) {
    return narrow(windows, windows.rows, /*dropEdges=*/true, deadline);
  }

  /// Cuts off the ends of windows in which no cell can start (shaving, Martin
  /// and Shmoys 1996); false: nothing is left.
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
  // Of the row at hand: when a state is reached and has to be left, when each
  // cell runs on the paths that are left, when so many activations can be on
  // the host.
  std::vector<int64_t> reached, left, first, final;
  std::vector<int64_t> offloaded, reloaded;
};

} // namespace pipesched::optimize

#endif // PIPESCHED_LIB_OPTIMIZE_BOUNDS_PROPAGATION_H
