//===- RankLayout.h - Which accelerators share a node -----------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The positions of workers and their peers in other pipelines, and so which of
// them communicate over the link within a node, the network of a pod or the
// spine between pods.
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

/// Members of a collective: `perNode` on each of `numNodes` nodes of each of
/// `numPods` pods.
struct RingGroup {
  int64_t perNode = 1, numNodes = 1, numPods = 1;

  /// A group of `size` members, each in a different part of the network that
  /// `level` joins.
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
  /// The number of parts that each level joins, by NetworkLevel.
  std::array<int64_t, kNumNetworkLevels> sizes() const {
    return {perNode, numNodes, numPods};
  }
};

/// Ranks number the accelerators of a worker first, a tensor-parallel group
/// before others that divide the sequence, then follow the system's RankOrder;
/// every `acceleratorsPerNode` consecutive ranks are a node, every
/// `acceleratorsPerPod` a pod. For example, two workers of two accelerators, in
/// two pipelines, on nodes of four:
///
///   rank            0  1  2  3 | 4  5  6  7
///   Data: worker    0  0  0  0 | 1  1  1  1
///         pipeline  0  0  1  1 | 0  0  1  1
///   Pipeline: worker 0  0  1  1 | 0  0  1  1
///           pipeline 0  0  0  0 | 1  1  1  1
///
/// The pods of a system with groups are these, which need not be equal.
/// If nodes are not known, only the accelerators of one worker share a node. If
/// pods are not known, all share one.
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

  /// The level of messages between two workers in the worst of the pipelines.
  NetworkLevel levelOf(int64_t workerA, int64_t workerB) const {
    return sharesNode(workerA, workerB)  ? NetworkLevel::Link
           : sharesPod(workerA, workerB) ? NetworkLevel::Network
                                         : NetworkLevel::Spine;
  }

  /// The accelerators that hold the same part of the layers of `numWorkers`
  /// workers from `first` to `last`: the accelerators that divide the sequence,
  /// and their peers in all pipelines that divide state together. Each
  /// accelerator of a tensor-parallel group belongs to a separate group. If
  /// nodes hold unequal numbers of members, or mix members of several workers
  /// with non-members, no two members count as sharing a node; the same for
  /// pods and the nodes with members.
  RingGroup groupOf(int64_t first, int64_t last, int64_t numWorkers) const;

  /// The same for the experts of these workers: accelerators that hold the same
  /// experts have a distance of `expertRanks` ranks within a stage.
  RingGroup expertReplicas(int64_t first, int64_t last,
                           int64_t numWorkers) const;

  /// The accelerators of a worker that hold the same part of divided state, one
  /// in each group of pipelines that divide it.
  RingGroup shardCopies(int64_t worker) const;

private:
  /// Members of one worker: `inner` members at distances of `innerStep` ranks,
  /// in each of `outer` places at distances of `outerStep` ranks.
  struct Members {
    __int128 inner = 1, innerStep = 1, outer = 1, outerStep = 1;
  };
  RingGroup group(int64_t first, int64_t last, int64_t numWorkers,
                  const Members &members) const;
  int64_t membersPerBlock(int64_t size, int64_t first, int64_t last,
                          int64_t numWorkers, const Members &members) const;
  bool sharesBlock(int64_t size, int64_t workerA, int64_t workerB) const;
  bool sharesGroup(int64_t workerA, int64_t workerB) const;

  int64_t perNode, perPod;        ///< 0: not known
  std::vector<int64_t> groupEnds; ///< in ranks; empty: all pods are equal
  int64_t accelerators, contextParallel, expertRanks, dataParallel, shards,
      numWorkers;
  RankOrder order;
};

/// A tensor-parallel group of accelerators of one worker. They share a node if
/// nodes are not known.
RingGroup tensorGroup(const SystemFacts &system);

/// The accelerators of one worker that divide a sequence and have the same
/// widths of layers.
RingGroup contextGroup(const SystemFacts &system);

/// The accelerators that divide the experts of a stage: ranks of that stage,
/// consecutive if each holds whole experts. At least `perNode` of them share a
/// node, and `numNodes` nodes share a pod. With RankOrder::Pipeline only
/// accelerators of one worker count as sharing a node or pod.
RingGroup expertGroup(const SystemFacts &system);

/// The consecutive accelerators that divide the widths of an expert.
RingGroup expertWidthGroup(const SystemFacts &system);

/// The link within a node with the bandwidth of all accelerators of a worker.
LinkFacts nodeLinkOfWorker(const SystemFacts &system);

/// A level with the bandwidth of one accelerator, or of all accelerators of a
/// worker.
LinkFacts linkOfWorker(NetworkLevel level, const SystemFacts &system);
LinkFacts linkOfAccelerator(NetworkLevel level, const SystemFacts &system);

} // namespace pipesched

#endif // PIPESCHED_COSTMODEL_COMM_RANKLAYOUT_H
