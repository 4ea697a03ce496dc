//===- RankLayoutTest.cpp - Which accelerators share a node ---------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Clusters by hand, and comparison with ranks counted one by one for small
// sizes.
//
//===----------------------------------------------------------------------===//

#include "PipeSched/CostModel/Comm/RankLayout.h"
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

static SystemFacts withPods(SystemFacts system, int64_t perPod) {
  system.acceleratorsPerPod = perPod;
  system.spine.bytesPerSecond = 10;
  return system;
}

namespace pipesched {
static bool operator==(RingGroup a, RingGroup b) {
  return a.sizes() == b.sizes();
}
static std::ostream &operator<<(std::ostream &os, RingGroup group) {
  return os << group.perNode << " x " << group.numNodes << " x "
            << group.numPods;
}
} // namespace pipesched

//===----------------------------------------------------------------------===//
// By hand
//===----------------------------------------------------------------------===//

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

/// Groups of 24 and 8 accelerators, between which pods of eight do not
/// distinguish.
TEST(RankLayout, GroupsAreUnequalPods) {
  SystemFacts system = withPods(cluster(2, 4, 8), 8);
  system.groupEnds = {24, 32};
  RankLayout layout(system, 4);
  EXPECT_EQ(layout.levelOf(0, 2), NetworkLevel::Network);
  EXPECT_EQ(layout.levelOf(2, 3), NetworkLevel::Spine);
  EXPECT_EQ(layout.groupOf(0, 2, 3), (RingGroup{4, 3, 1}));
  EXPECT_EQ(layout.groupOf(2, 3, 2), (RingGroup{4, 1, 2}));
  // Sixteen replicas: the second worker is on both.
  system.dataParallel = 8;
  EXPECT_EQ(RankLayout(system, 2).groupOf(0, 0, 1), (RingGroup{4, 2, 1}));
  EXPECT_EQ(RankLayout(system, 2).groupOf(1, 1, 1), (RingGroup{4, 1, 2}));
}

/// Sixty-four workers on nodes of eight, in pods of two nodes.
TEST(RankLayout, MessagesTakeTheNearestLevel) {
  RankLayout layout(withPods(cluster(1, 1, 8), 16), 64);
  EXPECT_EQ(layout.levelOf(0, 7), NetworkLevel::Link);
  EXPECT_EQ(layout.levelOf(7, 8), NetworkLevel::Network);
  EXPECT_EQ(layout.levelOf(15, 16), NetworkLevel::Spine);
  EXPECT_EQ(layout.levelOf(16, 3), NetworkLevel::Spine);
  EXPECT_EQ(RankLayout(cluster(1, 1, 8), 64).levelOf(15, 16),
            NetworkLevel::Network);
  // Two pipelines of twelve: 15 and 16 are in the middle of the second one.
  RankLayout unaligned(withPods(cluster(1, 2, 4, RankOrder::Pipeline), 16), 12);
  EXPECT_EQ(unaligned.levelOf(0, 3), NetworkLevel::Link);
  EXPECT_EQ(unaligned.levelOf(1, 2), NetworkLevel::Link);
  EXPECT_EQ(unaligned.levelOf(3, 4), NetworkLevel::Spine);
  // Pods are known without nodes too.
  EXPECT_EQ(RankLayout(withPods(cluster(1, 1, 0), 16), 64).levelOf(0, 1),
            NetworkLevel::Network);
}

/// Sixty-four peers, four on each node, 16 in each pod.
TEST(RankLayout, GroupsFillPods) {
  RankLayout layout(withPods(cluster(2, 64, 8), 32), 4);
  EXPECT_EQ(layout.groupOf(0, 0, 1), (RingGroup{4, 4, 4}));
  EXPECT_EQ(layout.groupOf(0, 3, 4), (RingGroup{4, 4, 16}));
  // In pipelines' order each pod has a peer of a worker.
  RankLayout apart(withPods(cluster(2, 64, 8, RankOrder::Pipeline), 32), 16);
  EXPECT_EQ(apart.groupOf(0, 0, 1), (RingGroup{1, 1, 64}));
  // A peer on each second node, two in each pod.
  RankLayout two(withPods(cluster(2, 64, 8, RankOrder::Pipeline), 32), 8);
  EXPECT_EQ(two.groupOf(0, 0, 1), (RingGroup{1, 2, 32}));
  // All in one pod.
  RankLayout one(withPods(cluster(2, 16, 8), 32), 4);
  EXPECT_EQ(one.groupOf(1, 1, 1), (RingGroup{4, 4, 1}));
  // Twelve peers do not fill pods of 16; nodes of four they do.
  RankLayout odd(withPods(cluster(1, 12, 4), 16), 4);
  EXPECT_EQ(odd.groupOf(0, 0, 1), (RingGroup{4, 3, 1}));
  EXPECT_EQ(odd.groupOf(1, 1, 1), (RingGroup{4, 1, 3}));
}

