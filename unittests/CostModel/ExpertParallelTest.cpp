//===- ExpertParallelTest.cpp - Experts divided over ranks ----------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Rows counted token by token over all ways to choose experts, and the toy
// system by hand.
//
//===----------------------------------------------------------------------===//

#include "../Support/ErrorText.h"
#include "ExpertModel.h"
#include "PipeSched/CostModel/Comm/ExpertTraffic.h"
#include "gtest/gtest.h"
#include <set>

using namespace pipesched;
using namespace pipesched::test;

//===----------------------------------------------------------------------===//
// Rows, counted one by one
//===----------------------------------------------------------------------===//

namespace {
/// Ranks that divide experts: rank r is on node r / perNode and holds the
/// experts from r * each.
struct Ranks {
  int64_t perNode, numNodes, each;

  int64_t size() const { return perNode * numNodes; }
  int64_t rankOf(int64_t expert) const { return expert / each; }
  int64_t nodeOf(int64_t rank) const { return rank / perNode; }
};

/// Bytes of one element per row, by way.
struct Count {
  int64_t rows = 0, link = 0, network = 0;
};
} // namespace

/// Calls `visit` with every set of `size` of the numbers below `count`.
template <typename Visit>
static void forEachSet(int64_t count, int64_t size, Visit visit) {
  std::vector<int64_t> chosen;
  auto extend = [&](auto &extend, int64_t next) -> void {
    if (int64_t(chosen.size()) == size)
      return visit(chosen);
    for (int64_t i = next; i < count; ++i) {
      chosen.push_back(i);
      extend(extend, i + 1);
      chosen.pop_back();
    }
  };
  extend(extend, 0);
}

/// Every set of groups, and every set of experts of these groups: the choices
/// of a router.
template <typename Visit>
static void forEachChoice(const ExpertFacts &experts, Visit visit) {
  int64_t size = experts.count / experts.groups;
  forEachSet(experts.groups, experts.groupsPerToken, [&](auto &groups) {
    std::vector<int64_t> open;
    for (int64_t group : groups)
      for (int64_t i = 0; i < size; ++i)
        open.push_back(group * size + i);
    forEachSet(int64_t(open.size()), experts.perToken, [&](auto &places) {
      std::vector<int64_t> chosen;
      for (int64_t place : places)
        chosen.push_back(open[place]);
      visit(chosen);
    });
  });
}

/// Sends the rows of one token from `sender`.
static void send(const Ranks &ranks, int64_t sender,
                 const std::vector<int64_t> &chosen, ExpertDispatch dispatch,
                 Count &count) {
  std::set<int64_t> reached; // nodes that have a copy of the token
  std::set<int64_t> passed;  // ranks that a node passed it on to
  for (int64_t expert : chosen) {
    ++count.rows;
    int64_t rank = ranks.rankOf(expert), node = ranks.nodeOf(rank);
    bool isNear = node == ranks.nodeOf(sender);
    if (dispatch == ExpertDispatch::AllToAll) {
      count.link += isNear && rank != sender;
      count.network += !isNear;
      continue;
    }
    // A copy arrives at the rank with the sender's place on its node, which
    // passes rows on.
    if (!isNear && reached.insert(node).second)
      ++count.network;
    // Each expert of a rank gets a copy, or the rank gets one for all.
    if (dispatch == ExpertDispatch::PerRank && !passed.insert(rank).second)
      continue;
    count.link += rank % ranks.perNode != sender % ranks.perNode;
  }
}

static Count countRows(const ExpertFacts &experts, const Ranks &ranks,
                       ExpertDispatch dispatch) {
  Count count;
  for (int64_t sender = 0; sender < ranks.size(); ++sender)
    forEachChoice(experts, [&](const std::vector<int64_t> &chosen) {
      send(ranks, sender, chosen, dispatch, count);
    });
  return count;
}

static SystemFacts cluster(int64_t perNode, int64_t ranks) {
  SystemFacts system = toySystem();
  system.link = {1000000000000, 3, {}};
  system.acceleratorsPerNode = perNode;
  system.dataParallel = ranks;
  system.expertParallel = ranks;
  return system;
}

