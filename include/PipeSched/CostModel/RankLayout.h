//===- RankLayout.h - Which accelerators share a node -----------*- C++ -*-===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Where workers and their peers in other pipelines stand, and so which of them
// communicate over the link within a node and which over the network.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_COSTMODEL_RANKLAYOUT_H
#define PIPESCHED_COSTMODEL_RANKLAYOUT_H

#include "PipeSched/Facts/Facts.h"

namespace pipesched {

/// Members of a collective: `perNode` on each of `numNodes` nodes.
struct RingGroup {
  int64_t perNode = 1, numNodes = 1;

  int64_t size() const { return perNode * numNodes; }
};

/// Ranks number the accelerators of a worker first, those of a tensor-parallel
/// group before others that divide the sequence, then follow the system's
/// RankOrder; every `acceleratorsPerNode` consecutive ranks are a node. For
/// example, two workers of two accelerators, in two pipelines, on nodes of
/// four:
///
///   rank            0  1  2  3 | 4  5  6  7
///   Data: worker    0  0  0  0 | 1  1  1  1
///         pipeline  0  0  1  1 | 0  0  1  1
///   Pipeline: worker 0  0  1  1 | 0  0  1  1
///           pipeline 0  0  0  0 | 1  1  1  1
///
/// If nodes are not known, only the accelerators of one worker share a node.
class RankLayout {
public:
  RankLayout(const SystemFacts &system, int64_t numWorkers);

  /// Whether messages between two workers stay within nodes in every pipeline.
  bool sharesNode(int64_t workerA, int64_t workerB) const;

  /// The accelerators that hold the same part of the layers of `numWorkers`
  /// workers from `first` to `last`: those that divide the sequence, and their
  /// peers in all pipelines. Each accelerator of a tensor-parallel group
  /// belongs to a group of its own. If nodes hold unequal numbers of members,
  /// or mix members of several workers with non-members, no two members count
  /// as sharing a node.
  RingGroup groupOf(int64_t first, int64_t last, int64_t numWorkers) const;

  /// The same for the experts of these workers: the accelerators that hold the
  /// same of them are `expertParallel` ranks apart within a stage.
  RingGroup expertReplicas(int64_t first, int64_t last,
                           int64_t numWorkers) const;

private:
  /// Members of one worker: `inner` of them, `innerStep` ranks apart, in each
  /// of `outer` places that are `outerStep` ranks apart.
  struct Members {
    __int128 inner = 1, innerStep = 1, outer = 1, outerStep = 1;
  };
  RingGroup group(int64_t first, int64_t last, int64_t numWorkers,
                  Members members) const;

  bool isInOneNode(__int128 firstRank, __int128 lastRank) const {
    return firstRank / perNode == lastRank / perNode;
  }

  int64_t perNode; ///< 0: nodes are not known
  int64_t accelerators, contextParallel, expertParallel, dataParallel,
      numWorkers;
  RankOrder order;
};

/// A tensor-parallel group of accelerators of one worker. They share a node if
/// nodes are not known.
RingGroup tensorGroup(const SystemFacts &system);

/// The accelerators of one worker that divide a sequence and have the same
/// widths of layers.
RingGroup contextGroup(const SystemFacts &system);

/// The accelerators that divide the experts of a stage: consecutive ranks of
/// that stage. `perNode` of them are on one node at least. With
/// RankOrder::Pipeline only those of one worker count as being on one node.
RingGroup expertGroup(const SystemFacts &system);

/// The link within a node with the bandwidth of all accelerators of a worker.
LinkFacts nodeLinkOfWorker(const SystemFacts &system);

} // namespace pipesched

#endif // PIPESCHED_COSTMODEL_RANKLAYOUT_H
