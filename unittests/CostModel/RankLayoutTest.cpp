//===- RankLayoutTest.cpp - Which accelerators share a node ---------------===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Clusters by hand, and comparison with ranks counted one by one for small
// sizes.
//
//===----------------------------------------------------------------------===//

#include "PipeSched/CostModel/RankLayout.h"
#include "gtest/gtest.h"
#include <map>

using namespace pipesched;

static SystemFacts cluster(int64_t accelerators, int64_t dataParallel,
                           int64_t perNode, RankOrder order = RankOrder::Data) {
  SystemFacts system;
  system.accelerators = accelerators;
  system.dataParallel = dataParallel;
  system.acceleratorsPerNode = perNode;
  system.rankOrder = order;
  system.link.bytesPerSecond = 1000;
  return system;
}

namespace pipesched {
static bool operator==(RingGroup a, RingGroup b) {
  return a.perNode == b.perNode && a.numNodes == b.numNodes;
}
static std::ostream &operator<<(std::ostream &os, RingGroup group) {
  return os << group.perNode << " x " << group.numNodes;
}
} // namespace pipesched

//===----------------------------------------------------------------------===//
// By hand
//===----------------------------------------------------------------------===//

TEST(RankLayout, EightWorkersFillANodeOfEight) {
  RankLayout layout(cluster(1, 1, 8), 16);
  EXPECT_TRUE(layout.sharesNode(0, 7));
  EXPECT_TRUE(layout.sharesNode(6, 5));
  EXPECT_FALSE(layout.sharesNode(7, 8));
  EXPECT_FALSE(layout.sharesNode(15, 0));
}

TEST(RankLayout, WithoutNodesNobodySharesOne) {
  RankLayout layout(cluster(1, 4, 0), 16);
  EXPECT_FALSE(layout.sharesNode(0, 1));
  EXPECT_EQ(layout.groupOf(0, 0, 1), (RingGroup{1, 4}));
  SystemFacts unlinked = cluster(1, 4, 8);
  unlinked.link.bytesPerSecond = 0;
  EXPECT_FALSE(RankLayout(unlinked, 16).sharesNode(0, 1));
}

/// Two pipelines of two accelerators per worker on nodes of eight: if peers are
/// adjacent, a node has two workers of both pipelines, else four of one.
TEST(RankLayout, TheOrderSaysWhoIsNear) {
  RankLayout byData(cluster(2, 2, 8), 4);
  EXPECT_TRUE(byData.sharesNode(0, 1));
  EXPECT_FALSE(byData.sharesNode(1, 2));
  EXPECT_EQ(byData.groupOf(1, 1, 1), (RingGroup{2, 1}));
  RankLayout byPipeline(cluster(2, 2, 8, RankOrder::Pipeline), 4);
  EXPECT_TRUE(byPipeline.sharesNode(1, 2));
  EXPECT_EQ(byPipeline.groupOf(1, 1, 1), (RingGroup{1, 2}));
}

/// Sixteen peers, four adjacent ones on each node.
TEST(RankLayout, GroupsFillNodes) {
  RankLayout layout(cluster(2, 16, 8), 4);
  EXPECT_EQ(layout.groupOf(0, 0, 1), (RingGroup{4, 4}));
  EXPECT_EQ(layout.groupOf(0, 3, 2), (RingGroup{4, 8}));
  // Twelve do not fill two nodes of eight.
  EXPECT_EQ(RankLayout(cluster(1, 12, 8), 4).groupOf(0, 0, 1),
            (RingGroup{1, 12}));
  // Replicas on two of the four workers of a node.
  EXPECT_EQ(RankLayout(cluster(1, 2, 8), 8).groupOf(0, 3, 2),
            (RingGroup{4, 1}));
  EXPECT_EQ(RankLayout(cluster(1, 2, 8), 8).groupOf(0, 7, 2),
            (RingGroup{2, 2}));
}

