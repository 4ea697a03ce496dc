//===- BlockTimes.h - Times of blocks by phase ------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Times of the blocks of a model, which add up to the times of stages.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_LIB_COSTMODEL_KERNELS_BLOCKTIMES_H
#define PIPESCHED_LIB_COSTMODEL_KERNELS_BLOCKTIMES_H

#include "PipeSched/CostModel/Kernels/KernelTimes.h"
#include "PipeSched/Facts/System.h"
#include <algorithm>
#include <vector>

namespace pipesched {

/// The time in ps in which the accelerators of a worker move this many bytes of
/// its memory.
double memoryPs(double bytes, const SystemFacts &system);

/// How often O reads or writes weights: it reads them too if they are the
/// master copy, or a part of it.
double weightPassesOfStep(const ModelFacts &model);

/// Times of one block, which are the same for every stage that holds it. By
/// Phase; times of R are of the kernels that the model recomputes.
struct BlockTimes {
  BlockTimes() = default;
  BlockTimes(const BlockFacts &block, const SystemFacts &system,
             Recompute recompute);

  void add(const BlockTimes &block, int64_t count);

  /// The host launches ahead of the device, so the time of a run of blocks is
  /// the longer of both sums. If the host waits within each block, the longer
  /// time of each block counts.
  double of(Phase phase) const {
    return waiting[phase] + std::max(ahead[phase], launched[phase]);
  }

  /// The same if no rows were on their way to experts.
  double alone(Phase phase) const {
    return waitingAlone[phase] + std::max(aheadAlone[phase], launched[phase]);
  }

  /// Times of the device and of the host in blocks in which the host does not
  /// wait; times of other blocks.
  PhaseMap<double> ahead = {}, launched = {}, waiting = {}, dispatch = {};
  /// Without the way of rows to experts.
  PhaseMap<double> aheadAlone = {}, waitingAlone = {};
  PhaseMap<ContextSums> context = {};
};

/// By block, the first block of the model whose kernels take the same times in
/// every phase on any system: itself if no earlier block does. Layers of
/// several kinds in turn are many blocks of few kinds.
std::vector<size_t> firstOfEqualTimes(const ModelFacts &model);

/// The times of each block of the model. Equal blocks are computed once.
std::vector<BlockTimes> timesOfBlocks(const ModelFacts &model,
                                      const SystemFacts &system);

/// Checks that accelerators of a worker have a link, that ranks divide
/// sequences and experts evenly, and that the system has the rates that the
/// model's kernels need.
llvm::Error checkSystem(const ModelFacts &model, const SystemFacts &system);

/// Checks that blocks have work for the split backwards of a schedule. A block
/// that splits only some backwards is not checked.
llvm::Error checkBackwards(const ModelFacts &model, PhaseSet phases);

} // namespace pipesched

#endif // PIPESCHED_LIB_COSTMODEL_KERNELS_BLOCKTIMES_H
