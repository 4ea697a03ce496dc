//===- PipeToExec.h - From a schedule to its program ------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The two parts of convert-pipe-to-exec: from a schedule to flat instructions,
// and from flat instructions to ops.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_CONVERSION_PIPETOEXEC_H
#define PIPESCHED_CONVERSION_PIPETOEXEC_H

#include "PipeSched/Dialect/Exec/IR/Exec.h"
#include "PipeSched/Schedule/Program/Lowering.h"
#include "mlir/IR/OwningOpRef.h"

namespace pipesched {

/// Lowers a schedule. Errors, emitted at the schedule or its row: no rows; a
/// schedule that pipe-verify rejects.
mlir::FailureOr<Program> lowerSchedule(pipe::ScheduleOp schedule,
                                       ReceivePlacement placement);

/// Creates the program of `schedule` from its instructions, with the schedule's
/// name, header and paths. The program is not attached to a module.
mlir::OwningOpRef<exec::ProgramOp> createProgram(pipe::ScheduleOp schedule,
                                                 const Program &program);

} // namespace pipesched

#endif // PIPESCHED_CONVERSION_PIPETOEXEC_H