static void expectCounted(const ExpertFacts &experts, const Ranks &ranks) {
  SystemFacts system = cluster(ranks.perNode, ranks.size());
  for (ExpertDispatch dispatch :
       {ExpertDispatch::AllToAll, ExpertDispatch::PerNode,
        ExpertDispatch::PerRank}) {
    SCOPED_TRACE(testing::Message()
                 << experts.count << " experts, " << experts.perToken
                 << " per token, " << ranks.perNode << " ranks on each of "
                 << ranks.numNodes << " nodes, " << enumName(dispatch).str());
    system.expertDispatch = dispatch;
    ExpertTraffic traffic = expertTraffic(experts, system);
    Count count = countRows(experts, ranks, dispatch);
    EXPECT_NEAR(traffic.link, double(count.link) / double(count.rows), 1e-12);
    EXPECT_NEAR(traffic.network, double(count.network) / double(count.rows),
                1e-12);
  }
}

TEST(ExpertTraffic, IsThatOfEveryChoice) {
  for (int64_t perNode : {1, 2, 3})
    for (int64_t numNodes : {1, 2, 3})
      for (int64_t each : {1, 2})
        for (int64_t perToken = 1; perToken <= 4; ++perToken) {
          Ranks ranks = {perNode, numNodes, each};
          int64_t count = ranks.size() * each;
          if (perToken <= count)
            expectCounted(makeExperts(count, perToken), ranks);
        }
}

/// Groups are nodes, or each has several nodes.
TEST(ExpertTraffic, IsThatOfEveryChoiceAmongGroups) {
  for (int64_t perToken = 1; perToken <= 4; ++perToken) {
    expectCounted(makeExperts(12, perToken, 3, 2), {2, 3, 2});
    expectCounted(makeExperts(8, perToken, 4, 2), {1, 4, 2});
    expectCounted(makeExperts(8, perToken, 2, 1), {1, 4, 2});
  }
}

/// If nodes hold several groups, a token reaches at most as many nodes as
/// groups: the computed number bounds the sent rows.
TEST(ExpertTraffic, BoundsSmallGroups) {
  ExpertFacts experts = makeExperts(12, 2, 6, 2);
  Ranks ranks = {1, 3, 4};
  SystemFacts system = cluster(1, 3);
  system.expertDispatch = ExpertDispatch::PerNode;
  Count count = countRows(experts, ranks, ExpertDispatch::PerNode);
  double counted = double(count.network) / double(count.rows);
  EXPECT_GE(expertTraffic(experts, system).network, counted - 1e-12);
  EXPECT_LE(expertTraffic(experts, system).network, 1.25 * counted);
}

/// 64 ranks on eight nodes in two pods.
TEST(ExpertTraffic, LeavesPods) {
  SystemFacts system;
  system.link.bytesPerSecond = system.spine.bytesPerSecond = 1;
  system.dataParallel = system.expertParallel = 64;
  system.acceleratorsPerNode = 8;
  system.acceleratorsPerPod = 32;
  ExpertFacts experts;
  experts.count = 256;
  experts.perToken = 8;
  ExpertTraffic traffic = expertTraffic(experts, system);
  EXPECT_DOUBLE_EQ(traffic.link, 7.0 / 64);
  EXPECT_DOUBLE_EQ(traffic.network, 7.0 / 8);
  EXPECT_DOUBLE_EQ(traffic.spine, 1.0 / 2);
  system.acceleratorsPerPod = 64;
  EXPECT_DOUBLE_EQ(expertTraffic(experts, system).spine, 0);
}

/// DeepSeek-V3 (arXiv 2412.19437, section 2.1.2): 8 of 256 experts on 8 nodes,
/// of which a token reaches 4. A rank of 64 sends 7/8 of its rows to other
/// nodes, or a copy to 7/8 of the 3.6 nodes that a token reaches in the mean.
TEST(ExpertTraffic, DeepSeekReachesFourNodes) {
  ExpertFacts experts = makeExperts(256, 8, 8, 4);
  SystemFacts system = cluster(8, 64);
  EXPECT_DOUBLE_EQ(expertTraffic(experts, system).link, 7.0 / 64);
  EXPECT_DOUBLE_EQ(expertTraffic(experts, system).network, 7.0 / 8);
  system.expertDispatch = ExpertDispatch::PerNode;
  EXPECT_DOUBLE_EQ(expertTraffic(experts, system).link, 7.0 / 8);
  double nodes = expertTraffic(experts, system).network * 8 * 8 / 7;
  EXPECT_GT(nodes, 3.6);
  EXPECT_LT(nodes, 3.7);
}

//===----------------------------------------------------------------------===//
// By hand
//===----------------------------------------------------------------------===//

