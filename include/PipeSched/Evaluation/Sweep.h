//===- Sweep.h - Many configurations at once --------------------*- C++ -*-===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// From a family and sizes to an evaluated schedule without any IR, one by one
// or many on threads.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_EVALUATION_SWEEP_H
#define PIPESCHED_EVALUATION_SWEEP_H

#include "PipeSched/Evaluation/CostSources.h"
#include "PipeSched/Evaluation/NamedEvaluation.h"
#include "PipeSched/Schedule/Families.h"
#include "PipeSched/Schedule/OptimizerStep.h"

namespace pipesched {

/// A schedule to generate.
struct Problem {
  const Family *family = nullptr;
  int64_t workers = 0, microbatches = 0;
  FamilyOptions options;
  std::vector<Path> paths; ///< empty: the placement that the family takes
};

/// Errors: those of Placement::create for the paths; those of generate().
llvm::Expected<Table> generate(const Problem &problem);

/// A schedule to generate and to evaluate.
struct Configuration {
  Problem problem;
  const CostSources *costs = nullptr; ///< null: unit slots, free messages
  TimingOptions timing;
  /// Where the all-reduces before its O cells stand, as pipe-add-optimizer
  /// places them; nothing: the step ends with the last backward.
  std::optional<ReductionPlace> optimizerStep;
};

/// A table and what evaluating it gave. Moves, and the rows stay where they
/// are.
struct EvaluatedTable {
  Table table; ///< owns the rows that `result` refers to
  /// Named by its family, of which rows with an optimizer step are no more.
  NamedEvaluation result;

  EvaluatedTable() = default;
  EvaluatedTable(EvaluatedTable &&) = default;
  EvaluatedTable &operator=(EvaluatedTable &&) = default;
};

/// Errors: those of generate(), resolveCosts(), addOptimizerStep() and
/// evaluateTable().
llvm::Expected<EvaluatedTable>
evaluateConfiguration(const Configuration &configuration);

/// Calls of a sweep, which come from its threads, several at a time, except
/// `keepGoing`.
struct SweepCalls {
  /// The configuration of this number; an error is its result.
  llvm::function_ref<llvm::Expected<Configuration>(size_t)> configurationOf;
  /// Called once per number, in any order.
  llvm::function_ref<void(size_t, llvm::Expected<EvaluatedTable>)> consume;
  /// Called by the caller's thread about twenty times a second with how many
  /// are done; false: begin no more.
  llvm::function_ref<bool(size_t)> keepGoing;
};

/// Evaluates configurations 0 .. count-1, as many at once as there are threads
/// (0: one per core), and returns when no thread works any more: true if all
/// are done. What each gives does not depend on threads or on the others.
bool sweep(size_t count, unsigned numThreads, const SweepCalls &calls);

} // namespace pipesched

#endif // PIPESCHED_EVALUATION_SWEEP_H