TEST(RankLayout, WorkersMaySpanNodes) {
  EXPECT_EQ(tensorGroup(cluster(8, 1, 8)), (RingGroup{8, 1}));
  EXPECT_EQ(tensorGroup(cluster(16, 1, 8)), (RingGroup{8, 2}));
  EXPECT_EQ(tensorGroup(cluster(16, 1, 0)), (RingGroup{16, 1}));
  EXPECT_EQ(tensorGroup(cluster(6, 1, 8)), (RingGroup{1, 6}));
  EXPECT_FALSE(RankLayout(cluster(16, 1, 8), 2).sharesNode(0, 1));
}

TEST(RankLayout, LargestSizes) {
  SystemFacts system = cluster(int64_t(1) << 62, kMaxDataParallel,
                               kMaxAcceleratorsPerNode, RankOrder::Pipeline);
  RankLayout layout(system, 65536);
  EXPECT_FALSE(layout.sharesNode(0, 65535));
  EXPECT_EQ(layout.groupOf(0, 65535, 65536).size(), kMaxDataParallel * 65536);
  system.link.bytesPerSecond = std::numeric_limits<int64_t>::max();
  EXPECT_EQ(nodeLinkOfWorker(system).bytesPerSecond,
            std::numeric_limits<int64_t>::max());
}

//===----------------------------------------------------------------------===//
// Comparison with ranks
//===----------------------------------------------------------------------===//

namespace {
/// Computes every rank separately.
struct Ranks {
  int64_t accelerators, dataParallel, perNode, numWorkers;
  RankOrder order;

  int64_t nodeOf(int64_t accelerator, int64_t pipeline, int64_t worker) const {
    int64_t outer = order == RankOrder::Data ? pipeline + dataParallel * worker
                                             : worker + numWorkers * pipeline;
    return (accelerator + accelerators * outer) / perNode;
  }
  bool sharesNode(int64_t a, int64_t b) const {
    for (int64_t pipeline = 0; pipeline < dataParallel; ++pipeline)
      for (int64_t i = 0; i < accelerators; ++i)
        if (nodeOf(i, pipeline, a) != nodeOf(i, pipeline, b))
          return false;
    return true;
  }
  /// Members of the group of a worker's accelerator, by node.
  std::map<int64_t, int64_t> membersOf(int64_t accelerator,
                                       int64_t worker) const {
    std::map<int64_t, int64_t> members;
    for (int64_t pipeline = 0; pipeline < dataParallel; ++pipeline)
      ++members[nodeOf(accelerator, pipeline, worker)];
    return members;
  }
};
} // namespace

/// For messages, the layout says "in a node" exactly if it holds for every
/// accelerator. For groups, members that the layout puts on one node are on
/// one.
static void checkAll(const Ranks &ranks) {
  RankLayout layout(cluster(ranks.accelerators, ranks.dataParallel,
                            ranks.perNode, ranks.order),
                    ranks.numWorkers);
  for (int64_t a = 0; a < ranks.numWorkers; ++a) {
    for (int64_t b = 0; b < ranks.numWorkers; ++b)
      if (a != b)
        EXPECT_EQ(layout.sharesNode(a, b), ranks.sharesNode(a, b))
            << a << ' ' << b;
    RingGroup group = layout.groupOf(a, a, 1);
    EXPECT_EQ(group.size(), ranks.dataParallel);
    if (group.perNode == 1)
      continue;
    for (int64_t i = 0; i < ranks.accelerators; ++i)
      for (auto [node, members] : ranks.membersOf(i, a))
        EXPECT_EQ(members, group.perNode) << "node " << node;
  }
}

TEST(RankLayout, IsThatOfRanks) {
  for (RankOrder order : {RankOrder::Data, RankOrder::Pipeline})
    for (int64_t accelerators = 1; accelerators <= 4; ++accelerators)
      for (int64_t dataParallel = 1; dataParallel <= 6; ++dataParallel)
        for (int64_t perNode = 1; perNode <= 9; ++perNode)
          for (int64_t workers = 1; workers <= 5; ++workers) {
            SCOPED_TRACE(testing::Message()
                         << "t " << accelerators << ", d " << dataParallel
                         << ", node " << perNode << ", p " << workers
                         << ", order " << int(order));
            checkAll({accelerators, dataParallel, perNode, workers, order});
          }
}
