//===- TimedCells.h - The cells of an execution with times --*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Lists which cell each worker runs when, row by row, for the columns of the C
// API and Python.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_EVALUATION_TIMEDCELLS_H
#define PIPESCHED_EVALUATION_TIMEDCELLS_H

#include "PipeSched/Evaluation/Evaluate.h"
#include "llvm/ADT/STLFunctionalExtras.h"

namespace pipesched {

/// A cell of a worker and the time that it takes: [startPs, endPs).
struct TimedCell {
  int64_t worker;
  Cell cell;
  int64_t startPs, endPs;
  /// The number of the first message that sends its result to another worker,
  /// or -1. Messages are numbered as in WorkerPrograms.
  int64_t message = -1;
};

/// Calls `handle` once per timed cell, worker by worker, in the order of their
/// instructions:
///
///   - F, B, I, W, R, O: the time of the compute task. The two cells of an
///     overlapped pair have the time of the pair each.
///   - D, U: the time of the copy.
///   - G and other cells of groups: from the start of the first to the end of
///     the last collective in which the worker takes part by this cell.
///
/// Joins and idle entries have no time, so there is no call for them. There is
/// also none for a G without an all-reduce, which occurs if a later G of the
/// same worker reduces all its blocks.
void forEachTimedCell(const Execution &execution,
                      llvm::function_ref<void(const TimedCell &)> handle);

/// The number of calls that forEachTimedCell makes.
size_t countTimedCells(const Execution &execution);

} // namespace pipesched

#endif // PIPESCHED_EVALUATION_TIMEDCELLS_H
