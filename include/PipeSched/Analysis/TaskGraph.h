//===- TaskGraph.h - Tasks and what they wait for ---------------*- C++ -*-===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Built from a Program under a transport; topologically ordered, so that time
// is one sweep. Linear in instructions and operands.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_ANALYSIS_TASKGRAPH_H
#define PIPESCHED_ANALYSIS_TASKGRAPH_H

#include "PipeSched/Facts/StageCosts.h"
#include "PipeSched/Schedule/Deadlock.h"
#include "PipeSched/Schedule/Placement.h"
#include "PipeSched/Schedule/Transport.h"

namespace pipesched {

/// An edge to a predecessor: after its release (start + occupancy: the queue is
/// free again) or after its arrival (release + latency: the data is there).
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
/// A task that stands in a row behind another has that one as its first edge.
/// An all-reduce is one task, with the cell and the worker of the first of its
/// group: it starts when all of them are ready. It runs on the network, beside
/// the compute of its workers, unless messages hold rows.
struct TaskGraph {
  static constexpr uint32_t kNone = Program::kNone;

  std::vector<Cell> cell; ///< messages: the cell that produced it
  /// A Send stands for its Recv as well unless messages hold rows; only then
  /// are there Recvs. No task is a Wait.
  std::vector<InstructionKind> kind;
  std::vector<int32_t> worker; ///< messages: the source; a Recv: its own
  /// Send: the destination; Recv: the source; all-reduces: their number; else
  /// -1.
  std::vector<int32_t> peer;
  std::vector<uint32_t> edgeBegins;
  std::vector<Edge> edges;
  /// Second cell of an overlapped pair, by task, where cell[] has the overlap
  /// bit; empty where no pair occurs.
  std::vector<Cell> overlapped;
  /// Compute tasks of each worker in row order: CSR.
  std::vector<uint32_t> rowBegins, rowTasks;
  /// By number of the all-reduce: its task, its blocks, and its workers in
  /// ascending order, CSR.
  std::vector<uint32_t> reductions;
  std::vector<BlockSpan> reducedBlocks;
  std::vector<uint32_t> groupBegins = {0};
  std::vector<int32_t> groupWorkers;
  Transport transport = Transport::Overlap; ///< that it was built for
  /// Task of each instruction (a message for both its Send and Recv; kNone for
  /// Wait), for annotation.
  std::vector<uint32_t> taskOfInstruction;

  uint32_t size() const { return cell.size(); }
  bool is(uint32_t task, InstructionRole role) const {
    return traitsOf(kind[task]).role == role;
  }
  /// It runs in the row of its worker, not beside it.
  bool holdsRow(uint32_t task) const {
    return pipesched::holdsRow(kind[task], transport);
  }
  /// A Send; with its Recv where both are one task.
  bool isMessage(uint32_t task) const {
    return kind[task] == InstructionKind::Send;
  }
  /// Its end is the arrival of a message.
  bool deliversMessage(uint32_t task) const {
    return kind[task] == InstructionKind::Recv ||
           (isMessage(task) && areMessagesMerged(transport));
  }
  int64_t getNumWorkers() const { return rowBegins.size() - 1; }
  llvm::ArrayRef<uint32_t> row(int64_t worker) const {
    return llvm::ArrayRef(rowTasks).slice(
        rowBegins[worker], rowBegins[worker + 1] - rowBegins[worker]);
  }
  llvm::ArrayRef<int32_t> workersOf(int32_t reduction) const {
    return llvm::ArrayRef(groupWorkers)
        .slice(groupBegins[reduction],
               groupBegins[reduction + 1] - groupBegins[reduction]);
  }
  llvm::ArrayRef<Edge> edgesOf(uint32_t task) const {
    return llvm::ArrayRef(edges).slice(edgeBegins[task],
                                       edgeBegins[task + 1] - edgeBegins[task]);
  }
};

/// Builds the graph. Every Send and Recv has its partner, and operands are
/// earlier instructions of the row other than a Wait (readers check both).
/// Errors: DeadlockError; more than 2^31 - 1 tasks or edges over 2^32 - 2.
llvm::Expected<TaskGraph> buildTaskGraph(const Program &program,
                                         Transport transport);

/// Occupancy and latency of each task in ps, from prices by global stage.
/// Errors: sums that could overflow int64, naming the largest.
struct TaskTimes {
  std::vector<int64_t> occupancyPs;
  std::vector<int64_t> latencyPs;
};
llvm::Expected<TaskTimes> computeTaskTimes(const TaskGraph &graph,
                                           const Placement &placement,
                                           const StageCosts &stageCosts,
                                           Transport transport);

} // namespace pipesched

#endif // PIPESCHED_ANALYSIS_TASKGRAPH_H
