//===- Facts.cpp - Facts of model and hardware ----------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The number of layers of a model, efficiency by size, and checked changes of
// hardware.
//
//===----------------------------------------------------------------------===//

#include "PipeSched/Facts/Facts.h"
#include "PipeSched/Facts/System.h"
#include "PipeSched/Support/Divisors.h"
#include "PipeSched/Support/FormatError.h"
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

const AttentionRates *
pipesched::findAttentionRates(const HardwareFacts &hardware, FlashKernel kernel,
                              int64_t headSize) {
  for (const AttentionRates &rates : hardware.attention)
    if (rates.kernel == kernel && rates.headSize == headSize)
      return &rates;
  return nullptr;
}

double pipesched::peakFlopsPerSecond(const HardwareFacts &hardware,
                                     Engine engine) {
  if (!hardware.groups.empty()) {
    double sum = 0;
    int64_t begin = 0;
    for (auto [group, end] :
         llvm::zip_equal(hardware.groups, hardware.groupEnds)) {
      sum += double(end - begin) * peakFlopsPerSecond(group, engine);
      begin = end;
    }
    return sum / double(begin);
  }
  const EngineFacts &matrix = hardware.matrix;
  return double(hardware.accelerators) * double(matrix.peakOf(engine)) * 1e6 /
         double(hardware.peakSharePpm);
}

static llvm::Error makeHardwareError(const HardwareFacts &hardware,
                                     const llvm::Twine &message) {
  return llvm::createStringError(llvm::inconvertibleErrorCode(),
                                 "system '" + hardware.name + "': " + message);
}

llvm::Error pipesched::setAccelerators(HardwareFacts &hardware,
                                       int64_t accelerators) {
  if (accelerators < 1)
    return makeHardwareError(
        hardware, "expected at least 1 accelerator in a worker, found " +
                      llvm::Twine(accelerators));
  if (accelerators > 1 && hardware.link.bytesPerSecond == 0)
    return makeHardwareError(
        hardware, "several accelerators in a worker need a link among them");
  auto scale = [&](int64_t bytesPerSecond) {
    return double(bytesPerSecond) / double(hardware.accelerators) *
           double(accelerators);
  };
  double network = scale(hardware.network.bytesPerSecond);
  double spine = scale(hardware.spine.bytesPerSecond);
  if (!(std::max(network, spine) < 9223372036854775808.0))
    return makeHardwareError(
        hardware, "the network of " + llvm::Twine(accelerators) +
                      " accelerators is over 2^63 - 1 bytes per second");
  hardware.network.bytesPerSecond = std::llround(network);
  hardware.spine.bytesPerSecond = std::llround(spine);
  hardware.accelerators = accelerators;
  for (HardwareFacts &group : hardware.groups)
    if (llvm::Error error = setAccelerators(group, accelerators))
      return error;
  return llvm::Error::success();
}

