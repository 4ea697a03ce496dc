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
#include "llvm/Support/MathExtras.h"
#include <numeric>

using namespace pipesched;
using Rank = __int128;

/// Nodes are known if the system gives both their size and their link.
static int64_t nodeSize(const SystemFacts &system) {
  return system.link.bytesPerSecond ? system.acceleratorsPerNode : 0;
}

RankLayout::RankLayout(const SystemFacts &system, int64_t numWorkers)
    : perNode(nodeSize(system)), accelerators(system.accelerators),
      dataParallel(system.dataParallel), numWorkers(numWorkers),
      order(system.rankOrder) {}

bool RankLayout::sharesNode(int64_t workerA, int64_t workerB) const {
  if (!perNode)
    return false;
  auto [low, high] = std::minmax(workerA, workerB);
  if (order == RankOrder::Data) {
    // Accelerator pairs span the two blocks of ranks and all between them, so a
    // node boundary anywhere in there separates some pair.
    Rank block = Rank(accelerators) * dataParallel;
    return isInOneNode(low * block, high * block + block - 1);
  }
  // In each node, pipelines begin at multiples of their length, and repeat.
  Rank length = Rank(accelerators) * numWorkers;
  auto shift = static_cast<int64_t>(length % perNode);
  int64_t numBegins =
      std::min(dataParallel, perNode / std::gcd(shift, perNode));
  for (int64_t pipeline = 0; pipeline < numBegins; ++pipeline) {
    Rank begin = Rank(shift) * pipeline % perNode;
    if (!isInOneNode(begin + Rank(accelerators) * low,
                     begin + Rank(accelerators) * high + accelerators - 1))
      return false;
  }
  return true;
}

RingGroup RankLayout::groupOf(int64_t first, int64_t last,
                              int64_t numGroupWorkers) const {
  int64_t size = numGroupWorkers * dataParallel;
  RingGroup flat = {1, size};
  if (!perNode)
    return flat;
  bool isByData = order == RankOrder::Data;
  Rank worker = isByData ? Rank(accelerators) * dataParallel : accelerators;
  Rank peer = isByData ? Rank(accelerators) : Rank(accelerators) * numWorkers;
  Rank lastRank =
      last * worker + (dataParallel - 1) * peer + (accelerators - 1);
  if (isInOneNode(first * worker, lastRank))
    return {size, 1};
  // The peers of a worker are `peer` ranks apart. They share nodes only if they
  // fill them evenly.
  if (peer > perNode || perNode % peer != 0)
    return flat;
  auto mostPerNode = static_cast<int64_t>(perNode / peer);
  if (dataParallel % mostPerNode == 0)
    return {mostPerNode, size / mostPerNode};
  if (mostPerNode % dataParallel == 0)
    return {dataParallel, numGroupWorkers};
  return flat;
}

RingGroup pipesched::tensorGroup(const SystemFacts &system) {
  int64_t perNode = nodeSize(system), accelerators = system.accelerators;
  if (!perNode || perNode % accelerators == 0)
    return {accelerators, 1};
  if (accelerators % perNode == 0)
    return {perNode, accelerators / perNode};
  return {1, accelerators};
}

LinkFacts pipesched::nodeLinkOfWorker(const SystemFacts &system) {
  LinkFacts link = system.link;
  if (llvm::MulOverflow(system.link.bytesPerSecond, system.accelerators,
                        link.bytesPerSecond))
    link.bytesPerSecond = std::numeric_limits<int64_t>::max();
  return link;
}
