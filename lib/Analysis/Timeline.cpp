//===- Timeline.cpp - When everything happens -----------------------------===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The longest path to every task, in one sweep.
//
//===----------------------------------------------------------------------===//

#include "PipeSched/Analysis/Timeline.h"
#include <memory>

using namespace pipesched;

Timeline pipesched::computeTimeline(const TaskGraph &graph,
                                    const TaskTimes &times) {
  // Both ends of a task side by side; an edge is an index into this array, so
  // that the inner loop has nothing to decide:
  //
  //   ends    release 0 | arrival 0 | release 1 | arrival 1 | ...
  uint32_t numTasks = graph.size();
  std::unique_ptr<int64_t[]> ends(new int64_t[std::size_t(numTasks) * 2]);
  Timeline timeline;
  timeline.startPs.resize(numTasks);
  const Edge *edge = graph.edges.data();
  for (uint32_t task = 0; task < numTasks; ++task) {
    const Edge *end = graph.edges.data() + graph.edgeBegins[task + 1];
    int64_t start = 0;
    for (; edge != end; ++edge)
      start = std::max(start, ends[edge->endIndex()]);
    int64_t release = start + times.occupancyPs[task];
    int64_t arrival = release + times.latencyPs[task];
    timeline.startPs[task] = start;
    ends[std::size_t(task) * 2] = release;
    ends[std::size_t(task) * 2 + 1] = arrival;
    timeline.makespanPs = std::max(timeline.makespanPs, arrival);
  }
  return timeline;
}
