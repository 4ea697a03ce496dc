//===- EmitDeadlock.h - Deadlocks as diagnostics ----------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The common diagnostic for deadlocks of schedules and programs.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_ADAPTER_EMITDEADLOCK_H
#define PIPESCHED_ADAPTER_EMITDEADLOCK_H

#include "PipeSched/Dialect/Pipe/IR/Pipe.h"
#include "PipeSched/Schedule/Program/Deadlock.h"

namespace pipesched {

/// Emits a deadlock of `program` as an error at `op`. Each wait becomes a note
/// at the place of the waiting instruction: at most eight notes, then the
/// number of the others. `condition`, if not empty, states under which
/// condition the program deadlocks.
mlir::LogicalResult
emitDeadlock(mlir::Operation *op, const Program &program,
             const Deadlock &deadlock, llvm::StringRef condition,
             llvm::function_ref<mlir::Location(uint32_t instruction)> placeOf);

/// Emits the error of an analysis of the program to which a schedule lowers. A
/// DeadlockError is emitted by emitDeadlock, with notes at the rows that wait;
/// all other errors by pipe::emitTableError.
mlir::LogicalResult emitProgramError(pipe::ScheduleOp schedule,
                                     const Program &program, llvm::Error error,
                                     llvm::StringRef condition = "");

} // namespace pipesched

#endif // PIPESCHED_ADAPTER_EMITDEADLOCK_H
