//===- Solution.h - Solutions of the optimizer ------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Rows of a schedule with the times of their cells.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_OPTIMIZE_PROBLEM_SOLUTION_H
#define PIPESCHED_OPTIMIZE_PROBLEM_SOLUTION_H

#include "PipeSched/Optimize/Problem/Problem.h"

namespace pipesched::optimize {

/// Rows with D and U at their issue points, and with joins where a cell waits
/// for memory that a copy frees. So the timeline of the schedule (transport
/// `delay`) reproduces the times of the optimizer exactly.
struct Solution {
  std::vector<Row> rows;                    ///< by worker
  std::vector<std::vector<int64_t>> starts; ///< by worker and index in the row;
                                            ///< for a join: the end of its copy
  int64_t makespan = 0;
  int64_t period = 0; ///< rounded up to a tick
};

/// Returns the objective of the problem, makespan or period, in ticks.
inline int64_t objectiveOf(const Problem &problem, const Solution &solution) {
  return problem.objective == Objective::Makespan ? solution.makespan
                                                  : solution.period;
}

/// Times rows: every cell starts as early as the rows and the dependences
/// allow. Search, proofs and tests share this one definition of time. Errors:
/// cells that are missing, appear twice or are on a worker that their path does
/// not name; rows that wait for each other; sums over int64.
llvm::Expected<Solution> timeRows(const Problem &problem,
                                  llvm::ArrayRef<llvm::ArrayRef<Cell>> rows);

/// Computes the times of rows in steady state: one of many steps that follow
/// each other without a barrier, at intervals of `period`. On each worker the
/// step takes at most a period from its first start to its last end, so its
/// memory equals the memory of all steps together. `makespan` is of this one
/// step. Errors: as for timeRows.
llvm::Expected<Solution> steadyState(const Problem &problem,
                                     llvm::ArrayRef<llvm::ArrayRef<Cell>> rows);

/// The largest memory of each worker during the step. Needs timed rows.
std::vector<int64_t> peakMemory(const Problem &problem,
                                const Solution &solution);

/// The most memory that a row can hold, and the first cell at which it does.
struct RowPeak {
  int64_t amount = 0;
  Cell cell;
};

/// The peak of each row for any times of cells, messages and copies
/// (AnyTimeMemory.h). Needs complete rows.
std::vector<RowPeak> anyTimePeaks(const Problem &problem,
                                  llvm::ArrayRef<Row> rows);

/// Checks a solution; shares no code with the search. Errors: a rule of the
/// problem that the solution violates, with row and cell; a capacity that is
/// exceeded, with time, place and amount. If the period is the objective, also
/// checks the memory of steadyState.
llvm::Error verifySolution(const Problem &problem, const Solution &solution);

} // namespace pipesched::optimize

#endif // PIPESCHED_OPTIMIZE_PROBLEM_SOLUTION_H
