//===- Recompute.h - Adds recompute cells to tables -------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Adds R cells to a table (Chen et al. 2016, arXiv 1604.06174; in pipelines
// Korthikanti et al. 2022, arXiv 2205.05198). The cost model decides which
// kernels R runs again and which tensors F keeps for it. docs/Transforms.md
// describes the rules.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_SCHEDULE_EDIT_RECOMPUTE_H
#define PIPESCHED_SCHEDULE_EDIT_RECOMPUTE_H

#include "PipeSched/Schedule/Table/IndexRange.h"
#include "PipeSched/Schedule/Table/Table.h"

namespace pipesched {

struct RecomputeOptions {
  /// Selects backwards; empty: all. A stage is a position on its path.
  std::vector<IndexRange> stages, workers, microbatches;
  /// The most selected activations that a worker may hold in full at a time. An
  /// F that runs while the worker holds fewer gets no R. So 1F1B with keep = k
  /// recomputes like Megatron-LM when it skips k microbatches of a window.
  int64_t keep = 0;
  /// Skip an R that would directly follow its own F (idle slots do not count):
  /// nothing is freed in between.
  bool skipAdjacent = false;
  /// The most recomputed activations that may wait for their backward on a
  /// worker at a time. 0: every R is right before its backward. Otherwise an R
  /// may move up the row, into slots in which the worker waits for a message.
  int64_t ahead = 0;
};

/// Rows with R cells.
struct RecomputeChange {
  std::vector<Row> rows;
  int64_t numAdded = 0;
  int64_t numPresent = 0; ///< selected ones that the table already had
};

/// Adds an R for each selected backward (B or I), right before it or its
/// overlapped pair, but after copies and joins that are there. Present R cells
/// do not move. In an aligned table all cells move to their earliest slots
/// (alignRows).
///
///   ahead = 0   0F0 0F1 0F2 _    0R0 0B0 _   0R1 0B1       _ waits
///   ahead = 1   0F0 0F1 0F2 0R1  0R0 0B0     0B1
///
/// Linear in entries; `ahead` adds a factor logarithmic in the activations that
/// a worker holds. Errors, as ViolationError: missing or circular cells that
/// verifyTable finds; slot lengths that are not known. Others: ranges that are
/// out of range; `keep` or `ahead` below 0; a table of more than kMaxTableCells
/// entries.
llvm::Expected<RecomputeChange>
addRecompute(const TableView &table, const RecomputeOptions &options = {});

} // namespace pipesched

#endif // PIPESCHED_SCHEDULE_EDIT_RECOMPUTE_H
