//===- IndexRange.cpp - Selects stages, workers and microbatches ----------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Reads, checks and searches ranges.
//
//===----------------------------------------------------------------------===//

#include "PipeSched/Schedule/Table/IndexRange.h"
#include "PipeSched/Schedule/Kinds/Cell.h"
#include "PipeSched/Support/FormatError.h"
#include "llvm/ADT/STLExtras.h"

using namespace pipesched;
using llvm::ArrayRef;
using llvm::Error;
using llvm::Expected;
using llvm::StringRef;

static bool consumeIndex(StringRef &text, int64_t &index) {
  return !text.consumeInteger(10, index) && index >= 0 &&
         index <= Cell::kMaxMicrobatches;
}

Expected<IndexRange> pipesched::parseIndexRange(StringRef text) {
  StringRef rest = text;
  IndexRange range;
  bool isRead = consumeIndex(rest, range.begin);
  range.end = range.begin + 1;
  if (isRead && rest.consume_front(":"))
    isRead = consumeIndex(rest, range.end);
  if (isRead && rest.consume_front(":"))
    isRead = consumeIndex(rest, range.step);
  if (isRead && rest.empty() && range.begin < range.end && range.step > 0)
    return range;
  return formatError("expected an index or a range as in 5, 0:4 or 0:8:2, "
                     "found '{0}'",
                     text);
}

/// Prints a range; the inverse of parseIndexRange.
static std::string textOf(const IndexRange &range) {
  if (range.end == range.begin + 1)
    return std::to_string(range.begin);
  std::string text = llvm::formatv("{0}:{1}", range.begin, range.end);
  if (range.step != 1)
    text += ":" + std::to_string(range.step);
  return text;
}

Error pipesched::checkIndexRanges(StringRef what, ArrayRef<IndexRange> ranges,
                                  int64_t count) {
  for (const IndexRange &range : ranges)
    if (range.begin < 0 || range.end > count || range.step < 1)
      return formatError("{0} {1} is out of range: there {2} {3} (0 to {4})",
                         what, textOf(range), count == 1 ? "is" : "are", count,
                         count - 1);
  return Error::success();
}

llvm::Error pipesched::checkSelection(const Placement &placement,
                                      llvm::ArrayRef<IndexRange> stages,
                                      llvm::ArrayRef<IndexRange> workers,
                                      llvm::ArrayRef<IndexRange> microbatches) {
  if (llvm::Error error =
          checkIndexRanges("stage", stages, placement.getMaxStages()))
    return error;
  if (llvm::Error error =
          checkIndexRanges("worker", workers, placement.getNumWorkers()))
    return error;
  return checkIndexRanges("microbatch", microbatches,
                          placement.getNumMicrobatches());
}

bool pipesched::isInRanges(ArrayRef<IndexRange> ranges, int64_t index) {
  return ranges.empty() || llvm::any_of(ranges, [&](const IndexRange &range) {
           return index >= range.begin && index < range.end &&
                  (index - range.begin) % range.step == 0;
         });
}
