//===- StageNumbers.h - Numbers that upstream's lowering loses --*- C++ -*-===//
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

#ifndef PIPESCHED_LIB_CONVERSION_STAGENUMBERS_H
#define PIPESCHED_LIB_CONVERSION_STAGENUMBERS_H

#include "mlir/IR/PatternMatch.h"

namespace pipesched {

/// Adds patterns for walkAndApplyPatterns: sums of bf16 and f16 in f32, integer
/// powers and clamps as IEEE 754 has them, and f64 to bf16 rounded once.
void populateNumberPatterns(mlir::RewritePatternSet &patterns);

} // namespace pipesched

#endif // PIPESCHED_LIB_CONVERSION_STAGENUMBERS_H
