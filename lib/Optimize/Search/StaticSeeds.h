//===- StaticSeeds.h - Rows with copies by fixed rules ----------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Seeds without an optimizer: offloads or recomputes the activations of a
// family by the rules of the passes for it.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_LIB_OPTIMIZE_SEARCH_STATICSEEDS_H
#define PIPESCHED_LIB_OPTIMIZE_SEARCH_STATICSEEDS_H

#include "PipeSched/Optimize/Search/Solver.h"

namespace pipesched::optimize {

/// Returns the number of activations of one stage that fit on the tightest
/// worker; the largest int64_t if activations take no memory.
int64_t leastActivations(const Problem &problem);

/// Applies fixed rules to the seeds without copies and recompute, and returns
/// the best valid rows whose objective is below `most`. Offload (addOffload)
/// takes all or half of the activations and reloads them 1, 2 or 4 cells ahead,
/// with and without waiting for memory. Recompute (addRecompute) takes all
/// activations, with and without activations that are used right after their F.
/// Both only delay cells, so seeds that already take `most` are not tried.
/// Returns nothing if no rows are that good, or if the problem is so large that
/// this would take long. When `mustStop` returns true, it returns the best rows
/// so far.
std::optional<Seed> bestStaticSeed(const Problem &problem,
                                   llvm::ArrayRef<Seed> seeds, int64_t most,
                                   llvm::function_ref<bool()> mustStop);

} // namespace pipesched::optimize

#endif // PIPESCHED_LIB_OPTIMIZE_SEARCH_STATICSEEDS_H
