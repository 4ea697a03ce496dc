//===- Roofline.cpp - Costs from facts ------------------------------------===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Roofline compute and Hockney messages in picoseconds (docs/CostModel.md).
//
//===----------------------------------------------------------------------===//

#include "KernelTimes.h"
#include "PipeSched/Support/MakeError.h"
#include "Reductions.h"
#include "StageLayers.h"
#include "llvm/ADT/Twine.h"
#include "llvm/Support/MathExtras.h"
#include <cmath>

using namespace pipesched;
using llvm::Twine;

/// 2^63, the first time that does not fit into int64.
static constexpr double kPsLimit = 9223372036854775808.0;

static unsigned bit(Phase phase) { return 1u << static_cast<unsigned>(phase); }

/// Rounded to the nearest picosecond.
static llvm::Error store(double ps, const char *what, int64_t &result) {
  double rounded = std::nearbyint(ps);
  if (!(rounded < kPsLimit))
    return makeError("the time of " + Twine(what) + " is over 2^63 - 1 ps");
  result = static_cast<int64_t>(rounded);
  return llvm::Error::success();
}

llvm::Expected<MessageCost> pipesched::hockney(int64_t bytes,
                                               const LinkFacts &link) {
  if (link.bytesPerSecond <= 0)
    return makeError("the system has no network between workers");
  MessageCost cost;
  cost.bytes = bytes;
  cost.latencyPs = link.latencyPs;
  if (llvm::Error error =
          store(transferPs(double(bytes), link), "a message", cost.occupancyPs))
    return std::move(error);
  return cost;
}

namespace {
/// Sums over rings that run one after the other, before rounding.
struct RingSums {
  double occupancyPs = 0, latencyPs = 0, bytes = 0;

  /// Adds a ring of n = `size` members: n - 1 messages in each half of the
  /// exchange.
  void add(GradientExchange exchange, int64_t size, const LinkFacts &link) {
    double parts = double(size), steps = parts - 1;
    for (double total : {exchange.reducedBytes, exchange.gatheredBytes}) {
      if (size == 1 || total == 0)
        continue;
      occupancyPs += steps * transferPs(total / parts, link);
      latencyPs += steps * double(link.latencyPs);
      bytes += steps * total / parts;
    }
  }
};
} // namespace

llvm::Expected<MessageCost> pipesched::ringExchange(GradientExchange exchange,
                                                    RingGroup group,
                                                    const SystemFacts &system) {
  MessageCost cost;
  if (group.size() == 1 || exchange.reducedBytes + exchange.gatheredBytes == 0)
    return cost;
  if (group.numNodes > 1 && system.network.bytesPerSecond <= 0)
    return makeError("the system has no network between workers");
  RingSums sums;
  sums.add(exchange, group.perNode, nodeLinkOfWorker(system));
  auto perNode = double(group.perNode);
  sums.add({exchange.reducedBytes / perNode, exchange.gatheredBytes / perNode},
           group.numNodes, system.network);
  if (auto error = store(sums.occupancyPs, "an all-reduce", cost.occupancyPs))
    return std::move(error);
  if (auto error = store(sums.latencyPs, "an all-reduce", cost.latencyPs))
    return std::move(error);
  if (!(std::nearbyint(sums.bytes) < kPsLimit))
    return makeError(
        "a worker sends more than 2^63 - 1 bytes in an all-reduce");
  cost.bytes = static_cast<int64_t>(std::nearbyint(sums.bytes));
  return cost;
}

namespace {
/// Times of one block, which are the same for every stage that holds it.
struct BlockTimes {
  double forward, inputGrad, weightGrad, recompute, backward, step;
};

/// Computes the costs of the stages of a placement; what does not depend on the
/// stage is computed once.
class StageCostBuilder {
public:
  StageCostBuilder(const ModelFacts &model, const SystemFacts &system,
                   unsigned phases)
      : model(model), system(system), phases(phases),
        recomputesInBackward(model.recompute != Recompute::None &&
                             !(phases & bit(Phase::Recompute))) {
    for (const BlockFacts &block : model.blocks)
      blockTimes.push_back(
          {rooflinePs(block, Phase::Forward, system),
           rooflinePs(block, Phase::InputGrad, system),
           rooflinePs(block, Phase::WeightGrad, system),
           rooflinePs(block, Phase::Recompute, system, model.recompute),
           rooflinePs(block, Phase::Backward, system),
           rooflinePs(block, Phase::Optimizer, system)});
  }

