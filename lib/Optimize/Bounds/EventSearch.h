//===- EventSearch.h - Exact search with copies -----------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Decides from event to event which tasks start, including copies and
// recomputation (docs/Optimize.md, "Events").
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_LIB_OPTIMIZE_BOUNDS_EVENTSEARCH_H
#define PIPESCHED_LIB_OPTIMIZE_BOUNDS_EVENTSEARCH_H

#include "BranchAndBound.h"
#include "EventState.h"

namespace pipesched::optimize {

/// Looks for a schedule that is no longer than a makespan. With enough time it
/// always finds one or refutes the makespan.
class EventSearch {
public:
  explicit EventSearch(const BoundsGraph &graph);

  /// Whether the problem is small enough for this search.
  bool isSmall() const;

  /// `windows` must be for `makespan`. Reuses the states that earlier searches
  /// refuted, if their makespan was at least as long.
  Outcome search(const Times &windows, int64_t makespan,
                 const Deadline &deadline);

  /// The solution that search() found.
  Solution takeSolution() { return std::move(*solution); }

  size_t nodes = 0;

private:
  /// A state that has been reached. It is refuted if its subtree is.
  struct Reached {
    std::string key;
    std::vector<int64_t> times;
  };
  /// Buffers of one level of the search, which are allocated only once.
  struct Level {
    EventState state, child;
    llvm::SmallVector<EventChoice, 8> choices;
    std::vector<Reached> reached;
    size_t numReached = 0;
  };
  struct Job {
    int64_t release, deadline, duration;
  };

  Outcome explore(size_t depth);
  Outcome startEach(size_t depth);
  bool isLate(const EventState &state);
  bool isRowLate(const EventState &state, uint32_t worker);
  void addReturns(const EventState &state, uint32_t worker,
                  ActivationState wanted);
  bool areJobsLate();
  void describe(const EventState &state, Reached &reached);
  bool isRefuted(const Reached &reached) const;
  bool reach(Level &level);
  Outcome refute(const Level &level);

  const BoundsGraph &graph;
  EventRules rules;
  const Times *windows = nullptr;
  const Deadline *deadline = nullptr;
  /// Makespan for which the states in `seen` are refuted.
  int64_t refutedMakespan = 0;
  std::vector<std::unique_ptr<Level>> levels;
  std::vector<EventStart> path;
  std::optional<Solution> solution;

  // Buffers of isLate() and describe().
  std::vector<int64_t> earliest;
  std::vector<Job> jobs;
  std::vector<std::pair<int64_t, int64_t>> heap;
  std::vector<uint32_t> order;

  llvm::StringMap<std::vector<int64_t>> seen;
  size_t seenTimes = 0;
};

} // namespace pipesched::optimize

#endif // PIPESCHED_LIB_OPTIMIZE_BOUNDS_EVENTSEARCH_H
