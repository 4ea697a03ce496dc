//===- Portfolio.h - Rounds of searches and proofs --------------*- C++ -*-===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Independent searches and proofs, in rounds. Those of a round may run in
// parallel.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_LIB_OPTIMIZE_SEARCH_PORTFOLIO_H
#define PIPESCHED_LIB_OPTIMIZE_SEARCH_PORTFOLIO_H

#include "Search.h"
#include "SharedState.h"

namespace pipesched::optimize {

/// Runs a portfolio of searches on the caller's pool.
///
///   round 1   search 0 .. search n-1                 until 5 % are used
///   round 2   proof, search 0 .. search n-1          until 35 %
///   round 3   proof, search 0 .. search n-1          until all is used
///
/// If evaluations are limited, their number alone determines how many searches
/// there are, and each gets an equal share. Then neither the number of threads
/// nor their speed changes the result. Otherwise there is one search per
/// thread.
class Portfolio {
public:
  Portfolio(const Encoding &encoding, SharedState &shared, BestSolution &best);
  ~Portfolio();

  /// Searches from these plans until a limit or the goal is reached. Solutions
  /// go to `best`.
  void run(llvm::ArrayRef<Candidate> candidates);

private:
  struct Task;

  bool isProofDue(double share) const;
  bool runRound(double until, double proofShare);
  void runTasks(unsigned count, llvm::function_ref<void(unsigned)> run);
  void prove(double share);
  void merge();
  void takePlans(Search &search);

  const Encoding &encoding;
  SharedState &shared;
  BestSolution &best;
  unsigned numThreads;
  std::vector<std::unique_ptr<Task>> tasks; ///< one for each search
  llvm::ArrayRef<Candidate> candidates;
  std::optional<Solution> proven; ///< found by the proof of this round
};

} // namespace pipesched::optimize

#endif // PIPESCHED_LIB_OPTIMIZE_SEARCH_PORTFOLIO_H
