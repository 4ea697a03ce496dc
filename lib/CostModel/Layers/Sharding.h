//===- Sharding.h - Cells whose parameters peers divide ---------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Gathers of weights and reduce-scatters of gradients that belong to cells
// (docs/CostModel.md, "Sharding"), and the part that they leave to the end of a
// step.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_LIB_COSTMODEL_LAYERS_SHARDING_H
#define PIPESCHED_LIB_COSTMODEL_LAYERS_SHARDING_H

#include "PipeSched/CostModel/Layers/Reductions.h"
#include "PipeSched/CostModel/Layers/StageLayers.h"

namespace pipesched {

/// Bytes of parameters that the accelerators of one worker hold while they are
/// whole, and the group that divides them; each accelerator of a
/// tensor-parallel group divides its part with a separate group.
struct ShardPart {
  RingGroup group;
  double weightBytes = 0, gradientBytes = 0;
};

/// The parameters of one block on a worker by the group that divides them.
llvm::SmallVector<ShardPart, 2> shardPartsOf(const BlockFacts &block,
                                             const ModelFacts &model,
                                             const SystemFacts &system,
                                             const RankLayout &layout,
                                             int64_t worker);

/// Whether weights or gradients are on their way in every cell.
bool movesInCells(const SystemFacts &system);

/// Some equal blocks of a cell, in the order in which it runs them. Before each
/// its weights are gathered, after each its gradients are reduce-scattered.
struct ShardedBlocks {
  int64_t count = 1;
  double computePs = 0, gatherPs = 0, scatterPs = 0;
};

/// The time of a cell. While a block computes, the weights of the next one are
/// gathered and the gradients of the one before are reduced, one after the
/// other; the next block starts when all three are done. So the first gather
/// and the last reduce-scatter are exposed:
///
///   gathers   0     1     2
///   computes        0     1     2
///   scatters              0     1     2
///   time      g0 + max(c0, g1) + max(c1, g2 + s0) + max(c2, s1) + s2
///
/// No more than two blocks are gathered at a time. Gathers and reduce-scatters
/// share the links.
double prefetchedPs(llvm::ArrayRef<ShardedBlocks> blocks);

/// The time that a block computes in a phase, ps, without transfers.
using BlockTime = llvm::function_ref<double(uint32_t block, Phase phase)>;

/// The cells that wait for parameters: cells of `phases` among F, R, I, W, B.
struct ShardedCells {
  PhaseSet phases;
  bool recomputesInBackward = false; ///< B and I start with the work of R
  BlockTime timeOf;
  /// Whether blocks take their parts, by timeOf, of the time that a cell has;
  /// else they take timeOf.
  bool isMeasured = false;
};

/// Adds to the times of cells the time of gathers and reduce-scatters beyond
/// the compute, as a segment on Resource::Sharding. Does nothing if nothing
/// moves in cells. Errors: as for sumRings; times or bytes over int64.
llvm::Error shardCells(const StageBlocks &blocks, const ModelFacts &model,
                       const SystemFacts &system, const RankLayout &layout,
                       int64_t worker, const ShardedCells &sharded,
                       CellCosts &cells, int64_t slice);

/// The largest bytes that a cell of a stage holds for a while: weights of two
/// consecutive blocks, gradients of one, and weights of one.
struct Gathered {
  CheckedInt weight, gradient, blockWeight;
};
Gathered gatheredBytes(const StageBlocks &blocks, const ModelFacts &model,
                       const SystemFacts &system, const RankLayout &layout,
                       int64_t worker);

} // namespace pipesched

#endif // PIPESCHED_LIB_COSTMODEL_LAYERS_SHARDING_H