  /// `owned` are those of `blocks` whose parameters the stage steps.
  llvm::Error cost(const StageBlocks &blocks, const StageBlocks &owned,
                   const StageMemory &memory, StageCost &cost) const;

private:
  llvm::Error costCompute(const StageBlocks &blocks, StageCost &cost) const;
  llvm::Error costBackward(const StageBlocks &blocks, double ps,
                           StageCost &cost) const;
  llvm::Error costCopies(const StageMemory &memory, StageCost &cost) const;
  llvm::Error costStep(const StageBlocks &owned, const StageMemory &memory,
                       StageCost &cost) const;

  const ModelFacts &model;
  const SystemFacts &system;
  unsigned phases;
  bool recomputesInBackward;
  std::vector<BlockTimes> blockTimes;
};
} // namespace

static int64_t &timeOf(StageCost &cost, Phase phase) {
  return cost.phasePs[static_cast<unsigned>(phase)];
}

/// B is the sum of the rounded I and W, so that splitting a backward changes no
/// total, unless a block says what B runs.
llvm::Error StageCostBuilder::costBackward(const StageBlocks &blocks, double ps,
                                           StageCost &cost) const {
  int64_t first = timeOf(cost, Phase::InputGrad);
  int64_t second = timeOf(cost, Phase::WeightGrad);
  if (llvm::any_of(blocks, [&](BlockCount entry) {
        return anyStates(model.blocks[entry.block], &Kernel::backward);
      })) {
    first = recomputesInBackward ? timeOf(cost, Phase::Recompute) : 0;
    if (auto error = store(ps, "B", second))
      return error;
  }
  if (llvm::AddOverflow(first, second, timeOf(cost, Phase::Backward)))
    return makeError("the time of B is over 2^63 - 1 ps");
  return llvm::Error::success();
}

llvm::Error StageCostBuilder::costCompute(const StageBlocks &blocks,
                                          StageCost &cost) const {
  BlockTimes sum = {};
  for (auto [block, count] : blocks) {
    const BlockTimes &times = blockTimes[block];
    sum.forward += double(count) * times.forward;
    sum.inputGrad += double(count) * times.inputGrad;
    sum.weightGrad += double(count) * times.weightGrad;
    sum.recompute += double(count) * times.recompute;
    sum.backward += double(count) * times.backward;
  }

  // An I with recomputation is the sum of the rounded R and I: adding R cells
  // changes no total.
  if (auto error = store(sum.forward, "F", timeOf(cost, Phase::Forward)))
    return error;
  int64_t &recompute = timeOf(cost, Phase::Recompute);
  if (auto error = store(sum.recompute, "R", recompute))
    return error;
  int64_t &inputGrad = timeOf(cost, Phase::InputGrad);
  int64_t &weightGrad = timeOf(cost, Phase::WeightGrad);
  if (auto error = store(sum.inputGrad, "I", inputGrad))
    return error;
  if (auto error = store(sum.weightGrad, "W", weightGrad))
    return error;
  if (recomputesInBackward &&
      llvm::AddOverflow(inputGrad, recompute, inputGrad))
    return makeError("the time of I is over 2^63 - 1 ps");
  return costBackward(blocks, sum.backward, cost);
}

