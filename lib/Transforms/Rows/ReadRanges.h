//===- ReadRanges.h - Index ranges in options -------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Pass options that select stages, workers or microbatches by ranges.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_LIB_TRANSFORMS_ROWS_READRANGES_H
#define PIPESCHED_LIB_TRANSFORMS_ROWS_READRANGES_H

#include "PipeSched/Schedule/Table/IndexRange.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/Operation.h"

namespace pipesched::pipe {

/// Parses the texts of a pass option and appends their ranges. Errors, at
/// `root`: as for parseIndexRange.
inline mlir::LogicalResult readRanges(mlir::Operation *root,
                                      llvm::StringRef pass,
                                      llvm::ArrayRef<std::string> texts,
                                      llvm::StringRef option,
                                      std::vector<IndexRange> &ranges) {
  for (llvm::StringRef text : texts) {
    llvm::Expected<IndexRange> range = parseIndexRange(text);
    if (!range)
      return mlir::emitError(root->getLoc())
             << pass << ": " << option << ": "
             << llvm::toString(range.takeError());
    ranges.push_back(*range);
  }
  return mlir::success();
}

/// The options with which a pass selects cells: ranges of stages, workers and
/// microbatches, as text.
struct SelectionTexts {
  llvm::ArrayRef<std::string> stages, workers, microbatches;
};

/// Parses the ranges into the fields of `options` with the same names. Errors,
/// at `root`: as for parseIndexRange.
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
