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

#ifndef PIPESCHED_LIB_TRANSFORMS_ROWS_READRANGES_H
#define PIPESCHED_LIB_TRANSFORMS_ROWS_READRANGES_H

#include "PipeSched/Schedule/IndexRange.h"
#include "mlir/IR/Operation.h"

namespace pipesched::pipe {

/// Appends the ranges that the texts of an option of a pass say. Errors, at
/// `root`: those of parseIndexRange.
mlir::LogicalResult readRanges(mlir::Operation *root, llvm::StringRef pass,
                               llvm::ArrayRef<std::string> texts,
                               llvm::StringRef option,
                               std::vector<IndexRange> &ranges);

/// Texts of the options of a pass that say which cells it takes: ranges of
/// stages, workers and microbatches.
struct SelectionTexts {
  llvm::ArrayRef<std::string> stages, workers, microbatches;
};

/// Reads them into the fields of these names of `options`. Errors, at `root`:
/// those of parseIndexRange.
template <typename Options>
mlir::LogicalResult readSelection(mlir::Operation *root, llvm::StringRef pass,
                                  const SelectionTexts &texts,
                                  Options &options) {
  auto read = [&](llvm::ArrayRef<std::string> texts, llvm::StringRef option,
                  std::vector<IndexRange> &ranges) {
    return readRanges(root, pass, texts, option, ranges);
  };
  return mlir::failure(
      failed(read(texts.stages, "stages", options.stages)) ||
      failed(read(texts.workers, "workers", options.workers)) ||
      failed(read(texts.microbatches, "microbatches", options.microbatches)));
}

} // namespace pipesched::pipe

#endif // PIPESCHED_LIB_TRANSFORMS_ROWS_READRANGES_H
