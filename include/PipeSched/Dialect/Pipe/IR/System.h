//===- System.h - A system as a DLTI target ---------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Converts between the attribute dlti.target_system_spec and SystemFacts.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_DIALECT_PIPE_IR_SYSTEM_H
#define PIPESCHED_DIALECT_PIPE_IR_SYSTEM_H

#include "PipeSched/Facts/System.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/Interfaces/DataLayoutInterfaces.h"

namespace pipesched::pipe {

/// Creates `#dlti.target_system_spec<"worker" = #pipe.worker_spec<...>,
/// "network" = #pipe.network_spec<...>>`, and "spine" if there is one.
mlir::TargetSystemSpecInterface systemToAttribute(mlir::MLIRContext *context,
                                                  const SystemFacts &facts);

/// Whether a target has an entry of this dialect. Other targets are for other
/// compilers and do not describe workers.
bool describesWorkers(mlir::TargetSystemSpecInterface target);

/// Adds a system to a target, which may be null, and replaces a system that is
/// already there; entries of other dialects stay. Errors: an entry of another
/// dialect under a key of the system.
mlir::FailureOr<mlir::TargetSystemSpecInterface>
addSystem(mlir::TargetSystemSpecInterface target, mlir::MLIRContext *context,
          const SystemFacts &facts,
          llvm::function_ref<mlir::InFlightDiagnostic()> emitError);

/// The inverse of systemToAttribute. Errors: a target without "worker" or
/// "network", or with attributes of other dialects there; errors of
/// mistakeInLevels.
mlir::FailureOr<SystemFacts>
systemFromAttribute(mlir::TargetSystemSpecInterface target,
                    llvm::function_ref<mlir::InFlightDiagnostic()> emitError);

} // namespace pipesched::pipe

#endif // PIPESCHED_DIALECT_PIPE_IR_SYSTEM_H
