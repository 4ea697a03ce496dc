//===- ShardReductions.h - Gradients of a head in shards --------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Costs of gradient all-reduces if each worker has a shard of the head and of
// the embedding (docs/CostModel.md, "Shards of a vocabulary").
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_COSTMODEL_VOCAB_SHARDREDUCTIONS_H
#define PIPESCHED_COSTMODEL_VOCAB_SHARDREDUCTIONS_H

#include "PipeSched/CostModel/Layers/Reductions.h"

namespace pipesched {

/// Returns the costs of costReductions for the layers; with `gradient-buckets`
/// layer by layer (reduceByLayers). The last stage of each worker also reduces
/// its shard, after its layers, because T of the last microbatch may be the
/// last cell before the all-reduce. `phases` are the table's. Errors: as for
/// costReductions; a model without a head, or with more blocks after its
/// layers; several paths; weights that are gathered in cells.
llvm::Expected<std::vector<MessageCost>>
costShardReductions(const Placement &placement,
                    llvm::ArrayRef<Reduction> reductions,
                    const ModelFacts &model, const SystemFacts &system,
                    PhaseSet phases, const StageCosts &stageCosts);

} // namespace pipesched

#endif // PIPESCHED_COSTMODEL_VOCAB_SHARDREDUCTIONS_H
