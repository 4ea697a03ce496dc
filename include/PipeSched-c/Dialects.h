//===- Dialects.h - C API for the dialects ------------------------*- C -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Handles of the dialects, for registries and contexts of MLIR's C API.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_C_DIALECTS_H
#define PIPESCHED_C_DIALECTS_H

#include "mlir-c/IR.h"

#ifdef __cplusplus
extern "C" {
#endif

MLIR_DECLARE_CAPI_DIALECT_REGISTRATION(Exec, exec);
MLIR_DECLARE_CAPI_DIALECT_REGISTRATION(Pipe, pipe);

#ifdef __cplusplus
}
#endif

#endif // PIPESCHED_C_DIALECTS_H