/// D and U move the activations of a microbatch; each accelerator moves its
/// share.
llvm::Error StageCostBuilder::costCopies(const StageMemory &memory,
                                         StageCost &cost) const {
  if (!(phases & (bit(Phase::Offload) | bit(Phase::Reload))))
    return llvm::Error::success();
  if (system.host.bytesPerSecond == 0)
    return makeError("D and U need the 'host' link of the system, '" +
                     Twine(system.name) + "' has none");
  double bytes = double(memory.activationBytes) / double(system.accelerators);
  double ps = transferPs(bytes, system.host) + double(system.host.latencyPs);
  if (auto error = store(ps, "D", timeOf(cost, Phase::Offload)))
    return error;
  timeOf(cost, Phase::Reload) = timeOf(cost, Phase::Offload);
  return llvm::Error::success();
}

/// O runs what the blocks say. For blocks that say nothing it reads the
/// gradients, reads and writes the optimizer's state and writes the weights.
/// Both for the parameters whose state this pipeline holds.
llvm::Error StageCostBuilder::costStep(const StageBlocks &owned,
                                       const StageMemory &memory,
                                       StageCost &cost) const {
  int64_t sharers = system.sharding == Sharding::None ? 1 : system.dataParallel;
  StateSums stated; // of blocks that say what they run
  double statedPs = 0;
  for (auto [block, count] : owned)
    if (anyStates(model.blocks[block], &Kernel::optimizer)) {
      statedPs += double(count) * blockTimes[block].step;
      stated.add(model.blocks[block], count, model);
    }
  auto without = [](int64_t all, int64_t part) {
    return double(std::max<int64_t>(all - part, 0));
  };
  double bytes = (without(memory.gradientBytes, stated.gradient.get()) +
                  without(memory.weightBytes, stated.weight.get())) /
                     double(sharers) +
                 2 * without(memory.optimizerBytes,
                             llvm::divideCeil(uint64_t(stated.optimizer.get()),
                                              uint64_t(sharers)));
  double share = bytes / double(system.accelerators);
  double step = share > 0 ? transferPs(share, system.memory) +
                                double(system.memory.latencyPs)
                          : 0;
  return store(step + statedPs / double(sharers), "O",
               timeOf(cost, Phase::Optimizer));
}

llvm::Error StageCostBuilder::cost(const StageBlocks &blocks,
                                   const StageBlocks &owned,
                                   const StageMemory &memory,
                                   StageCost &cost) const {
  if (auto error = costCompute(blocks, cost))
    return error;
  if (auto error = costCopies(memory, cost))
    return error;
  return costStep(owned, memory, cost);
}

/// Messages take the link of a node if both workers stand on it, else the
/// network.
static llvm::Error costMessages(const Placement &placement,
                                llvm::ArrayRef<MessageBytes> bytes,
                                const SystemFacts &system,
                                StageCosts &stageCosts) {
  RankLayout layout(system, placement.getNumWorkers());
  LinkFacts nodeLink = nodeLinkOfWorker(system);
  auto assign = [&](int64_t size, bool isNear,
                    MessageCost &message) -> llvm::Error {
    llvm::Expected<MessageCost> cost = hockney(
        size, isNear && system.link.bytesPerSecond ? nodeLink : system.network);
    if (!cost)
      return cost.takeError();
    message = *cost;
    return llvm::Error::success();
  };
  for (int64_t path = 0; path < placement.getNumPaths(); ++path) {
    int64_t first = placement.stageOffset(path);
    int64_t last = first + placement.getNumStages(path) - 1;
    auto isNear = [&](int64_t stage) {
      return stage >= first && stage < last &&
             layout.sharesNode(placement.workerOf(stage),
                               placement.workerOf(stage + 1));
    };
    for (int64_t stage = first; stage <= last; ++stage) {
      StageCost &cost = stageCosts.stages[stage];
      if (auto error =
              assign(bytes[stage].activation, isNear(stage), cost.activation))
        return error;
      if (auto error =
              assign(bytes[stage].gradient, isNear(stage - 1), cost.gradient))
        return error;
    }
  }
  return llvm::Error::success();
}

