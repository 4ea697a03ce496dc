//===- Summary.cpp - An execution in four numbers -------------------------===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Sums use 128 bits, so that workers times makespan cannot overflow and equal
// ratios become equal doubles at all three levels.
//
//===----------------------------------------------------------------------===//

#include "PipeSched/Evaluation/Summary.h"

using namespace pipesched;

static double computeIdleRatio(const Execution &execution) {
  llvm::ArrayRef<int64_t> busyPs = execution.idle.busyPs;
  __int128 total = static_cast<__int128>(execution.timeline.makespanPs) *
                   static_cast<__int128>(busyPs.size());
  if (total == 0)
    return 0;
  __int128 idle = total;
  for (int64_t busy : busyPs)
    idle -= busy;
  return static_cast<double>(idle) / static_cast<double>(total);
}

static bool isCommunication(InstructionKind kind) {
  InstructionRole role = traitsOf(kind).role;
  return role == InstructionRole::Message ||
         role == InstructionRole::Collective;
}

/// The longest path with free communication. No other task has latency, so one
/// end time per task suffices.
static int64_t makespanWithoutCommunication(const Execution &execution) {
  const TaskGraph &graph = execution.graph;
  std::vector<int64_t> endPs(graph.size());
  int64_t makespanPs = 0;
  for (uint32_t task = 0; task < graph.size(); ++task) {
    int64_t startPs = 0;
    for (Edge edge : graph.edgesOf(task))
      startPs = std::max(startPs, endPs[edge.task()]);
    endPs[task] = startPs + (isCommunication(graph.kind[task])
                                 ? 0
                                 : execution.times.occupancyPs[task]);
    makespanPs = std::max(makespanPs, endPs[task]);
  }
  return makespanPs;
}

/// Whether makespanWithoutCommunication can differ from the makespan.
static bool hasTimedCommunication(const Execution &execution) {
  for (auto [kind, occupancyPs, latencyPs] :
       llvm::zip_equal(execution.graph.kind, execution.times.occupancyPs,
                       execution.times.latencyPs))
    if (isCommunication(kind) && (occupancyPs > 0 || latencyPs > 0))
      return true;
  return false;
}

/// The share of workers times makespan.
static double shareOfStep(llvm::ArrayRef<int64_t> perWorkerPs,
                          int64_t makespanPs) {
  if (makespanPs == 0 || perWorkerPs.empty())
    return 0;
  double sum = 0;
  for (int64_t ps : perWorkerPs)
    sum += static_cast<double>(ps);
  return sum / static_cast<double>(makespanPs) /
         static_cast<double>(perWorkerPs.size());
}

ExecutionSummary pipesched::summarize(const Execution &execution) {
  ExecutionSummary summary;
  summary.idleRatio = computeIdleRatio(execution);
  const IdleTimes &idle = execution.idle;
  int64_t makespanPs = execution.timeline.makespanPs;
  for (auto [share, cause] : llvm::zip_equal(summary.idleByCause, kIdleCauses))
    share = shareOfStep(idle.*cause.ps, makespanPs);
  for (auto [worker, busyPs] : llvm::enumerate(idle.busyPs)) {
    int64_t span = idle.lastPs[worker] - idle.firstPs[worker];
    if (span <= summary.spanPs)
      continue;
    summary.spanPs = span;
    summary.spanBubbleRatio =
        static_cast<double>(span - busyPs) / static_cast<double>(span);
  }
  if (hasTimedCommunication(execution))
    summary.exposedCommunicationPs =
        makespanPs - makespanWithoutCommunication(execution);
  return summary;
}
