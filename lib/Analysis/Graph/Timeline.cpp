//===- Timeline.cpp - Level 3: times of all tasks -------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Finds the longest path to every task in one sweep.
//
//===----------------------------------------------------------------------===//

#include "PipeSched/Analysis/Graph/TaskEnds.h"

using namespace pipesched;

bool pipesched::isQueueOrder(const TaskGraph &graph, uint32_t task, Edge edge) {
  QueueSet queues = queuesOf(graph.kind[task], graph.transport);
  QueueSet before = queuesOf(graph.kind[edge.task()], graph.transport);
  return !edge.needsArrival() && queues.intersects(before);
}

uint32_t pipesched::pairThatSends(const TaskGraph &graph, uint32_t message) {
  for (Edge edge : graph.edgesOf(message)) {
    uint32_t task = edge.task();
    if (graph.kind[task] != InstructionKind::Compute ||
        graph.worker[task] != graph.worker[message] ||
        !graph.cell[task].overlapsNext())
      continue;
    for (Cell half : {graph.cell[task], graph.overlapped[task]})
      if (half.withOverlap(false) == graph.cell[message].withOverlap(false))
        return task;
  }
  return TaskGraph::kNone;
}

bool pipesched::mayStartAhead(const TaskGraph &graph, uint32_t task,
                              Edge edge) {
  return graph.isMessage(task) ? edge.task() == pairThatSends(graph, task)
                               : !isQueueOrder(graph, task, edge);
}

/// The start of a task that may start before all its dependences have ended. It
/// still keeps its place in its queue.
static int64_t startAhead(const TaskGraph &graph, const TaskTimes &times,
                          const Timeline &timeline, uint32_t task,
                          int64_t aheadPs) {
  int64_t start = 0;
  TaskEnds ends(graph, times, timeline);
  for (Edge edge : graph.edgesOf(task))
    start =
        std::max(start, ends.endPs(edge) -
                            (mayStartAhead(graph, task, edge) ? aheadPs : 0));
  return start;
}

Timeline pipesched::computeTimeline(const TaskGraph &graph,
                                    const TaskTimes &times) {
  Timeline timeline;
  timeline.startPs.resize(graph.size());
  int64_t *startPs = timeline.startPs.data();
  const int64_t *occupancyPs = times.occupancyPs.data();
  const int64_t *latencyPs = times.latencyPs.data();
  const Edge *edge = graph.edges.data();
  auto ahead = times.aheadPs.begin(), lastAhead = times.aheadPs.end();
  for (uint32_t task = 0, numTasks = graph.size(); task < numTasks; ++task) {
    const Edge *end = graph.edges.data() + graph.edgeBegins[task + 1];
    int64_t start = 0;
    for (; edge != end; ++edge) {
      uint32_t before = edge->task();
      // A mask with all bits set or none avoids branches in the inner loop.
      int64_t mask = -static_cast<int64_t>(edge->needsArrival());
      start = std::max(start, startPs[before] + occupancyPs[before] +
                                  (latencyPs[before] & mask));
    }
    if (LLVM_UNLIKELY(ahead != lastAhead && ahead->first == task))
      start = startAhead(graph, times, timeline, task, ahead++->second);
    startPs[task] = start;
    timeline.makespanPs = std::max(timeline.makespanPs,
                                   start + occupancyPs[task] + latencyPs[task]);
  }
  return timeline;
}

static bool isCommunication(InstructionKind kind) {
  InstructionRole role = traitsOf(kind).role;
  return role == InstructionRole::Message ||
         role == InstructionRole::Collective;
}

/// The longest path with free communication. No other task has latency, so one
/// end time per task suffices.
static int64_t sweepWithoutCommunication(const TaskGraph &graph,
                                         const TaskTimes &times) {
  std::vector<int64_t> endPs(graph.size());
  int64_t makespanPs = 0;
  for (uint32_t task = 0; task < graph.size(); ++task) {
    int64_t startPs = 0;
    for (Edge edge : graph.edgesOf(task))
      startPs = std::max(startPs, endPs[edge.task()]);
    endPs[task] =
        startPs +
        (isCommunication(graph.kind[task]) ? 0 : times.occupancyPs[task]);
    makespanPs = std::max(makespanPs, endPs[task]);
  }
  return makespanPs;
}

/// Whether free communication can change the makespan.
static bool hasTimedCommunication(const TaskGraph &graph,
                                  const TaskTimes &times) {
  for (auto [kind, occupancyPs, latencyPs] :
       llvm::zip_equal(graph.kind, times.occupancyPs, times.latencyPs))
    if (isCommunication(kind) && (occupancyPs > 0 || latencyPs > 0))
      return true;
  return false;
}

int64_t pipesched::freeMakespan(const TaskGraph &graph, const TaskTimes &times,
                                const Timeline &timeline) {
  return hasTimedCommunication(graph, times)
             ? sweepWithoutCommunication(graph, times)
             : timeline.makespanPs;
}

//===----------------------------------------------------------------------===//
// Critical path
//
// Walks back from the task that ends last, along the edges that determined when
// each task started.
//===----------------------------------------------------------------------===//

std::vector<uint32_t> pipesched::criticalPath(const TaskGraph &graph,
                                              const TaskTimes &times,
                                              const Timeline &timeline) {
  TaskEnds ends(graph, times, timeline);
  std::vector<uint32_t> path;
  auto rank = [&](uint32_t task) {
    return std::make_pair(!graph.is(task, InstructionRole::Compute),
                          graph.worker[task]);
  };
  uint32_t last = TaskGraph::kNone;
  for (uint32_t task = 0; task < graph.size(); ++task)
    if (ends.arrivalPs(task) == timeline.makespanPs &&
        (last == TaskGraph::kNone || rank(task) <= rank(last)))
      last = task;
  if (last == TaskGraph::kNone)
    return path;
  path.push_back(last);
  while (const Edge *binding = ends.bindingEdge(path.back()))
    path.push_back(binding->task());
  std::reverse(path.begin(), path.end());
  return path;
}

std::vector<PathStep> pipesched::describePath(const TaskGraph &graph,
                                              llvm::ArrayRef<uint32_t> tasks) {
  std::vector<PathStep> steps;
  steps.reserve(tasks.size());
  for (uint32_t task : tasks) {
    PathStep &step = steps.emplace_back();
    step.kind = graph.kind[task];
    step.cell = graph.cell[task].withOverlap(false);
    if (graph.cell[task].overlapsNext())
      step.overlapped = graph.overlapped[task];
  }
  return steps;
}
