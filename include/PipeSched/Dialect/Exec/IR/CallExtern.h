//===- CallExtern.h - Calls of other compilers' code ------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The op exec.call_extern. Only the lowering of stage functions uses it.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_DIALECT_EXEC_IR_CALLEXTERN_H
#define PIPESCHED_DIALECT_EXEC_IR_CALLEXTERN_H

#include "PipeSched/Dialect/Exec/IR/Exec.h"
#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/Interfaces/DestinationStyleOpInterface.h"

#define GET_OP_CLASSES
#include "PipeSched/Dialect/Exec/IR/ExecCallOps.h.inc"

#endif // PIPESCHED_DIALECT_EXEC_IR_CALLEXTERN_H
