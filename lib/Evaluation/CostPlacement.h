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

/// Adds the time of summing tied gradients to an O: for each tie and worker,
/// the O of the worker's first stage in the tie. It is a ring all-reduce among
/// the workers of the tie, over the slowest link between them, and the sums and
/// copies on a worker with several of these stages. Requires a system. Errors:
/// as for ringExchange; a time over int64.
llvm::Error addTieTimes(const Placement &placement,
                        llvm::ArrayRef<TiedGradients> ties,
                        const SystemFacts &system, StageCosts &stageCosts);

/// The inputs for the costs of a walk or a graph: costs of stages, of
/// all-reduces and of memory.
struct CostedRows {
  const Placement &placement;
  PhaseSet phases;
  /// By number of the group.
  std::vector<Reduction> reductions;
  /// Checks that slices can balance their attention. Called only if they do.
  llvm::function_ref<llvm::Error()> checkExchange;
  /// Whether stages have no costs, because instructions state all work.
  bool isFree = false;
};

/// Computes the costs of an evaluation; no other function does. Times of
/// all-reduces come from the profile if it has times of G, else from the
/// roofline. They overlap layer by layer if the system states it. Without a
/// model there are no facts of memory.
llvm::Expected<ExecutionTotals>
costRows(const CostedRows &rows, const CostInputs &costs, Runtime runtime);

} // namespace pipesched

#endif // PIPESCHED_LIB_EVALUATION_COSTPLACEMENT_H
