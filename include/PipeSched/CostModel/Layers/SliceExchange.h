//===- SliceExchange.h - Attention balanced between workers -----*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Balances attention in SlimPipe schedules, where workers compute successive
// slices at the same time. Workers with long prefixes pass a part of their
// attention to workers with short ones (arXiv 2504.14519; docs/CostModel.md,
// "Slices").
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_COSTMODEL_LAYERS_SLICEEXCHANGE_H
#define PIPESCHED_COSTMODEL_LAYERS_SLICEEXCHANGE_H

#include "PipeSched/CostModel/Layers/Slices.h"
#include "PipeSched/Schedule/Table/Placement.h"

namespace pipesched {

/// The cell with which a cell of a stage and slice balances its attention.
struct SlicePartner {
  int64_t worker = -1; ///< -1: no partner
  int64_t slice = -1;

  friend bool operator==(SlicePartner a, SlicePartner b) {
    return a.worker == b.worker && a.slice == b.slice;
  }
};

/// Returns the partners of all stages and slices, by stage and then slice. A
/// worker goes through pairs of chunk and slice. While the r-th worker is at
/// its q-th pair, the s-th worker is at its (q + r - s)-th. Ordered by the
/// length of their prefixes, the i-th shortest is the partner of the i-th
/// longest. Errors: a placement with several paths, or whose stages do not go
/// around the workers; several chunks and fewer slices than workers.
llvm::Expected<std::vector<SlicePartner>>
pairSlices(const Placement &placement, llvm::ArrayRef<TokenSpan> slices);

/// Checks that a table allows this exchange: workers run their forwards at the
/// same time, each one slice later than the previous worker. So each worker
/// runs two more forwards before its first backward than the next worker, or
/// all workers run all forwards first. Errors: rows that differ from this, with
/// the worker.
llvm::Error checkSliceExchange(const Placement &placement,
                               llvm::ArrayRef<llvm::ArrayRef<Cell>> rows);

} // namespace pipesched

#endif // PIPESCHED_COSTMODEL_LAYERS_SLICEEXCHANGE_H
