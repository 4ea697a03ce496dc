//===- ExternCalls.h - Calls of functions compiled elsewhere ----*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The steps of lowering that know exec.call_extern.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_LIB_CONVERSION_EXTERNCALLS_H
#define PIPESCHED_LIB_CONVERSION_EXTERNCALLS_H

#include "mlir/IR/BuiltinOps.h"

namespace pipesched {

/// Makes exec.call_extern of all calls of extern functions, and erases these
/// functions unless something else names them. Errors, emitted: as for
/// readExtern.
mlir::LogicalResult makeExternCalls(mlir::ModuleOp module);

/// How exec.call_extern is inlined and bufferized.
void registerExternCallInterfaces(mlir::DialectRegistry &registry);

} // namespace pipesched

#endif // PIPESCHED_LIB_CONVERSION_EXTERNCALLS_H
