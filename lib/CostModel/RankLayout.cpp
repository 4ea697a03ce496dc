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
      contextParallel(system.contextParallel),
      expertParallel(system.expertParallel), dataParallel(system.dataParallel),
      numWorkers(numWorkers), order(system.rankOrder) {}

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

RingGroup RankLayout::group(int64_t first, int64_t last,
                            int64_t numGroupWorkers, Members members) const {
  auto each = static_cast<int64_t>(members.inner * members.outer);
  int64_t size = numGroupWorkers * each;
  RingGroup flat = {1, size};
  // Without nodes, the link joins the accelerators of each worker alone.
  Rank node = perNode ? perNode : accelerators;
  bool isByData = order == RankOrder::Data;
  Rank worker = isByData ? Rank(accelerators) * dataParallel : accelerators;
  Rank firstRank = first * worker;
  Rank lastRank = last * worker + (members.outer - 1) * members.outerStep +
                  members.inner * members.innerStep - 1;
  bool mayShare = perNode || numGroupWorkers == 1;
  if (mayShare && firstRank / node == lastRank / node)
    return {size, 1};
  // Members share nodes only if they fill them evenly.
  if (members.inner > 1 && node % (members.inner * members.innerStep) != 0)
    return flat;
  auto inner = static_cast<int64_t>(members.inner);
  RingGroup byWorker = {inner, size / inner};
  if (members.outerStep > node || node % members.outerStep != 0)
    return byWorker;
  auto outer = static_cast<int64_t>(members.outer);
  auto most = static_cast<int64_t>(node / members.outerStep);
  if (outer % most == 0)
    return {inner * most, size / (inner * most)};
  if (most % outer == 0)
    return {each, numGroupWorkers};
  return byWorker;
}

RingGroup RankLayout::groupOf(int64_t first, int64_t last,
                              int64_t numGroupWorkers) const {
  Rank tensor = accelerators / contextParallel;
  if (order == RankOrder::Data)
    return group(first, last, numGroupWorkers,
                 {1, tensor, Rank(contextParallel) * dataParallel, tensor});
  return group(
      first, last, numGroupWorkers,
      {contextParallel, tensor, dataParallel, Rank(accelerators) * numWorkers});
}

RingGroup RankLayout::expertReplicas(int64_t first, int64_t last,
                                     int64_t numGroupWorkers) const {
  Rank step = expertParallel;
  Rank replicas = Rank(accelerators) * dataParallel / step;
  if (order == RankOrder::Data)
    return group(first, last, numGroupWorkers, {1, step, replicas, step});
  if (accelerators % step == 0)
    return group(first, last, numGroupWorkers,
                 {accelerators / step, step, dataParallel,
                  Rank(accelerators) * numWorkers});
  // A group of all experts has several peers, which are not adjacent.
  if (step % accelerators == 0)
    return group(first, last, numGroupWorkers,
                 {1, (step - accelerators) * numWorkers + accelerators,
                  replicas, step * numWorkers});
  return {1, static_cast<int64_t>(numGroupWorkers * replicas)};
}

RingGroup pipesched::tensorGroup(const SystemFacts &system) {
  int64_t perNode = nodeSize(system), tensor = system.tensorParallel();
  if (!perNode || perNode % tensor == 0)
    return {tensor, 1};
  if (tensor % perNode == 0)
    return {perNode, tensor / perNode};
  return {1, tensor};
}

/// So many consecutive ranks, counted from a multiple of `ranks`, share a node,
/// whichever they are.
static int64_t sharedRun(const SystemFacts &system, int64_t ranks) {
  int64_t perNode = nodeSize(system);
  return std::gcd(ranks, perNode ? perNode : system.accelerators);
}

RingGroup pipesched::contextGroup(const SystemFacts &system) {
  int64_t degree = system.contextParallel, tensor = system.tensorParallel();
  int64_t run = sharedRun(system, system.accelerators);
  int64_t perNode = run % tensor == 0 ? run / tensor : 1;
  return {perNode, degree / perNode};
}

RingGroup pipesched::expertGroup(const SystemFacts &system) {
  int64_t degree = system.expertParallel;
  int64_t run = sharedRun(system, degree);
  if (system.rankOrder == RankOrder::Pipeline)
    run = std::gcd(run, system.accelerators);
  return {run, degree / run};
}

LinkFacts pipesched::nodeLinkOfWorker(const SystemFacts &system) {
  LinkFacts link = system.link;
  if (llvm::MulOverflow(system.link.bytesPerSecond, system.accelerators,
                        link.bytesPerSecond))
    link.bytesPerSecond = std::numeric_limits<int64_t>::max();
  return link;
}
