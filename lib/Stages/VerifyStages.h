//===- VerifyStages.h - Functions of stages together ------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Checks functions of a pipeline against each other, and fills in the tensors
// that they share.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_LIB_STAGES_VERIFYSTAGES_H
#define PIPESCHED_LIB_STAGES_VERIFYSTAGES_H

#include "PipeSched/Stages/StageFunctions.h"

namespace pipesched {

/// Returns the number of stages of each path of `owner`, or without paths the
/// number of its clauses. Errors: paths of different length or with different
/// splits.
mlir::FailureOr<int64_t> countStages(pipe::PlacementOwnerOpInterface owner);

/// Sets the tensors of every stage from the roles of its functions, and
/// verifies that functions agree, within a stage and from stage to stage.
mlir::LogicalResult verifyStageFunctions(StageFunctions &functions);

/// Verifies the tensors that slices of a microbatch pass on, in a stage whose
/// tensors are set. Errors: a pipe.earlier that is not slices x the residual
/// with its name, or whose gradient a backward does not return; a gradient
/// without a pipe.earlier, or of another shape.
mlir::LogicalResult verifyEarlier(const Stage &stage, int64_t numSlices);

/// Sets and verifies the tensors of the shards of a vocabulary. The tensors of
/// all stages must be set. Errors: a stage with only one of `shard` and
/// `shard_backward`; shards without a loss; tensors that differ from the last
/// output, from the target or from another shard's; partials that no shard
/// returns; a gradient of the last output that only some shards return, or that
/// the loss also returns.
mlir::LogicalResult verifyShards(StageFunctions &functions);

/// Verifies that every worker of each path of `owner` has one shard, if there
/// are shards.
mlir::LogicalResult verifyShardPlaces(const StageFunctions &functions,
                                      pipe::PlacementOwnerOpInterface owner);

/// Verifies that a stage with these phases has a shard if S runs, and that its
/// function returns the tensors that Z sums.
mlir::LogicalResult verifyShardPhases(const StageFunctions &functions,
                                      const Stage &stage, PhaseSet phases);

/// Verifies that a function for data or target takes pipe.slice if there are
/// several slices, so that each slice gets its own samples.
mlir::LogicalResult verifyTellsSlices(const StageFunction &function,
                                      int64_t numSlices);

} // namespace pipesched

#endif // PIPESCHED_LIB_STAGES_VERIFYSTAGES_H
