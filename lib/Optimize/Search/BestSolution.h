//===- BestSolution.h - The best solution so far ----------------*- C++ -*-===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Keeps the best solution that passes verifySolution.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_LIB_OPTIMIZE_SEARCH_BESTSOLUTION_H
#define PIPESCHED_LIB_OPTIMIZE_SEARCH_BESTSOLUTION_H

#include "../Evaluator/Evaluator.h"
#include "PipeSched/Optimize/Problem/Solution.h"

namespace pipesched::optimize {

/// The best solution so far and what found it. Among equally good solutions the
/// first one offered stays.
class BestSolution {
public:
  explicit BestSolution(const Problem &problem) : problem(problem) {}

  explicit operator bool() const { return solution.has_value(); }
  /// kInfeasible: there is no solution yet.
  int64_t getObjective() const {
    return solution ? objectiveOf(problem, *solution) : kInfeasible;
  }
  const std::string &getOrigin() const { return origin; }
  Solution take() { return std::move(*solution); }

  /// Times the rows, and takes them if they are better and keep all rules.
  void offer(llvm::ArrayRef<Row> rows, llvm::StringRef origin);
  void offer(Solution offered, llvm::StringRef origin);

private:
  const Problem &problem;
  std::optional<Solution> solution;
  std::string origin;
};

} // namespace pipesched::optimize

#endif // PIPESCHED_LIB_OPTIMIZE_SEARCH_BESTSOLUTION_H
