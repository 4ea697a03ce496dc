//===- RowPaths.h - All orders of a row -------------------------*- C++ -*-===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// All orders that the row of one worker can have, as paths through a graph
// whose states say what the row has done so far (docs/Optimize.md, "Rows as
// paths").
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_LIB_OPTIMIZE_BOUNDS_ROWPATHS_H
#define PIPESCHED_LIB_OPTIMIZE_BOUNDS_ROWPATHS_H

#include "BoundsGraph.h"
#include "PipeSched/Optimize/Bounds/Bounds.h"
#include <chrono>

namespace pipesched::optimize {

/// Says when a proof has to stop. All deadlines of a proof share one counter of
/// work.
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
  /// A deadline after this share of the time and work that is left.
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

/// One more cell in a row. A state is what the row has done so far: how many F,
/// I and W of each of its stages, and of how many F only the checkpoint is
/// kept.
struct RowEdge {
  int32_t from, to;     ///< states
  int32_t cell;         ///< an R: number of cells + its global stage
  int32_t offloads;     ///< activations on the host while the cell runs
  bool keepsCheckpoint; ///< an F that is recomputed later
};

/// All orders a row can have: the paths through its states, as edges in
/// topological order. Without edges where there would be too many.
struct RowPaths {
  std::vector<RowEdge> edges;
  int32_t numStates = 0, last = 0; ///< state 0 is the first
};

/// Time windows: when cells can start.
struct Times {
  std::vector<int64_t> starts, latest; ///< by cell
  std::vector<uint8_t> isStale; ///< by worker: its row has to be read again
};

/// Time windows and the orders of rows that are left.
struct Windows : Times {
  std::vector<RowPaths> rows; ///< by worker
};

/// The orders of a row that memory and times allow. Nothing: there is none.
/// Without edges: there are more than `mostEdges`, more microbatches than a
/// state can count, or the deadline came first.
std::optional<RowPaths> listRowPaths(const BoundsGraph &graph, int64_t worker,
                                     const Times &times, size_t mostEdges,
                                     const Deadline &deadline);

} // namespace pipesched::optimize

#endif // PIPESCHED_LIB_OPTIMIZE_BOUNDS_ROWPATHS_H
