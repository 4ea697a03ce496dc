//===- RowPaths.h - All orders of a row -------------------------*- C++ -*-===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The orders that the row of one worker can have, as paths through what it has
// done so far (docs/Optimize.md, "Rows as paths").
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_LIB_OPTIMIZE_BOUNDS_ROWPATHS_H
#define PIPESCHED_LIB_OPTIMIZE_BOUNDS_ROWPATHS_H

#include "BoundsGraph.h"
#include "PipeSched/Optimize/Bounds.h"
#include <chrono>

namespace pipesched::optimize {

/// Says when a proof has to stop. Deadlines of one proof count the same work.
class Deadline {
public:
  /// `done` counts the work and outlives the deadline.
  Deadline(const ProofLimits &limits, uint64_t &done)
      : mustStop(limits.mustStop), end(after(limits.seconds)), done(&done),
        mostWork(limits.work) {}

  bool isOver() const {
    return *done >= mostWork || (mustStop && mustStop()) || Clock::now() >= end;
  }
  /// More row edges or precedences have been read.
  void count(uint64_t work) const { *done += work; }
  /// The same for a share of what is left of time and work.
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
    constexpr double most = 1e8; // a clock of 64 bits does not overflow
    return Clock::now() +
           std::chrono::duration_cast<Clock::duration>(
               std::chrono::duration<double>(std::clamp(seconds, 0.0, most)));
  }

  llvm::function_ref<bool()> mustStop;
  Clock::time_point end;
  uint64_t *done;
  uint64_t mostWork;
};

/// One more cell in a row. States are what the row has done so far: how many F,
/// I and W of each of its stages, and of how many F the checkpoint alone is
/// kept.
struct RowEdge {
  int32_t from, to;     ///< states
  int32_t cell;         ///< numCells + stage: an R of that stage
  int32_t offloads;     ///< activations that have to be on the host meanwhile
  bool keepsCheckpoint; ///< an F, recomputed later
};

/// All orders a row can have: the paths through its states, as edges in
/// topological order. Empty where there are too many of them.
struct RowPaths {
  std::vector<RowEdge> edges;
  int32_t numStates = 0, last = 0; ///< the first state is 0
};

/// When cells can start.
struct Times {
  std::vector<int64_t> starts, latest; ///< by cell
  std::vector<uint8_t> isStale; ///< by worker: changed since its row was read
};

/// What is left to be decided.
struct Windows : Times {
  std::vector<RowPaths> rows; ///< by worker
};

/// The orders of a row that memory and times leave. Nothing: there is none.
/// Empty: more than so many edges, more microbatches than states count, or the
/// deadline was first.
std::optional<RowPaths> listRowPaths(const BoundsGraph &graph, int64_t worker,
                                     const Times &times, size_t mostEdges,
                                     const Deadline &deadline);

} // namespace pipesched::optimize

#endif // PIPESCHED_LIB_OPTIMIZE_BOUNDS_ROWPATHS_H
