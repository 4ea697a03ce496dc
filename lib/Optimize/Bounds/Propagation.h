//===- Propagation.h - Time windows of cells --------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Time windows of all cells for a given largest makespan. Precedences narrow
// them, and so do all possible orders of a worker's row (docs/Optimize.md,
// "Rows as paths").
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_LIB_OPTIMIZE_BOUNDS_PROPAGATION_H
#define PIPESCHED_LIB_OPTIMIZE_BOUNDS_PROPAGATION_H

#include "BoundsGraph.h"
#include "PipeSched/Optimize/Bounds/Bounds.h"
#include <chrono>

namespace pipesched::optimize {

/// The time and work at which a proof must stop. All deadlines of a proof share
/// one counter of work.
class Deadline {
public:
  /// `done` counts the work. It must outlive the deadline.
  Deadline(const ProofLimits &limits, uint64_t &done)
      : mustStop(limits.mustStop), end(after(limits.seconds)), done(&done),
        mostWork(limits.work) {}

  bool isOver() const {
    return *done >= mostWork || (mustStop && mustStop()) || Clock::now() >= end;
  }
  /// Counts row edges or precedences that have been read.
  void count(uint64_t work) const { *done += work; }
  /// Returns a deadline after this share of the remaining time and work.
  Deadline share(double part) const {
    Deadline shorter = *this;
    double seconds = std::chrono::duration<double>(end - Clock::now()).count();
    shorter.end = after(part * seconds);
    if (mostWork != std::numeric_limits<uint64_t>::max() && *done < mostWork)
      shorter.mostWork = *done + uint64_t(part * double(mostWork - *done));
    return shorter;
  }

private:
  using Clock = std::chrono::steady_clock;

  static Clock::time_point after(double seconds) {
    constexpr double most = 1e8; // does not overflow a clock of 64 bits
    return Clock::now() +
           std::chrono::duration_cast<Clock::duration>(
               std::chrono::duration<double>(std::clamp(seconds, 0.0, most)));
  }

  llvm::function_ref<bool()> mustStop;
  Clock::time_point end;
  uint64_t *done;
  uint64_t mostWork;
};

/// One more cell in a row. A state describes the row so far: the number of F, I
/// and W of each of its stages, and the number of F that keep only the
/// checkpoint.
struct RowEdge {
  int32_t from, to; ///< states
  int32_t cell;     ///< for an R: number of cells + its global stage
  int32_t offloads; ///< number of activations on the host while the cell runs
  bool keepsCheckpoint; ///< an F that is recomputed later
};

/// All possible orders of a row: the paths through its states, as edges in
/// topological order. There are no edges if there would be too many.
struct RowPaths {
  std::vector<RowEdge> edges;
  int32_t numStates = 0, last = 0; ///< state 0 is the first
};

/// Time windows: the times at which cells can start.
struct Times {
  std::vector<int64_t> starts, latest; ///< by cell
  /// By worker: whether its row must be read again.
  std::vector<uint8_t> isStale;
};

/// Time windows and the remaining orders of rows.
struct Windows : Times {
  std::vector<RowPaths> rows; ///< by worker
};

/// Determines when each cell can start under a makespan. For a single row this
/// is exact: each remaining edge is on an order of the row that respects
/// windows and memory.
class Propagation {
public:
  explicit Propagation(const BoundsGraph &graph);

  /// Finds the windows under a makespan. Returns false if no schedule is that
  /// short. After the deadline, the remaining rows get no paths, which makes
  /// the windows wider but still valid.
  bool start(Windows &windows, int64_t makespan, const Deadline &deadline);

  /// Narrows the windows of a longer makespan to the windows of a shorter one.
  bool shorten(Windows &windows, int64_t makespan, const Deadline &deadline);

  /// Duration of a cell, or of the R of a stage (RowEdge::cell).
  int64_t durationOf(int32_t cell) const { return durations[cell]; }

  /// Narrows windows until nothing changes. Returns false if a window becomes
  /// empty.
  bool narrow(Windows &windows, const Deadline &deadline) {
    return narrow(windows, windows.rows, /*dropEdges=*/true, deadline);
  }

  /// Cuts off the ends of windows where the cell cannot start (shaving, Martin
  /// and Shmoys 1996). Returns false if a window becomes empty.
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
  // For the current row. By state: the earliest time to reach it and the latest
  // time to leave it. By cell: its first and last start on any path. By n: the
  // earliest end of n offloads, and the latest start of the last n reloads.
  std::vector<int64_t> reached, left, first, final;
  std::vector<int64_t> offloaded, reloaded;
};

} // namespace pipesched::optimize

#endif // PIPESCHED_LIB_OPTIMIZE_BOUNDS_PROPAGATION_H
