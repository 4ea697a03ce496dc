//===- Attributes.cpp - C API for attributes and types --------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Builds and reads attributes of pipe, and tokens of exec.
//
//===----------------------------------------------------------------------===//

#include "PipeSched-c/Attributes.h"
#include "PipeSched/Dialect/Exec/IR/Exec.h"
#include "PipeSched/Dialect/Pipe/IR/Pipe.h"
#include "mlir/CAPI/IR.h"
#include "mlir/CAPI/Support.h"

using namespace mlir;
using namespace pipesched;

/// Returns a function that emits errors at a location of a caller.
static auto emitAt(MlirLocation location) {
  return [at = unwrap(location)] { return mlir::emitError(at); };
}

//===----------------------------------------------------------------------===//
// Profiles and slots
//===----------------------------------------------------------------------===//

bool pipeschedAttributeIsAProfile(MlirAttribute attribute) {
  return isa_and_nonnull<pipe::ProfileAttr>(unwrap(attribute));
}

MlirAttribute pipeschedProfileAttrGet(MlirLocation location,
                                      MlirStringRef times) {
  return wrap(pipe::ProfileAttr::getChecked(
      emitAt(location), unwrap(location)->getContext(), unwrap(times)));
}

MlirStringRef pipeschedProfileAttrGetTimes(MlirAttribute profile) {
  return wrap(cast<pipe::ProfileAttr>(unwrap(profile)).getTimes());
}

bool pipeschedAttributeIsASlots(MlirAttribute attribute) {
  return isa_and_nonnull<pipe::SlotsAttr>(unwrap(attribute));
}

MlirAttribute pipeschedSlotsAttrGet(MlirLocation location, intptr_t numCounts,
                                    const int64_t *counts, intptr_t numNumbers,
                                    const int64_t *numbers) {
  return wrap(pipe::SlotsAttr::getChecked(
      emitAt(location), unwrap(location)->getContext(),
      ArrayRef(counts, numCounts), ArrayRef(numbers, numNumbers)));
}

//===----------------------------------------------------------------------===//
// Tokens
//===----------------------------------------------------------------------===//

bool pipeschedTypeIsAToken(MlirType type) {
  return isa_and_nonnull<exec::TokenType>(unwrap(type));
}

MlirType pipeschedTokenTypeGet(MlirContext context) {
  return wrap(exec::TokenType::get(unwrap(context)));
}
