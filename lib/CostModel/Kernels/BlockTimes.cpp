//===- BlockTimes.cpp - What blocks take in each phase --------------------===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Times of the blocks of a model, which the times of stages are sums of.
//
//===----------------------------------------------------------------------===//

#include "BlockTimes.h"
#include "../Comm/StorePs.h"
#include "PipeSched/CostModel/Comm/Rings.h"
#include "PipeSched/CostModel/Kernels/KernelTimes.h"
#include "PipeSched/Schedule/Kinds/PhaseSets.h"
#include "RooflineChecks.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallVector.h"

using namespace pipesched;

BlockTimes::BlockTimes(const BlockFacts &block, const SystemFacts &system,
                       Recompute recompute) {
  for (Phase phase : {Phase::Forward, Phase::InputGrad, Phase::WeightGrad,
                      Phase::Backward, Phase::Recompute, Phase::Optimizer}) {
    Recompute again = phase == Phase::Recompute ? recompute : Recompute::Full;
    HostTime host = hostTime(block, phase, system, again);
    double device = rooflinePs(block, phase, system, again);
    if (system.expertParallel > 1)
      dispatch[phase] = enginePs(block, phase, Engine::AllToAll, system, again);
    if (host.waits) {
      auto withHost = [&](double ps) {
        return std::max(ps, host.launchPs) + host.synchronizePs;
      };
      waiting[phase] = withHost(device);
      waitingAlone[phase] = withHost(device - dispatch[phase]);
    } else {
      ahead[phase] = device;
      aheadAlone[phase] = device - dispatch[phase];
      launched[phase] = host.launchPs;
    }
    if (system.contextParallel > 1)
      context[phase] = contextSums(block, phase, system, again);
  }
}

void BlockTimes::add(const BlockTimes &block, int64_t count) {
  kCostedPhases.forEach([&](Phase phase) {
    for (auto part :
         {&BlockTimes::ahead, &BlockTimes::aheadAlone, &BlockTimes::launched,
          &BlockTimes::waiting, &BlockTimes::waitingAlone})
      (this->*part)[phase] += double(count) * (block.*part)[phase];
    dispatch[phase] += double(count) * block.dispatch[phase];
    for (auto part :
         {&ContextSums::ps, &ContextSums::exposedPs, &ContextSums::bytes})
      context[phase].*part += double(count) * (block.context[phase].*part);
  });
}

std::vector<size_t> pipesched::firstOfEqualTimes(const ModelFacts &model) {
  std::vector<size_t> firsts;
  llvm::SmallVector<size_t> kinds; // the blocks that are their own first
  for (auto [index, block] : llvm::enumerate(model.blocks)) {
    // Of a block, KernelTimes reads its kernels and its experts alone.
    const auto *same = llvm::find_if(kinds, [&, &block = block](size_t kind) {
      const BlockFacts &other = model.blocks[kind];
      return block.kernels == other.kernels && block.experts == other.experts;
    });
    firsts.push_back(same == kinds.end() ? index : *same);
    if (same == kinds.end())
      kinds.push_back(index);
  }
  return firsts;
}

std::vector<BlockTimes> pipesched::timesOfBlocks(const ModelFacts &model,
                                                 const SystemFacts &system) {
  std::vector<BlockTimes> times;
  times.reserve(model.blocks.size());
  for (auto [block, first] : llvm::enumerate(firstOfEqualTimes(model)))
    if (first == block)
      times.emplace_back(model.blocks[block], system, model.recompute);
    else
      times.push_back(times[first]);
  return times;
}

llvm::Expected<std::vector<int64_t>>
pipesched::costBlocks(const ModelFacts &model, const SystemFacts &system) {
  if (llvm::Error error = checkSystem(model, system))
    return std::move(error);
  std::vector<int64_t> times;
  for (auto [index, first] : llvm::enumerate(firstOfEqualTimes(model))) {
    if (first != index) {
      times.push_back(times[first]);
      continue;
    }
    const BlockFacts &block = model.blocks[index];
    double ps = blockPs(block, Phase::Forward, system) +
                blockPs(block, Phase::Backward, system);
    if (model.recompute != Recompute::None)
      ps += blockPs(block, Phase::Recompute, system, model.recompute);
    if (auto error = store(ps, "a block", times.emplace_back()))
      return std::move(error);
  }
  return times;
}

//===----------------------------------------------------------------------===//
// Steps of parameters
//===----------------------------------------------------------------------===//

double pipesched::memoryPs(double bytes, const SystemFacts &system) {
  double share = bytes / double(system.accelerators);
  return share > 0 ? transferPs(share, system.memory) +
                         double(system.memory.latencyPs)
                   : 0;
}

/// Of Adam's state for a parameter: master copy and two moments, 4 bytes each.
static constexpr int64_t kAdamBytes = 12;

double pipesched::weightPassesOfStep(const ModelFacts &model) {
  bool isMaster =
      model.weightBytesPerParameter + model.optimizerBytesPerParameter ==
      kAdamBytes;
  return isMaster ? 2 : 1;
}
