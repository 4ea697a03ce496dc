//===- CostPlacement.h - Costs and memory of a placement --------*- C++ -*-===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The costs and the memory facts that walks and graphs read in addition to a
// table.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_LIB_EVALUATION_COSTPLACEMENT_H
#define PIPESCHED_LIB_EVALUATION_COSTPLACEMENT_H

#include "PipeSched/Evaluation/Evaluate.h"

namespace pipesched {

/// The costs of a table or program that states no work.
llvm::Expected<StageCosts> costStages(const Placement &placement,
                                      const CostInputs &costs, PhaseSet phases,
                                      Runtime runtime);

/// Adds the sums of tied gradients to the O of the first stage that a worker
/// holds of each tie: a ring all-reduce among the workers that hold one, over
/// the slowest link between them, and the bytes of the sums and copies of a
/// worker that holds several. Requires a system. Errors: those of ringExchange;
/// a time over int64.
llvm::Error addTieTimes(const Placement &placement,
                        llvm::ArrayRef<TiedGradients> ties,
                        const SystemFacts &system, StageCosts &stageCosts);

/// Whether slices share their attention with slices on other workers, so that
/// rows have to be such that they can (checkSliceExchange).
bool exchangesSlices(const Placement &placement, const CostInputs &costs);

/// The memory facts of a placement. Nothing without a model.
llvm::Expected<std::optional<MemoryFacts>>
costMemory(const Placement &placement, const CostInputs &costs, PhaseSet phases,
           Runtime runtime);

/// The costs of the all-reduces of a table or program: from the G times of the
/// profile if it has some, and from the roofline otherwise. They go layer by
/// layer if the system says so.
llvm::Expected<std::vector<MessageCost>>
costAllReduces(const Placement &placement, llvm::ArrayRef<Reduction> reductions,
               const CostInputs &costs, PhaseSet phases,
               const StageCosts &stageCosts);

} // namespace pipesched

#endif // PIPESCHED_LIB_EVALUATION_COSTPLACEMENT_H
