//===- Instance.h - Scheduling instances and their answers ------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Reads a scheduling problem for the optimizer from a JSON file, and writes the
// schedule that was found (docs/Optimize.md, instance files).
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_DESCRIPTION_INSTANCE_H
#define PIPESCHED_DESCRIPTION_INSTANCE_H

#include "PipeSched/Optimize/Search/Solver.h"
#include <atomic>

namespace pipesched::optimize {

/// A problem, and known facts about its best schedule, in ticks.
struct Instance {
  Problem problem;
  std::optional<int64_t> bestKnown, lowerBound;
};

/// Reads an instance. Errors, "<file>:<line>:<column>: ..." or "<file>: <field
/// path>: ...": text that is not JSON; a field that is missing, of a wrong type
/// or out of range; lists that do not have one entry for each stage or worker;
/// a path with unknown workers; as for checkProblem. Unknown fields are
/// ignored.
llvm::Expected<Instance> instanceFromJson(llvm::StringRef text,
                                          llvm::StringRef file);

/// The same from a file, or from standard input for "-". Further errors: a file
/// that cannot be read, and an interrupt while reading (readWholeFile).
llvm::Expected<Instance>
readInstance(llvm::StringRef path,
             const std::atomic<bool> *interrupted = nullptr);

/// Reads the rows of an answer to a problem, without joins, as a seed for
/// solve(). D and U are placed at the last position at which they can have been
/// issued: a copy that starts while a cell runs is placed before that cell.
/// Errors, "<file>: <field path>: ...": text that is not JSON; no list `cells`;
/// an entry that is not [phase, stage, microbatch, worker, start, end] with
/// numbers of the problem.
llvm::Expected<Seed> seedFromAnswer(const Problem &problem,
                                    llvm::StringRef text, llvm::StringRef file);

/// The same from a file, or from standard input for "-".
llvm::Expected<Seed> readSeed(const Problem &problem, llvm::StringRef path,
                              const std::atomic<bool> *interrupted = nullptr);

/// Returns "optimal", "gap", "time_limit" or "interrupted".
llvm::StringRef nameOf(Status status);

/// Writes the best schedule as JSON: name, makespan, lower bound, status,
/// seconds, and `cells`, one [phase, stage, microbatch, worker, start, end] for
/// each cell, by worker and start. If memory must suffice for any times, it
/// also writes the rows with their joins, which guarantee this. If the
/// objective is the period, it writes `period` and the cells of one step in
/// steady state (steadyState). Errors: as for steadyState.
llvm::Error writeAnswer(const Problem &problem, const SolverResult &result,
                        llvm::raw_ostream &os);

} // namespace pipesched::optimize

#endif // PIPESCHED_DESCRIPTION_INSTANCE_H