static llvm::Error checkLink(const SystemFacts &system) {
  if (system.accelerators == 1 || system.link.bytesPerSecond != 0)
    return llvm::Error::success();
  return makeError("a worker of '" + Twine(system.name) + "' has " +
                   Twine(system.accelerators) +
                   " accelerators and no 'link' among them");
}

/// Checks that the system has the rates that the model's kernels need.
static llvm::Error checkRates(const ModelFacts &model,
                              const SystemFacts &system) {
  if (system.matrix.fp8FlopsPerSecond != 0)
    return llvm::Error::success();
  for (const BlockFacts &block : model.blocks)
    for (const Kernel &kernel : block.kernels)
      if (kernel.engine == Engine::MatrixFp8)
        return makeError("kernel '" + Twine(kernel.name) + "' of block '" +
                         block.name + "' is in FP8, for which the system '" +
                         system.name + "' has no rate");
  return llvm::Error::success();
}

/// Checks that blocks have work for the split backwards of a schedule. One that
/// splits some backwards only is not checked.
static llvm::Error checkBackwards(const ModelFacts &model, unsigned phases) {
  if (!(phases & (bit(Phase::InputGrad) | bit(Phase::WeightGrad))) ||
      phases & bit(Phase::Backward))
    return llvm::Error::success();
  for (const BlockFacts &block : model.blocks)
    if (anyStates(block, &Kernel::backward) &&
        llvm::all_of(block.kernels, [](const Kernel &kernel) {
          return kernel.inputGrad.isZero() && kernel.weightGrad.isZero();
        }))
      return makeError("block '" + Twine(block.name) +
                       "' has work for a whole B only, but the schedule splits "
                       "backwards into I and W; state its work in I and W, "
                       "or keep backwards whole");
  return llvm::Error::success();
}

static llvm::Error checkSystem(const ModelFacts &model,
                               const SystemFacts &system) {
  if (llvm::Error error = checkLink(system))
    return error;
  return checkRates(model, system);
}

llvm::Expected<std::vector<int64_t>>
pipesched::costBlocks(const ModelFacts &model, const SystemFacts &system) {
  if (llvm::Error error = checkSystem(model, system))
    return std::move(error);
  std::vector<int64_t> times;
  for (const BlockFacts &block : model.blocks) {
    double ps = rooflinePs(block, Phase::Forward, system) +
                rooflinePs(block, Phase::Backward, system);
    if (model.recompute != Recompute::None)
      ps += rooflinePs(block, Phase::Recompute, system, model.recompute);
    if (auto error = store(ps, "a block", times.emplace_back()))
      return std::move(error);
  }
  return times;
}

llvm::Expected<StageCosts> pipesched::costRoofline(const Placement &placement,
                                                   const ModelFacts &model,
                                                   const SystemFacts &system,
                                                   unsigned phases) {
  if (llvm::Error error = checkSystem(model, system))
    return std::move(error);
  if (llvm::Error error = checkBackwards(model, phases))
    return std::move(error);
  llvm::Expected<std::vector<StageBlocks>> blocks =
      blocksOfStages(placement, model);
  if (!blocks)
    return blocks.takeError();
  llvm::Expected<std::vector<StageBlocks>> owned =
      ownedBlocksOfStages(placement, model, *blocks);
  if (!owned)
    return owned.takeError();
  llvm::Expected<MemoryFacts> memory =
      computeMemoryFacts(placement, model, &system, phases);
  if (!memory)
    return memory.takeError();

  StageCostBuilder taskCosts(model, system, phases);
  StageCosts stageCosts;
  stageCosts.stages.resize(blocks->size());
  for (auto [stage, cost] : llvm::enumerate(stageCosts.stages))
    if (auto error = taskCosts.cost((*blocks)[stage], (*owned)[stage],
                                    memory->stages[stage], cost))
      return std::move(error);
  if (auto error = costMessages(placement, messagesOfStages(model, *blocks),
                                system, stageCosts))
    return std::move(error);
  if (phases & bit(Phase::AllReduce))
    if (auto error = costStageReductions(placement, model, system, stageCosts))
      return std::move(error);
  return stageCosts;
}
