//===- RankLayout.cpp - Which accelerators share a node -------------------===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Ranks are products of three sizes, so they are computed in 128 bits.
//
//===----------------------------------------------------------------------===//

#include "PipeSched/CostModel/RankLayout.h"
#include "llvm/Support/ErrorHandling.h"
#include "llvm/Support/MathExtras.h"
#include <numeric>

using namespace pipesched;
using Rank = __int128;

/// Nodes are known if the system gives both their size and their link.
static int64_t nodeSize(const SystemFacts &system) {
  return system.link.bytesPerSecond ? system.acceleratorsPerNode : 0;
}

/// Pods are known if the system gives both their size and what joins them.
static int64_t podSize(const SystemFacts &system) {
  return system.spine.bytesPerSecond ? system.acceleratorsPerPod : 0;
}

static bool isInOneBlock(int64_t size, Rank firstRank, Rank lastRank) {
  return firstRank / size == lastRank / size;
}

/// A group by its members on each node and in each pod. Members of a pod that
/// do not fill nodes evenly count as if each node stood in a pod of its own.
static RingGroup groupOfLevels(int64_t perNode, int64_t perPod, int64_t size) {
  if (perPod % perNode != 0)
    perPod = perNode;
  return {perNode, perPod / perNode, size / perPod};
}

RankLayout::RankLayout(const SystemFacts &system, int64_t numWorkers)
    : perNode(nodeSize(system)), perPod(podSize(system)),
      accelerators(system.accelerators), dataParallel(system.dataParallel),
      numWorkers(numWorkers), order(system.rankOrder) {}

/// Whether two workers stand in one block of `size` consecutive ranks in every
/// pipeline.
bool RankLayout::sharesBlock(int64_t size, int64_t workerA,
                             int64_t workerB) const {
  auto [low, high] = std::minmax(workerA, workerB);
  if (order == RankOrder::Data) {
    // Accelerator pairs span the two blocks of ranks and all between them, so a
    // boundary anywhere in there separates some pair.
    Rank block = Rank(accelerators) * dataParallel;
    return isInOneBlock(size, low * block, high * block + block - 1);
  }
  // In each block, pipelines begin at multiples of their length, and repeat.
  Rank length = Rank(accelerators) * numWorkers;
  auto shift = static_cast<int64_t>(length % size);
  int64_t numBegins = std::min(dataParallel, size / std::gcd(shift, size));
  for (int64_t pipeline = 0; pipeline < numBegins; ++pipeline) {
    Rank begin = Rank(shift) * pipeline % size;
    if (!isInOneBlock(size, begin + Rank(accelerators) * low,
                      begin + Rank(accelerators) * high + accelerators - 1))
      return false;
  }
  return true;
}

/// The members of a group in each block of `size` consecutive ranks that has
/// any; 1 if their numbers differ.
int64_t RankLayout::membersPerBlock(int64_t size, int64_t first, int64_t last,
                                    int64_t numGroupWorkers) const {
  bool isByData = order == RankOrder::Data;
  Rank worker = isByData ? Rank(accelerators) * dataParallel : accelerators;
  Rank peer = isByData ? Rank(accelerators) : Rank(accelerators) * numWorkers;
  Rank lastRank =
      last * worker + (dataParallel - 1) * peer + (accelerators - 1);
  if (isInOneBlock(size, first * worker, lastRank))
    return numGroupWorkers * dataParallel;
  // The peers of a worker are `peer` ranks apart. They share blocks only if
  // they fill them evenly.
  if (peer > size || size % peer != 0)
    return 1;
  auto most = static_cast<int64_t>(size / peer);
  if (dataParallel % most == 0)
    return most;
  return most % dataParallel == 0 ? dataParallel : 1;
}

RingGroup RankLayout::groupOf(int64_t first, int64_t last,
                              int64_t numGroupWorkers) const {
  int64_t size = numGroupWorkers * dataParallel;
  auto members = [&](int64_t block) {
    return membersPerBlock(block, first, last, numGroupWorkers);
  };
  return groupOfLevels(perNode ? members(perNode) : 1,
                       perPod ? members(perPod) : size, size);
}

/// The accelerators of a worker in each block; 1 if their numbers differ.
static int64_t acceleratorsPerBlock(int64_t size, int64_t accelerators) {
  if (!size || size % accelerators == 0)
    return accelerators;
  return accelerators % size == 0 ? size : 1;
}

RingGroup pipesched::tensorGroup(const SystemFacts &system) {
  int64_t accelerators = system.accelerators;
  return groupOfLevels(acceleratorsPerBlock(nodeSize(system), accelerators),
                       acceleratorsPerBlock(podSize(system), accelerators),
                       accelerators);
}

LinkFacts pipesched::nodeLinkOfWorker(const SystemFacts &system) {
  LinkFacts link = system.link;
  if (llvm::MulOverflow(system.link.bytesPerSecond, system.accelerators,
                        link.bytesPerSecond))
    link.bytesPerSecond = std::numeric_limits<int64_t>::max();
  return link;
}

LinkFacts pipesched::linkOfWorker(NetworkLevel level,
                                  const SystemFacts &system) {
  switch (level) {
  case NetworkLevel::Link:
    return nodeLinkOfWorker(system);
  case NetworkLevel::Network:
    return system.network;
  case NetworkLevel::Spine:
    return system.spine;
  }
  llvm_unreachable("unknown level");
}

LinkFacts pipesched::linkOfAccelerator(NetworkLevel level,
                                       const SystemFacts &system) {
  if (level == NetworkLevel::Link)
    return system.link;
  LinkFacts link = linkOfWorker(level, system);
  link.bytesPerSecond /= system.accelerators;
  return link;
}
