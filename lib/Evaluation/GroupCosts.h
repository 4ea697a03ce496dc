//===- GroupCosts.h - Costs on groups of nodes ------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Costs on a system with groups of nodes of different hardware: the costs of
// each stage are computed on the system of its group.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_LIB_EVALUATION_GROUPCOSTS_H
#define PIPESCHED_LIB_EVALUATION_GROUPCOSTS_H

#include "PipeSched/CostModel/Layers/Reductions.h"
#include "PipeSched/Evaluation/Evaluate.h"

namespace pipesched {

inline bool hasGroups(const CostInputs &costs) {
  return costs.system && !costs.system->groups.empty();
}

/// Returns costs of stages, computed by `cost` on the system of each group.
/// Errors: as for `cost` and groupOfWorker.
llvm::Expected<StageCosts> costByGroups(
    const Placement &placement, const CostInputs &costs,
    llvm::function_ref<llvm::Expected<StageCosts>(const CostInputs &)> cost);

/// Returns costs of all-reduces, computed by `cost` on the system of each
/// group; for an all-reduce across several groups, on the slowest. Errors: the
/// same.
llvm::Expected<std::vector<MessageCost>> costReductionsByGroups(
    llvm::ArrayRef<Reduction> reductions, const CostInputs &costs,
    llvm::function_ref<
        llvm::Expected<std::vector<MessageCost>>(const CostInputs &)>
        cost);

} // namespace pipesched

#endif // PIPESCHED_LIB_EVALUATION_GROUPCOSTS_H