/// Eight pipelines in two groups, each of which fills a node of four. In the
/// order of pipelines of two workers two pipelines are a node.
TEST(RankLayout, GroupsOfPipelinesDivideState) {
  SystemFacts system = cluster(1, 8, 4);
  system.shardGroups = 2;
  EXPECT_EQ(RankLayout(system, 2).groupOf(0, 0, 1), (RingGroup{4, 2}));
  system.sharding = Sharding::Optimizer;
  EXPECT_EQ(RankLayout(system, 2).groupOf(0, 0, 1), (RingGroup{4, 1}));
  EXPECT_EQ(RankLayout(system, 2).shardCopies(0), (RingGroup{1, 2}));
  system.rankOrder = RankOrder::Pipeline;
  system.dataParallel = 4;
  EXPECT_EQ(RankLayout(system, 2).groupOf(0, 0, 1), (RingGroup{2, 1}));
  EXPECT_EQ(RankLayout(system, 2).shardCopies(0), (RingGroup{1, 2}));
  system.acceleratorsPerNode = 8; // all of them
  EXPECT_EQ(RankLayout(system, 2).shardCopies(1), (RingGroup{2, 1}));
}

/// Two nodes of four hold two experts, each divided by two ranks, on each.
TEST(RankLayout, RanksDivideExperts) {
  SystemFacts system = cluster(1, 16, 4);
  system.expertParallel = 4;
  system.expertTensor = 2;
  EXPECT_EQ(expertGroup(system), (RingGroup{2, 2}));
  EXPECT_EQ(expertWidthGroup(system), (RingGroup{2, 1}));
  EXPECT_EQ(RankLayout(system, 1).expertReplicas(0, 0, 1), (RingGroup{1, 2}));
  system.acceleratorsPerNode = 1;
  EXPECT_EQ(expertWidthGroup(system), (RingGroup{1, 2}));
}

TEST(RankLayout, LinksAreThoseOfAWorkerOrOfOneAccelerator) {
  SystemFacts system = withPods(cluster(4, 1, 8), 16);
  system.network.bytesPerSecond = 100;
  system.spine.bytesPerSecond = 20;
  EXPECT_EQ(linkOfWorker(NetworkLevel::Link, system).bytesPerSecond, 4000);
  EXPECT_EQ(linkOfWorker(NetworkLevel::Network, system).bytesPerSecond, 100);
  EXPECT_EQ(linkOfWorker(NetworkLevel::Spine, system).bytesPerSecond, 20);
  EXPECT_EQ(linkOfAccelerator(NetworkLevel::Link, system).bytesPerSecond, 1000);
  EXPECT_EQ(linkOfAccelerator(NetworkLevel::Network, system).bytesPerSecond,
            25);
  EXPECT_EQ(linkOfAccelerator(NetworkLevel::Spine, system).bytesPerSecond, 5);
}

/// 64 of the 72 accelerators of four nodes are used, in four blocks of 64
/// ranks. Pods have as many nodes as before.
TEST(RankLayout, NodesMayBeUsedInPart) {
  SystemFacts system = cluster(1, 64, 72);
  EXPECT_FALSE(RankLayout(system, 4).sharesNode(1, 1));
  system.usedPerNode = 64;
  RankLayout layout(system, 4);
  EXPECT_TRUE(layout.sharesNode(1, 1));
  EXPECT_FALSE(layout.sharesNode(0, 1));
  EXPECT_EQ(layout.groupOf(1, 1, 1), (RingGroup{64, 1}));
  RankLayout pods(withPods(system, 144), 4);
  EXPECT_TRUE(pods.sharesPod(0, 1));
  EXPECT_FALSE(pods.sharesPod(1, 2));
  // More than there are is all of them.
  system.usedPerNode = 100;
  EXPECT_EQ(RankLayout(system, 4).groupOf(0, 0, 1), (RingGroup{64, 1}));
}