std::optional<std::string>
pipesched::mistakeInLevels(const HardwareFacts &hardware) {
  int64_t perNode = hardware.acceleratorsPerNode;
  int64_t perPod = hardware.acceleratorsPerPod;
  if (perNode > 0 && hardware.link.bytesPerSecond == 0)
    return "accelerators of a node need the field 'link'";
  if (perPod > 0 && hardware.spine.bytesPerSecond == 0)
    return "accelerators of a pod need the field 'spine', which joins pods";
  if (perPod == 0 && hardware.spine.bytesPerSecond != 0)
    return "the field 'spine' needs 'accelerators_per_pod', the number that "
           "'network' joins";
  if (perNode > 0 && perPod % perNode != 0)
    return ("expected accelerators_per_pod to be a multiple of "
            "accelerators_per_node, " +
            llvm::Twine(perNode) + ", found " + llvm::Twine(perPod))
        .str();
  return std::nullopt;
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

llvm::Error pipesched::errorOfSystem(llvm::StringRef name, llvm::Error error) {
  return formatError("system '{0}': {1}", name,
                     llvm::toString(std::move(error)));
}

static llvm::Error makeSystemError(const SystemFacts &system,
                                   const llvm::Twine &message) {
  return errorOfSystem(system.name, llvm::createStringError(message));
}

/// Checks a degree. Errors: a degree that does not divide `whole`.
static llvm::Error checkDegree(const SystemFacts &system, const char *kind,
                               int64_t degree, int64_t whole,
                               const llvm::Twine &of) {
  if (whole % degree == 0)
    return llvm::Error::success();
  return makeSystemError(system, llvm::Twine(degree) + "-way " + kind +
                                     " parallelism does not divide " + of +
                                     "; the nearest degrees that do are " +
                                     nearestDivisors(whole, degree));
}

/// Checks groups. Stages fill the groups one after the other, with whole
/// workers on each.
static llvm::Error checkGroups(const SystemFacts &system) {
  if (!system.groups.empty() && system.rankOrder != RankOrder::Data)
    return makeSystemError(system, "on groups the stages of a pipeline lie one "
                                   "after the other, as the rank order 'data' "
                                   "has them; found 'pipeline'");
  int64_t begin = 0;
  for (auto [number, end] : llvm::enumerate(system.groupEnds)) {
    if (llvm::Error error = checkDegree(
            system, "tensor and context", system.accelerators, end - begin,
            "the " + llvm::Twine(end - begin) + " accelerators of groups[" +
                llvm::Twine(number) + "]"))
      return error;
    begin = end;
  }
  return llvm::Error::success();
}

llvm::Error pipesched::checkSplit(const SystemFacts &system) {
  if (llvm::Error error = checkRanges(system))
    return errorOfSystem(system.name, std::move(error));
  if (llvm::Error error = checkGroups(system))
    return error;
  int64_t accelerators = system.accelerators, peers = system.dataParallel;
  if (llvm::Error error = checkDegree(
          system, "context", system.contextParallel, accelerators,
          "the " + llvm::Twine(accelerators) + " accelerators of a worker"))
    return error;
  int64_t copies = system.shardCopies();
  if (peers % copies != 0)
    return makeSystemError(system,
                           llvm::Twine(copies) +
                               " groups that share state do not divide "
                               "the " +
                               llvm::Twine(peers) +
                               " pipelines; the nearest numbers that do are " +
                               nearestDivisors(peers, copies));
  if (system.expertParallel == 1)
    return llvm::Error::success();
  int64_t ranks, holders;
  if (llvm::MulOverflow(accelerators, peers, ranks) ||
      llvm::MulOverflow(system.expertParallel, system.expertWidths(), holders))
    return makeSystemError(system,
                           "the accelerators of a stage are over 2^63 - 1");
  ranks /= copies;
  bool isWhole = system.expertWidths() == 1;
  std::string of =
      copies == 1 ? "in all pipelines" : "in the pipelines that share state";
  return checkDegree(
      system, isWhole ? "expert" : "expert and expert tensor", holders, ranks,
      "the " + llvm::Twine(ranks) + " accelerators of a stage " + of);
}

llvm::Expected<SystemFacts> pipesched::deploy(HardwareFacts hardware,
                                              const Deployment &deployment) {
  SystemFacts system(std::move(hardware), deployment);
  if (llvm::Error error = checkSplit(system))
    return std::move(error);
  return system;
}

//===----------------------------------------------------------------------===//
// Groups
//===----------------------------------------------------------------------===//

llvm::Expected<size_t> pipesched::groupOfWorker(const SystemFacts &system,
                                                int64_t worker) {
  __int128 needed =
      __int128(worker + 1) * system.accelerators * system.dataParallel;
  for (auto [group, end] : llvm::enumerate(system.groupEnds))
    if (needed <= end)
      return group;
  return makeSystemError(
      system, "its groups have " + llvm::Twine(system.groupEnds.back()) +
                  " accelerators, too few for worker " + llvm::Twine(worker) +
                  " of " + llvm::Twine(system.accelerators) + " in " +
                  llvm::Twine(system.dataParallel) + " pipelines");
}

SystemFacts pipesched::systemOfGroup(const SystemFacts &system, size_t group) {
  return SystemFacts(system.groups[group], system.deployment());
}
