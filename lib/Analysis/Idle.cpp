//===- Idle.cpp - Why workers wait ----------------------------------------===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Splits each gap of a row at the moment from which its end was only a matter
// of communication:
//
//   row      | cell ........ |      gap       | cell
//   producer      | .......... |
//   message                    | queue, V/BW, L |
//                            ^ ^              ^
//                    dependency | communication
//
//===----------------------------------------------------------------------===//

#include "PipeSched/Analysis/TaskEnds.h"

using namespace pipesched;

namespace {

class IdleWalk {
public:
  IdleWalk(const TaskGraph &graph, const TaskTimes &times,
           const Timeline &timeline)
      : graph(graph), times(times), timeline(timeline),
        ends(graph, times, timeline) {}

  IdleTimes run();

private:
  /// Where the walk is in a row.
  struct RowState {
    uint32_t last = TaskGraph::kNone; ///< the last task that held the row
    bool hasBegun = false;            ///< a cell was visited
    /// Since the last cell: not idle time within the row unless another comes.
    int64_t dependencyPs = 0, communicationPs = 0;
  };

  void visit(int64_t worker, uint32_t task);
  void visitCell(int64_t worker, uint32_t task);
  void finish(int64_t worker);
  void splitWait(RowState &row, uint32_t task);
  int64_t onTheWaySincePs(uint32_t task) const;

  const TaskGraph &graph;
  const TaskTimes &times;
  const Timeline &timeline;
  TaskEnds ends;
  IdleTimes idle;
  std::vector<RowState> rows; ///< by worker
};

} // namespace

/// On the queues of the network.
static bool isOnNetwork(TaskKind kind) {
  return kind == TaskKind::Message || kind == TaskKind::AllReduce;
}

/// From when on a transfer was under way: all it needed was there, and it
/// waited for its queue or ran. The makespan for what is no transfer, so that
/// no wait for it is communication.
int64_t IdleWalk::onTheWaySincePs(uint32_t task) const {
  TaskKind kind = graph.kind[task];
  if (kind == TaskKind::Send) // holds its row, not a queue
    return ends.startPs(task);
  if (!isOnNetwork(kind) && kind != TaskKind::Offload &&
      kind != TaskKind::Reload)
    return timeline.makespanPs;
  int64_t readyPs = 0;
  for (Edge edge : graph.edgesOf(task)) {
    TaskKind before = graph.kind[edge.task()];
    bool isSameQueue =
        before == kind || (isOnNetwork(before) && isOnNetwork(kind));
    bool isQueueOrder = isSameQueue && !edge.needsArrival();
    if (!isQueueOrder)
      readyPs = std::max(readyPs, ends.endPs(edge));
  }
  return readyPs;
}

/// Accounts for the time from the last task of a row until `task` starts.
void IdleWalk::splitWait(RowState &row, uint32_t task) {
  int64_t fromPs = ends.releasePs(row.last), startPs = ends.startPs(task);
  if (startPs == fromPs)
    return;
  const Edge *binding = ends.bindingEdge(task);
  int64_t sincePs = onTheWaySincePs(binding->task());
  int64_t splitPs = std::clamp(sincePs, fromPs, startPs);
  row.dependencyPs += splitPs - fromPs;
  row.communicationPs += startPs - splitPs;
}

/// The next task that holds a row. Under `blocking` sends, receives and
/// all-reduces stand between the cells.
void IdleWalk::visit(int64_t worker, uint32_t task) {
  RowState &row = rows[worker];
  bool isCell = graph.kind[task] == TaskKind::Compute;
  if (!row.hasBegun && !isCell)
    return;
  if (row.hasBegun)
    splitWait(row, task);
  row.last = task;
  if (isCell)
    visitCell(worker, task);
  else
    row.communicationPs += times.occupancyPs[task];
}

void IdleWalk::visitCell(int64_t worker, uint32_t task) {
  RowState &row = rows[worker];
  if (!row.hasBegun)
    idle.fillPs[worker] = idle.firstPs[worker] = ends.startPs(task);
  idle.busyPs[worker] += times.occupancyPs[task];
  idle.dependencyPs[worker] += std::exchange(row.dependencyPs, 0);
  idle.communicationPs[worker] += std::exchange(row.communicationPs, 0);
  idle.lastPs[worker] = ends.releasePs(task);
  row.hasBegun = true;
}

void IdleWalk::finish(int64_t worker) {
  if (!rows[worker].hasBegun) {
    idle.fillPs[worker] = timeline.makespanPs;
    return;
  }
  idle.drainPs[worker] = timeline.makespanPs - idle.lastPs[worker];
}

/// Topological order holds the order of each row, and reads memory from front
/// to back.
IdleTimes IdleWalk::run() {
  int64_t numWorkers = graph.getNumWorkers();
  for (std::vector<int64_t> *column :
       {&idle.busyPs, &idle.fillPs, &idle.drainPs, &idle.dependencyPs,
        &idle.communicationPs, &idle.firstPs, &idle.lastPs, &idle.offloadPs,
        &idle.reloadPs})
    column->assign(numWorkers, 0);
  rows.resize(numWorkers);
  for (uint32_t task = 0; task < graph.size(); ++task) {
    TaskKind kind = graph.kind[task];
    if (kind == TaskKind::Compute || kind == TaskKind::Send ||
        kind == TaskKind::Recv)
      visit(graph.worker[task], task);
    else if (kind == TaskKind::Offload)
      idle.offloadPs[graph.worker[task]] += times.occupancyPs[task];
    else if (kind == TaskKind::Reload)
      idle.reloadPs[graph.worker[task]] += times.occupancyPs[task];
    else if (kind == TaskKind::AllReduce && graph.holdsRows)
      for (int32_t worker : graph.workersOf(graph.peer[task]))
        visit(worker, task);
  }
  for (int64_t worker = 0; worker < numWorkers; ++worker)
    finish(worker);
  return std::move(idle);
}

IdleTimes pipesched::computeIdle(const TaskGraph &graph, const TaskTimes &times,
                                 const Timeline &timeline) {
  return IdleWalk(graph, times, timeline).run();
}
