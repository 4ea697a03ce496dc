//===- Heuristics.h - Plans from nothing ------------------------*- C++ -*-===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// List scheduling by random rules within the memory, one microbatch after the
// other, and copies and recompute for rows that need too much memory.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_LIB_OPTIMIZE_SEARCH_HEURISTICS_H
#define PIPESCHED_LIB_OPTIMIZE_SEARCH_HEURISTICS_H

#include "../Evaluator/Evaluator.h"
#include "Random.h"

namespace pipesched::optimize {

/// What a free worker runs next.
struct DispatchRule {
  std::vector<int64_t> capacity; ///< by worker, may exceed the problem's
  std::vector<uint32_t> quota;   ///< by stage: most that are between F and I
  /// By kind: of cells that can start in time, the one with the least runs.
  std::vector<double> penalty;
  double noise = 0; ///< on the penalty, per decision
  /// How long after the first that could a cell may start, in ticks.
  int64_t patience = 0;
};

/// A rule for which memory is enough on workers whose stages it holds once.
DispatchRule drawRule(const Encoding &encoding,
                      llvm::ArrayRef<int64_t> capacity, Random &random);

/// Cells in order of the time at which they can start; cells without copies or
/// recompute. A forward leaves room for the later stages of its worker, one
/// microbatch each, so that those that are under way can always go on: by
/// induction from the last stage, each microbatch that has passed a stage can
/// drain. Nothing where that is more room than there is. In the logarithm of
/// the workers per cell, times the stages of one.
std::optional<Plan> dispatch(const Encoding &encoding, const DispatchRule &rule,
                             Random &random);

/// One microbatch after the other, each offloaded or recomputed on workers that
/// do not hold all of its stages: feasible wherever anything is.
Plan runOneByOne(const Encoding &encoding);

/// How copies and recompute are put into rows.
struct FitRule {
  double lead = 1;      ///< a reload is issued this many durations ahead
  double recompute = 0; ///< chance that a microbatch is rather recomputed
  double noise = 0;     ///< on the choice, in ticks
};

/// Rows that fit the memory in the same order of compute: an allocation that
/// does not fit puts out the activation that is used furthest in the future
/// (Belady 1966), reloads come back shortly before they are needed. `ends`: of
/// the cells without regard to memory, by position. Nothing where that way
/// fails, where the plan has copies or recompute, or once `mustStop`, which is
/// asked before every row. In n log n of the cells of a row.
std::optional<Plan> fitMemory(const Encoding &encoding, const Plan &plan,
                              llvm::ArrayRef<int64_t> ends, const FitRule &rule,
                              Random &random,
                              llvm::function_ref<bool()> mustStop);

/// A plan of the same problem with more microbatches on its only path: on every
/// row the part from the I of microbatch `first` on its last stage to that of
/// `first + count` comes again until there are enough. Nothing where such parts
/// do not have `count` cells of each kind, or where that many more do not make
/// the larger problem. May wait for itself or take microbatches twice where
/// those of the plan are out of order: it is to be checked (isComplete).
std::optional<Plan> repeatMiddle(const Encoding &from, const Plan &plan,
                                 const Encoding &to, uint32_t first,
                                 uint32_t count);

} // namespace pipesched::optimize

#endif // PIPESCHED_LIB_OPTIMIZE_SEARCH_HEURISTICS_H
