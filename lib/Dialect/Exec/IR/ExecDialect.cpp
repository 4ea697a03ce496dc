//===- ExecDialect.cpp - The exec dialect ---------------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Registers the type and ops of the dialect.
//
//===----------------------------------------------------------------------===//

#include "PipeSched/Dialect/Exec/IR/CallExtern.h"
#include "PipeSched/Dialect/Exec/IR/Exec.h"
#include "PipeSched/Dialect/Pipe/IR/BytecodeVersion.h"
#include "mlir/IR/DialectImplementation.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;

#include "PipeSched/Dialect/Exec/IR/ExecDialect.cpp.inc"
#include "PipeSched/Dialect/Exec/IR/ExecInterfaces.cpp.inc"

#define GET_TYPEDEF_CLASSES
#include "PipeSched/Dialect/Exec/IR/ExecTypes.cpp.inc"

void pipesched::exec::ExecDialect::initialize() {
  addTypes<
#define GET_TYPEDEF_LIST
#include "PipeSched/Dialect/Exec/IR/ExecTypes.cpp.inc"
      >();
  addOperations<
#define GET_OP_LIST
#include "PipeSched/Dialect/Exec/IR/ExecOps.cpp.inc"
      >();
  addOperations<CallExternOp>();
  addInterfaces<VersionedBytecode>();
}
