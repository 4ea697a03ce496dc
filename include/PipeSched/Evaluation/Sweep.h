//===- Sweep.h - Many configurations at once --------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Makes evaluated schedules from families and sizes without IR, for one
// configuration or for many on several threads.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_EVALUATION_SWEEP_H
#define PIPESCHED_EVALUATION_SWEEP_H

#include "PipeSched/Evaluation/CostSources.h"
#include "PipeSched/Evaluation/NamedEvaluation.h"
#include "PipeSched/Schedule/Edit/OptimizerStep.h"
#include "PipeSched/Schedule/Family/Families.h"

namespace pipesched {

/// A schedule to generate.
struct Problem {
  const Family *family = nullptr;
  int64_t workers = 0, microbatches = 0;
  FamilyOptions options;
  std::vector<Path> paths; ///< empty: the family's default placement
};

/// Generates a table. Errors: as for Placement::create for the paths; as for
/// generate().
llvm::Expected<Table> generate(const Problem &problem);

/// A schedule to generate and to evaluate.
struct Configuration {
  Problem problem;
  const CostSources *costs = nullptr; ///< null: unit slots, free messages
  TimingOptions timing;
  /// Adds the end of the step, with the all-reduces at the given place, like
  /// pipe-add-optimizer. Absent: the step ends with the last backward.
  std::optional<ReductionPlace> optimizerStep;
  /// Whether the caller needs only numbers. Configurations of one table then
  /// share walks, which do not compute critical paths.
  bool numbersAlone = false;
};

/// A table and its evaluation. Moving this object does not move the rows.
struct EvaluatedTable {
  /// Owns the rows to which `result` refers. Other results may share them.
  std::shared_ptr<const Table> table;
  /// Its name is the family, which is empty if an optimizer step was added.
  NamedEvaluation result;

  EvaluatedTable() = default;
  EvaluatedTable(EvaluatedTable &&) = default;
  EvaluatedTable &operator=(EvaluatedTable &&) = default;
};

/// Evaluates one configuration. Errors: as for generate(), resolveCosts(),
/// addOptimizerStep() and evaluateTable().
llvm::Expected<EvaluatedTable>
evaluateConfiguration(const Configuration &configuration);

/// Callbacks of a sweep. Several threads call all of them except `keepGoing`.
struct SweepCalls {
  /// Returns a configuration by number; an error becomes its result.
  llvm::function_ref<llvm::Expected<Configuration>(size_t)> configurationOf;
  /// Called once per number, in any order.
  llvm::function_ref<void(size_t, llvm::Expected<EvaluatedTable>)> consume;
  /// Called on the caller's thread about twenty times per second with the
  /// number of finished configurations. If it returns false, no more
  /// configurations are started.
  llvm::function_ref<bool(size_t)> keepGoing;
};

/// Evaluates configurations 0 .. count-1 on `numThreads` threads (0: one per
/// core) and returns when all threads have finished; true if every
/// configuration was evaluated. Configurations with `numbersAlone` and the same
/// table are evaluated together, up to 16 at once, if their indices differ by
/// at most 4,096; their table is generated once. Results do not depend on
/// threads or on each other.
bool sweep(size_t count, unsigned numThreads, const SweepCalls &calls);

} // namespace pipesched

#endif // PIPESCHED_EVALUATION_SWEEP_H
