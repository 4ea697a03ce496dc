//===- StagePairs.cpp - Overlapped pairs of stages, part by part ----------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Schedules the layers of two stages when their pair is first requested.
//
//===----------------------------------------------------------------------===//

#include "StagePairs.h"
#include "../Comm/StorePs.h"
#include "../Kernels/BlockTimes.h"
#include "PipeSched/CostModel/Kernels/KernelTimes.h"
#include "PipeSched/CostModel/Pairs/OverlappedLayers.h"
#include "PipeSched/Support/FormatError.h"
#include <algorithm>
#include <atomic>
#include <cmath>
#include <memory>

using namespace pipesched;
using llvm::ArrayRef;
using llvm::Error;
using llvm::Expected;

namespace {
/// The properties of a stage on which a pair depends. Stages with equal
/// properties are of one kind.
struct PairStage {
  StageBlocks layers; ///< without embedding and head
  std::vector<Segment> forward, backward;
  int64_t forwardPs, backwardPs; ///< of each of these cells by itself

  bool operator==(const PairStage &other) const {
    return forward == other.forward && backward == other.backward &&
           llvm::equal(layers, other.layers, [](BlockCount a, BlockCount b) {
             return a.block == b.block && a.count == b.count;
           });
  }
};

class StagePairs : public PairTimes {
public:
  StagePairs(PairOrder order, std::vector<LayerTimes> blockTimes,
             std::vector<PairStage> stages)
      : blockTimes(std::move(blockTimes)) {
    options.order = order;
    for (PairStage &stage : stages) {
      auto *known = llvm::find(kinds, stage);
      kindOf.push_back(uint32_t(known - kinds.begin()));
      if (known == kinds.end())
        kinds.push_back(std::move(stage));
    }
    times = std::make_unique<KnownTime[]>(kinds.size() * kinds.size());
  }

  /// Threads that request a pair at the same time compute the same result.
  PairTime timeOf(int64_t forwardStage, int64_t backwardStage) const override {
    uint32_t first = kindOf[forwardStage], second = kindOf[backwardStage];
    KnownTime &known = times[first * kinds.size() + second];
    int64_t ps = known.ps.load(std::memory_order_acquire);
    if (LLVM_LIKELY(ps != kUnknown))
      return {ps, known.behindPs.load(std::memory_order_relaxed)};
    PairTime time = schedule(kinds[first], kinds[second]);
    known.behindPs.store(time.behindPs, std::memory_order_relaxed);
    known.ps.store(time.ps, std::memory_order_release);
    return time;
  }

private:
  std::vector<LayerTimes> layersOf(const PairStage &stage) const {
    std::vector<LayerTimes> layers;
    for (auto [block, count] : stage.layers)
      layers.insert(layers.end(), size_t(count), blockTimes[block]);
    return layers;
  }

  /// The part of a cell's time outside of its layers, at least 0: if the host
  /// is slower than the device only in some layers, a cell takes less time than
  /// the sum of its layers.
  static int64_t besidesPs(int64_t cellPs, ArrayRef<LayerTimes> layers,
                           bool isForward) {
    for (const LayerTimes &layer : layers)
      for (const auto &[forward, input, weight] : layer.ps)
        cellPs -= isForward ? forward : input + weight;
    return std::max<int64_t>(cellPs, 0);
  }

  PairTime schedule(const PairStage &first, const PairStage &second) const {
    std::vector<LayerTimes> forward = layersOf(first);
    std::vector<LayerTimes> backward = layersOf(second);
    int64_t forwardPs = first.forwardPs, backwardPs = second.backwardPs;
    auto fluidPs = int64_t(StageCosts().pairPs(first.forward, second.backward));
    // The only error is a time over int64; then the pair is not faster than
    // both cells.
    Expected<PairSchedule> pair = schedulePair(forward, backward, options);
    if (!pair) {
      llvm::consumeError(pair.takeError());
      return {forwardPs + backwardPs, 0};
    }
    int64_t ps = pair->endPs + besidesPs(forwardPs, forward, true) +
                 besidesPs(backwardPs, backward, false);
    return {std::clamp(ps, fluidPs, forwardPs + backwardPs),
            std::min(ps, behindOf(*pair))};
  }

