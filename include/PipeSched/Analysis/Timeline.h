//===- Timeline.h - Level 3: when everything happens ------------*- C++ -*-===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Longest path over the task graph, the critical path back through it, and idle
// time by cause. Queues and tokens are those of docs/Dialects/RationaleExec.md.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_ANALYSIS_TIMELINE_H
#define PIPESCHED_ANALYSIS_TIMELINE_H

#include "PipeSched/Analysis/TaskGraph.h"

namespace pipesched {

/// Start of each task in ps; its release is start + occupancy.
struct Timeline {
  std::vector<int64_t> startPs;
  int64_t makespanPs = 0; ///< the last arrival or release of any task
};

/// One sweep in topological order: start = max over the edges of the release or
/// arrival of the predecessor.
Timeline computeTimeline(const TaskGraph &graph, const TaskTimes &times);

/// Tasks of a longest path, first to last. Ties: the first edge that binds.
std::vector<uint32_t> criticalPath(const TaskGraph &graph,
                                   const TaskTimes &times,
                                   const Timeline &timeline);

/// Per worker, ps. fill + drain + dependency + communication = makespan - busy.
///
/// The gap before a cell is split at its binding predecessor: the part in which
/// that message was on its way (waited for its queue, was sent, travelled) is
/// communication, the rest dependency; time a row is held by a send or an
/// all-reduce of its own (Blocking) is communication. Before the first compute
/// cell of a worker all is fill, after its last all is drain.
struct IdleTimes {
  std::vector<int64_t> busyPs, fillPs, drainPs, dependencyPs, communicationPs;
  /// start of the first cell, end of the last, per worker (0, 0 for no cells)
  std::vector<int64_t> firstPs, lastPs;
  /// Of the copy queues, which run beside the cells.
  std::vector<int64_t> offloadPs, reloadPs;
};
IdleTimes computeIdle(const TaskGraph &graph, const TaskTimes &times,
                      const Timeline &timeline);

/// Messages and copies in all, bytes that each worker sends in messages and in
/// all-reduces.
struct Traffic {
  int64_t messages = 0, copies = 0;
  std::vector<int64_t> bytesSent;
};
/// Errors: bytes over int64.
llvm::Expected<Traffic> computeTraffic(const TaskGraph &graph,
                                       const Placement &placement,
                                       const StageCosts &stageCosts);

} // namespace pipesched

#endif // PIPESCHED_ANALYSIS_TIMELINE_H