TEST(ExpertParallel, WithoutItRowsGoNowhere) {
  SystemFacts system = pairOfAccelerators();
  // linear 800, expert_mlp max(160, 200), reduce 2 (2 - 1)/2 160 + 3
  StageCost cost = firstCost(expertModel(), system);
  EXPECT_EQ(ps(cost, Phase::Forward), 800 + 200 + 163);
  EXPECT_EQ(rowsPs(cost, Phase::Forward), 0);
  system.expertBalancePpm = 2 * kEvenBalance;
  system.expertDispatch = ExpertDispatch::PerNode;
  EXPECT_EQ(ps(firstCost(expertModel(), system), Phase::Forward),
            800 + 200 + 163);
}

TEST(ExpertParallel, RowsGoToTheirExperts) {
  SystemFacts system = pairOfAccelerators();
  system.expertParallel = 2;
  // Each accelerator has 16 of 32 rows, 160 bytes, and sends half of them: 80
  // + 3 in each direction. It reads its two experts whole, 40 of the 80 bytes,
  // and half of the other 320. No sum is left to do.
  StageCost cost = firstCost(expertModel(), system);
  EXPECT_EQ(ps(cost, Phase::Forward), 800 + 83 + 200 + 83);
  EXPECT_EQ(ps(cost, Phase::InputGrad), 800 + 83 + 320 + 83);
  EXPECT_EQ(ps(cost, Phase::WeightGrad), 800 + 200);
  EXPECT_EQ(rowsPs(cost, Phase::Forward), 166);
  EXPECT_EQ(rowsPs(cost, Phase::InputGrad), 166);
  EXPECT_EQ(rowsPs(cost, Phase::WeightGrad), 0);
  EXPECT_EQ(rowsPs(cost, Phase::Backward), 166);
}

TEST(ExpertParallel, TheFullestRankIsDoneLast) {
  SystemFacts system = pairOfAccelerators();
  system.expertParallel = 2;
  system.expertBalancePpm = 1500000;
  // 24 rows: 120 + 3 bytes on their way, 240 FLOPs, 240 + 40 bytes.
  EXPECT_EQ(ps(firstCost(expertModel(), system), Phase::Forward),
            800 + 123 + 280 + 123);
}

TEST(ExpertParallel, LinkAndNetworkAreUsedAtOnce) {
  SystemFacts system = pairOfAccelerators();
  system.dataParallel = 2;
  system.expertParallel = 4;
  // A quarter of 160 bytes each stays, is sent over the link, and is sent to
  // two ranks of another worker, one after the other: max(40 + 3, 80 x 20 + 2 x
  // 7). A rank has one expert.
  EXPECT_EQ(ps(firstCost(expertModel(), system), Phase::Forward),
            800 + 1614 + (160 + 20) + 1614);
  // On one node all of it takes the link.
  system.acceleratorsPerNode = 4;
  EXPECT_EQ(ps(firstCost(expertModel(), system), Phase::Forward),
            800 + 123 + 180 + 123);
}

/// Two groups of two ranks hold two experts each, half of the widths on a rank.
TEST(ExpertParallel, RanksDivideTheWidthsOfExperts) {
  SystemFacts system = pairOfAccelerators();
  system.dataParallel = 2;
  system.expertParallel = 2;
  system.expertTensor = 2;
  // Half of 160 bytes goes to a rank of another worker, 80 x 20 + 7, and each
  // of the two ranks gets the 160 bytes of the other one, 160 + 3. A rank reads
  // half of two experts, 20 bytes.
  EXPECT_EQ(ps(firstCost(expertModel(), system), Phase::Forward),
            800 + (1607 + 163) + (160 + 20) + (1607 + 163));
  // A copy for each rank: a token has two of four experts on any of two ranks,
  // which has none with probability C(2, 2) / C(4, 2) = 1 / 6, so that it goes
  // to 2 (1 - 1/6) = 5/3 ranks: 5/6 of the bytes over the link and network.
  system.expertDispatch = ExpertDispatch::PerRank;
  EXPECT_EQ(ps(firstCost(expertModel(), system), Phase::Forward),
            800 + 180 +
                std::lround(2 * (80 * 20 * 5 / 6.0 + 7 + 160 * 5 / 6.0 + 3)));
  // Without ranks for whole experts the option says nothing.
  system.expertParallel = 1;
  EXPECT_EQ(ps(firstCost(expertModel(), system), Phase::Forward),
            800 + 200 + 163);
}

