//===- BranchAndBound.h - Exact search --------------------------*- C++ -*-===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Decides row by row, in the order of time, which cell is next
// (docs/Optimize.md, "Branch and bound").
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_LIB_OPTIMIZE_BOUNDS_BRANCHANDBOUND_H
#define PIPESCHED_LIB_OPTIMIZE_BOUNDS_BRANCHANDBOUND_H

#include "LeafSchedule.h"
#include "Propagation.h"
#include "llvm/ADT/StringMap.h"

namespace pipesched::optimize {

enum class Outcome : uint8_t {
  Refuted, ///< no schedule is that short
  Found,   ///< getSolution() is
  Open,    ///< orders that no bound refutes, but copies may
  Stopped, ///< out of time or memory
};

/// Looks for a schedule of at most a makespan. Where nothing is offloaded or
/// recomputed, orders that are left are schedules.
class BranchAndBound {
public:
  BranchAndBound(const BoundsGraph &graph, Propagation &propagation);

  /// `windows` as Propagation::start left them.
  Outcome search(const Windows &windows, size_t mostNodes,
                 const Deadline &deadline);

  /// What search() found.
  Solution takeSolution() { return std::move(*solution); }

  size_t nodes = 0;

private:
  /// What is decided at a node: the edges that each row has to begin with, and
  /// those that may follow.
  struct Frontier {
    struct Row {
      uint32_t begin = 0, end = 0; ///< edges to choose from; decided before
      int64_t clock = 0;           ///< end of what is decided
    };
    std::vector<Row> rows;
    std::vector<bool> decided; ///< by cell
    bool settled = true;       ///< no decided cell waits for one that is not
  };
  /// A way to go on.
  struct Choice {
    int64_t worker = -1;
    llvm::SmallVector<RowEdge, 4> edges;
  };

  Outcome explore(Windows &windows, const Deadline &deadline);
  bool isWhole(const Windows &windows) const;
  void readFrontier(const Windows &windows);
  void decide(const Windows &windows, int64_t worker);
  int64_t startOf(const Windows &windows, int64_t worker,
                  const RowEdge &edge) const;
  bool isSchedulable(const RowEdge &edge) const;
  Choice choose(const Windows &windows) const;
  void keepActive(const Windows &windows, Choice &choice) const;
  bool isDominated(const Windows &windows);
  void record(const Windows &windows);

  const BoundsGraph &graph;
  Propagation &propagation;
  LeafSchedule leaf;
  bool activeSuffices, statesSuffice;
  std::vector<llvm::SmallVector<BoundsGraph::Arc, 4>> arcsInto; ///< by cell
  Frontier frontier; ///< of the node at hand
  std::optional<Solution> solution;

  // Frontiers that were searched: the times by the states of all rows. A later
  // frontier with the same states and no earlier times cannot do better.
  std::string key;
  std::vector<int64_t> times;
  llvm::StringMap<std::vector<int64_t>> seen;
  size_t seenTimes = 0, nodesLeft = 0;
};

} // namespace pipesched::optimize

#endif // PIPESCHED_LIB_OPTIMIZE_BOUNDS_BRANCHANDBOUND_H
