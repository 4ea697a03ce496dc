//===- SliceExchange.h - Attention evened out among workers -----*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Workers of a SlimPipe schedule compute successive slices at one time. Workers
// with long prefixes give a part of their attention to workers with short ones
// (arXiv 2504.14519; docs/CostModel.md, "Slices").
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_COSTMODEL_LAYERS_SLICEEXCHANGE_H
#define PIPESCHED_COSTMODEL_LAYERS_SLICEEXCHANGE_H

#include "PipeSched/CostModel/Layers/Slices.h"
#include "PipeSched/Schedule/Table/Placement.h"

namespace pipesched {

/// The cell with which a cell of a stage and slice evens out its attention.
struct SlicePartner {
  int64_t worker = -1; ///< -1: with none
  int64_t slice = -1;

  friend bool operator==(SlicePartner a, SlicePartner b) {
    return a.worker == b.worker && a.slice == b.slice;
  }
};

/// The partners of all stages and slices, by stage and then slice. While the
/// r-th worker is at the q-th of the pairs of chunk and slice that it goes
/// through, the s-th is at the (q + r - s)-th. Ordered by the length of their
/// prefixes, the i-th shortest is the partner of the i-th longest. Errors: a
/// placement with several paths, or whose stages do not go around the workers;
/// several chunks and fewer slices than workers.
llvm::Expected<std::vector<SlicePartner>>
pairSlices(const Placement &placement, llvm::ArrayRef<TokenSpan> slices);

/// Checks that a table allows this exchange: workers run their forwards at the
/// same time, each one slice later than the worker before it. So each worker
/// runs two forwards more before its first backward than the next one, or all
/// run all forwards first. Errors: rows that differ, and the worker.
llvm::Error checkSliceExchange(const Placement &placement,
                               llvm::ArrayRef<llvm::ArrayRef<Cell>> rows);

} // namespace pipesched

#endif // PIPESCHED_COSTMODEL_LAYERS_SLICEEXCHANGE_H
