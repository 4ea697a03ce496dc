//===- Timeline.cpp - When everything happens -----------------------------===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Finds the longest path to every task in one sweep.
//
//===----------------------------------------------------------------------===//

#include "PipeSched/Analysis/Timeline.h"

using namespace pipesched;

Timeline pipesched::computeTimeline(const TaskGraph &graph,
                                    const TaskTimes &times) {
  Timeline timeline;
  timeline.startPs.resize(graph.size());
  int64_t *startPs = timeline.startPs.data();
  const int64_t *occupancyPs = times.occupancyPs.data();
  const int64_t *latencyPs = times.latencyPs.data();
  const Edge *edge = graph.edges.data();
  for (uint32_t task = 0, numTasks = graph.size(); task < numTasks; ++task) {
    const Edge *end = graph.edges.data() + graph.edgeBegins[task + 1];
    int64_t start = 0;
    for (; edge != end; ++edge) {
      uint32_t before = edge->task();
      // A mask of all bits or none keeps branches out of the inner loop.
      int64_t mask = -static_cast<int64_t>(edge->needsArrival());
      start = std::max(start, startPs[before] + occupancyPs[before] +
                                  (latencyPs[before] & mask));
    }
    startPs[task] = start;
    timeline.makespanPs = std::max(timeline.makespanPs,
                                   start + occupancyPs[task] + latencyPs[task]);
  }
  return timeline;
}
