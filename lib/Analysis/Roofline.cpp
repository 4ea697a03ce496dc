//===- Roofline.cpp - Prices from facts -----------------------------------===//
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

#include "Reductions.h"
#include "StageLayers.h"
#include "llvm/ADT/Twine.h"
#include "llvm/Support/MathExtras.h"
#include <cmath>

using namespace pipesched;
using llvm::Twine;

static constexpr double kPsPerSecond = 1e12;
/// 2^63, the first time that does not fit.
static constexpr double kPsLimit = 9223372036854775808.0;

static llvm::Error makeError(const Twine &message) {
  return llvm::createStringError(llvm::inconvertibleErrorCode(), message);
}

static unsigned bit(Phase phase) { return 1u << static_cast<unsigned>(phase); }

/// Rounded to the nearest picosecond.
static llvm::Error store(double ps, const char *what, int64_t &result) {
  double rounded = std::nearbyint(ps);
  if (!(rounded < kPsLimit))
    return makeError("the time of " + Twine(what) + " is over 2^63 - 1 ps");
  result = static_cast<int64_t>(rounded);
  return llvm::Error::success();
}

/// Time of a transfer without its latency, ps.
static double transferPs(double bytes, const LinkFacts &link) {
  return bytes / (double(link.bytesPerSecond) * link.efficiency.at(bytes)) *
         kPsPerSecond;
}

/// A ring all-reduce of `bytes` among `ranks`: each sends 2 (n - 1) / n of
/// them.
static double allReducePs(double bytes, int64_t ranks, const LinkFacts &link) {
  if (ranks == 1 || bytes == 0)
    return 0;
  double share = 2.0 * double(ranks - 1) / double(ranks);
  return share * transferPs(bytes, link) + double(link.latencyPs);
}

/// max(F/(n peak e(F/n)) + L_c, V/(n BW e(V/n)) + L_m), or their sum where the
/// system overlaps nothing; no work takes no time.
static double kernelPs(const Work &work, Engine engine,
                       const SystemFacts &system) {
  if (engine == Engine::Link)
    return allReducePs(double(work.bytes), system.accelerators, system.link);
  const EngineFacts &unit =
      engine == Engine::Matrix ? system.matrix : system.vector;
  double flops = double(work.flops) / double(system.accelerators);
  double bytes = double(work.bytes) / double(system.accelerators);
  double compute = 0, memory = 0;
  if (flops > 0)
    compute = flops /
                  (double(unit.flopsPerSecond) * unit.efficiency.at(flops)) *
                  kPsPerSecond +
              double(unit.latencyPs);
  if (bytes > 0)
    memory = transferPs(bytes, system.memory) + double(system.memory.latencyPs);
  return system.overlapsMemory ? std::max(compute, memory) : compute + memory;
}

double pipesched::rooflinePs(const BlockFacts &block, Phase phase,
                             const SystemFacts &system, Recompute recompute) {
  auto runsAgain = [&](const Kernel &kernel) {
    return recompute == Recompute::Selective ? kernel.core : kernel.recomputed;
  };
  double sum = 0;
  for (const Kernel &kernel : block.kernels) {
    bool isBackward = phase == Phase::Backward;
    if (phase == Phase::Forward ||
        (phase == Phase::Recompute && runsAgain(kernel)))
      sum += kernelPs(kernel.forward, kernel.engine, system);
    if (isBackward || phase == Phase::InputGrad)
      sum += kernelPs(kernel.inputGrad, kernel.engine, system);
    if (isBackward || phase == Phase::WeightGrad)
      sum += kernelPs(kernel.weightGrad, kernel.engine, system);
  }
  return sum;
}

llvm::Expected<MessagePrice> pipesched::hockney(int64_t bytes,
                                                const LinkFacts &link) {
  if (link.bytesPerSecond <= 0)
    return makeError("the system has no network between workers");
  MessagePrice price;
  price.bytes = bytes;
  price.latencyPs = link.latencyPs;
  if (llvm::Error error = store(transferPs(double(bytes), link), "a message",
                                price.occupancyPs))
    return std::move(error);
  return price;
}

llvm::Expected<MessagePrice> pipesched::ringAllReduce(double bytes,
                                                      int64_t numWorkers,
                                                      const LinkFacts &link) {
  MessagePrice price;
  if (numWorkers == 1 || bytes == 0)
    return price;
  if (link.bytesPerSecond <= 0)
    return makeError("the system has no network between workers");
  double numMessages = 2.0 * double(numWorkers - 1);
  double partPs = transferPs(bytes / double(numWorkers), link);
  if (auto error =
          store(numMessages * partPs, "an all-reduce", price.occupancyPs))
    return std::move(error);
  if (auto error = store(numMessages * double(link.latencyPs), "an all-reduce",
                         price.latencyPs))
    return std::move(error);
  llvm::Expected<int64_t> sent = ringBytes(bytes, numWorkers);
  if (!sent)
    return sent.takeError();
  price.bytes = *sent;
  return price;
}

namespace {
/// Times of one block; the same for every stage that holds it.
struct BlockTimes {
  double forward, inputGrad, weightGrad, recompute;
};

/// Prices the stages of a placement; what does not depend on the stage is
/// computed once.
class StagePricer {
public:
  StagePricer(const ModelFacts &model, const SystemFacts &system,
              unsigned phases)
      : model(model), system(system), phases(phases),
        recomputesInBackward(model.recompute != Recompute::None &&
                             !(phases & bit(Phase::Recompute))) {
    for (const BlockFacts &block : model.blocks)
      blockTimes.push_back(
          {rooflinePs(block, Phase::Forward, system),
           rooflinePs(block, Phase::InputGrad, system),
           rooflinePs(block, Phase::WeightGrad, system),
           rooflinePs(block, Phase::Recompute, system, model.recompute)});
  }

