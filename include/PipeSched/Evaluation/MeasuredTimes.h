//===- MeasuredTimes.h - Executions with measured times ---------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Replaces computed times by times measured in a run, so that pictures and
// traces show a run like a prediction.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_EVALUATION_MEASUREDTIMES_H
#define PIPESCHED_EVALUATION_MEASUREDTIMES_H

#include "PipeSched/Evaluation/Evaluate.h"

namespace pipesched {

/// When instructions ran, in ps from the start of the step: row by row,
/// numbered as in WorkerPrograms, where an overlapped pair is one instruction.
///
///   Compute           its start and its end
///   Send              when the message left its sender; no end
///   Recv              when the message arrived; no start
///   Offload, Reload   start and end of the copy
///   AllReduce         when the worker joined, and when it saw the
///                     end; it runs from the last start to the first end
///   Wait              neither
struct MeasuredTimes {
  llvm::ArrayRef<int64_t> startPs, endPs;
  int64_t makespanPs = 0; ///< of the step
};

/// Returns `predicted` with measured times. Messages have only a latency. An
/// end before its start, which is possible with the clocks of two workers,
/// counts as no time. Idle time is the time between cells. Its causes are
/// estimates, because a measurement does not show whether an instruction waited
/// for data or for its runtime. There is no critical path. Memory stays as
/// predicted.
///
/// Errors: a number of instructions that differs from the rows; times below 0
/// or over the makespan; a transport whose messages hold rows.
llvm::Expected<Execution> withMeasuredTimes(const Execution &predicted,
                                            const MeasuredTimes &measured);

} // namespace pipesched

#endif // PIPESCHED_EVALUATION_MEASUREDTIMES_H
