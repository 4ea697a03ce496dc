//===- Solution.h - A schedule that was found -------------------*- C++ -*-===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Rows as any schedule has them, and when each of their cells runs.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_OPTIMIZE_SOLUTION_H
#define PIPESCHED_OPTIMIZE_SOLUTION_H

#include "PipeSched/Optimize/Problem.h"

namespace pipesched::optimize {

/// Rows with D and U as issue points and joins where a cell waits for memory
/// that a copy frees, so that the times of a schedule's timeline (transport
/// `delay`) are those of the optimizer to the tick.
struct Solution {
  std::vector<Row> rows;                    ///< by worker
  std::vector<std::vector<int64_t>> starts; ///< by worker and index in the row;
                                            ///< joins: when they are met
  int64_t makespan = 0;
  int64_t period = 0; ///< rounded up to a tick
};

/// The makespan or the period, as the problem asks for, in ticks.
inline int64_t objectiveOf(const Problem &problem, const Solution &solution) {
  return problem.objective == Objective::Makespan ? solution.makespan
                                                  : solution.period;
}

/// Times of rows: every cell as early as the rows and the dependences allow.
/// The one definition of time that search, proofs and tests share. Errors:
/// cells that are missing, twice or on a worker that their path does not name;
/// rows that wait for each other; sums over int64.
llvm::Expected<Solution> timeRows(const Problem &problem,
                                  llvm::ArrayRef<llvm::ArrayRef<Cell>> rows);

/// The same rows with the starts of one of many steps that follow each other
/// without a barrier, `period` apart: on each worker the step takes a period at
/// most from its first start to its last end, so that its memory is that of all
/// steps. `makespan` is that of the pattern. Errors: those of timeRows.
llvm::Expected<Solution> steadyState(const Problem &problem,
                                     llvm::ArrayRef<llvm::ArrayRef<Cell>> rows);

/// Largest memory of each worker over the step. Needs timed rows.
std::vector<int64_t> peakMemory(const Problem &problem,
                                const Solution &solution);

/// Errors: a rule of the problem that the solution breaks, naming row and cell;
/// capacity exceeded, with when, where and by how much. Where the period is the
/// objective, the memory of steadyState is checked as well. Shares no code with
/// the search.
llvm::Error verifySolution(const Problem &problem, const Solution &solution);

} // namespace pipesched::optimize

#endif // PIPESCHED_OPTIMIZE_SOLUTION_H
