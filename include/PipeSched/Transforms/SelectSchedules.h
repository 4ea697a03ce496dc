//===- SelectSchedules.h - Selected schedules -------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The schedules and programs of a module that a pass treats.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_TRANSFORMS_SELECTSCHEDULES_H
#define PIPESCHED_TRANSFORMS_SELECTSCHEDULES_H

#include "PipeSched/Dialect/Exec/IR/Exec.h"
#include "mlir/IR/BuiltinOps.h"

namespace pipesched::pipe {

/// Returns the schedules of a module, or only the one with the given name.
/// Errors: the module has no schedule; no schedule has that name, with the
/// closest name.
mlir::FailureOr<llvm::SmallVector<ScheduleOp>>
selectSchedules(mlir::ModuleOp module, llvm::StringRef name);

/// The programs of a module. Errors: there is none.
mlir::FailureOr<llvm::SmallVector<exec::ProgramOp>>
selectPrograms(mlir::ModuleOp module);

/// Calls `visit` with each program of a module, also after a failure. Fails if
/// one call does. Errors: there is no program.
mlir::LogicalResult
forEachProgram(mlir::ModuleOp module,
               llvm::function_ref<mlir::LogicalResult(exec::ProgramOp)> visit);

} // namespace pipesched::pipe

#endif // PIPESCHED_TRANSFORMS_SELECTSCHEDULES_H
