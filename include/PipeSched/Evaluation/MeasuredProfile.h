//===- MeasuredProfile.h - From times of a run to a profile -----*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The one rule that makes a profile of measured instructions, whoever ran them:
// pipesched-run, the runtime of the Python package, or another tool whose
// traces were read (docs/Measuring.md, "Back into schedules").
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_EVALUATION_MEASUREDPROFILE_H
#define PIPESCHED_EVALUATION_MEASUREDPROFILE_H

#include "PipeSched/Analysis/Graph/WorkerPrograms.h"
#include "PipeSched/Facts/Facts.h"

namespace pipesched {

/// The value of a time that is not known.
inline constexpr int64_t kUnknownNs = std::numeric_limits<int64_t>::min();

/// When the instructions of one worker ran, in ns of a clock that all workers
/// share: [step][instruction], with the numbers of WorkerPrograms.
struct WorkerStamps {
  llvm::ArrayRef<int64_t> ready; ///< the worker came to it
  llvm::ArrayRef<int64_t> start; ///< its waits were done
  llvm::ArrayRef<int64_t> end;   ///< the worker continued
  /// For a Recv, a copy or an AllReduce: the worker saw that it was done.
  llvm::ArrayRef<int64_t> done;
  /// For a Recv: the message was there. For a copy that does not hold the
  /// worker: its end.
  llvm::ArrayRef<int64_t> arrived;
};

struct MeasuredRows {
  int64_t numSteps = 0;
  llvm::ArrayRef<WorkerStamps> workers;
};

/// Returns the times of the program: means over steps and microbatches, for
/// messages medians, one for each stage; one for all stages if paths have
/// different numbers of stages. It has the phases that ran, FB for overlapped
/// pairs, and comm. With `withIssue`, the time of a cell includes the worker's
/// time until its next cell, without waits. Linear in instructions and steps
/// except for sorting. Errors: rows with other sizes than the program.
llvm::Expected<Profile> makeProfile(const WorkerPrograms &programs,
                                    const WorkerStages &stages,
                                    const MeasuredRows &rows, bool withIssue);

} // namespace pipesched

#endif // PIPESCHED_EVALUATION_MEASUREDPROFILE_H
