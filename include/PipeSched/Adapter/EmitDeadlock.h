//===- EmitDeadlock.h - A cycle of waits as a diagnostic --------*- C++ -*-===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The one text for deadlocks of schedules and of programs.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_ADAPTER_EMITDEADLOCK_H
#define PIPESCHED_ADAPTER_EMITDEADLOCK_H

#include "PipeSched/Dialect/Pipe/IR/Pipe.h"
#include "PipeSched/Schedule/Deadlock.h"

namespace pipesched {

/// Emits an error at `op`, whose instructions are those of `program`, with one
/// note per wait at the place of the instruction that waits: at most eight,
/// then a count. `condition`, if not empty, says under what it deadlocks.
mlir::LogicalResult
emitDeadlock(mlir::Operation *op, const Program &program,
             const Deadlock &deadlock, llvm::StringRef condition,
             llvm::function_ref<mlir::Location(uint32_t instruction)> placeOf);

/// Emits why an analysis of the program that a schedule lowers to failed: a
/// DeadlockError as emitDeadlock does, with notes at the rows that wait; any
/// other as pipe::emitTableError does.
mlir::LogicalResult emitProgramError(pipe::ScheduleOp schedule,
                                     const Program &program, llvm::Error error,
                                     llvm::StringRef condition = "");

} // namespace pipesched

#endif // PIPESCHED_ADAPTER_EMITDEADLOCK_H