  /// The time of weight gradients after the messages of both cells.
  /// Megatron-Core sends between the gradient of the first layer's input and W
  /// of its attention; DualPipe sends when the pair has ended.
  int64_t behindOf(const PairSchedule &pair) const {
    switch (options.order) {
    case PairOrder::Megatron:
    case PairOrder::Best:
      return pair.endPs - std::max(pair.forwardPs, pair.gradientPs);
    case PairOrder::InTurn:
    case PairOrder::DeepSeek:
    case PairOrder::Fluid:
      return 0;
    }
    llvm_unreachable("covered switch");
  }

  static constexpr int64_t kUnknown = -1;
  struct KnownTime {
    std::atomic<int64_t> ps = kUnknown, behindPs = 0;
  };

  PairOptions options;
  std::vector<LayerTimes> blockTimes; ///< by block of the model
  llvm::SmallVector<PairStage, 4> kinds;
  std::vector<uint32_t> kindOf; ///< by global stage
  /// By kind of the forward stage, then of the backward stage.
  std::unique_ptr<KnownTime[]> times;
};
} // namespace

/// Whether all blocks have work for F, I and W, so that their layers can be
/// divided into parts.
static bool canDivide(const ModelFacts &model) {
  Error error = checkBackwards(model, {Phase::InputGrad, Phase::WeightGrad});
  bool isDivided = !error;
  llvm::consumeError(std::move(error));
  return isDivided;
}

Error pipesched::addPairTimes(const ModelFacts &model,
                              const SystemFacts &system, PhaseSet phases,
                              ArrayRef<StageBlocks> blocks,
                              StageCosts &stageCosts) {
  if (system.pairOrder == PairOrder::Fluid ||
      system.expertExposed != kAllPercent ||
      !phases.contains(Phase::Backward) ||
      stageCosts.stages.front().cells.getNumSlices() > 1 ||
      !stageCosts.useAny(Resource::Experts) || !canDivide(model))
    return Error::success();
  bool recomputesInBackward =
      model.recompute != Recompute::None && !phases.contains(Phase::Recompute);
  std::vector<LayerTimes> blockTimes(model.blocks.size());
  for (auto [index, first] : llvm::enumerate(firstOfEqualTimes(model))) {
    if (first != index) {
      blockTimes[index] = blockTimes[first];
      continue;
    }
    Expected<LayerTimes> layer =
        costLayer(model.blocks[index], model, system, recomputesInBackward);
    if (!layer)
      return layer.takeError();
    blockTimes[index] = *layer;
  }
  std::vector<PairStage> stages;
  for (auto [held, cost] : llvm::zip_equal(blocks, stageCosts.stages)) {
    PairStage &stage = stages.emplace_back();
    llvm::copy_if(
        held, std::back_inserter(stage.layers), [&](BlockCount entry) {
          return model.blocks[entry.block].position == BlockPosition::Layer;
        });
    stage.forward = cost.cells.segmentsOf(Phase::Forward, 0).vec();
    stage.backward = cost.cells.segmentsOf(Phase::Backward, 0).vec();
    stage.forwardPs = cost.cells.alonePs(Phase::Forward);
    stage.backwardPs = cost.cells.alonePs(Phase::Backward);
  }
  stageCosts.pairTimes = std::make_shared<StagePairs>(
      system.pairOrder, std::move(blockTimes), std::move(stages));
  return Error::success();
}

/// By kernel of a block: the part that it belongs to.
static std::vector<LayerPart> divideKernels(const BlockFacts &block) {
  std::vector<LayerPart> parts;
  bool hasExperts = block.experts.has_value();
  LayerPart now = LayerPart::Attention;
  for (const Kernel &kernel : block.kernels) {
    if (kernel.engine == Engine::AllToAll) {
      bool isFirst = now == LayerPart::Attention;
      parts.push_back(isFirst ? LayerPart::Dispatch : LayerPart::Combine);
      now = isFirst ? LayerPart::Mlp : LayerPart::Attention;
      continue;
    }
    if (!hasExperts && llvm::StringRef(kernel.name).starts_with("mlp"))
      now = LayerPart::Mlp;
    parts.push_back(now);
  }
  return parts;
}

