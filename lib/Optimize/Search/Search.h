//===- Search.h - One search of many ----------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// One search: first heuristics, then annealing runs until it must stop.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_LIB_OPTIMIZE_SEARCH_SEARCH_H
#define PIPESCHED_LIB_OPTIMIZE_SEARCH_SEARCH_H

#include "LocalSearch.h"
#include <memory>

namespace pipesched::optimize {

/// A plan to start from.
struct Candidate {
  Plan plan;
  std::string origin;
};

/// A plan of a search, valid until the search continues.
struct RankedPlan {
  const Plan *plan;
  int64_t objective;
  llvm::StringRef origin;
};

/// A search with its own random numbers. The same seed, starts and limits give
/// the same plan.
class Search {
public:
  virtual ~Search() = default;

  /// Adds the plan that runs one microbatch after the other, which is feasible
  /// if any plan is.
  virtual void start() = 0;
  /// Adds the plan. If it exceeds the memory, it is changed to fit.
  virtual void offer(const Candidate &candidate, Stopper &stopper) = 0;
  /// Offers random list schedules.
  virtual void construct(Stopper &stopper) = 0;
  /// Anneals until it must stop, in runs of increasing length.
  virtual void anneal(Stopper &stopper) = 0;

  virtual int64_t getBestObjective() const = 0;
  /// Returns the best plan, then others to continue with, the best first.
  virtual std::vector<RankedPlan> getPlans() const = 0;
  /// Returns the rows of a plan. If the period is the objective, cells have the
  /// joins that they need in steady state. The memory must suffice for the
  /// first step too, so a second version follows if the first step needs other
  /// joins.
  virtual std::vector<std::vector<Row>> rowsOf(const Plan &plan) = 0;
};

std::unique_ptr<Search> makeSearch(const Encoding &encoding, uint64_t seed);

} // namespace pipesched::optimize

#endif // PIPESCHED_LIB_OPTIMIZE_SEARCH_SEARCH_H
