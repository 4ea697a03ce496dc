//===- Summary.cpp - An execution in four numbers -------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Sums use 128 bits, so that workers times makespan cannot overflow, and equal
// ratios give equal doubles at all three levels.
//
//===----------------------------------------------------------------------===//

#include "PipeSched/Evaluation/Summary.h"

using namespace pipesched;

static double computeIdleRatio(const ExecutionTotals &totals) {
  llvm::ArrayRef<int64_t> busyPs = totals.idle.busyPs;
  __int128 total = static_cast<__int128>(totals.makespanPs) *
                   static_cast<__int128>(busyPs.size());
  if (total == 0)
    return 0;
  __int128 idle = total;
  for (int64_t busy : busyPs)
    idle -= busy;
  return static_cast<double>(idle) / static_cast<double>(total);
}

/// Returns a time as a fraction of workers times makespan.
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

ExecutionSummary pipesched::summarize(const ExecutionTotals &totals) {
  ExecutionSummary summary;
  summary.idleRatio = computeIdleRatio(totals);
  const IdleTimes &idle = totals.idle;
  int64_t makespanPs = totals.makespanPs;
  for (auto [share, cause] : llvm::zip_equal(summary.idleByCause, kIdleCauses))
    share = shareOfStep(idle.*cause.ps, makespanPs);
  for (size_t worker = 0; worker < idle.busyPs.size(); ++worker) {
    int64_t span = idle.lastPs[worker] - idle.firstPs[worker];
    if (span <= summary.spanPs)
      continue;
    summary.spanPs = span;
    summary.spanBubbleRatio = static_cast<double>(span - idle.cellsPs(worker)) /
                              static_cast<double>(span);
  }
  summary.exposedCommunicationPs = makespanPs - totals.freeMakespanPs;
  return summary;
}
