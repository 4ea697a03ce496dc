//===- Timeline.h - Level 3: times of all tasks -----------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The longest path through the task graph, the tasks on it, and idle time by
// cause. docs/Dialects/RationaleExec.md explains queues and tokens.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_ANALYSIS_GRAPH_TIMELINE_H
#define PIPESCHED_ANALYSIS_GRAPH_TIMELINE_H

#include "PipeSched/Analysis/Graph/TaskGraph.h"
#include "llvm/ADT/BitVector.h"

namespace pipesched {

/// Start of each task in ps; its release is start + occupancy.
struct Timeline {
  std::vector<int64_t> startPs;
  int64_t makespanPs = 0; ///< the last arrival or release of any task
};

/// Finds each start in one sweep in topological order: the latest release or
/// arrival that the edges of the task wait for.
Timeline computeTimeline(const TaskGraph &graph, const TaskTimes &times);

/// Whether an edge leads to the task in front of `task` in a queue that both
/// use.
bool isQueueOrder(const TaskGraph &graph, uint32_t task, Edge edge);

/// Returns the overlapped pair of cells that makes the data of a message; kNone
/// if another cell makes it.
uint32_t pairThatSends(const TaskGraph &graph, uint32_t message);

/// Whether a task that starts ahead (MessageCost::aheadPs) may start before the
/// end of this edge. A message starts ahead only of the pair that sends it; an
/// all-reduce starts ahead of all its predecessors except the task in front of
/// it in a queue.
bool mayStartAhead(const TaskGraph &graph, uint32_t task, Edge edge);

/// Returns the makespan of the same graph if messages and all-reduces took no
/// time.
int64_t freeMakespan(const TaskGraph &graph, const TaskTimes &times,
                     const Timeline &timeline);

/// Returns the tasks of a longest path, first to last. If several tasks end
/// last, the path ends with a compute if possible, then with the task of the
/// lowest worker, then with the last task of that worker. If several edges
/// determine the start of a task, the path follows the first.
std::vector<uint32_t> criticalPath(const TaskGraph &graph,
                                   const TaskTimes &times,
                                   const Timeline &timeline);

/// A task of a path, for callers that do not have the graph.
struct PathStep {
  InstructionKind kind = InstructionKind::Compute;
  Cell cell;                      ///< of a message: the cell that produced it
  std::optional<Cell> overlapped; ///< the second cell of a pair

  friend bool operator==(const PathStep &a, const PathStep &b) {
    return a.kind == b.kind && a.cell == b.cell && a.overlapped == b.overlapped;
  }
};
std::vector<PathStep> describePath(const TaskGraph &graph,
                                   llvm::ArrayRef<uint32_t> tasks);

/// Idle time of each worker by cause, in ps. The causes add up to makespan -
/// busy (docs/CostModel.md, "Why workers idle"):
///
///   fill           before the first cell
///   dependency     the data that the next cell needs was not computed yet
///   queue order    the data was computed, but its message was in a queue
///                  after one that was not ready (head of line)
///   communication  the message was under way, or waited while another one used
///                  the bandwidth; under Blocking also the time in which a
///                  send or an all-reduce of the worker itself holds its row
///   imbalance      the part of dependency and queue order that remains because
///                  the cells of another worker take longer in all
///   weights        in a cell, for parameters that are sharded over peers
///   experts        in a cell, for rows on their way to experts and back
///   context        in a cell, for keys and values of other ranks
///   drain          after the last cell
///
/// Copies to and from the host count like messages, and so do all-reduces. On a
/// measured timeline, time after the last input of a cell has arrived counts
/// like the wait for that input.
struct IdleTimes {
  /// Before `attributeWaits`, waits inside cells count as busy time, and the
  /// last four vectors are empty.
  std::vector<int64_t> busyPs, fillPs, drainPs, dependencyPs, queueOrderPs,
      communicationPs, imbalancePs, weightsPs, expertsPs, contextPs;
  /// Start of the first cell and end of the last, by worker; 0 without cells.
  std::vector<int64_t> firstPs, lastPs;
  /// Busy time of the copy queues, which run alongside the cells.
  std::vector<int64_t> offloadPs, reloadPs;

  /// The time in which cells of a worker run, computing or waiting.
  int64_t cellsPs(int64_t worker) const {
    return busyPs[worker] + weightsPs[worker] + expertsPs[worker] +
           contextPs[worker];
  }
};

/// A cause of idle time: its key in reports and tables, and its member of
/// IdleTimes.
struct IdleCause {
  llvm::StringLiteral key;
  std::vector<int64_t> IdleTimes::*ps;
};
/// All causes, in the order in which reports show them.
inline constexpr IdleCause kIdleCauses[] = {
    {"fill", &IdleTimes::fillPs},
    {"drain", &IdleTimes::drainPs},
    {"dependency", &IdleTimes::dependencyPs},
    {"queue_order", &IdleTimes::queueOrderPs},
    {"communication", &IdleTimes::communicationPs},
    {"imbalance", &IdleTimes::imbalancePs},
    {"weights", &IdleTimes::weightsPs},
    {"experts", &IdleTimes::expertsPs},
    {"context", &IdleTimes::contextPs},
};
inline constexpr unsigned kNumIdleCauses = std::size(kIdleCauses);

/// Computes idle times, without waits inside cells and without imbalance.
/// Linear in tasks and edges.
IdleTimes computeIdle(const TaskGraph &graph, const TaskTimes &times,
                      const Timeline &timeline);

/// Resources that move data of cells other than messages between stages.
inline constexpr Resource kExchanged[] = {Resource::Experts, Resource::Sharding,
                                          Resource::Context};

/// Totals: the number of messages and copies; the bytes that each worker sends
/// in messages, in all-reduces and for sharded parameters; and the bytes that
/// its cells send to experts, to peers with parameter shards, and to the other
/// ranks of a sequence. The bytes of cells are not part of bytesSent.
struct Traffic {
  explicit Traffic(int64_t numWorkers = 0);

  /// Adds the waits and the traffic of `count` cells. Rows of experts are not
  /// included, because they depend on pairs. Returns false if a sum exceeds
  /// int64.
  [[nodiscard]] bool addWaits(int64_t worker, llvm::ArrayRef<Segment> cell,
                              int64_t count);

  int64_t messages = 0, copies = 0;
  std::vector<int64_t> bytesSent;
  /// By worker, for the resources of kExchanged.
  ResourceMap<std::vector<Exchange>> exchanges;
};

/// Completes idle times of computeIdle or of a walk. Subtracts the waits inside
/// cells from their running time, and imbalance from waits between cells.
/// Imbalance is the longest total time of the cells of any worker, minus the
/// total time of this worker's cells; no order of the same cells avoids it. It
/// is taken from dependency first, then from queue order. Linear in workers.
void attributeWaits(const Traffic &traffic, IdleTimes &idle);

/// Sums the traffic of a graph. `stated` are the tasks of computes whose times
/// do not come from the costs; such a time does not show which data the cell
/// waits for. Errors: bytes or times over int64.
llvm::Expected<Traffic> computeTraffic(const TaskGraph &graph,
                                       const Placement &placement,
                                       const StageCosts &stageCosts,
                                       const llvm::BitVector &stated = {});

} // namespace pipesched

#endif // PIPESCHED_ANALYSIS_GRAPH_TIMELINE_H
