//===- TopologicalOrder.h - Depth-first order of an implicit graph -*- C++
//-*-===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Orders nodes so that each comes after its predecessors, or returns the cycle.
// Used on tasks (time, deadlock); tables have the cheaper RowSweep.h.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_SCHEDULE_TOPOLOGICALORDER_H
#define PIPESCHED_SCHEDULE_TOPOLOGICALORDER_H

#include <cstddef>
#include <cstdint>
#include <vector>

namespace pipesched {

/// Either `order` holds all nodes, predecessors first, or `cycle` holds nodes
/// c0, c1, .., ck-1 where each c(i) waits for c(i+1) and the last for c0.
struct TopologicalOrder {
  std::vector<uint32_t> order;
  std::vector<uint32_t> cycle;

  bool isCyclic() const { return !cycle.empty(); }
};

/// Orders nodes 0..numNodes-1. `predecessor(node, k, out)` stores the k-th
/// predecessor of a node in `out` and returns true, or returns false past the
/// last one. Iterative depth-first search from node 0 upward; O(nodes + edges);
/// the result depends on nothing but the graph.
///
///   stack:   n0 -> n1 -> n2      each entry waits for the one after it
///   state:   0 new, 1 on the stack, 2 ordered
///
/// A predecessor found on the stack closes a cycle.
template <typename Predecessor>
TopologicalOrder orderTopologically(uint32_t numNodes,
                                    Predecessor &&predecessor) {
  enum : uint8_t { New, OnStack, Ordered };
  struct Frame {
    uint32_t node, next;
  };
  TopologicalOrder result;
  result.order.reserve(numNodes);
  std::vector<uint8_t> state(numNodes, New);
  std::vector<Frame> stack;
  for (uint32_t root = 0; root < numNodes; ++root) {
    if (state[root] != New)
      continue;
    state[root] = OnStack;
    stack.push_back({root, 0});
    while (!stack.empty()) {
      Frame &top = stack.back();
      uint32_t pred;
      if (!predecessor(top.node, top.next++, pred)) {
        state[top.node] = Ordered;
        result.order.push_back(top.node);
        stack.pop_back();
        continue;
      }
      if (state[pred] == Ordered)
        continue;
      if (state[pred] == OnStack) {
        std::size_t first = stack.size();
        while (stack[--first].node != pred)
          ;
        for (std::size_t i = first; i < stack.size(); ++i)
          result.cycle.push_back(stack[i].node);
        result.order.clear();
        return result;
      }
      state[pred] = OnStack;
      stack.push_back({pred, 0});
    }
  }
  return result;
}

} // namespace pipesched

#endif // PIPESCHED_SCHEDULE_TOPOLOGICALORDER_H