TEST(RankLayout, LargestSizes) {
  SystemFacts system = cluster(int64_t(1) << 62, kMaxDataParallel,
                               kMaxAcceleratorsPerNode, RankOrder::Pipeline);
  RankLayout layout(system, 65536);
  EXPECT_FALSE(layout.sharesNode(0, 65535));
  EXPECT_EQ(layout.groupOf(0, 65535, 65536).size(), kMaxDataParallel * 65536);
  RankLayout pods(withPods(system, kMaxAcceleratorsPerPod), 65536);
  EXPECT_EQ(pods.levelOf(0, 65535), NetworkLevel::Spine);
  EXPECT_EQ(pods.groupOf(0, 65535, 65536).size(), kMaxDataParallel * 65536);
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
  int64_t accelerators, dataParallel, numWorkers;
  RankOrder order;

  /// The block of `size` consecutive ranks that holds an accelerator.
  int64_t blockOf(int64_t size, int64_t accelerator, int64_t pipeline,
                  int64_t worker) const {
    int64_t outer = order == RankOrder::Data ? pipeline + dataParallel * worker
                                             : worker + numWorkers * pipeline;
    return (accelerator + accelerators * outer) / size;
  }
  bool sharesBlock(int64_t size, int64_t a, int64_t b) const {
    for (int64_t pipeline = 0; pipeline < dataParallel; ++pipeline)
      for (int64_t i = 0; i < accelerators; ++i)
        if (blockOf(size, i, pipeline, a) != blockOf(size, i, pipeline, b))
          return false;
    return true;
  }
  /// Members of the group of a worker's accelerator, by block.
  std::map<int64_t, int64_t> membersOf(int64_t size, int64_t accelerator,
                                       int64_t worker) const {
    std::map<int64_t, int64_t> members;
    for (int64_t pipeline = 0; pipeline < dataParallel; ++pipeline)
      ++members[blockOf(size, accelerator, pipeline, worker)];
    return members;
  }
  /// Expects `perBlock` members in every block that has any.
  void expectMembers(int64_t size, int64_t worker, int64_t perBlock) const {
    for (int64_t i = 0; i < accelerators; ++i)
      for (auto [block, members] : membersOf(size, i, worker))
        EXPECT_EQ(members, perBlock) << "block " << block << " of " << size;
  }
};
} // namespace

/// For messages, the layout says "in a node" or "in a pod" exactly if it holds
/// for every accelerator. For groups, members that the layout puts on one node
/// or in one pod are in one.
static void checkAll(const Ranks &ranks, int64_t perNode, int64_t perPod) {
  SystemFacts system =
      cluster(ranks.accelerators, ranks.dataParallel, perNode, ranks.order);
  RankLayout layout(perPod ? withPods(system, perPod) : system,
                    ranks.numWorkers);
  for (int64_t a = 0; a < ranks.numWorkers; ++a) {
    for (int64_t b = 0; b < ranks.numWorkers; ++b) {
      if (a == b)
        continue;
      EXPECT_EQ(layout.sharesNode(a, b), ranks.sharesBlock(perNode, a, b))
          << a << ' ' << b;
      EXPECT_EQ(layout.sharesPod(a, b),
                !perPod || ranks.sharesBlock(perPod, a, b))
          << a << ' ' << b;
    }
    RingGroup group = layout.groupOf(a, a, 1);
    EXPECT_EQ(group.size(), ranks.dataParallel);
    if (group.perNode > 1)
      ranks.expectMembers(perNode, a, group.perNode);
    if (perPod && group.numNodes > 1)
      ranks.expectMembers(perPod, a, group.perNode * group.numNodes);
    if (!perPod)
      EXPECT_EQ(group.numPods, 1);
  }
}

namespace {
/// The accelerators of one stage, counted one by one: tensor-parallel groups
/// first, then others that divide a sequence, then peers.
struct StageRanks {
  Ranks ranks;
  int64_t contextParallel, expertParallel, perNode, perPod;

  int64_t size() const { return ranks.accelerators * ranks.dataParallel; }
  /// Ranks of the stage by a number that is the same for all of a group; for
  /// each group its members by block of `block` consecutive ranks.
  template <typename GroupOf>
  std::map<int64_t, std::map<int64_t, int64_t>>
  groupsOf(int64_t block, int64_t worker, GroupOf groupOf) const {
    std::map<int64_t, std::map<int64_t, int64_t>> groups;
    for (int64_t rank = 0; rank < size(); ++rank)
      ++groups[groupOf(rank)][ranks.blockOf(block, rank % ranks.accelerators,
                                            rank / ranks.accelerators, worker)];
    return groups;
  }
};
} // namespace

