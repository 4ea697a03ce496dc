//===- Solution.h - A schedule that was found -------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Rows of a schedule, and when each of their cells runs.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_OPTIMIZE_PROBLEM_SOLUTION_H
#define PIPESCHED_OPTIMIZE_PROBLEM_SOLUTION_H

#include "PipeSched/Optimize/Problem/Problem.h"

namespace pipesched::optimize {

/// Rows with D and U at their issue points, and joins where a cell waits for
/// memory that a copy frees. So the timeline of the schedule (transport
/// `delay`) has the times of the optimizer, to the tick.
struct Solution {
  std::vector<Row> rows;                    ///< by worker
  std::vector<std::vector<int64_t>> starts; ///< by worker and index in the row;
                                            ///< a join: when its copy ends
  int64_t makespan = 0;
  int64_t period = 0; ///< rounded up to a tick
};

/// The makespan or the period, as the problem asks for, in ticks.
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

/// Times the rows as one of many steps that follow each other without a
/// barrier, at intervals of `period`. On each worker the step takes at most a
/// period from its first start to its last end, so its memory equals that of
/// all steps. `makespan` is of this one step. Errors: as for timeRows.
llvm::Expected<Solution> steadyState(const Problem &problem,
                                     llvm::ArrayRef<llvm::ArrayRef<Cell>> rows);

/// The largest memory of each worker over the step. Needs timed rows.
std::vector<int64_t> peakMemory(const Problem &problem,
                                const Solution &solution);

/// The most that a row can hold, and the first cell with which it does.
struct RowPeak {
  int64_t amount = 0;
  Cell cell;
};

/// The peak of each row for any times of cells, messages and copies
/// (AnyTimeMemory.h). Needs complete rows.
std::vector<RowPeak> anyTimePeaks(const Problem &problem,
                                  llvm::ArrayRef<Row> rows);

/// Checks a solution; shares no code with the search. Errors: a rule of the
/// problem that the solution breaks, with row and cell; a capacity that is
/// exceeded, with time, place and amount. If the period is the objective, the
/// memory of steadyState is checked as well.
llvm::Error verifySolution(const Problem &problem, const Solution &solution);

} // namespace pipesched::optimize

#endif // PIPESCHED_OPTIMIZE_PROBLEM_SOLUTION_H