  llvm::Error price(const StageBlocks &blocks, const StageMemory &memory,
                    StagePrice &price) const;

private:
  llvm::Error priceCompute(const StageBlocks &blocks, StagePrice &price) const;
  llvm::Error priceCopies(const StageMemory &memory, StagePrice &price) const;
  llvm::Error priceStep(const StageMemory &memory, StagePrice &price) const;

  const ModelFacts &model;
  const SystemFacts &system;
  unsigned phases;
  bool recomputesInBackward;
  std::vector<BlockTimes> blockTimes;
};
} // namespace

static int64_t &timeOf(StagePrice &price, Phase phase) {
  return price.phasePs[static_cast<unsigned>(phase)];
}

llvm::Error StagePricer::priceCompute(const StageBlocks &blocks,
                                      StagePrice &price) const {
  BlockTimes sum = {0, 0, 0, 0};
  for (auto [block, count] : blocks) {
    const BlockTimes &times = blockTimes[block];
    sum.forward += double(count) * times.forward;
    sum.inputGrad += double(count) * times.inputGrad;
    sum.weightGrad += double(count) * times.weightGrad;
    sum.recompute += double(count) * times.recompute;
  }

  // B is the sum of the rounded I and W, and an I that begins with R of rounded
  // R and I, so that splitting and R cells move no picosecond.
  if (auto error = store(sum.forward, "F", timeOf(price, Phase::Forward)))
    return error;
  int64_t &recompute = timeOf(price, Phase::Recompute);
  if (auto error = store(sum.recompute, "R", recompute))
    return error;
  int64_t &inputGrad = timeOf(price, Phase::InputGrad);
  int64_t &weightGrad = timeOf(price, Phase::WeightGrad);
  if (auto error = store(sum.inputGrad, "I", inputGrad))
    return error;
  if (auto error = store(sum.weightGrad, "W", weightGrad))
    return error;
  if (recomputesInBackward &&
      llvm::AddOverflow(inputGrad, recompute, inputGrad))
    return makeError("the time of I is over 2^63 - 1 ps");
  if (llvm::AddOverflow(inputGrad, weightGrad, timeOf(price, Phase::Backward)))
    return makeError("the time of B is over 2^63 - 1 ps");
  return llvm::Error::success();
}

/// D and U move the activations of a microbatch, each accelerator its share.
llvm::Error StagePricer::priceCopies(const StageMemory &memory,
                                     StagePrice &price) const {
  if (!(phases & (bit(Phase::Offload) | bit(Phase::Reload))))
    return llvm::Error::success();
  if (system.host.bytesPerSecond == 0)
    return makeError("D and U need the 'host' link of the system, '" +
                     Twine(system.name) + "' has none");
  double bytes = double(memory.activationBytes) / double(system.accelerators);
  double ps = transferPs(bytes, system.host) + double(system.host.latencyPs);
  if (auto error = store(ps, "D", timeOf(price, Phase::Offload)))
    return error;
  timeOf(price, Phase::Reload) = timeOf(price, Phase::Offload);
  return llvm::Error::success();
}

/// O reads the gradients, reads and writes the optimizer's state and writes the
/// weights.
llvm::Error StagePricer::priceStep(const StageMemory &memory,
                                   StagePrice &price) const {
  double bytes = double(memory.gradientBytes) +
                 2 * double(memory.optimizerBytes) + double(memory.weightBytes);
  double share = bytes / double(system.accelerators);
  double step = share > 0 ? transferPs(share, system.memory) +
                                double(system.memory.latencyPs)
                          : 0;
  return store(step, "O", timeOf(price, Phase::Optimizer));
}

llvm::Error StagePricer::price(const StageBlocks &blocks,
                               const StageMemory &memory,
                               StagePrice &price) const {
  if (auto error = priceCompute(blocks, price))
    return error;
  if (auto error = priceCopies(memory, price))
    return error;
  if (auto error = priceStep(memory, price))
    return error;
  llvm::Expected<MessagePrice> message =
      hockney(model.boundaryBytes, system.network);
  if (!message)
    return message.takeError();
  price.activation = price.gradient = *message;
  return llvm::Error::success();
}

static llvm::Error checkLink(const SystemFacts &system) {
  if (system.accelerators == 1 || system.link.bytesPerSecond != 0)
    return llvm::Error::success();
  return makeError("a worker of '" + Twine(system.name) + "' has " +
                   Twine(system.accelerators) +
                   " accelerators and no 'link' among them");
}

llvm::Expected<std::vector<int64_t>>
pipesched::priceBlocks(const ModelFacts &model, const SystemFacts &system) {
  if (llvm::Error error = checkLink(system))
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

llvm::Expected<Prices> pipesched::priceRoofline(const Placement &placement,
                                                const ModelFacts &model,
                                                const SystemFacts &system,
                                                unsigned phases) {
  if (llvm::Error error = checkLink(system))
    return std::move(error);
  llvm::Expected<std::vector<StageBlocks>> blocks =
      blocksOfStages(placement, model);
  if (!blocks)
    return blocks.takeError();
  llvm::Expected<MemoryFacts> memory =
      computeMemoryFacts(placement, model, &system, phases);
  if (!memory)
    return memory.takeError();

  StagePricer pricer(model, system, phases);
  Prices prices;
  prices.stages.resize(blocks->size());
  for (auto [stage, price] : llvm::enumerate(prices.stages))
    if (auto error =
            pricer.price((*blocks)[stage], memory->stages[stage], price))
      return std::move(error);
  if (phases & bit(Phase::AllReduce))
    if (auto error = priceStageReductions(placement, model, system, prices))
      return std::move(error);
  return prices;
}
