//===- LayerParts.cpp - Times of the parts of a model's layers ------------===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Divides the kernels of a layer among its parts, and the time of the layer in
// proportion to theirs.
//
//===----------------------------------------------------------------------===//

#include "../Comm/StorePs.h"
#include "../Kernels/RooflineChecks.h"
#include "PipeSched/CostModel/Kernels/KernelTimes.h"
#include "PipeSched/CostModel/Pairs/OverlappedLayers.h"
#include "PipeSched/Support/FormatError.h"
#include <cmath>

using namespace pipesched;
using llvm::Error;
using llvm::Expected;

/// By kernel of a block, the part that it belongs to.
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

/// Errors: a time over int64.
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

/// One layer, whose kernels are divided among parts.
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

  /// What a backward computes again belongs to I.
  PartTimes of(Phase phase) const {
    PartTimes times = of(phase, Recompute::Full);
    if (phase != Phase::InputGrad || recompute == Recompute::None)
      return times;
    PartTimes repeated = of(Phase::Recompute, recompute);
    for (auto [time, more] : llvm::zip_equal(times, repeated))
      time += more;
    return times;
  }

private:
  /// The parts of a phase add up to what the layer takes in it. Compute takes
  /// what it would without exchanges: the longer of device and host. The rest
  /// is that of the exchanges, which go on while a slower host works.
  PartTimes of(Phase phase, Recompute again) const {
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
    for (auto [part, time] : llvm::enumerate(costs.of(phase))) {
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
