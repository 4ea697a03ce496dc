//===- ExternCalls.h - Calls of functions compiled elsewhere ----*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The lowering steps that handle exec.call_extern.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_LIB_CONVERSION_EXTERNCALLS_H
#define PIPESCHED_LIB_CONVERSION_EXTERNCALLS_H

#include "mlir/IR/BuiltinOps.h"

namespace pipesched {

/// Replaces all calls of extern functions by exec.call_extern, and erases these
/// functions unless they are still referenced. Errors, emitted: as for
/// readExtern.
mlir::LogicalResult makeExternCalls(mlir::ModuleOp module);

/// Registers how exec.call_extern is inlined and bufferized.
void registerExternCallInterfaces(mlir::DialectRegistry &registry);

} // namespace pipesched

#endif // PIPESCHED_LIB_CONVERSION_EXTERNCALLS_H