/// Latencies follow one another on the network, as many as there are messages,
/// and do not grow with rows.
TEST(ExpertParallel, AnAdapterSendsOneMessageAfterTheOther) {
  SystemFacts system = pairOfAccelerators();
  system.dataParallel = 2;
  system.expertParallel = 4;
  auto latencies = [&](ExpertDispatch dispatch) {
    system.expertDispatch = dispatch;
    system.network.latencyPs = 0;
    int64_t free = ps(firstCost(expertModel(), system), Phase::Forward);
    system.network.latencyPs = 1000;
    return (ps(firstCost(expertModel(), system), Phase::Forward) - free) / 1000;
  };
  // Two all-to-alls: to both ranks of the other node, or to the node.
  EXPECT_EQ(latencies(ExpertDispatch::AllToAll), 2 * 2);
  EXPECT_EQ(latencies(ExpertDispatch::PerNode), 2);
  EXPECT_EQ(latencies(ExpertDispatch::PerRank), 2);
  system.expertBalancePpm = 2 * kEvenBalance;
  EXPECT_EQ(latencies(ExpertDispatch::AllToAll), 2 * 2);
  // Eight nodes with one worker each, in two pods of four: a rank sends to
  // three ranks in its pod and four in the other, or to seven without pods.
  system.accelerators = 1;
  system.dataParallel = 8;
  system.expertParallel = 8;
  system.acceleratorsPerNode = 1;
  ModelFacts model = expertModel();
  model.blocks[0].experts->count = 8;
  auto forward = [&] { return ps(firstCost(model, system), Phase::Forward); };
  system.expertDispatch = ExpertDispatch::AllToAll;
  int64_t before = forward();
  system.network.latencyPs += 1000;
  EXPECT_EQ(forward() - before, 2 * 7 * 1000);
  system.acceleratorsPerPod = 4;
  system.spine = system.network;
  system.spine.latencyPs = 1000000;
  before = forward();
  system.spine.latencyPs += 1000;
  EXPECT_EQ(forward() - before, 2 * 4 * 1000);
}

TEST(ExpertParallel, RecomputeSendsRowsAgain) {
  SystemFacts system = pairOfAccelerators();
  system.expertParallel = 2;
  ModelFacts model = expertModel();
  model.recompute = Recompute::Full;
  StageCost cost = firstCost(model, system);
  EXPECT_EQ(ps(cost, Phase::InputGrad), (800 + 83 + 320 + 83) + 1166);
  EXPECT_EQ(rowsPs(cost, Phase::InputGrad), 2 * 166);
  EXPECT_EQ(rowsPs(cost, Phase::Backward), 2 * 166);
}

/// Each of the four ranks of two workers holds one expert of ten parameters;
/// the other ten parameters are divided by two.
TEST(ExpertParallel, MemoryOfAWorker) {
  SystemFacts system = pairOfAccelerators();
  system.dataParallel = 2;
  system.expertParallel = 4;
  auto memoryOf = [&] {
    return llvm::cantFail(computeMemoryFacts(linear(2), expertModel(), &system))
        .stages.front();
  };
  StageMemory memory = memoryOf();
  EXPECT_EQ(memory.weightBytes, 2 * (10 + 2 * 10));
  EXPECT_EQ(memory.gradientBytes, 2 * (10 + 2 * 10));
  EXPECT_EQ(memory.optimizerBytes, 12 * (10 + 2 * 10));
  EXPECT_EQ(memory.activationBytes, 700);
  // The state of each expert is on one rank, the state of the others on two.
  system.sharding = Sharding::Optimizer;
  EXPECT_EQ(memoryOf().optimizerBytes, 12 * 50 / 2);
  // Room for three rows in the place of two.
  system.expertBalancePpm = 1500000;
  EXPECT_EQ(memoryOf().activationBytes, 700 + 320);
  EXPECT_EQ(memoryOf().inputGradFreedBytes, 700 + 320 - (340 + 160));
}

/// Ranks that divide the widths hold as much of the state as if they divided
/// the experts, and the rows, of 320 of 640 bytes, twice.
TEST(ExpertParallel, MemoryOfDividedWidths) {
  SystemFacts system = pairOfAccelerators();
  system.dataParallel = 2;
  system.expertParallel = 2;
  system.expertTensor = 2;
  auto memoryOf = [&] {
    return llvm::cantFail(computeMemoryFacts(linear(2), expertModel(), &system))
        .stages.front();
  };
  EXPECT_EQ(memoryOf().weightBytes, 2 * (10 + 2 * 10));
  EXPECT_EQ(memoryOf().activationBytes, 700 + 320);
  EXPECT_EQ(memoryOf().inputGradFreedBytes, 700 + 320 - (340 + 160));
  // Half more rows than the mean: 640 + 320 bytes once and a half.
  system.expertBalancePpm = 1500000;
  EXPECT_EQ(memoryOf().activationBytes, 700 - 640 + 960 * 3 / 2);
}

