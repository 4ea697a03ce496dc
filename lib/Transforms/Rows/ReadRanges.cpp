//===- ReadRanges.cpp - Index ranges in options ---------------------------===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Parses ranges; an error names the pass and the option.
//
//===----------------------------------------------------------------------===//

#include "ReadRanges.h"

using namespace mlir;
using namespace pipesched;

LogicalResult pipe::readRanges(Operation *root, StringRef pass,
                               ArrayRef<std::string> texts, StringRef option,
                               std::vector<IndexRange> &ranges) {
  for (StringRef text : texts) {
    llvm::Expected<IndexRange> range = parseIndexRange(text);
    if (!range)
      return emitError(root->getLoc()) << pass << ": " << option << ": "
                                       << llvm::toString(range.takeError());
    ranges.push_back(*range);
  }
  return success();
}
