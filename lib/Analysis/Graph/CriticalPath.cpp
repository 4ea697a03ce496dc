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

#include "PipeSched/Analysis/Graph/TaskEnds.h"

using namespace pipesched;

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
