//===- BranchAndBound.h - Exact search --------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Decides the next cell of each row, in the order of time (docs/Optimize.md,
// "Branch and bound").
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_LIB_OPTIMIZE_BOUNDS_BRANCHANDBOUND_H
#define PIPESCHED_LIB_OPTIMIZE_BOUNDS_BRANCHANDBOUND_H

#include "PipeSched/Optimize/Problem/Solution.h"
#include "Propagation.h"
#include "llvm/ADT/StringMap.h"

namespace pipesched::optimize {

/// Assigns microbatches to the cells of rows that only count them. Each R takes
/// the oldest checkpoint of its stage.
class LeafSchedule {
public:
  explicit LeafSchedule(const BoundsGraph &graph);

  /// Returns nothing if the rows are not a schedule: they need copies, or an I
  /// comes before its R.
  std::optional<Solution> build(const Windows &windows) const;

private:
  std::optional<Row> rowOf(const RowPaths &paths) const;
  Cell nameOf(int64_t globalStage, Phase phase, int64_t rank) const;

  const BoundsGraph &graph;
  std::vector<std::vector<int64_t>> microbatches; ///< by path and rank
};

enum class Outcome : uint8_t {
  Refuted, ///< no schedule is that short
  Found,   ///< takeSolution() returns a schedule
  Open,    ///< no bound refutes these orders, but copies or R may
  Stopped, ///< out of time, nodes or memory
};

/// Looks for a schedule that is no longer than a makespan. Without offload and
/// recompute, every order that is left at the end is a schedule.
class BranchAndBound {
public:
  BranchAndBound(const BoundsGraph &graph, Propagation &propagation);

  /// `windows` come from Propagation::start.
  Outcome search(const Windows &windows, size_t mostNodes,
                 const Deadline &deadline);

  /// The solution that search() found.
  Solution takeSolution() { return std::move(*solution); }

  size_t nodes = 0;

private:
  /// The decisions of a node: the edges with which each row starts, and the
  /// edges that may follow.
  struct Frontier {
    struct Row {
      uint32_t begin = 0, end = 0; ///< edges to choose from; earlier ones are
                                   ///< decided
      int64_t clock = 0;           ///< end of the last decided cell
    };
    std::vector<Row> rows;
    std::vector<bool> decided; ///< by cell
    bool settled = true; ///< whether no decided cell waits for an undecided one
  };
  /// The row to branch on, and the edges to try in turn.
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
  Frontier frontier; ///< of the current node
  std::optional<Solution> solution;

  // Frontiers that were already searched: their times, by the states of all
  // rows. A later frontier with the same states and no earlier time cannot be
  // better.
  std::string key;
  std::vector<int64_t> times;
  llvm::StringMap<std::vector<int64_t>> seen;
  size_t seenTimes = 0, nodesLeft = 0;
};

} // namespace pipesched::optimize

#endif // PIPESCHED_LIB_OPTIMIZE_BOUNDS_BRANCHANDBOUND_H
