//===- BlockTimes.h - Times of blocks by phase ------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Times of the blocks of a model. Times of stages are sums of them.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_LIB_COSTMODEL_KERNELS_BLOCKTIMES_H
#define PIPESCHED_LIB_COSTMODEL_KERNELS_BLOCKTIMES_H

#include "PipeSched/CostModel/Kernels/KernelTimes.h"
#include "PipeSched/Facts/System.h"
#include <algorithm>
#include <vector>

namespace pipesched {

/// The time in ps in which the accelerators of a worker read or write this many
/// bytes of its memory.
double memoryPs(double bytes, const SystemFacts &system);

/// How many times O reads or writes weights: it also reads them if they are the
/// master copy or a part of it.
double weightPassesOfStep(const ModelFacts &model);

/// Times of one block, by phase. They are the same for every stage that holds
/// it. Times of R include the kernels that the model recomputes.
struct BlockTimes {
  BlockTimes() = default;
  BlockTimes(const BlockFacts &block, const SystemFacts &system,
             Recompute recompute);

  void add(const BlockTimes &block, int64_t count);

  /// Returns the time of a run of blocks. The host launches ahead of the
  /// device, so it is the longer of both sums. If the host waits within each
  /// block, it is the sum of the longer times of each block.
  double of(Phase phase) const {
    return waiting[phase] + std::max(ahead[phase], launched[phase]);
  }

  /// The same without the transfers of rows to experts.
  double alone(Phase phase) const {
    return waitingAlone[phase] + std::max(aheadAlone[phase], launched[phase]);
  }

  /// `ahead` and `launched` are the times of device and host in blocks in which
  /// the host does not wait; `waiting` are the times of all other blocks.
  PhaseMap<double> ahead = {}, launched = {}, waiting = {}, dispatch = {};
  /// Times without the transfers of rows to experts.
  PhaseMap<double> aheadAlone = {}, waitingAlone = {};
  PhaseMap<ContextSums> context = {};
};

/// By block: the first block of the model whose kernels take the same times in
/// every phase on any system; the block itself if no earlier block does. A
/// model that alternates kinds of layers has many blocks of few kinds.
std::vector<size_t> firstOfEqualTimes(const ModelFacts &model);

/// The times of each block of the model. Equal blocks are computed once.
std::vector<BlockTimes> timesOfBlocks(const ModelFacts &model,
                                      const SystemFacts &system);

/// Checks that the accelerators of a worker have a link, that sequences and
/// experts are sharded evenly over ranks, and that the system has the rates
/// that the model's kernels need.
llvm::Error checkSystem(const ModelFacts &model, const SystemFacts &system);

/// Checks that blocks have work for the split backwards of a schedule. A block
/// that splits only some backwards is not checked.
llvm::Error checkBackwards(const ModelFacts &model, PhaseSet phases);

} // namespace pipesched

#endif // PIPESCHED_LIB_COSTMODEL_KERNELS_BLOCKTIMES_H