/// Rounds a time. Errors: a time over int64.
static Expected<int64_t> roundPs(double ps, const BlockFacts &block,
                                 PartPhase what) {
  double rounded = std::nearbyint(ps);
  if (!(rounded < kPsLimit))
    return formatError("{0} of '{1}' takes more than 2^63 - 1 ps", nameOf(what),
                       block.name);
  return static_cast<int64_t>(rounded);
}

namespace {
/// The time of each part in one phase, ps.
using PartTimes = std::array<double, kNumEnumValues<LayerPart>>;

/// The costs of one layer, whose kernels are divided among parts.
class PartCosts {
public:
  PartCosts(const BlockFacts &block, const SystemFacts &system,
            Recompute recompute)
      : block(block), system(system), recompute(recompute) {
    std::vector<LayerPart> partOf = divideKernels(block);
    for (BlockFacts &part : parts) {
      part = block;
      part.kernels.clear();
    }
    for (auto [kernel, part] : llvm::zip_equal(block.kernels, partOf))
      parts[size_t(part)].kernels.push_back(kernel);
  }

  /// I includes the recomputation of a backward.
  PartTimes timesOf(Phase phase) const {
    PartTimes times = timesOf(phase, Recompute::Full);
    if (phase != Phase::InputGrad || recompute == Recompute::None)
      return times;
    PartTimes repeated = timesOf(Phase::Recompute, recompute);
    for (auto [time, more] : llvm::zip_equal(times, repeated))
      time += more;
    return times;
  }

private:
  /// Divides the time of a phase among its parts, which add up to the time of
  /// the layer. Compute takes its time without exchanges: the longer of device
  /// and host. The exchanges take the rest; they continue while a slower host
  /// works.
  PartTimes timesOf(Phase phase, Recompute again) const {
    PartTimes times = {};
    std::array<double, kNumEnumValues<Stream>> sums = {};
    for (const EnumName<LayerPart> &name : enumValues<LayerPart>()) {
      double &time = times[size_t(name.value)];
      time = rooflinePs(parts[size_t(name.value)], phase, system, again);
      sums[size_t(streamOf(name.value))] += time;
    }
    auto [compute, exchange] = sums;
    HostTime host = hostTime(block, phase, system, again);
    double alone = std::max(compute, host.launchPs) + host.synchronizePs;
    double whole =
        std::max(compute + exchange, host.launchPs) + host.synchronizePs;
    for (const EnumName<LayerPart> &name : enumValues<LayerPart>()) {
      bool isCompute = streamOf(name.value) == Stream::Compute;
      double sum = isCompute ? compute : exchange;
      if (sum > 0)
        times[size_t(name.value)] *= (isCompute ? alone : whole - alone) / sum;
    }
    return times;
  }

  const BlockFacts &block;
  const SystemFacts &system;
  Recompute recompute; ///< in the backward
  std::array<BlockFacts, kNumEnumValues<LayerPart>> parts;
};
} // namespace

Expected<LayerTimes> pipesched::costLayer(const BlockFacts &block,
                                          const ModelFacts &model,
                                          const SystemFacts &system,
                                          bool recomputesInBackward) {
  LayerTimes times;
  PartCosts costs(block, system,
                  recomputesInBackward ? model.recompute : Recompute::None);
  for (Phase phase : {Phase::Forward, Phase::InputGrad, Phase::WeightGrad})
    for (auto [part, time] : llvm::enumerate(costs.timesOf(phase))) {
      PartPhase what = {LayerPart(part), phase};
      Expected<int64_t> ps = roundPs(time, block, what);
      if (!ps)
        return ps.takeError();
      times.of(what) = *ps;
    }
  return times;
}

Expected<std::vector<LayerKind>>
pipesched::costLayerParts(const ModelFacts &model, const SystemFacts &system) {
  if (Error error = checkSystem(model, system))
    return std::move(error);
  if (Error error =
          checkBackwards(model, {Phase::InputGrad, Phase::WeightGrad}))
    return std::move(error);
  std::vector<LayerKind> kinds;
  for (const BlockFacts &block : model.blocks) {
    if (block.position != BlockPosition::Layer)
      continue;
    Expected<LayerTimes> times =
        costLayer(block, model, system, /*recomputesInBackward=*/true);
    if (!times)
      return times.takeError();
    kinds.push_back({block.name, block.count, *times});
  }
  return kinds;
}
