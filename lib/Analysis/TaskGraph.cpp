//===- TaskGraph.cpp - From a program to tasks in topological order -------===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Collects the waits of all nodes, orders the nodes and renumbers everything by
// that order, so that later sweeps read memory from front to back.
//
//===----------------------------------------------------------------------===//

#include "PipeSched/Analysis/TaskGraph.h"
#include "InstructionWaits.h"
#include "PipeSched/Schedule/TopologicalOrder.h"

using namespace pipesched;

/// Topological order reads one stream per row, more than hardware prefetches:
/// the loops that follow it ask for what they need this many tasks ahead.
static constexpr std::size_t kLookahead = 16;

namespace {

/// Waits between nodes, before the nodes have their order.
struct NodeEdges {
  std::vector<uint32_t> begins;
  std::vector<Edge> edges;
};

} // namespace

static NodeEdges collectEdges(const Program &program,
                              const InstructionWaits &waits) {
  NodeEdges result;
  uint32_t numNodes = waits.getNumNodes();
  result.begins.reserve(numNodes + 1);
  result.edges.reserve(waits.getMaxWaits());
  result.begins.push_back(0);
  for (uint32_t node = 0; node < numNodes; ++node) {
    waits.forEach(node, [&](uint32_t, uint32_t awaited, bool isQueueOrder) {
      bool needsArrival = !isQueueOrder && program.instructions[awaited].kind ==
                                               InstructionKind::Recv;
      result.edges.emplace_back(waits.nodeOf(awaited), needsArrival);
    });
    result.begins.push_back(result.edges.size());
  }
  return result;
}

static TopologicalOrder orderNodes(const NodeEdges &graph) {
  return orderTopologically(
      graph.begins.size() - 1,
      [&](uint32_t node, uint32_t k, uint32_t &predecessor) {
        uint32_t edge = graph.begins[node] + k;
        if (edge == graph.begins[node + 1])
          return false;
        predecessor = graph.edges[edge].task();
        return true;
      });
}

/// By instruction kind; a Wait is no task, and a Recv no task of its own unless
/// messages block.
static TaskKind taskKind(InstructionKind kind, Transport transport) {
  static constexpr TaskKind kinds[] = {TaskKind::Compute,  TaskKind::Message,
                                       TaskKind::Recv,     TaskKind::Offload,
                                       TaskKind::Reload,   TaskKind::Compute,
                                       TaskKind::AllReduce};
  if (kind == InstructionKind::Send && transport == Transport::Blocking)
    return TaskKind::Send;
  return kinds[static_cast<unsigned>(kind)];
}

static void permuteEdges(const NodeEdges &nodes, llvm::ArrayRef<uint32_t> order,
                         llvm::ArrayRef<uint32_t> taskOfNode,
                         TaskGraph &graph) {
  graph.edgeBegins.resize(order.size() + 1);
  graph.edges.resize(nodes.edges.size());
  llvm::ArrayRef<uint32_t> begins = nodes.begins;
  const Edge *edges = nodes.edges.data();
  Edge *out = graph.edges.data();
  for (std::size_t task = 0; task < order.size(); ++task) {
    if (task + kLookahead < order.size())
      __builtin_prefetch(edges + begins[order[task + kLookahead]]);
    uint32_t node = order[task];
    for (uint32_t e = begins[node]; e < begins[node + 1]; ++e)
      *out++ = Edge(taskOfNode[edges[e].task()], edges[e].needsArrival());
    graph.edgeBegins[task + 1] = out - graph.edges.data();
  }
}

/// What each node's leader says. In topological order, in which the rows are
/// read side by side: row by row, the writes would miss the cache instead.
static void fillTasks(const Program &program, const InstructionWaits &waits,
                      Transport transport, llvm::ArrayRef<uint32_t> order,
                      TaskGraph &graph) {
  std::size_t numTasks = order.size();
  graph.cell.resize(numTasks);
  graph.kind.resize(numTasks);
  graph.worker.resize(numTasks);
  graph.peer.resize(numTasks);
  for (std::size_t task = 0; task < numTasks; ++task) {
    if (task + kLookahead < numTasks)
      __builtin_prefetch(program.instructions.data() +
                         waits.leaderOf(order[task + kLookahead]));
    uint32_t leader = waits.leaderOf(order[task]);
    uint32_t second = waits.secondHalfOf(leader);
    bool isPair = second != Program::kNone;
    const Instruction &instruction = program.instructions[leader];
    graph.cell[task] = instruction.cell.withOverlap(isPair);
    graph.kind[task] = taskKind(instruction.kind, transport);
    graph.worker[task] = waits.workerOf(order[task]);
    graph.peer[task] = instruction.peer;
    if (!isPair)
      continue;
    if (graph.overlapped.empty())
      graph.overlapped.resize(numTasks);
    graph.overlapped[task] = program.instructions[second].cell;
  }
}

static void fillRows(const Program &program, const InstructionWaits &waits,
                     llvm::ArrayRef<uint32_t> taskOfNode, TaskGraph &graph) {
  graph.taskOfInstruction.reserve(program.instructions.size());
  graph.rowBegins.push_back(0);
  for (int64_t row = 0; row < program.getNumWorkers(); ++row) {
    for (uint32_t i = program.rowBegins[row]; i < program.rowBegins[row + 1];
         ++i) {
      uint32_t node = waits.nodeOf(i);
      graph.taskOfInstruction.push_back(
          node == Program::kNone ? TaskGraph::kNone : taskOfNode[node]);
      InstructionKind kind = program.instructions[i].kind;
      if (kind == InstructionKind::AllReduce ||
          (kind == InstructionKind::Compute && waits.leaderOf(node) == i))
        graph.rowTasks.push_back(taskOfNode[node]);
    }
    graph.rowBegins.push_back(graph.rowTasks.size());
  }
}

llvm::Expected<TaskGraph> pipesched::buildTaskGraph(const Program &program,
                                                    Transport transport) {
  InstructionWaits waits(program, transport);
  if (waits.getNumNodes() > std::numeric_limits<int32_t>::max())
    return llvm::createStringError("the program has %u tasks, more than 2^31-1",
                                   waits.getNumNodes());
  NodeEdges nodes = collectEdges(program, waits);
  if (nodes.edges.size() >= TaskGraph::kNone)
    return llvm::createStringError(
        "the program has %zu waits, more than 2^32-2", nodes.edges.size());
  TopologicalOrder order = orderNodes(nodes);
  if (order.isCyclic())
    return llvm::make_error<DeadlockError>(program,
                                           explainCycle(waits, order.cycle));

  std::vector<uint32_t> taskOfNode(order.order.size());
  for (auto [task, node] : llvm::enumerate(order.order))
    taskOfNode[node] = task;
  TaskGraph graph;
  permuteEdges(nodes, order.order, taskOfNode, graph);
  nodes = {};
  fillTasks(program, waits, transport, order.order, graph);
  order = {};
  fillRows(program, waits, taskOfNode, graph);
  return graph;
}
