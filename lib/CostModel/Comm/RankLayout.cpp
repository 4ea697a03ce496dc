//===- RankLayout.cpp - Positions of ranks in nodes and pods --------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Ranks are products of three sizes, so they need 128 bits.
//
//===----------------------------------------------------------------------===//

#include "PipeSched/CostModel/Comm/RankLayout.h"
#include "llvm/Support/ErrorHandling.h"
#include "llvm/Support/MathExtras.h"
#include <numeric>

using namespace pipesched;
using Rank = __int128;

/// Nodes are known if the system gives both their size and their link. Ranks
/// are numbered over the accelerators that the training uses.
static int64_t nodeSize(const SystemFacts &system) {
  return system.link.bytesPerSecond
             ? std::min(system.acceleratorsPerNode, system.usedPerNode)
             : 0;
}

/// Pods are known if the system gives both their size and their network. They
/// keep their number of nodes even if only a part of a node is used.
static int64_t podSize(const SystemFacts &system) {
  if (!system.spine.bytesPerSecond)
    return 0;
  int64_t perNode = nodeSize(system);
  return perNode
             ? system.acceleratorsPerPod / system.acceleratorsPerNode * perNode
             : system.acceleratorsPerPod;
}

static bool isInOneBlock(int64_t size, Rank firstRank, Rank lastRank) {
  return firstRank / size == lastRank / size;
}

/// A group by its members on each node and in each pod. If members of a pod do
/// not fill nodes evenly, each node counts as a separate pod.
static RingGroup groupOfLevels(int64_t perNode, int64_t perPod, int64_t size) {
  if (perPod % perNode != 0)
    perPod = perNode;
  return {perNode, perPod / perNode, size / perPod};
}

RankLayout::RankLayout(const SystemFacts &system, int64_t numWorkers)
    : perNode(nodeSize(system)), perPod(podSize(system)),
      accelerators(system.accelerators),
      contextParallel(system.contextParallel),
      expertRanks(system.expertRanks()), dataParallel(system.dataParallel),
      shards(system.shards()), numWorkers(numWorkers), order(system.rankOrder) {
  for (int64_t end : system.groupEnds)
    groupEnds.push_back(perNode ? end / system.acceleratorsPerNode * perNode
                                : end);
}

/// Whether all ranks from the first of one worker to the last of the other are
/// in one group.
bool RankLayout::sharesGroup(int64_t workerA, int64_t workerB) const {
  auto [low, high] = std::minmax(workerA, workerB);
  Rank block = Rank(accelerators) * dataParallel;
  auto groupOf = [&](Rank rank) {
    return llvm::count_if(groupEnds, [&](int64_t end) { return end <= rank; });
  };
  return groupOf(low * block) == groupOf((high + 1) * block - 1);
}

