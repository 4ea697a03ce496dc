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

#include "TaskEnds.h"

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
  void collectGroups();
  void visit(int64_t worker, uint32_t task);
  void finish(int64_t worker);
  void splitGap(int64_t worker, uint32_t before, uint32_t after);
  void splitWait(int64_t worker, uint32_t task, int64_t fromPs);
  int64_t onTheWaySincePs(uint32_t task) const;
  uint32_t aheadInRow(int64_t worker, uint32_t task, uint32_t before) const;

  const TaskGraph &graph;
  const TaskTimes &times;
  const Timeline &timeline;
  TaskEnds ends;
  IdleTimes idle;
  std::vector<uint32_t> lastTasks; ///< the row's last visited, by worker
  /// The workers of each all-reduce, in topological order.
  std::vector<std::pair<uint32_t, int32_t>> groups;
};

} // namespace

/// From when on a transfer was under way: all it needed was there, and it
/// waited for its queue or ran. The makespan for what is no transfer, so that
/// no wait for it is communication.
int64_t IdleWalk::onTheWaySincePs(uint32_t task) const {
  TaskKind kind = graph.kind[task];
  if (kind == TaskKind::Send) // holds its row, not a queue
    return ends.startPs(task);
  if (kind != TaskKind::Message && kind != TaskKind::Offload &&
      kind != TaskKind::Reload)
    return timeline.makespanPs;
  int64_t readyPs = 0;
  for (Edge edge : graph.edgesOf(task)) {
    bool isQueueOrder = graph.kind[edge.task()] == kind && !edge.needsArrival();
    if (!isQueueOrder)
      readyPs = std::max(readyPs, ends.endPs(edge));
  }
  return readyPs;
}

/// Accounts for the time from `fromPs` until `task` starts.
void IdleWalk::splitWait(int64_t worker, uint32_t task, int64_t fromPs) {
  int64_t startPs = ends.startPs(task);
  if (startPs == fromPs)
    return;
  const Edge *binding = ends.bindingEdge(task);
  int64_t sincePs = onTheWaySincePs(binding->task());
  int64_t splitPs = std::clamp(sincePs, fromPs, startPs);
  idle.dependencyPs[worker] += splitPs - fromPs;
  idle.communicationPs[worker] += startPs - splitPs;
}

/// The task ahead of `task` in the row of a worker; `before` is the cell that
/// all of them follow.
uint32_t IdleWalk::aheadInRow(int64_t worker, uint32_t task,
                              uint32_t before) const {
  llvm::ArrayRef<Edge> edges = graph.edgesOf(task);
  if (graph.kind[task] != TaskKind::AllReduce)
    return edges.front().task();
  // An all-reduce stands in several rows and has one edge for each.
  for (Edge edge : edges) {
    TaskKind kind = graph.kind[edge.task()];
    bool isInRow = kind == TaskKind::Send || kind == TaskKind::Recv;
    if (edge.task() == before ||
        (isInRow && graph.worker[edge.task()] == worker))
      return edge.task();
  }
  llvm_unreachable("row neighbours have an edge");
}

/// Accounts for the gap between two neighbouring cells. Under `blocking` sends
/// and receives stand between them; they are walked from the last to the first.
void IdleWalk::splitGap(int64_t worker, uint32_t before, uint32_t after) {
  if (ends.startPs(after) == ends.releasePs(before))
    return;
  for (uint32_t task = after; task != before;) {
    uint32_t ahead = aheadInRow(worker, task, before);
    splitWait(worker, task, ends.releasePs(ahead));
    if (ahead != before)
      idle.communicationPs[worker] += times.occupancyPs[ahead];
    task = ahead;
  }
}

void IdleWalk::collectGroups() {
  if (!llvm::is_contained(graph.kind, TaskKind::AllReduce))
    return;
  for (int32_t worker = 0; worker < graph.getNumWorkers(); ++worker)
    for (uint32_t task : graph.row(worker))
      if (graph.kind[task] == TaskKind::AllReduce)
        groups.emplace_back(task, worker);
  llvm::sort(groups);
}

/// The next task of a row.
void IdleWalk::visit(int64_t worker, uint32_t task) {
  bool isCompute = graph.kind[task] == TaskKind::Compute;
  (isCompute ? idle.busyPs : idle.communicationPs)[worker] +=
      times.occupancyPs[task];
  uint32_t &lastTask = lastTasks[worker];
  if (lastTask == TaskGraph::kNone)
    idle.fillPs[worker] = idle.firstPs[worker] = ends.startPs(task);
  else
    splitGap(worker, lastTask, task);
  lastTask = task;
}

void IdleWalk::finish(int64_t worker) {
  if (lastTasks[worker] == TaskGraph::kNone) {
    idle.fillPs[worker] = timeline.makespanPs;
    return;
  }
  idle.lastPs[worker] = ends.releasePs(lastTasks[worker]);
  idle.drainPs[worker] = timeline.makespanPs - idle.lastPs[worker];
}

/// Topological order holds the order of each row, and reads memory from front
/// to back.
IdleTimes IdleWalk::run() {
  int64_t numWorkers = graph.getNumWorkers();
  for (std::vector<int64_t> *column :
       {&idle.busyPs, &idle.fillPs, &idle.drainPs, &idle.dependencyPs,
        &idle.communicationPs, &idle.firstPs, &idle.lastPs})
    column->assign(numWorkers, 0);
  lastTasks.assign(numWorkers, TaskGraph::kNone);
  collectGroups();
  auto member = groups.begin();
  for (uint32_t task = 0; task < graph.size(); ++task) {
    if (graph.kind[task] == TaskKind::Compute)
      visit(graph.worker[task], task);
    for (; member != groups.end() && member->first == task; ++member)
      visit(member->second, task);
  }
  for (int64_t worker = 0; worker < numWorkers; ++worker)
    finish(worker);
  return std::move(idle);
}

IdleTimes pipesched::computeIdle(const TaskGraph &graph, const TaskTimes &times,
                                 const Timeline &timeline) {
  return IdleWalk(graph, times, timeline).run();
}
