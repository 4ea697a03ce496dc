//===- CriticalPath.cpp - The tasks that make the makespan ----------------===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Walks back from the task that ends last, along the edges that determined when
// each task started.
//
//===----------------------------------------------------------------------===//

#include "PipeSched/Analysis/TaskEnds.h"

using namespace pipesched;

std::vector<uint32_t> pipesched::criticalPath(const TaskGraph &graph,
                                              const TaskTimes &times,
                                              const Timeline &timeline) {
  TaskEnds ends(graph, times, timeline);
  std::vector<uint32_t> path;
  uint32_t last = 0;
  while (last < graph.size() && ends.arrivalPs(last) != timeline.makespanPs)
    ++last;
  if (last == graph.size())
    return path;
  path.push_back(last);
  while (const Edge *binding = ends.bindingEdge(path.back()))
    path.push_back(binding->task());
  std::reverse(path.begin(), path.end());
  return path;
}
