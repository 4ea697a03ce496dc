//===- LowerGather.h - Gathers and scatters as loops ------------*- C++ -*-===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A part of lower-stage-ops.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_LIB_CONVERSION_LOWERGATHER_H
#define PIPESCHED_LIB_CONVERSION_LOWERGATHER_H

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace pipesched {

/// Replaces each `tensor.gather` and `tensor.scatter` of `function`, in front
/// of which a loop checks all indices. Errors: constant indices that are
/// outside, and sizes that are not known, where nothing is replaced.
mlir::LogicalResult lowerGathersAndScatters(mlir::func::FuncOp function);

} // namespace pipesched

#endif // PIPESCHED_LIB_CONVERSION_LOWERGATHER_H
