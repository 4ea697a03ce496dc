//===- OptimizeProblem.h - Problems from costs ------------------*- C++ -*-===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Makes a problem of the optimizer from costs and memory of a placement. Ticks
// are picoseconds, units are bytes or activations (docs/Optimize.md, the pass).
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_OPTIMIZE_SCHEDULE_OPTIMIZEPROBLEM_H
#define PIPESCHED_OPTIMIZE_SCHEDULE_OPTIMIZEPROBLEM_H

#include "PipeSched/Evaluation/MemoryBudget.h"
#include "PipeSched/Optimize/Problem/Problem.h"

namespace pipesched {

struct ProblemOptions {
  optimize::Objective objective = optimize::Objective::Makespan;
  optimize::Techniques techniques;
  GradientAfter gradientAfter = GradientAfter::InputGrad;
  /// Nothing: the memory of the system, if there are a model and a system that
  /// says how much it has; otherwise no limit.
  std::optional<MemoryBudget> memory;
  /// When the budget has to be kept.
  MemoryTimes memoryTimes = MemoryTimes::Any;
};

/// The budget under these options and costs. Nothing: there is no limit.
std::optional<MemoryBudget> budgetFor(const CostInputs &costs,
                                      const ProblemOptions &options);

/// Makes the problem. Times are those of transport `delay`: a message takes its
/// occupancy and its latency. Capacity is the budget less parameters,
/// gradients, optimizer state and the working memory of backwards that
/// recompute by themselves; without a limit each activation of the worker has
/// room. If an activation is recomputed, its F takes the whole of it until F
/// ends; verifyMemory counts only the checkpoint. So what the optimizer finds
/// is within the budget.
///
/// Needs a placement that is assigned. Errors: those of computeStageCosts and
/// computeMemoryFacts; a budget in bytes without a model, or the system's
/// budget where the system has none; a budget that parameters alone exceed,
/// with the worker; copies without times in profile or system; `recompute` with
/// a model whose backwards recompute by themselves.
llvm::Expected<optimize::Problem> makeProblem(const Placement &placement,
                                              const CostInputs &costs,
                                              const ProblemOptions &options);

} // namespace pipesched

#endif // PIPESCHED_OPTIMIZE_SCHEDULE_OPTIMIZEPROBLEM_H
