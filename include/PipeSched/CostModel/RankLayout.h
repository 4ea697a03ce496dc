//===- RankLayout.h - Which accelerators share a node -----------*- C++ -*-===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Where workers and their peers in other pipelines stand, and so which of them
// talk over the link of a node and which over the network.
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

/// Ranks count through the accelerators of a worker first, then as the system's
/// RankOrder says; the next `acceleratorsPerNode` of them are a node. Two
/// workers of two accelerators, in two pipelines, on nodes of four:
///
///   rank            0  1  2  3 | 4  5  6  7
///   Data: worker    0  0  0  0 | 1  1  1  1
///         pipeline  0  0  1  1 | 0  0  1  1
///   Pipeline: worker 0  0  1  1 | 0  0  1  1
///           pipeline 0  0  0  0 | 1  1  1  1
///
/// Without nodes nothing but a worker shares one.
class RankLayout {
public:
  RankLayout(const SystemFacts &system, int64_t numWorkers);

  /// Whether messages between two workers stay inside of nodes in every
  /// pipeline.
  bool sharesNode(int64_t workerA, int64_t workerB) const;

  /// The group of `numWorkers` workers from `first` to `last`, with their peers
  /// in all pipelines; of a worker with several accelerators each is in a group
  /// of its own. Where a node holds unequal numbers of members, or members of
  /// several workers among others, no two are taken to share one.
  RingGroup groupOf(int64_t first, int64_t last, int64_t numWorkers) const;

private:
  bool isInOneNode(__int128 firstRank, __int128 lastRank) const {
    return firstRank / perNode == lastRank / perNode;
  }

  int64_t perNode; ///< 0: there are no nodes
  int64_t accelerators, dataParallel, numWorkers;
  RankOrder order;
};

/// The accelerators of one worker. All share a node where none are known.
RingGroup tensorGroup(const SystemFacts &system);

/// The link of a node as a whole worker has it: of all its accelerators.
LinkFacts nodeLinkOfWorker(const SystemFacts &system);

} // namespace pipesched

#endif // PIPESCHED_COSTMODEL_RANKLAYOUT_H
