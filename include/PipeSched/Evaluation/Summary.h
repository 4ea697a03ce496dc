//===- Summary.h - An execution in four numbers -------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Ratios over all workers, and the part of the step that communication takes:
// the numbers of an execution in report, pictures and comparison.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_EVALUATION_SUMMARY_H
#define PIPESCHED_EVALUATION_SUMMARY_H

#include "PipeSched/Evaluation/Evaluate.h"

namespace pipesched {

/// Ratios of exact integer sums, rounded once; 0 for an empty execution.
struct ExecutionSummary {
  double idleRatio = 0; ///< 1 - sum(busy) / (workers * makespan)
  /// Largest span of a worker, from the start of its first cell to the end of
  /// its last.
  int64_t spanPs = 0;
  /// 1 - time of cells / span on the worker with the largest span (on ties, the
  /// lowest number). It is the bubble rate of the zero-bubble papers (Qi 2024a,
  /// arXiv 2401.10241). Waits inside cells do not count as a bubble.
  double spanBubbleRatio = 0;
  /// Makespan minus the makespan of the same order if messages took no time.
  int64_t exposedCommunicationPs = 0;
  /// Idle time of all workers by cause, as fractions of workers * makespan, in
  /// the order of kIdleCauses.
  std::array<double, kNumIdleCauses> idleByCause = {};
};

/// Linear in workers.
ExecutionSummary summarize(const ExecutionTotals &totals);

} // namespace pipesched

#endif // PIPESCHED_EVALUATION_SUMMARY_H
