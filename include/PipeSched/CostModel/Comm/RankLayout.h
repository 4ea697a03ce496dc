//===- RankLayout.h - Positions of ranks in nodes and pods ------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The positions of workers and of their peers in other pipelines. They
// determine which accelerators communicate over the link within a node, the
// network of a pod or the spine between pods.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_COSTMODEL_COMM_RANKLAYOUT_H
#define PIPESCHED_COSTMODEL_COMM_RANKLAYOUT_H

#include "PipeSched/Facts/System.h"
#include <array>

namespace pipesched {

/// The link between two accelerators: the fastest of the levels that reach
/// both.
enum class NetworkLevel : uint8_t {
  Link,    ///< they share a node
  Network, ///< they share a pod
  Spine
};
inline constexpr NetworkLevel kNetworkLevels[] = {
    NetworkLevel::Link, NetworkLevel::Network, NetworkLevel::Spine};
inline constexpr size_t kNumNetworkLevels = std::size(kNetworkLevels);

/// Members of a collective: `perNode` members on each of `numNodes` nodes of
/// each of `numPods` pods.
struct RingGroup {
  int64_t perNode = 1, numNodes = 1, numPods = 1;

  /// Returns a group of `size` members, each in a different part of the
  /// network; `level` connects these parts.
  static RingGroup across(NetworkLevel level, int64_t size) {
    RingGroup group;
    switch (level) {
    case NetworkLevel::Link:
      group.perNode = size;
      break;
    case NetworkLevel::Network:
      group.numNodes = size;
      break;
    case NetworkLevel::Spine:
      group.numPods = size;
      break;
    }
    return group;
  }
  int64_t size() const { return perNode * numNodes * numPods; }
  /// By NetworkLevel: the number of parts that the level connects.
  std::array<int64_t, kNumNetworkLevels> sizes() const {
    return {perNode, numNodes, numPods};
  }
};

/// Assigns ranks to accelerators. Ranks count first within a worker
/// (tensor-parallel groups innermost, then the ranks of a sequence), then in
/// the system's RankOrder. Every `acceleratorsPerNode` consecutive ranks are a
/// node, every `acceleratorsPerPod` a pod. For example, two workers of two
/// accelerators, in two pipelines, on nodes of four:
///
///   rank            0  1  2  3 | 4  5  6  7
///   Data: worker    0  0  0  0 | 1  1  1  1
///         pipeline  0  0  1  1 | 0  0  1  1
///   Pipeline: worker 0  0  1  1 | 0  0  1  1
///           pipeline 0  0  0  0 | 1  1  1  1
///
/// In a system with groups, the groups are the pods, which may differ in size.
/// If nodes are unknown, only the accelerators of one worker share a node. If
/// pods are unknown, all accelerators share one.
class RankLayout {
public:
  RankLayout(const SystemFacts &system, int64_t numWorkers);

  /// Whether messages between two workers stay within nodes in every pipeline.
  bool sharesNode(int64_t workerA, int64_t workerB) const {
    return perNode && sharesBlock(perNode, workerA, workerB);
  }

  /// The same for pods.
  bool sharesPod(int64_t workerA, int64_t workerB) const {
    return !perPod || (groupEnds.empty() ? sharesBlock(perPod, workerA, workerB)
                                         : sharesGroup(workerA, workerB));
  }

  /// The level of messages between two workers, in the pipeline where it is the
  /// slowest.
  NetworkLevel levelOf(int64_t workerA, int64_t workerB) const {
    return sharesNode(workerA, workerB)  ? NetworkLevel::Link
           : sharesPod(workerA, workerB) ? NetworkLevel::Network
                                         : NetworkLevel::Spine;
  }

  /// The group of accelerators that hold the same part of the layers of
  /// `numWorkers` workers from `first` to `last`: the ranks of a sequence, and
  /// their peers in all pipelines that shard state together. Each accelerator
  /// of a tensor-parallel group belongs to a separate group. If nodes hold
  /// unequal numbers of members, or members of several workers mixed with
  /// non-members, no two members count as sharing a node. The same rule applies
  /// to pods and their nodes.
  RingGroup groupOf(int64_t first, int64_t last, int64_t numWorkers) const;

  /// The group of accelerators that hold the same experts of these workers.
  /// Within a stage they are `expertRanks` ranks apart.
  RingGroup expertReplicas(int64_t first, int64_t last,
                           int64_t numWorkers) const;

  /// The accelerators of a worker that hold the same part of sharded state, one
  /// for each group of pipelines that shard it.
  RingGroup shardCopies(int64_t worker) const;

private:
  /// Members on one worker: `outer` runs that are `outerStep` ranks apart, each
  /// with `inner` members that are `innerStep` ranks apart.
  struct Members {
    __int128 inner = 1, innerStep = 1, outer = 1, outerStep = 1;
  };
  RingGroup group(int64_t first, int64_t last, int64_t numWorkers,
                  const Members &members) const;
  int64_t membersPerBlock(int64_t size, int64_t first, int64_t last,
                          int64_t numWorkers, const Members &members) const;
  bool sharesBlock(int64_t size, int64_t workerA, int64_t workerB) const;
  bool sharesGroup(int64_t workerA, int64_t workerB) const;

  int64_t perNode, perPod;        ///< 0: unknown
  std::vector<int64_t> groupEnds; ///< in ranks; empty if all pods are equal
  int64_t accelerators, contextParallel, expertRanks, dataParallel, shards,
      numWorkers;
  RankOrder order;
};

/// A tensor-parallel group of one worker. Its accelerators share a node if
/// nodes are unknown.
RingGroup tensorGroup(const SystemFacts &system);

/// The accelerators of one worker that share a sequence and hold the same part
/// of the layers' widths.
RingGroup contextGroup(const SystemFacts &system);

/// The ranks over which the experts of a stage are sharded; they are
/// consecutive if each holds whole experts. At least `perNode` of them share a
/// node, and `numNodes` nodes share a pod. With RankOrder::Pipeline only
/// accelerators of one worker count as sharing a node or pod.
RingGroup expertGroup(const SystemFacts &system);

/// The consecutive accelerators over which the width of an expert is sharded.
RingGroup expertWidthGroup(const SystemFacts &system);

/// The link within a node, with the total bandwidth of all accelerators of a
/// worker.
LinkFacts nodeLinkOfWorker(const SystemFacts &system);

/// A level with the bandwidth of all accelerators of a worker; the next
/// function, with the bandwidth of one accelerator.
LinkFacts linkOfWorker(NetworkLevel level, const SystemFacts &system);
LinkFacts linkOfAccelerator(NetworkLevel level, const SystemFacts &system);

} // namespace pipesched

#endif // PIPESCHED_COSTMODEL_COMM_RANKLAYOUT_H
