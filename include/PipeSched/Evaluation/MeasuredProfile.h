//===- MeasuredProfile.h - Profiles from measured times ---------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Makes a profile of measured instructions, in the same way for all sources:
// pipesched-run, the runtime of the Python package, or traces of other tools
// (docs/Measuring.md, "Back into schedules").
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_EVALUATION_MEASUREDPROFILE_H
#define PIPESCHED_EVALUATION_MEASUREDPROFILE_H

#include "PipeSched/Analysis/Graph/WorkerPrograms.h"
#include "PipeSched/Facts/Facts.h"

namespace pipesched {

/// The value of an unknown time.
inline constexpr int64_t kUnknownNs = std::numeric_limits<int64_t>::min();

/// When the instructions of one worker ran, in ns of a clock that all workers
/// share: [step][instruction], numbered as in WorkerPrograms.
struct WorkerStamps {
  llvm::ArrayRef<int64_t> ready; ///< the worker reached the instruction
  llvm::ArrayRef<int64_t> start; ///< its waits had ended
  llvm::ArrayRef<int64_t> end;   ///< the worker continued
  /// For a Recv, a copy or an AllReduce: the worker saw that it had ended.
  llvm::ArrayRef<int64_t> done;
  /// For a Recv: the message had arrived. For a copy that does not hold the
  /// worker: its end.
  llvm::ArrayRef<int64_t> arrived;
};

struct MeasuredRows {
  int64_t numSteps = 0;
  llvm::ArrayRef<WorkerStamps> workers;
};

/// Returns the times of the program: means over steps and microbatches, and
/// medians for messages. There is one time per stage, or one for all stages if
/// paths have different numbers of stages. The profile has the phases that ran,
/// FB for overlapped pairs, and comm. With `withIssue`, the time of a cell
/// includes the worker's time until its next cell, without waits. Linear in
/// instructions and steps, except for sorting. Errors: rows whose size differs
/// from the program.
llvm::Expected<Profile> makeProfile(const WorkerPrograms &programs,
                                    const WorkerStages &stages,
                                    const MeasuredRows &rows, bool withIssue);

} // namespace pipesched

#endif // PIPESCHED_EVALUATION_MEASUREDPROFILE_H
