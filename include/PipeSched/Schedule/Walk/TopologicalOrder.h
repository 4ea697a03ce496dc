//===- TopologicalOrder.h - Order a graph or find its cycle -----*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Visits nodes so that each comes after its predecessors, or returns a cycle.
// Lists the edges of a node once, and frees them after its visit.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_SCHEDULE_WALK_TOPOLOGICALORDER_H
#define PIPESCHED_SCHEDULE_WALK_TOPOLOGICALORDER_H

#include "llvm/ADT/ArrayRef.h"
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

namespace pipesched {

/// The result: if `cycle` is empty, `positions` has for each node the number of
/// nodes visited before it. Otherwise `cycle` has nodes c0, c1, .., ck-1, where
/// each c(i) waits for c(i+1) and the last waits for c0.
struct TopologicalOrder {
  std::vector<uint32_t> positions;
  std::vector<uint32_t> cycle;

  bool isCyclic() const { return !cycle.empty(); }
};

/// Orders nodes 0..numNodes-1 by an iterative depth-first search from node 0
/// upward. O(nodes + edges); the result depends only on the graph.
///
/// `listEdges(node, edges)` appends the edges of a node to a vector of Edge,
/// whose member `node` is a predecessor. `visit(node, edges)` receives them
/// after all predecessors were visited; the member `node` of each edge is then
/// the position of the predecessor. Nodes that wait for a cycle are not
/// visited.
///
///   stack   n0 ---------> n1 -------> n2       each waits for the one after it
///   edges   | of n0 ...   | of n1 ... | of n2 ...
///
/// A predecessor that is on the stack closes a cycle.
template <typename Edge, typename ListEdges, typename Visit>
TopologicalOrder orderTopologically(uint32_t numNodes, ListEdges &&listEdges,
                                    Visit &&visit) {
  constexpr uint32_t isNew = std::numeric_limits<uint32_t>::max();
  constexpr uint32_t isOnStack = isNew - 1;
  struct Frame {
    uint32_t node;
    std::size_t firstEdge, nextEdge;
  };
  TopologicalOrder result;
  result.positions.assign(numNodes, isNew);
  std::vector<Frame> stack;
  std::vector<Edge> edges;
  uint32_t numVisited = 0;
  auto push = [&](uint32_t node) {
    result.positions[node] = isOnStack;
    stack.push_back({node, edges.size(), edges.size()});
    listEdges(node, edges);
  };
  for (uint32_t root = 0; root < numNodes; ++root) {
    if (result.positions[root] != isNew)
      continue;
    push(root);
    while (!stack.empty()) {
      Frame &top = stack.back();
      if (top.nextEdge == edges.size()) {
        visit(top.node, llvm::ArrayRef(edges).drop_front(top.firstEdge));
        result.positions[top.node] = numVisited++;
        edges.resize(top.firstEdge);
        stack.pop_back();
        continue;
      }
      Edge &edge = edges[top.nextEdge];
      uint32_t position = result.positions[edge.node];
      if (position == isNew) {
        push(edge.node); // push it, then visit this edge again
        continue;
      }
      if (position == isOnStack) {
        std::size_t first = stack.size();
        while (stack[--first].node != edge.node)
          ;
        for (std::size_t i = first; i < stack.size(); ++i)
          result.cycle.push_back(stack[i].node);
        result.positions.clear();
        return result;
      }
      edge.node = position;
      ++top.nextEdge;
    }
  }
  return result;
}

} // namespace pipesched

#endif // PIPESCHED_SCHEDULE_WALK_TOPOLOGICALORDER_H
