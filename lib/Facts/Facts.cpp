//===- Facts.cpp - What is known of model and system ----------------------===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The number of layers of a model, efficiency by size, and checked changes of a
// system.
//
//===----------------------------------------------------------------------===//

#include "PipeSched/Facts/Facts.h"
#include "PipeSched/Support/Divisors.h"
#include "llvm/ADT/Twine.h"
#include "llvm/Support/MathExtras.h"
#include <cmath>

using namespace pipesched;

int64_t ModelFacts::getNumLayers() const {
  int64_t layers = 0;
  for (const BlockFacts &block : blocks)
    if (block.position == BlockPosition::Layer)
      layers += block.count;
  return layers;
}

const AttentionRates *pipesched::findAttentionRates(const SystemFacts &system,
                                                    FlashKernel kernel,
                                                    int64_t headSize) {
  for (const AttentionRates &rates : system.attention)
    if (rates.kernel == kernel && rates.headSize == headSize)
      return &rates;
  return nullptr;
}

static llvm::Error makeError(const SystemFacts &system,
                             const llvm::Twine &message) {
  return llvm::createStringError(llvm::inconvertibleErrorCode(),
                                 "system '" + system.name + "': " + message);
}

llvm::Error pipesched::setAccelerators(SystemFacts &system,
                                       int64_t accelerators) {
  if (accelerators < 1)
    return makeError(system,
                     "expected at least 1 accelerator in a worker, found " +
                         llvm::Twine(accelerators));
  if (accelerators > 1 && system.link.bytesPerSecond == 0)
    return makeError(system,
                     "several accelerators in a worker need a link among them");
  auto scale = [&](int64_t bytesPerSecond) {
    return double(bytesPerSecond) / double(system.accelerators) *
           double(accelerators);
  };
  double network = scale(system.network.bytesPerSecond);
  double spine = scale(system.spine.bytesPerSecond);
  if (!(std::max(network, spine) < 9223372036854775808.0))
    return makeError(system,
                     "the network of " + llvm::Twine(accelerators) +
                         " accelerators is over 2^63 - 1 bytes per second");
  system.network.bytesPerSecond = std::llround(network);
  system.spine.bytesPerSecond = std::llround(spine);
  system.accelerators = accelerators;
  return llvm::Error::success();
}

std::optional<std::string>
pipesched::mistakeInLevels(const SystemFacts &system) {
  int64_t perNode = system.acceleratorsPerNode;
  int64_t perPod = system.acceleratorsPerPod;
  if (perNode > 0 && system.link.bytesPerSecond == 0)
    return "accelerators of a node need the field 'link'";
  if (perPod > 0 && system.spine.bytesPerSecond == 0)
    return "accelerators of a pod need the field 'spine', which joins pods";
  if (perPod == 0 && system.spine.bytesPerSecond != 0)
    return "the field 'spine' needs 'accelerators_per_pod', the number that "
           "'network' joins";
  if (perNode > 0 && perPod % perNode != 0)
    return ("expected accelerators_per_pod to be a multiple of "
            "accelerators_per_node, " +
            llvm::Twine(perNode) + ", found " + llvm::Twine(perPod))
        .str();
  return std::nullopt;
}

llvm::Error pipesched::setDataParallel(SystemFacts &system,
                                       int64_t dataParallel) {
  if (dataParallel < 1 || dataParallel > kMaxDataParallel)
    return makeError(system, "expected 1 to " + llvm::Twine(kMaxDataParallel) +
                                 " data-parallel pipelines, found " +
                                 llvm::Twine(dataParallel));
  system.dataParallel = dataParallel;
  return llvm::Error::success();
}

/// Errors: a degree below 1, or one that does not divide `whole`.
static llvm::Error checkDegree(const SystemFacts &system, const char *kind,
                               int64_t degree, int64_t whole,
                               const llvm::Twine &of) {
  if (degree < 1)
    return makeError(system, llvm::Twine("expected a degree of ") + kind +
                                 " parallelism of at least 1, found " +
                                 llvm::Twine(degree));
  if (whole % degree == 0)
    return llvm::Error::success();
  return makeError(system, llvm::Twine(degree) + "-way " + kind +
                               " parallelism does not divide " + of +
                               "; the nearest degrees that do are " +
                               nearestDivisors(whole, degree));
}

llvm::Error pipesched::checkSplit(const SystemFacts &system) {
  int64_t accelerators = system.accelerators, peers = system.dataParallel;
  if (llvm::Error error = checkDegree(
          system, "context", system.contextParallel, accelerators,
          "the " + llvm::Twine(accelerators) + " accelerators of a worker"))
    return error;
  if (system.expertParallel == 1)
    return llvm::Error::success();
  int64_t ranks;
  if (llvm::MulOverflow(accelerators, peers, ranks))
    return makeError(system, "the accelerators of a stage are over 2^63 - 1");
  return checkDegree(system, "expert", system.expertParallel, ranks,
                     "the " + llvm::Twine(ranks) +
                         " accelerators of a stage in all pipelines");
}

llvm::Error pipesched::setModelSplit(SystemFacts &system,
                                     const ModelSplit &split) {
  double most = double(kMaxExpertBalance) / double(kEvenBalance);
  if (!(split.expertBalance >= 1 && split.expertBalance <= most))
    return makeError(
        system, "expected an expert balance (rows of the fullest rank divided "
                "by the mean) from 1 to " +
                    llvm::Twine(kMaxExpertBalance / kEvenBalance) + ", found " +
                    std::to_string(split.expertBalance));
  system.contextParallel = split.contextParallel;
  system.expertParallel = split.expertParallel;
  system.expertBalancePpm =
      std::llround(split.expertBalance * double(kEvenBalance));
  system.contextExchange = split.contextExchange;
  system.expertDispatch = split.expertDispatch;
  return checkSplit(system);
}

double EfficiencyCurve::at(double size) const {
  if (points.empty())
    return 1;
  const Point *right = llvm::partition_point(points, [size](Point point) {
                         return double(point.size) < size;
                       }).base();
  if (right == points.data())
    return double(points.front().partsPerMillion) * 1e-6;
  if (right == points.data() + points.size())
    return double(points.back().partsPerMillion) * 1e-6;
  const Point *left = right - 1;
  double share = (size - double(left->size)) / double(right->size - left->size);
  double rise = double(right->partsPerMillion - left->partsPerMillion);
  return (double(left->partsPerMillion) + share * rise) * 1e-6;
}
