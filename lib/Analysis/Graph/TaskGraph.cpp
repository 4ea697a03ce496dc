//===- TaskGraph.cpp - From a program to tasks in topological order -------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Tasks are written in the order in which the topological search visits them,
// so that later sweeps read memory from front to back.
//
//===----------------------------------------------------------------------===//

#include "PipeSched/Analysis/Graph/TaskGraph.h"
#include "InstructionWaits.h"
#include "PipeSched/Schedule/Walk/TopologicalOrder.h"
#include <numeric>

using namespace pipesched;

namespace {

/// A node that another node waits for.
struct NodeEdge {
  uint32_t node;
  bool needsArrival;
};

class GraphBuilder {
public:
  GraphBuilder(const Program &program, Transport transport)
      : program(program), transport(transport), waits(program, transport) {}

  llvm::Expected<TaskGraph> run();

private:
  llvm::Error checkSizes() const;
  void reserve();
  void listEdges(uint32_t node, std::vector<NodeEdge> &edges) const;
  void addTask(uint32_t node, llvm::ArrayRef<NodeEdge> edges);
  void fillGroups();
  void fillRows(llvm::ArrayRef<uint32_t> taskOfNode);

  const Program &program;
  Transport transport;
  InstructionWaits waits;
  TaskGraph graph;
};

} // namespace

llvm::Error GraphBuilder::checkSizes() const {
  if (waits.getNumNodes() > std::numeric_limits<int32_t>::max())
    return llvm::createStringError("the program has %u tasks, more than 2^31-1",
                                   waits.getNumNodes());
  if (waits.getMaxWaits() >= TaskGraph::kNone)
    return llvm::createStringError(
        "the program may have %zu waits, more than 2^32-2",
        waits.getMaxWaits());
  return llvm::Error::success();
}

void GraphBuilder::reserve() {
  uint32_t numTasks = waits.getNumNodes();
  graph.numSlices = program.numSlices;
  graph.cell.reserve(numTasks);
  graph.kind.reserve(numTasks);
  graph.worker.reserve(numTasks);
  graph.peer.reserve(numTasks);
  graph.edgeBegins.reserve(numTasks + 1);
  graph.edges.reserve(waits.getMaxWaits());
}

void GraphBuilder::listEdges(uint32_t node,
                             std::vector<NodeEdge> &edges) const {
  waits.prefetchAfter(node);
  waits.forEach(node, [&](uint32_t, uint32_t awaited, WaitReason reason) {
    bool needsArrival =
        reason == WaitReason::Need &&
        endsWithArrival(program.instructions[awaited].kind, transport);
    edges.push_back({waits.nodeOf(awaited), needsArrival});
  });
}

/// Appends the task of a node, described by its leader. `edges` name tasks.
void GraphBuilder::addTask(uint32_t node, llvm::ArrayRef<NodeEdge> edges) {
  uint32_t leader = waits.leaderOf(node);
  uint32_t second = waits.secondHalfOf(leader);
  bool isPair = second != Program::kNone;
  const Instruction &instruction = program.instructions[leader];
  if (isPair) {
    graph.overlapped.resize(graph.size() + 1);
    graph.overlapped.back() = program.instructions[second].cell;
  }
  graph.cell.push_back(instruction.cell.withOverlap(isPair));
  graph.kind.push_back(instruction.kind);
  graph.worker.push_back(waits.workerOf(node));
  graph.peer.push_back(instruction.peer);
  if (instruction.is(InstructionRole::Collective))
    graph.groupTasks[instruction.peer] = graph.size() - 1;
  for (NodeEdge edge : edges)
    graph.edges.emplace_back(edge.node, edge.needsArrival);
  graph.edgeBegins.push_back(graph.edges.size());
}

/// Lists the members of each group. Rows are read in order, so workers
/// ascend within a group.
void GraphBuilder::fillGroups() {
  struct Member {
    int32_t group, worker;
    Cell cell;
  };
  std::vector<Member> members;
  for (int64_t row = 0; row < program.getNumWorkers(); ++row)
    for (uint32_t i = program.rowBegins[row]; i < program.rowBegins[row + 1];
         ++i)
      if (const Instruction &self = program.instructions[i];
          self.is(InstructionRole::Collective))
        members.push_back({self.peer, int32_t(row), self.cell});
  graph.groupBegins.assign(program.groups.size() + 1, 0);
  for (const Member &member : members)
    ++graph.groupBegins[member.group + 1];
  std::partial_sum(graph.groupBegins.begin(), graph.groupBegins.end(),
                   graph.groupBegins.begin());
  graph.groupWorkers.resize(members.size());
  graph.groupCells.resize(members.size());
  std::vector<uint32_t> next = graph.groupBegins;
  for (const Member &member : members) {
    uint32_t at = next[member.group]++;
    graph.groupWorkers[at] = member.worker;
    graph.groupCells[at] = member.cell;
  }
}

void GraphBuilder::fillRows(llvm::ArrayRef<uint32_t> taskOfNode) {
  graph.taskOfInstruction.reserve(program.instructions.size());
  graph.instructionBegins = program.rowBegins;
  graph.rowBegins.push_back(0);
  for (int64_t row = 0; row < program.getNumWorkers(); ++row) {
    for (uint32_t i = program.rowBegins[row]; i < program.rowBegins[row + 1];
         ++i) {
      uint32_t node = waits.nodeOf(i);
      graph.taskOfInstruction.push_back(
          node == Program::kNone ? TaskGraph::kNone : taskOfNode[node]);
      if (program.instructions[i].is(InstructionRole::Compute) &&
          waits.leaderOf(node) == i)
        graph.rowTasks.push_back(taskOfNode[node]);
    }
    graph.rowBegins.push_back(graph.rowTasks.size());
  }
}

llvm::Expected<TaskGraph> GraphBuilder::run() {
  if (llvm::Error error = checkSizes())
    return std::move(error);
  reserve();
  graph.transport = transport;
  graph.groups = program.groups;
  graph.groupTasks.assign(program.groups.size(), TaskGraph::kNone);
  graph.edgeBegins.push_back(0);
  TopologicalOrder order = orderTopologically<NodeEdge>(
      waits.getNumNodes(),
      [&](uint32_t node, std::vector<NodeEdge> &edges) {
        listEdges(node, edges);
      },
      [&](uint32_t node, llvm::ArrayRef<NodeEdge> edges) {
        addTask(node, edges);
      });
  if (order.isCyclic())
    return llvm::make_error<DeadlockError>(program,
                                           explainCycle(waits, order.cycle));
  if (!graph.overlapped.empty())
    graph.overlapped.resize(graph.size());
  fillRows(order.positions);
  if (!program.groups.empty())
    fillGroups();
  return std::move(graph);
}

llvm::Expected<TaskGraph> pipesched::buildTaskGraph(const Program &program,
                                                    Transport transport) {
  return GraphBuilder(program, transport).run();
}
