//===- RegisterEverything.h - C API to register everything --------*- C -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Registers the dialects and passes of PipeSched, and returns its version.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_C_REGISTEREVERYTHING_H
#define PIPESCHED_C_REGISTEREVERYTHING_H

#include "mlir-c/IR.h"

#ifdef __cplusplus
extern "C" {
#endif

/// Registers the dialects of PipeSched, and DLTI, in which `pipe` states the
/// system.
MLIR_CAPI_EXPORTED void
pipeschedRegisterAllDialects(MlirDialectRegistry registry);

/// Registers the passes of PipeSched for pipelines of this process. May be
/// called more than once.
MLIR_CAPI_EXPORTED void pipeschedRegisterAllPasses(void);

/// Returns the version of the library, such as `0.2.0`.
MLIR_CAPI_EXPORTED MlirStringRef pipeschedGetVersion(void);

/// Whether this build compiles schedules (PIPESCHED_ENABLE_COMPILE of CMake).
MLIR_CAPI_EXPORTED bool pipeschedHasCompiler(void);

#ifdef __cplusplus
}
#endif

#endif // PIPESCHED_C_REGISTEREVERYTHING_H