/// Whether two workers are in one block of `size` consecutive ranks in every
/// pipeline.
bool RankLayout::sharesBlock(int64_t size, int64_t workerA,
                             int64_t workerB) const {
  auto [low, high] = std::minmax(workerA, workerB);
  if (order == RankOrder::Data) {
    // The pairs of accelerators span both blocks of ranks and all ranks between
    // them. So a boundary anywhere in this range separates some pair.
    Rank block = Rank(accelerators) * dataParallel;
    return isInOneBlock(size, low * block, high * block + block - 1);
  }
  // In each block, pipelines start at multiples of their length and repeat.
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

/// The number of members of a group in each block of `size` consecutive ranks
/// that has members; 1 if the numbers differ.
int64_t RankLayout::membersPerBlock(int64_t size, int64_t first, int64_t last,
                                    int64_t numGroupWorkers,
                                    const Members &members) const {
  auto inner = static_cast<int64_t>(members.inner);
  auto outer = static_cast<int64_t>(members.outer);
  Rank worker = order == RankOrder::Data ? Rank(accelerators) * dataParallel
                                         : accelerators;
  Rank lastRank = last * worker + (members.outer - 1) * members.outerStep +
                  members.inner * members.innerStep - 1;
  bool mayShare = perNode || perPod || numGroupWorkers == 1;
  if (mayShare && isInOneBlock(size, first * worker, lastRank))
    return numGroupWorkers * inner * outer;
  // Members share blocks only if they fill them evenly.
  if (inner > 1 && size % (members.inner * members.innerStep) != 0)
    return 1;
  if (members.outerStep > size || size % members.outerStep != 0)
    return inner;
  auto most = static_cast<int64_t>(size / members.outerStep);
  if (outer % most == 0)
    return inner * most;
  return most % outer == 0 ? inner * outer : inner;
}

RingGroup RankLayout::group(int64_t first, int64_t last,
                            int64_t numGroupWorkers,
                            const Members &members) const {
  auto each = static_cast<int64_t>(members.inner * members.outer);
  int64_t size = numGroupWorkers * each;
  auto membersIn = [&](int64_t block) {
    return membersPerBlock(block, first, last, numGroupWorkers, members);
  };
  // If nodes are unknown, the link connects only the accelerators of each
  // worker.
  bool isInOnePod = !perPod || (!groupEnds.empty() && sharesGroup(first, last));
  return groupOfLevels(membersIn(perNode ? perNode : accelerators),
                       isInOnePod ? size : membersIn(perPod), size);
}

RingGroup RankLayout::groupOf(int64_t first, int64_t last,
                              int64_t numGroupWorkers) const {
  Rank tensor = accelerators / contextParallel;
  if (order == RankOrder::Data)
    return group(first, last, numGroupWorkers,
                 {1, tensor, Rank(contextParallel) * shards, tensor});
  return group(
      first, last, numGroupWorkers,
      {contextParallel, tensor, shards, Rank(accelerators) * numWorkers});
}

RingGroup RankLayout::expertReplicas(int64_t first, int64_t last,
                                     int64_t numGroupWorkers) const {
  Rank step = expertRanks;
  Rank replicas = Rank(accelerators) * shards / step;
  if (order == RankOrder::Data)
    return group(first, last, numGroupWorkers, {1, step, replicas, step});
  if (accelerators % step == 0)
    return group(
        first, last, numGroupWorkers,
        {accelerators / step, step, shards, Rank(accelerators) * numWorkers});
  // The experts of a group have several peers, which are not adjacent.
  if (step % accelerators == 0)
    return group(first, last, numGroupWorkers,
                 {1, (step - accelerators) * numWorkers + accelerators,
                  replicas, step * numWorkers});
  auto size = static_cast<int64_t>(numGroupWorkers * replicas);
  return groupOfLevels(1, perPod ? 1 : size, size);
}

RingGroup RankLayout::shardCopies(int64_t worker) const {
  Rank step = Rank(accelerators) * shards, all = dataParallel / shards;
  if (order == RankOrder::Data)
    return group(worker, worker, 1, {1, step, all, step});
  step *= numWorkers;
  Rank others = Rank(accelerators) * (numWorkers - 1);
  return group(worker, worker, 1, {1, step - others, all, step});
}

/// Groups of `degree` consecutive accelerators, which start at multiples of
/// `degree`.
static RingGroup consecutiveGroup(const SystemFacts &system, int64_t degree) {
  /// The number of members in each block; 1 if the numbers differ.
  auto membersIn = [degree](int64_t size) {
    if (!size || size % degree == 0)
      return degree;
    return degree % size == 0 ? size : 1;
  };
  return groupOfLevels(membersIn(nodeSize(system)), membersIn(podSize(system)),
                       degree);
}

RingGroup pipesched::tensorGroup(const SystemFacts &system) {
  return consecutiveGroup(system, system.tensorParallel());
}

RingGroup pipesched::expertWidthGroup(const SystemFacts &system) {
  return consecutiveGroup(system, system.expertWidths());
}

/// The ranks that share a node; the worker's own if nodes are unknown.
static int64_t nodeOrWorker(const SystemFacts &system) {
  int64_t perNode = nodeSize(system);
  return perNode ? perNode : system.accelerators;
}

RingGroup pipesched::contextGroup(const SystemFacts &system) {
  int64_t degree = system.contextParallel, tensor = system.tensorParallel();
  // The number of members in a block of `size` consecutive ranks, wherever the
  // worker starts.
  auto membersIn = [&](int64_t size) {
    int64_t run = std::gcd(size, system.accelerators);
    return run % tensor == 0 ? run / tensor : 1;
  };
  int64_t perPod = podSize(system);
  return groupOfLevels(membersIn(nodeOrWorker(system)),
                       perPod ? membersIn(perPod) : degree, degree);
}

RingGroup pipesched::expertGroup(const SystemFacts &system) {
  int64_t degree = system.expertParallel, widths = system.expertWidths();
  // The number of members in a block of `size` consecutive ranks, wherever the
  // group starts.
  auto membersIn = [&](int64_t size) {
    int64_t run = std::gcd(size, degree * widths);
    if (system.rankOrder == RankOrder::Pipeline)
      run = std::gcd(run, system.accelerators);
    return run % widths == 0 ? run / widths : 1;
  };
  int64_t perPod = podSize(system);
  return groupOfLevels(membersIn(nodeOrWorker(system)),
                       perPod ? membersIn(perPod) : degree, degree);
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
