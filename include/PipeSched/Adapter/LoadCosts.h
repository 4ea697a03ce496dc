//===- LoadCosts.h - Costs of a schedule or program -------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Reads the facts from which costs are computed, from the ops around a
// schedule.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_ADAPTER_LOADCOSTS_H
#define PIPESCHED_ADAPTER_LOADCOSTS_H

#include "PipeSched/Dialect/Pipe/IR/Pipe.h"
#include "PipeSched/Evaluation/Evaluate.h"
#include "mlir/IR/BuiltinOps.h"

namespace pipesched {

/// Returns model, system and profile of a pipe.schedule or exec.program: the
/// pipe.model that it names, the system of the innermost module around it that
/// has one, and its profile. Each may be missing. Error, emitted: a target
/// system that has only a part of a system.
mlir::FailureOr<CostInputs> loadCosts(mlir::Operation *scheduleOrProgram);

/// Returns the pipe.model that a verified pipe.schedule or exec.program names,
/// or null.
pipe::ModelOp findModel(mlir::Operation *scheduleOrProgram);

/// Returns the innermost module around `op` whose target system has entries of
/// PipeSched, or null.
mlir::ModuleOp findSystemModule(mlir::Operation *op);

} // namespace pipesched

#endif // PIPESCHED_ADAPTER_LOADCOSTS_H
