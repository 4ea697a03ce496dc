//===- TopologicalOrderTest.cpp - Depth-first order of an implicit graph --===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Orders of small graphs, and cycles that contain only their own nodes. Deep
// chains must not need a deep call stack.
//
//===----------------------------------------------------------------------===//

#include "PipeSched/Schedule/Walk/TopologicalOrder.h"
#include "gtest/gtest.h"

using namespace pipesched;
using Nodes = std::vector<uint32_t>;

namespace {
struct Edge {
  uint32_t node;
};
struct Visit {
  uint32_t node;
  Nodes positions; ///< of the nodes that it waits for
};
} // namespace

static TopologicalOrder order(const std::vector<Nodes> &predecessors,
                              std::vector<Visit> &visits) {
  return orderTopologically<Edge>(
      predecessors.size(),
      [&](uint32_t node, std::vector<Edge> &edges) {
        for (uint32_t predecessor : predecessors[node])
          edges.push_back({predecessor});
      },
      [&](uint32_t node, llvm::ArrayRef<Edge> edges) {
        Visit &visit = visits.emplace_back(Visit{node, {}});
        for (Edge edge : edges)
          visit.positions.push_back(edge.node);
      });
}

TEST(TopologicalOrder, VisitsPredecessorsFirst) {
  std::vector<Visit> visits;
  TopologicalOrder result = order({{2, 1}, {}, {1, 3}, {}}, visits);
  EXPECT_EQ(result.positions, Nodes({3, 0, 2, 1}));
  ASSERT_EQ(visits.size(), 4u);
  for (uint32_t position = 0; position < 4; ++position)
    EXPECT_EQ(result.positions[visits[position].node], position);
  // Node 2 waits for 1 and 3, node 0 for 2 and 1, in the order of their lists.
  EXPECT_EQ(visits[2].positions, Nodes({0, 1}));
  EXPECT_EQ(visits[3].positions, Nodes({2, 0}));
}

TEST(TopologicalOrder, ReturnsTheCycleAlone) {
  // 0 waits for 1; 1 for 2, 2 for 3, 3 for 1.
  std::vector<Visit> visits;
  TopologicalOrder result = order({{1}, {2}, {3}, {1}}, visits);
  EXPECT_TRUE(result.isCyclic());
  EXPECT_EQ(result.cycle, Nodes({1, 2, 3}));
  EXPECT_TRUE(result.positions.empty());
  EXPECT_TRUE(visits.empty());
  EXPECT_EQ(order({{0}}, visits).cycle, Nodes({0}));
}

TEST(TopologicalOrder, FollowsDeepChains) {
  constexpr uint32_t kNumNodes = 1000000;
  uint32_t numVisited = 0;
  TopologicalOrder result = orderTopologically<Edge>(
      kNumNodes,
      [](uint32_t node, std::vector<Edge> &edges) {
        if (node + 1 < kNumNodes)
          edges.push_back({node + 1});
      },
      [&](uint32_t, llvm::ArrayRef<Edge>) { ++numVisited; });
  ASSERT_EQ(numVisited, kNumNodes);
  EXPECT_EQ(result.positions.front(), kNumNodes - 1);
  EXPECT_EQ(result.positions.back(), 0u);
}
