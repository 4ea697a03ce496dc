//===- Attributes.h - C API for attributes and types --------------*- C -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Attributes of schedules, and the type of exec. A context must have loaded the
// dialect. Attributes of systems are read from their text
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
/// The `profile` of a schedule, from its text `F=1ms,B=2ms`. Null after an
/// error, which is a diagnostic at `location`.
MLIR_CAPI_EXPORTED MlirAttribute pipeschedProfileAttrGet(MlirLocation location,
                                                         MlirStringRef times);
MLIR_CAPI_EXPORTED MlirStringRef
pipeschedProfileAttrGetTimes(MlirAttribute profile);

MLIR_CAPI_EXPORTED bool pipeschedAttributeIsASlots(MlirAttribute attribute);
/// Returns the `slots` of a schedule: for each name of `#pipe.slots`, in its
/// order, the number of its values, and all values. Null after an error, which
/// is a diagnostic at `location`.
MLIR_CAPI_EXPORTED MlirAttribute pipeschedSlotsAttrGet(MlirLocation location,
                                                       intptr_t numCounts,
                                                       const int64_t *counts,
                                                       intptr_t numNumbers,
                                                       const int64_t *numbers);

//===----------------------------------------------------------------------===//
// Tokens
//===----------------------------------------------------------------------===//

MLIR_CAPI_EXPORTED bool pipeschedTypeIsAToken(MlirType type);
/// `!exec.token`, which instructions return and wait for.
MLIR_CAPI_EXPORTED MlirType pipeschedTokenTypeGet(MlirContext context);

#ifdef __cplusplus
}
#endif

#endif // PIPESCHED_C_ATTRIBUTES_H
