//===- Recompute.h - Where activations are computed again -------*- C++ -*-===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Puts R cells into a table (Chen et al. 2016, arXiv 1604.06174; in pipelines
// Korthikanti et al. 2022, arXiv 2205.05198). What R runs again, and what F
// keeps for it, is the cost model's matter. docs/Transforms.md has the rules.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_SCHEDULE_RECOMPUTE_H
#define PIPESCHED_SCHEDULE_RECOMPUTE_H

#include "PipeSched/Schedule/IndexRange.h"
#include "PipeSched/Schedule/Table.h"

namespace pipesched {

struct RecomputeOptions {
  /// Backwards of these only; empty: of all. A stage is a position on its path.
  std::vector<IndexRange> stages, workers, microbatches;
  /// Activations of a worker, of those selected, that may be held whole at a
  /// time; an F that finds fewer gets no R. 1F1B with keep = k so recomputes
  /// what Megatron-LM does with k microbatches of a window left out.
  int64_t keep = 0;
  /// Leave out an R that would stand right behind its own F, idle slots aside:
  /// nothing is freed in between.
  bool skipAdjacent = false;
  /// Recomputed activations of a worker that may wait for their backward at a
  /// time. 0: every R stands right before its backward. Else an R may go
  /// further up the row, into slots in which the worker waits for a message.
  int64_t ahead = 0;
};

/// Rows with R cells.
struct RecomputeChange {
  std::vector<Row> rows;
  int64_t numAdded = 0;
  int64_t numPresent = 0; ///< of those asked for, that the table had
};

/// An R for each backward (B or I) that the options ask for, right before it or
/// before the overlapped pair that it is half of, behind copies and joins that
/// stand there. R that are there stay where they are. An aligned table is
/// aligned again, cells at their earliest slots (alignRows).
///
///   ahead = 0   0F0 0F1 0F2 _    0R0 0B0 _   0R1 0B1       _ waits
///   ahead = 1   0F0 0F1 0F2 0R1  0R0 0B0     0B1
///
/// Linear in entries; with `ahead` times the logarithm of the activations that
/// a worker holds. Errors, as ViolationError: what verifyTable finds missing or
/// circular; slot lengths that are not known. Others: ranges that are out of
/// range; `keep` or `ahead` below 0; a table of more than kMaxTableCells
/// entries.
llvm::Expected<RecomputeChange>
addRecompute(const TableView &table, const RecomputeOptions &options = {});

} // namespace pipesched

#endif // PIPESCHED_SCHEDULE_RECOMPUTE_H
