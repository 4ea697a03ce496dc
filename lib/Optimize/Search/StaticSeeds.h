//===- StaticSeeds.h - Rows with copies by fixed rules ----------*- C++ -*-===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What one would do without an optimizer: a family with its activations
// offloaded, or recomputed, by the rules of the passes that do so.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_LIB_OPTIMIZE_SEARCH_STATICSEEDS_H
#define PIPESCHED_LIB_OPTIMIZE_SEARCH_STATICSEEDS_H

#include "PipeSched/Optimize/Solver.h"

namespace pipesched::optimize {

/// How many activations of one stage the tightest worker holds; the largest
/// int64_t if activations take no memory.
int64_t leastActivations(const Problem &problem);

/// The best rows below an objective of `most` that keep all rules, of all that
/// fixed rules make of seeds without copies and recompute: all or half of the
/// activations offloaded, brought back 1, 2 or 4 cells ahead, with and without
/// waiting for memory (addOffload); all recomputed, but for those used at once
/// or not (addRecompute). Copies and recompute only delay cells, so that seeds
/// which take `most` by themselves need not be tried. Nothing where there are
/// none, or for problems that are so large that this would take long; what was
/// found so far once `mustStop`.
std::optional<Seed> bestStaticSeed(const Problem &problem,
                                   llvm::ArrayRef<Seed> seeds, int64_t most,
                                   llvm::function_ref<bool()> mustStop);

} // namespace pipesched::optimize

#endif // PIPESCHED_LIB_OPTIMIZE_SEARCH_STATICSEEDS_H
