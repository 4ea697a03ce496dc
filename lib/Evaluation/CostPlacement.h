//===- CostPlacement.h - Costs and memory of a placement --------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The costs and the memory facts that walks and graphs read in addition to a
// table.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_LIB_EVALUATION_COSTPLACEMENT_H
#define PIPESCHED_LIB_EVALUATION_COSTPLACEMENT_H

#include "PipeSched/Evaluation/Evaluate.h"

namespace pipesched {

/// Adds the sums of tied gradients to the O of the first stage that a worker
/// holds of each tie: a ring all-reduce among the workers that hold one, over
/// the slowest link between them, and the bytes of the sums and copies of a
/// worker that holds several. Requires a system. Errors: as for ringExchange; a
/// time over int64.
llvm::Error addTieTimes(const Placement &placement,
                        llvm::ArrayRef<TiedGradients> ties,
                        const SystemFacts &system, StageCosts &stageCosts);

/// The inputs of the walk and the graph: costs of stages, of all-reduces and of
/// memory.
struct CostedRows {
  const Placement &placement;
  PhaseSet phases;
  /// By number of the group.
  std::vector<Reduction> reductions;
  /// Checks that slices can share their attention. Called if they do.
  llvm::function_ref<llvm::Error()> checkExchange;
  /// Whether stages cost nothing, because instructions state all work.
  bool isFree = false;
};

/// The only place where an evaluation finds its costs. Times of all-reduces are
/// from the profile if it has times of G, and else from the roofline; they go
/// layer by layer if the system says so. There are no facts of memory without a
/// model.
llvm::Expected<ExecutionTotals>
costRows(const CostedRows &rows, const CostInputs &costs, Runtime runtime);

} // namespace pipesched

#endif // PIPESCHED_LIB_EVALUATION_COSTPLACEMENT_H
