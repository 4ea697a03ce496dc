//===- Vocabulary.h - Costs of a head in shards -----------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The costs of a head whose vocabulary is sharded over the workers of a path
// (Yeung et al. 2024, arXiv 2411.05288; docs/CostModel.md, "Shards of a
// vocabulary").
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_LIB_COSTMODEL_VOCAB_VOCABULARY_H
#define PIPESCHED_LIB_COSTMODEL_VOCAB_VOCABULARY_H

#include "PipeSched/Facts/StageCosts.h"
#include "PipeSched/Facts/System.h"

namespace pipesched {

/// Returns the costs of stages without the head, and of S, T, X, Y and Z on
/// each of them. All stages of a path have the same costs of these, because any
/// may run a shard. `phases` has some of these; with Z the algorithm is
/// Vocab-1. An O of the last stage of each worker also updates its shard.
/// Errors: as for costRoofline; a model without a head, or with more blocks
/// after its layers; slices; for G as for costShardReductions.
llvm::Expected<StageCosts> costShards(const Placement &placement,
                                      const ModelFacts &model,
                                      const SystemFacts &system,
                                      PhaseSet phases);

/// Returns the memory of stages without the head and without the parameters of
/// the embedding. The last stage of each worker on a path has a shard of both,
/// and all stages have the tensors that a shard of the head keeps from S to T.
/// Errors: as for computeMemoryFacts and the first two of costShards.
llvm::Expected<MemoryFacts> computeShardMemory(const Placement &placement,
                                               const ModelFacts &model,
                                               const SystemFacts *system,
                                               PhaseSet phases);

} // namespace pipesched

#endif // PIPESCHED_LIB_COSTMODEL_VOCAB_VOCABULARY_H
