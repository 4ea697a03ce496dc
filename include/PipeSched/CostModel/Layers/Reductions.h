//===- Reductions.h - Gradient all-reduces of stages ------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Functions that the costs of all-reduces and of stages share: the bytes that
// are sent, and the cost of G by stage, which is a sum over the pieces that the
// stage owns.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_COSTMODEL_LAYERS_REDUCTIONS_H
#define PIPESCHED_COSTMODEL_LAYERS_REDUCTIONS_H

#include "PipeSched/CostModel/Comm/Rings.h"
#include "PipeSched/Schedule/Table/ParameterSets.h"
#include "llvm/ADT/STLFunctionalExtras.h"

namespace pipesched {

/// An all-reduce of gradients.
struct Reduction {
  Cell cell;        ///< the G cell of its first worker
  BlockSpan blocks; ///< in the numbering of Replicas
  int64_t numWorkers = 1;
  int64_t firstWorker = 0, lastWorker = 0; ///< lowest and highest index
};

/// Costs of ring all-reduces of the gradients of blocks, among workers and
/// their peers in other pipelines. Errors: as for ringExchange and Replicas.
llvm::Expected<std::vector<MessageCost>>
costReductions(const Placement &placement, llvm::ArrayRef<Reduction> reductions,
               const ModelFacts &model, const SystemFacts &system);

/// The same from given G times of stages: an all-reduce takes the share of its
/// cell's G time that its blocks have among all blocks of the stage. `model`
/// gives the bytes and may be null. Errors: as for Replicas; bytes over int64.
llvm::Expected<std::vector<MessageCost>>
shareReductions(const Placement &placement,
                llvm::ArrayRef<Reduction> reductions,
                const StageCosts &stageCosts, const ModelFacts *model);

/// Overlaps the all-reduces of whole stages with compute, layer by layer.
/// Gradients are reduced while the last backward of the stage runs (W if
/// `phases` has it, else B). Weights, if they are gathered, are gathered while
/// its first forward runs. Changes the exposed part and the early start of an
/// all-reduce; bytes stay. Times of cells come from `stageCosts`. Errors: as
/// for costReductions and costBlocks.
llvm::Error reduceByLayers(const Placement &placement,
                           llvm::ArrayRef<Reduction> reductions,
                           const ModelFacts &model, const SystemFacts &system,
                           PhaseSet phases, const StageCosts &stageCosts,
                           std::vector<MessageCost> &costs);

/// The bytes that each of n workers sends in a ring all-reduce: 2 (n - 1) parts
/// of bytes / n. Errors: over int64.
llvm::Expected<int64_t> ringBytes(double bytes, int64_t numWorkers);

/// Returns `ps` times `part` over `whole`, rounded to the nearest; all of `ps`
/// if `part` is at least `whole`.
int64_t portionOf(int64_t ps, int64_t part, int64_t whole);

using CostReductions =
    llvm::function_ref<llvm::Expected<std::vector<MessageCost>>(
        llvm::ArrayRef<Reduction>)>;

/// Sets the G times of all stages to the sums over the pieces that they own;
/// `cost` returns the costs of reductions. Errors: as for `cost`; times over
/// int64.
llvm::Error costStageReductions(const Placement &placement, CostReductions cost,
                                StageCosts &stageCosts);

/// Adds the reduction of another block of the worker, to run after the
/// reduction of one worker and its peers. Errors: as for ringExchange.
llvm::Error addReduction(const Reduction &reduction, const BlockFacts &block,
                         const ModelFacts &model, const SystemFacts &system,
                         const RankLayout &layout, MessageCost &cost);

} // namespace pipesched

#endif // PIPESCHED_COSTMODEL_LAYERS_REDUCTIONS_H
