//===- Sharding.h - Cells with sharded parameters ---------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Gathers of weights and reduce-scatters of gradients that belong to cells
// (docs/CostModel.md, "Sharding"), and the part that remains at the end of a
// step.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_LIB_COSTMODEL_LAYERS_SHARDING_H
#define PIPESCHED_LIB_COSTMODEL_LAYERS_SHARDING_H

#include "PipeSched/CostModel/Layers/Reductions.h"
#include "PipeSched/CostModel/Layers/StageLayers.h"

namespace pipesched {

/// Bytes of whole parameters on the accelerators of one worker, and the group
/// over which they are sharded. Each accelerator of a tensor-parallel group
/// shards its part with a separate group.
struct ShardPart {
  RingGroup group;
  double weightBytes = 0, gradientBytes = 0;
};

/// Returns the parameters of one block on a worker, by the group over which
/// they are sharded.
llvm::SmallVector<ShardPart, 2> shardPartsOf(const BlockFacts &block,
                                             const ModelFacts &model,
                                             const SystemFacts &system,
                                             const RankLayout &layout,
                                             int64_t worker);

/// Whether weights or gradients are transferred in every cell.
bool movesInCells(const SystemFacts &system);

/// Some equal blocks of a cell, in the order in which it runs them. The weights
/// of a block are gathered before it, and its gradients are reduce-scattered
/// after it.
struct ShardedBlocks {
  int64_t count = 1;
  double computePs = 0, gatherPs = 0, scatterPs = 0;
};

/// The time of a cell. While a block computes, the weights of the next block
/// are gathered and the gradients of the previous block are reduced, one after
/// the other. The next block starts when all three are done. So the first
/// gather and the last reduce-scatter are exposed:
///
///   gathers   0     1     2
///   computes        0     1     2
///   scatters              0     1     2
///   time      g0 + max(c0, g1) + max(c1, g2 + s0) + max(c2, s1) + s2
///
/// At most two blocks are gathered at a time. Gathers and reduce-scatters share
/// the links.
double prefetchedPs(llvm::ArrayRef<ShardedBlocks> blocks);

/// The time that a block computes in a phase, ps, without transfers.
using BlockTime = llvm::function_ref<double(uint32_t block, Phase phase)>;

/// The cells that wait for parameters: F, R, I, W and B if `phases` has them.
struct ShardedCells {
  PhaseSet phases;
  bool recomputesInBackward = false; ///< B and I start with the work of R
  BlockTime timeOf;
  /// Whether the blocks divide the given time of a cell in the proportions of
  /// timeOf. Otherwise they take timeOf itself.
  bool isMeasured = false;
};

/// Adds to the times of cells the part of gathers and reduce-scatters that
/// exceeds the compute, as a segment on Resource::Sharding. Does nothing if
/// cells transfer nothing. Errors: as for sumRings; times or bytes over int64.
llvm::Error shardCells(const StageBlocks &blocks, const ModelFacts &model,
                       const SystemFacts &system, const RankLayout &layout,
                       int64_t worker, const ShardedCells &sharded,
                       CellCosts &cells, int64_t slice);

/// The largest bytes that a cell of a stage holds temporarily: weights of two
/// consecutive blocks, gradients of one, and weights of one.
struct Gathered {
  CheckedInt weight, gradient, blockWeight;
};
Gathered gatheredBytes(const StageBlocks &blocks, const ModelFacts &model,
                       const SystemFacts &system, const RankLayout &layout,
                       int64_t worker);

} // namespace pipesched

#endif // PIPESCHED_LIB_COSTMODEL_LAYERS_SHARDING_H