/// Four pipelines of two accelerators; four ranks divide experts, so that two
/// hold the same.
TEST(ExpertParallel, GradientsAreReducedAmongThoseThatHoldThem) {
  SystemFacts system = pairOfAccelerators();
  system.dataParallel = 4;
  system.expertParallel = 4;
  StageCost cost =
      firstCost(expertModel(), system, kSplit | PhaseSet(Phase::AllReduce));
  // The 20 bytes of ten parameters, in rings of four over the network of a
  // worker: 6 messages of 5 bytes, each 10 ps per byte and 7. A worker holds 2
  // x 20 bytes of experts, in rings of two: 2 messages of 20 bytes.
  EXPECT_EQ(ps(cost, Phase::AllReduce), 6 * (50 + 7) + 2 * (200 + 7));
  system.expertParallel = system.expertTensor = 2; // as many ranks as before
  cost = firstCost(expertModel(), system, kSplit | PhaseSet(Phase::AllReduce));
  EXPECT_EQ(ps(cost, Phase::AllReduce), 6 * (50 + 7) + 2 * (200 + 7));
  system.expertTensor = 1;
  system.expertParallel = 8;
  // No two ranks hold the same expert (there are four, so take eight).
  ModelFacts model = expertModel();
  model.blocks[0].experts->count = 8;
  EXPECT_EQ(ps(firstCost(model, system, kSplit | PhaseSet(Phase::AllReduce)),
               Phase::AllReduce),
            6 * (50 + 7));
}

/// Parameters that a worker holds are stepped by it, or by its share of the
/// workers that hold them: per accelerator 2 + 2 + 2 x 12 bytes each.
TEST(ExpertParallel, TheStepIsThatOfWhatIsHeld) {
  SystemFacts system = pairOfAccelerators();
  system.dataParallel = 2;
  system.expertParallel = 4;
  PhaseSet phases = kSplit | PhaseSet(Phase::Optimizer);
  EXPECT_EQ(ps(firstCost(expertModel(), system, phases), Phase::Optimizer),
            28 * (10 + 2 * 10) / 2);
  system.sharding = Sharding::Optimizer;
  EXPECT_EQ(ps(firstCost(expertModel(), system, phases), Phase::Optimizer),
            28 * 50 / 2 / 2);
}

//===----------------------------------------------------------------------===//
// Refused divisions
//===----------------------------------------------------------------------===//

TEST(ExpertParallel, SaysWhatDoesNotDivide) {
  SystemFacts system = pairOfAccelerators();
  system.dataParallel = 3;
  system.expertParallel = 3;
  EXPECT_EQ(errorOf(costsOf(expertModel(), system)),
            "3-way expert parallelism does not divide the 4 experts of block "
            "'layer'; the nearest degrees that do are 2 and 4");
  system.expertParallel = 4;
  EXPECT_EQ(errorOf(costsOf(expertModel(), system)),
            "system 'toy': 4-way expert parallelism does not divide the 6 "
            "accelerators of a stage in all pipelines; the nearest degrees "
            "that do are 3 and 6");
  system.expertParallel = 2;
  system.expertTensor = 2;
  EXPECT_EQ(errorOf(costsOf(expertModel(), system)),
            "system 'toy': 4-way expert and expert tensor parallelism does not "
            "divide the 6 accelerators of a stage in all pipelines; the "
            "nearest degrees that do are 3 and 6");
  system.dataParallel = 4;
  system.sharding = Sharding::Optimizer;
  system.shardGroups = 3;
  EXPECT_EQ(errorOf(costsOf(expertModel(), system)),
            "system 'toy': 3 groups that share state do not divide the 4 "
            "pipelines; the nearest numbers that do are 2 and 4");
  system.shardGroups = 4;
  EXPECT_EQ(errorOf(costsOf(expertModel(), system)),
            "system 'toy': 4-way expert and expert tensor parallelism does not "
            "divide the 2 accelerators of a stage in the pipelines that share "
            "state; the nearest degrees that do are 2");
  system.shardGroups = 1;
  ModelFacts dense = expertModel();
  dense.blocks[0].experts.reset();
  dense.blocks[0].kernels.resize(1);
  EXPECT_EQ(errorOf(costsOf(dense, system)),
            "model 'experts' has no experts for 2-way expert parallelism");
}
