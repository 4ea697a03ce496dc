//===- ChromeTrace.h - Timelines for Perfetto -------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Timelines in the Chrome trace event format: one process per worker, one
// thread per queue, one flow per message, one counter of activation memory.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_TARGET_CHROMETRACE_H
#define PIPESCHED_TARGET_CHROMETRACE_H

#include "PipeSched/Evaluation/NamedEvaluation.h"

namespace pipesched {

/// The order in which viewers list the workers of several schedules.
enum class TraceOrder {
  Schedules, ///< all workers of a schedule, then of the next schedule
  Workers    ///< a worker of all schedules, then the next worker
};

/// Writes one trace; workers of later schedules become additional processes.
/// One event per line; times in microseconds, exact to the picosecond.
///
///   pid  worker        tid  0 compute  1 send  2 receive  3 offload  4 reload
///                           5 all-reduce  6 idle
///        critical path       7
///   flow s at the send, t at the receive, f at the compute cell that needs it
///
/// If receives hold the row (blocking), a flow ends at the receive. A message
/// without occupancy is an instant event: at its start on the send thread, at
/// its arrival on the receive thread. The idle thread has a slice for each gap
/// and cause, which names the dependence of the next cell. These slices add up
/// to the report's idle time. Slices on the critical path have the argument
/// `critical`. A separate process after the workers of a schedule shows only
/// the critical path, whose slices add up to the step. Linear in tasks and
/// edges.
void writeChromeTrace(llvm::raw_ostream &os,
                      llvm::ArrayRef<const NamedEvaluation *> results,
                      TraceOrder order = TraceOrder::Schedules);
inline void writeChromeTrace(llvm::raw_ostream &os,
                             llvm::ArrayRef<NamedEvaluation> results,
                             TraceOrder order = TraceOrder::Schedules) {
  writeChromeTrace(os, pointersTo(results), order);
}

} // namespace pipesched

#endif // PIPESCHED_TARGET_CHROMETRACE_H
