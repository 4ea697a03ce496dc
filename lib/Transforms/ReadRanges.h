//===- ReadRanges.h - Index ranges among the options of passes --*- C++ -*-===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Options that select stages, workers or microbatches, as text.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_LIB_TRANSFORMS_READRANGES_H
#define PIPESCHED_LIB_TRANSFORMS_READRANGES_H

#include "PipeSched/Schedule/IndexRange.h"
#include "mlir/IR/Operation.h"

namespace pipesched::pipe {

/// Appends the ranges that the texts of an option of a pass say. Errors, at
/// `root`: those of parseIndexRange.
mlir::LogicalResult readRanges(mlir::Operation *root, llvm::StringRef pass,
                               llvm::ArrayRef<std::string> texts,
                               llvm::StringRef option,
                               std::vector<IndexRange> &ranges);

} // namespace pipesched::pipe

#endif // PIPESCHED_LIB_TRANSFORMS_READRANGES_H
