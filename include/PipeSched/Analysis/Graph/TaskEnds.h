//===- TaskEnds.h - Ends of timed tasks and binding edges -------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// For a finished timeline: when a task ends, and which edge determined its
// start.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_ANALYSIS_GRAPH_TASKENDS_H
#define PIPESCHED_ANALYSIS_GRAPH_TASKENDS_H

#include "PipeSched/Analysis/Graph/Timeline.h"
#include "llvm/ADT/STLExtras.h"

namespace pipesched {

class TaskEnds {
public:
  TaskEnds(const TaskGraph &graph, const TaskTimes &times,
           const Timeline &timeline)
      : graph(graph), times(times), timeline(timeline) {}

  int64_t startPs(uint32_t task) const { return timeline.startPs[task]; }
  int64_t releasePs(uint32_t task) const {
    return timeline.startPs[task] + times.occupancyPs[task];
  }
  int64_t arrivalPs(uint32_t task) const {
    return releasePs(task) + times.latencyPs[task];
  }
  int64_t endPs(Edge edge) const {
    return edge.needsArrival() ? arrivalPs(edge.task())
                               : releasePs(edge.task());
  }
  /// Returns the first edge that ends when the task starts; null if the task
  /// waited for nothing. If the task may start ahead, its edges count as ended
  /// that much earlier.
  const Edge *bindingEdge(uint32_t task) const {
    llvm::ArrayRef<Edge> edges = graph.edgesOf(task);
    int64_t aheadPs = times.aheadOf(task);
    auto binds = [&](Edge edge) {
      int64_t early =
          aheadPs != 0 && mayStartAhead(graph, task, edge) ? aheadPs : 0;
      return endPs(edge) - early == startPs(task);
    };
    const Edge *binding = llvm::find_if(edges, binds);
    return binding == edges.end() ? nullptr : binding;
  }
  /// Returns the first of the edges that end last; null if there are no edges.
  /// On a computed timeline it is the binding edge of a task that waited. On a
  /// measured timeline it may end before the task starts.
  const Edge *lastEdge(uint32_t task) const {
    llvm::ArrayRef<Edge> edges = graph.edgesOf(task);
    const Edge *last = nullptr;
    for (const Edge &edge : edges)
      if (!last || endPs(edge) > endPs(*last))
        last = &edge;
    return last;
  }

private:
  const TaskGraph &graph;
  const TaskTimes &times;
  const Timeline &timeline;
};

} // namespace pipesched

#endif // PIPESCHED_ANALYSIS_GRAPH_TASKENDS_H
