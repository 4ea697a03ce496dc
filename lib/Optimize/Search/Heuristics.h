//===- Heuristics.h - Construction of plans ---------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Constructs plans: by list scheduling under random rules, one microbatch after
// the other, and by adding copies and recompute to rows that need too much
// memory.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_LIB_OPTIMIZE_SEARCH_HEURISTICS_H
#define PIPESCHED_LIB_OPTIMIZE_SEARCH_HEURISTICS_H

#include "../Evaluator/Evaluator.h"
#include "Random.h"

namespace pipesched::optimize {

/// Decides which cell a free worker runs next.
struct DispatchRule {
  /// By worker; may exceed the capacity of the problem.
  std::vector<int64_t> capacity;
  std::vector<uint32_t> quota; ///< by stage: most microbatches between F and I
  /// By kind: among the cells that can start in time, the one with the least
  /// penalty runs.
  std::vector<double> penalty;
  double noise = 0; ///< added to the penalty, drawn for each decision
  /// The number of ticks by which a cell may start later than the earliest
  /// possible start.
  int64_t patience = 0;
};

DispatchRule drawRule(const Encoding &encoding,
                      llvm::ArrayRef<int64_t> capacity, Random &random);

/// Runs list scheduling without copies or recompute. A forward leaves room for
/// one microbatch on each later stage of its worker, so that microbatches in
/// flight can always continue: by induction from the last stage, each
/// microbatch that has passed a stage can finish. Returns nothing if a worker
/// lacks that room. A cell takes time logarithmic in the number of workers,
/// times the stages of one worker.
std::optional<Plan> dispatch(const Encoding &encoding, const DispatchRule &rule,
                             Random &random);

/// Runs one microbatch after the other. Activations are offloaded or recomputed
/// on workers that cannot hold all of their stages. The plan is feasible if any
/// plan is.
Plan runOneByOne(const Encoding &encoding);

/// How copies and recompute are added to rows.
struct FitRule {
  double lead = 1; ///< a reload is issued this many of its durations in advance
  /// Chance to recompute a microbatch instead of offloading it.
  double recompute = 0;
  double noise = 0; ///< added to the time of the next use, in ticks
};

/// Makes rows fit the memory without changing the order of compute. If an
/// allocation does not fit, the activation that is used furthest in the future
/// is evicted (Belady 1966); reloads come shortly before they are needed.
/// `ends` are the ends of the cells by position, ignoring memory. Returns
/// nothing if this fails, if the plan has copies or recompute, or if
/// `mustStop`, called before every row, returns true. O(n log n) for a row of n
/// cells.
std::optional<Plan> fitMemory(const Encoding &encoding, const Plan &plan,
                              llvm::ArrayRef<int64_t> ends, const FitRule &rule,
                              Random &random,
                              llvm::function_ref<bool()> mustStop);

/// Extends a plan of the same problem to more microbatches on its only path. On
/// every row, the part from the I of microbatch `first` on its last stage to
/// the I of `first + count` is repeated until there are enough microbatches.
/// Returns nothing if such a part does not have `count` cells of each kind, or
/// if `count` does not divide the number of additional microbatches. If
/// microbatches of the plan are out of order, the result may wait for itself or
/// have cells twice, so check it (isComplete).
std::optional<Plan> repeatMiddle(const Encoding &from, const Plan &plan,
                                 const Encoding &to, uint32_t first,
                                 uint32_t count);

} // namespace pipesched::optimize

#endif // PIPESCHED_LIB_OPTIMIZE_SEARCH_HEURISTICS_H
