//===- PipeDialect.cpp - The pipe dialect ---------------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Registers the ops and attributes of the dialect.
//
//===----------------------------------------------------------------------===//

#include "PipeSched/Dialect/Pipe/IR/BytecodeVersion.h"
#include "PipeSched/Dialect/Pipe/IR/Editing.h"
#include "PipeSched/Dialect/Pipe/IR/Pipe.h"
#include "mlir/Dialect/DLTI/DLTI.h"
#include "mlir/IR/DialectImplementation.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace pipesched;
using namespace pipesched::pipe;

#include "PipeSched/Dialect/Pipe/IR/PipeDialect.cpp.inc"
#include "PipeSched/Dialect/Pipe/IR/PipeEnums.cpp.inc"
#include "PipeSched/Dialect/Pipe/IR/PipeInterfaces.cpp.inc"

#define GET_ATTRDEF_CLASSES
#include "PipeSched/Dialect/Pipe/IR/PipeAttrs.cpp.inc"

void PipeDialect::initialize() {
  addAttributes<
#define GET_ATTRDEF_LIST
#include "PipeSched/Dialect/Pipe/IR/PipeAttrs.cpp.inc"
      >();
  addOperations<
#define GET_OP_LIST
#include "PipeSched/Dialect/Pipe/IR/PipeOps.cpp.inc"
      >();
  addInterfaces<CellPlaces, VersionedBytecode>();
}
