//===- TaskGraph.h - Tasks and their dependences ----------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The tasks of a Program under a transport, in topological order, so that one
// sweep finds all start times. Linear in instructions and operands.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_ANALYSIS_GRAPH_TASKGRAPH_H
#define PIPESCHED_ANALYSIS_GRAPH_TASKGRAPH_H

#include "PipeSched/Facts/StageCosts.h"
#include "PipeSched/Schedule/Kinds/Transport.h"
#include "PipeSched/Schedule/Program/Deadlock.h"
#include "PipeSched/Schedule/Table/Placement.h"

namespace pipesched {

/// An edge to a predecessor. The task starts after the predecessor's release
/// (start + occupancy: the queue is free again) or after its arrival (release +
/// latency: the data is there).
class Edge {
public:
  Edge() = default;
  Edge(uint32_t task, bool needsArrival)
      : bits(task << 1 | unsigned(needsArrival)) {}
  uint32_t task() const { return bits >> 1; }
  bool needsArrival() const { return bits & 1; }

private:
  uint32_t bits = 0;
};

/// Structure of arrays; index = position in topological order.
///
///   task   0   1   2   3        cell[], kind[], worker[], peer[]
///          |   |  / \  |
///   edges  .   0 0   1 2        CSR: edges[edgeBegins[t] .. edgeBegins[t+1])
///
/// The first edge of a task leads to the task before it in its row, if there is
/// one. A group is one task, with the cell and the worker of its first
/// instruction: it starts when all of its members are ready. An all-reduce runs
/// on the network, alongside the compute of its workers, unless messages hold
/// rows.
struct TaskGraph {
  static constexpr uint32_t kNone = Program::kNone;

  std::vector<Cell> cell; ///< for a message: the cell that produced it
  /// A Send and its Recv are one task of kind Send; the Recv is a separate task
  /// only if messages hold rows. No task is a Wait.
  std::vector<InstructionKind> kind;
  /// For a Send: the source; for a Recv: the worker that receives.
  std::vector<int32_t> worker;
  /// Send: the destination; Recv: the source; a collective: its group, an index
  /// into Program::groups; else -1.
  std::vector<int32_t> peer;
  std::vector<uint32_t> edgeBegins;
  std::vector<Edge> edges;
  /// By task: the second cell of an overlapped pair, valid if cell[] has the
  /// overlap bit. Empty if the program has no pairs.
  std::vector<Cell> overlapped;
  /// Compute tasks of each worker in row order: CSR.
  std::vector<uint32_t> rowBegins, rowTasks;
  /// By group: its name, its task, and its members by ascending worker (CSR):
  /// the workers, and the cells with which they take part.
  std::vector<GroupName> groups;
  std::vector<uint32_t> groupTasks;
  std::vector<uint32_t> groupBegins = {0};
  std::vector<int32_t> groupWorkers;
  std::vector<Cell> groupCells;
  Transport transport =
      Transport::Overlap; ///< transport for which the graph was built
  /// Task of each instruction, for annotation: a merged Send and Recv have the
  /// same task, a Wait has kNone.
  std::vector<uint32_t> taskOfInstruction;
  /// Index in taskOfInstruction at which the instructions of each worker start,
  /// and the end of the last.
  std::vector<uint32_t> instructionBegins;
  int64_t numSlices = 1; ///< of a microbatch

  CellName nameOf(Cell other) const { return {other, numSlices}; }
  uint32_t size() const { return cell.size(); }
  bool is(uint32_t task, InstructionRole role) const {
    return traitsOf(kind[task]).role == role;
  }
  /// Whether the task runs in the row of its worker, not on a separate queue.
  bool holdsRow(uint32_t task) const {
    return pipesched::holdsRow(kind[task], transport);
  }
  /// Whether the task is a Send, which includes its Recv if both are one task.
  bool isMessage(uint32_t task) const {
    return kind[task] == InstructionKind::Send;
  }
  /// Whether the end of the task is the arrival of a message.
  bool deliversMessage(uint32_t task) const {
    return kind[task] == InstructionKind::Recv ||
           (isMessage(task) && areMessagesMerged(transport));
  }
  int64_t getNumWorkers() const { return rowBegins.size() - 1; }
  llvm::ArrayRef<uint32_t> row(int64_t worker) const {
    return llvm::ArrayRef(rowTasks).slice(
        rowBegins[worker], rowBegins[worker + 1] - rowBegins[worker]);
  }
  llvm::ArrayRef<int32_t> workersOf(int32_t group) const {
    return llvm::ArrayRef(groupWorkers)
        .slice(groupBegins[group], groupBegins[group + 1] - groupBegins[group]);
  }
  llvm::ArrayRef<Cell> cellsOf(int32_t group) const {
    return llvm::ArrayRef(groupCells)
        .slice(groupBegins[group], groupBegins[group + 1] - groupBegins[group]);
  }
  llvm::ArrayRef<Edge> edgesOf(uint32_t task) const {
    return llvm::ArrayRef(edges).slice(edgeBegins[task],
                                       edgeBegins[task + 1] - edgeBegins[task]);
  }
};

/// Builds the graph. Every Send and Recv must have its partner, every
/// collective its group, and operands must be earlier instructions of the row,
/// but not a Wait (readers check all three). Errors: DeadlockError; more than
/// 2^31 - 1 tasks or 2^32 - 2 edges.
llvm::Expected<TaskGraph> buildTaskGraph(const Program &program,
                                         Transport transport);

/// Occupancy and latency of each task in ps, from costs by global stage.
/// Errors: sums that could overflow int64, naming the largest.
struct TaskTimes {
  std::vector<int64_t> occupancyPs;
  std::vector<int64_t> latencyPs;
  /// Tasks that start before their predecessors have ended, and by how much.
  /// The predecessor in a queue is an exception: they never start before it has
  /// ended.
  std::vector<std::pair<uint32_t, int64_t>> aheadPs;

  int64_t aheadOf(uint32_t task) const {
    auto found = llvm::lower_bound(aheadPs, std::pair(task, int64_t(0)));
    return found != aheadPs.end() && found->first == task ? found->second : 0;
  }
};
llvm::Expected<TaskTimes> computeTaskTimes(const TaskGraph &graph,
                                           const Placement &placement,
                                           const StageCosts &stageCosts,
                                           Transport transport);

} // namespace pipesched

#endif // PIPESCHED_ANALYSIS_GRAPH_TASKGRAPH_H
