//===- Attributes.h - C API for attributes and types --------------*- C -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Attributes of schedules, and the type of exec. The context must have loaded
// the dialect. Attributes of systems are parsed from their text
// (mlirAttributeParseGet).
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_C_ATTRIBUTES_H
#define PIPESCHED_C_ATTRIBUTES_H

#include "mlir-c/IR.h"

#ifdef __cplusplus
extern "C" {
#endif

//===----------------------------------------------------------------------===//
// Profiles and slots
//===----------------------------------------------------------------------===//

MLIR_CAPI_EXPORTED bool pipeschedAttributeIsAProfile(MlirAttribute attribute);
/// Returns the `profile` of a schedule for a text such as `F=1ms,B=2ms`.
/// Returns null after an error, which is emitted as a diagnostic at `location`.
MLIR_CAPI_EXPORTED MlirAttribute pipeschedProfileAttrGet(MlirLocation location,
                                                         MlirStringRef times);
MLIR_CAPI_EXPORTED MlirStringRef
pipeschedProfileAttrGetTimes(MlirAttribute profile);

MLIR_CAPI_EXPORTED bool pipeschedAttributeIsASlots(MlirAttribute attribute);
/// Returns the `slots` of a schedule. `counts` has the number of values of each
/// name of `#pipe.slots`, in order; `numbers` has the values. Returns null
/// after an error, which is emitted as a diagnostic at `location`.
MLIR_CAPI_EXPORTED MlirAttribute pipeschedSlotsAttrGet(MlirLocation location,
                                                       intptr_t numCounts,
                                                       const int64_t *counts,
                                                       intptr_t numNumbers,
                                                       const int64_t *numbers);

//===----------------------------------------------------------------------===//
// Tokens
//===----------------------------------------------------------------------===//

MLIR_CAPI_EXPORTED bool pipeschedTypeIsAToken(MlirType type);
/// Returns `!exec.token`, the type of the tokens that instructions return and
/// wait for.
MLIR_CAPI_EXPORTED MlirType pipeschedTokenTypeGet(MlirContext context);

#ifdef __cplusplus
}
#endif

#endif // PIPESCHED_C_ATTRIBUTES_H
