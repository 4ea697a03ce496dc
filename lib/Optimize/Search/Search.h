//===- Search.h - One thread of a search ------------------------*- C++ -*-===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Heuristics, then annealing from one plan after the other, until stopped.
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

/// A plan that a search has, until it goes on.
struct RankedPlan {
  const Plan *plan;
  int64_t objective;
  llvm::StringRef origin;
};

/// A search with random numbers of its own. The same seed, starts and limits
/// give the same plan.
class Search {
public:
  virtual ~Search() = default;

  /// Takes one microbatch after the other: a plan wherever there is one.
  virtual void start() = 0;
  /// Takes the plan, and what fits the memory of one that does not, until
  /// stopped.
  virtual void offer(const Candidate &candidate, Stopper &stopper) = 0;
  /// Random list schedules, and what fits the memory of those that do not.
  virtual void construct(Stopper &stopper) = 0;
  /// Anneals until stopped, in runs that are longer the more there is left.
  virtual void anneal(Stopper &stopper) = 0;

  virtual int64_t getBestObjective() const = 0;
  /// The best plan, then others that are worth going on with, the best first.
  virtual std::vector<RankedPlan> getPlans() const = 0;
  /// Rows of a plan. Where the period is the objective, with joins where cells
  /// of one of many steps wait for memory; then, if they are others, where
  /// those of the first step do, as memory has to suffice for both.
  virtual std::vector<std::vector<Row>> rowsOf(const Plan &plan) = 0;
};

std::unique_ptr<Search> makeSearch(const Encoding &encoding, uint64_t seed);

} // namespace pipesched::optimize

#endif // PIPESCHED_LIB_OPTIMIZE_SEARCH_SEARCH_H
