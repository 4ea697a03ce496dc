//===- OptimizeProblem.h - What to optimize, from costs ---------*- C++ -*-===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// StageCosts and memory of a placement as a problem of the optimizer:
// picoseconds, and bytes or activations (docs/Optimize.md, the pass).
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_OPTIMIZE_OPTIMIZEPROBLEM_H
#define PIPESCHED_OPTIMIZE_OPTIMIZEPROBLEM_H

#include "PipeSched/Evaluation/MemoryBudget.h"
#include "PipeSched/Optimize/Problem.h"

namespace pipesched {

struct ProblemOptions {
  optimize::Objective objective = optimize::Objective::Makespan;
  optimize::Techniques techniques;
  GradientAfter gradientAfter = GradientAfter::InputGrad;
  /// Nothing: the memory of the system where there are a model and a system
  /// that says how much it has; else no limit.
  std::optional<MemoryBudget> memory;
};

/// The budget that follows from the options and the costs; nothing: no limit.
std::optional<MemoryBudget> budgetFor(const CostInputs &costs,
                                      const ProblemOptions &options);

/// Times are those of transport `delay`: a message takes its occupancy and its
/// latency. Capacity is the budget less parameters, gradients, optimizer state
/// and the working memory of backwards that recompute by themselves; without a
/// limit each activation of the worker has room. Between
/// F and R the optimizer keeps the whole activation until F ends, verifyMemory
/// the checkpoint alone, so that what it finds is within the budget.
///
/// Needs a placement that is assigned. Errors: those of computeStageCosts and
/// computeMemoryFacts; a budget in bytes without a model, or the system's
/// without any; a budget that parameters alone exceed, naming the worker;
/// copies that neither profile nor system gives times for; `recompute` with a
/// model whose backwards recompute by themselves.
llvm::Expected<optimize::Problem> makeProblem(const Placement &placement,
                                              const CostInputs &costs,
                                              const ProblemOptions &options);

} // namespace pipesched

#endif // PIPESCHED_OPTIMIZE_OPTIMIZEPROBLEM_H
