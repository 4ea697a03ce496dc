//===- PipeTransformOps.h - Transform scripts for schedules -----*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Ops of MLIR's transform dialect that make, change and check schedules.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_TRANSFORMOPS_PIPETRANSFORMOPS_H
#define PIPESCHED_TRANSFORMOPS_PIPETRANSFORMOPS_H

#include "PipeSched/Dialect/Pipe/IR/Pipe.h"
#include "mlir/Dialect/Transform/IR/TransformDialect.h"
#include "mlir/Dialect/Transform/Interfaces/TransformInterfaces.h"

#define GET_OP_CLASSES
#include "PipeSched/TransformOps/PipeTransformOps.h.inc"

namespace pipesched {

/// Adds these ops to the transform dialect when it is loaded.
void registerPipeTransformOps(mlir::DialectRegistry &registry);

} // namespace pipesched

#endif // PIPESCHED_TRANSFORMOPS_PIPETRANSFORMOPS_H
