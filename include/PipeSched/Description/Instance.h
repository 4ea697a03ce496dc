//===- Instance.h - Scheduling instances and their answers ------*- C++ -*-===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The problem of an optimized schedule as a JSON file, and the schedule that
// was found as another (docs/Optimize.md, instance files).
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_DESCRIPTION_INSTANCE_H
#define PIPESCHED_DESCRIPTION_INSTANCE_H

#include "PipeSched/Optimize/Solver.h"

namespace pipesched::optimize {

/// A problem, and what is known of its best schedule, in ticks.
struct Instance {
  Problem problem;
  std::optional<int64_t> bestKnown, lowerBound;
};

/// Errors, "<file>:<line>:<column>: ..." or "<file>: <field path>: ...": text
/// that is no JSON; a field that is missing, of a wrong type or out of range;
/// lists that are not as long as there are stages or workers; a path that
/// leaves the workers; those of checkProblem. Fields beyond those of a problem
/// are notes.
llvm::Expected<Instance> instanceFromJson(llvm::StringRef text,
                                          llvm::StringRef file);

/// The same of a file, or of standard input for "-". Errors: also one that
/// cannot be read.
llvm::Expected<Instance> readInstance(llvm::StringRef path);

/// "optimal", "gap", "time_limit" or "interrupted".
llvm::StringRef nameOf(Status status);

/// The best schedule as JSON: name, makespan, lower bound, status, seconds, and
/// `cells`, one [phase, stage, microbatch, worker, start, end] for each cell,
/// by worker and start. Where the period is the objective, `period` and the
/// cells of one of many steps (steadyState). Errors: those of steadyState.
llvm::Error writeAnswer(const Problem &problem, const SolverResult &result,
                        llvm::raw_ostream &os);

} // namespace pipesched::optimize

#endif // PIPESCHED_DESCRIPTION_INSTANCE_H
