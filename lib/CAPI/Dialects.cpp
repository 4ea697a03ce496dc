//===- Dialects.cpp - C API for dialects and passes -----------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Registers dialects and passes, and returns the version.
//
//===----------------------------------------------------------------------===//

#include "PipeSched-c/Dialects.h"
#include "PipeSched-c/RegisterEverything.h"
#include "PipeSched/Dialect/Exec/IR/Exec.h"
#include "PipeSched/Dialect/Pipe/IR/Pipe.h"
#include "PipeSched/InitAll.h"
#include "mlir/CAPI/IR.h"
#include "mlir/CAPI/Registration.h"
#include "mlir/CAPI/Support.h"

MLIR_DEFINE_CAPI_DIALECT_REGISTRATION(Exec, exec, pipesched::exec::ExecDialect)
MLIR_DEFINE_CAPI_DIALECT_REGISTRATION(Pipe, pipe, pipesched::pipe::PipeDialect)

void pipeschedRegisterAllDialects(MlirDialectRegistry registry) {
  if (registry.ptr)
    pipesched::registerAllDialects(*unwrap(registry));
}

void pipeschedRegisterAllPasses(void) { pipesched::registerAllPasses(); }

MlirStringRef pipeschedGetVersion(void) {
  return wrap(llvm::StringRef(pipesched::version()));
}

bool pipeschedHasCompiler(void) { return pipesched::hasCompiler(); }