/// If the layout puts members on one node or in one pod, every group of a
/// worker has that many there, or a multiple of them.
template <typename GroupOf>
static void checkGroups(const StageRanks &stage, int64_t worker,
                        RingGroup layout, GroupOf groupOf) {
  auto check = [&](int64_t block, int64_t perBlock) {
    for (auto &[number, byBlock] : stage.groupsOf(block, worker, groupOf)) {
      int64_t size = 0;
      for (auto [index, members] : byBlock) {
        EXPECT_EQ(members % perBlock, 0)
            << "block " << index << " of " << block;
        size += members;
      }
      EXPECT_EQ(layout.size(), size);
    }
  };
  check(stage.perNode, layout.perNode);
  if (layout.numNodes > 1)
    check(stage.perPod, layout.perNode * layout.numNodes);
}

static void checkStage(const StageRanks &stage) {
  const Ranks &ranks = stage.ranks;
  SystemFacts system = withPods(cluster(ranks.accelerators, ranks.dataParallel,
                                        stage.perNode, ranks.order),
                                stage.perPod);
  system.contextParallel = stage.contextParallel;
  system.expertParallel = stage.expertParallel;
  int64_t tensor = system.tensorParallel(), all = ranks.accelerators;
  int64_t experts = stage.expertParallel;
  RankLayout layout(system, ranks.numWorkers);
  for (int64_t worker = 0; worker < ranks.numWorkers; ++worker) {
    auto check = [&](RingGroup group, auto groupOf) {
      checkGroups(stage, worker, group, groupOf);
    };
    check(tensorGroup(system), [&](int64_t rank) { return rank / tensor; });
    check(contextGroup(system),
          [&](int64_t rank) { return rank / all * all + rank % tensor; });
    check(expertGroup(system), [&](int64_t rank) { return rank / experts; });
    check(layout.groupOf(worker, worker, 1),
          [&](int64_t rank) { return rank % tensor; });
    check(layout.expertReplicas(worker, worker, 1),
          [&](int64_t rank) { return rank % experts; });
  }
  // With ranks in this order groups are together as far as they can be.
  bool isByData = ranks.order == RankOrder::Data;
  if (isByData && stage.perNode % experts == 0)
    EXPECT_EQ(expertGroup(system).perNode, experts);
  if (isByData && stage.perPod % experts == 0)
    EXPECT_EQ(expertGroup(system).numPods, 1);
  if (stage.perNode % all == 0)
    EXPECT_EQ(contextGroup(system).perNode, stage.contextParallel);
  if (stage.perPod % all == 0)
    EXPECT_EQ(contextGroup(system).numPods, 1);
}

TEST(RankLayout, GroupsOfStagesAreThoseOfRanks) {
  for (RankOrder order : {RankOrder::Data, RankOrder::Pipeline})
    for (int64_t all : {1, 2, 4, 6})
      for (int64_t context : {1, 2, 3, 4, 6})
        for (int64_t peers : {1, 2, 3, 4})
          for (int64_t experts : {1, 2, 3, 4, 6, 8, 12, 24})
            for (int64_t perNode = 1; perNode <= 13; ++perNode)
              for (int64_t workers = 1; workers <= 3; ++workers) {
                if (all % context || all * peers % experts)
                  continue;
                SCOPED_TRACE(testing::Message()
                             << "n " << all << ", c " << context << ", d "
                             << peers << ", e " << experts << ", node "
                             << perNode << ", p " << workers << ", order "
                             << int(order));
                for (int64_t nodes : {1, 2, 6})
                  checkStage({{all, peers, workers, order},
                              context,
                              experts,
                              perNode,
                              perNode * nodes});
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
            checkAll({accelerators, dataParallel, workers, order}, perNode, 0);
          }
}

TEST(RankLayout, PodsAreThoseOfRanks) {
  for (RankOrder order : {RankOrder::Data, RankOrder::Pipeline})
    for (int64_t accelerators : {1, 2, 3})
      for (int64_t dataParallel = 1; dataParallel <= 8; ++dataParallel)
        for (int64_t perNode = 1; perNode <= 4; ++perNode)
          for (int64_t nodes = 1; nodes <= 4; ++nodes)
            for (int64_t workers = 1; workers <= 5; ++workers) {
              SCOPED_TRACE(testing::Message()
                           << "t " << accelerators << ", d " << dataParallel
                           << ", node " << perNode << ", pod "
                           << perNode * nodes << ", p " << workers << ", order "
                           << int(order));
              checkAll({accelerators, dataParallel, workers, order}, perNode,
                       perNode * nodes);
            }
}
