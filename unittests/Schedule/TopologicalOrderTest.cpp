//===- TopologicalOrderTest.cpp - Depth-first order of an implicit graph --===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Orders of small graphs, and a cycle with nothing but its own nodes.
// Deep chains must not use the call stack.
//
//===----------------------------------------------------------------------===//

#include "PipeSched/Schedule/TopologicalOrder.h"
#include "gtest/gtest.h"

using namespace pipesched;
using Nodes = std::vector<uint32_t>;

static TopologicalOrder order(const std::vector<Nodes> &predecessors) {
  return orderTopologically(predecessors.size(),
                            [&](uint32_t node, uint32_t k, uint32_t &out) {
                              if (k == predecessors[node].size())
                                return false;
                              out = predecessors[node][k];
                              return true;
                            });
}

TEST(TopologicalOrder, PutsPredecessorsFirst) {
  EXPECT_EQ(order({{2, 1}, {}, {1, 3}, {}}).order, Nodes({1, 3, 2, 0}));
}

TEST(TopologicalOrder, ReturnsTheCycleAlone) {
  // 0 waits for 1; 1 for 2, 2 for 3, 3 for 1.
  TopologicalOrder result = order({{1}, {2}, {3}, {1}});
  EXPECT_TRUE(result.isCyclic());
  EXPECT_EQ(result.cycle, Nodes({1, 2, 3}));
  EXPECT_TRUE(result.order.empty());
  EXPECT_EQ(order({{0}}).cycle, Nodes({0}));
}

TEST(TopologicalOrder, FollowsDeepChains) {
  constexpr uint32_t kNumNodes = 1000000;
  TopologicalOrder result = orderTopologically(
      kNumNodes, [](uint32_t node, uint32_t k, uint32_t &out) {
        out = node + 1;
        return k == 0 && node + 1 < kNumNodes;
      });
  ASSERT_EQ(result.order.size(), kNumNodes);
  EXPECT_EQ(result.order.front(), kNumNodes - 1);
}
