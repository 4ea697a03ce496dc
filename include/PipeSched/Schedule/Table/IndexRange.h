//===- IndexRange.h - Selects stages, workers and microbatches --*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Ranges that tell a transform which entries to change, in the syntax of
// `takes` of a path.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_SCHEDULE_TABLE_INDEXRANGE_H
#define PIPESCHED_SCHEDULE_TABLE_INDEXRANGE_H

#include "PipeSched/Schedule/Table/Placement.h"
#include "llvm/Support/Error.h"

namespace pipesched {

/// The indices `begin`, `begin` + `step`, .. below `end`. They number stages,
/// workers or microbatches.
using IndexRange = MicrobatchRange;

/// Reads "5", "0:4" or "0:8:2", the syntax of `takes` of a path. Errors: any
/// other text; an end that is not above the start; a step below 1.
llvm::Expected<IndexRange> parseIndexRange(llvm::StringRef text);

/// Checks ranges for `count` indices. Errors: a range that is not within them,
/// or with a step below 1. `what` is the word for an index ("stage").
llvm::Error checkIndexRanges(llvm::StringRef what,
                             llvm::ArrayRef<IndexRange> ranges, int64_t count);

/// Checks the ranges of a transform against the stages on the longest path, the
/// workers and the microbatches of a placement. Errors: as for
/// checkIndexRanges.
llvm::Error checkSelection(const Placement &placement,
                           llvm::ArrayRef<IndexRange> stages,
                           llvm::ArrayRef<IndexRange> workers,
                           llvm::ArrayRef<IndexRange> microbatches);

/// Whether an index is in one of the ranges; an empty list of ranges holds
/// every index.
bool isInRanges(llvm::ArrayRef<IndexRange> ranges, int64_t index);

} // namespace pipesched

#endif // PIPESCHED_SCHEDULE_TABLE_INDEXRANGE_H
