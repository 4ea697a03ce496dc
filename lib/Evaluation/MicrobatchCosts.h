//===- MicrobatchCosts.h - Costs of unequal microbatches --------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A profile with times by microbatch: the costs of each microbatch are computed
// by a profile that has its times.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_LIB_EVALUATION_MICROBATCHCOSTS_H
#define PIPESCHED_LIB_EVALUATION_MICROBATCHCOSTS_H

#include "PipeSched/Evaluation/Evaluate.h"

namespace pipesched {

inline bool hasUnequalMicrobatches(const CostInputs &costs) {
  return costs.profile && costs.profile->variesByMicrobatch();
}

/// Costs of stages, as `cost` gives them for each microbatch. Errors: as for
/// `cost` and checkNames; lists of other lengths than the placement has
/// microbatches, or another number of lists than one or the stages of a path.
llvm::Expected<StageCosts> costByMicrobatch(
    const Placement &placement, const CostInputs &costs,
    llvm::function_ref<llvm::Expected<StageCosts>(const CostInputs &)> cost);

} // namespace pipesched

#endif // PIPESCHED_LIB_EVALUATION_MICROBATCHCOSTS_H
