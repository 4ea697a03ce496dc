//===- Offload.h - Adds offload cells to tables -----------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Adds D and U cells to a table by fixed rules, for all or half of the
// activations (PipeOffload, Wan et al. 2025, arXiv 2503.01328).
// docs/Transforms.md describes the rules.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_SCHEDULE_EDIT_OFFLOAD_H
#define PIPESCHED_SCHEDULE_EDIT_OFFLOAD_H

#include "PipeSched/Schedule/Table/IndexRange.h"
#include "PipeSched/Schedule/Table/Table.h"
#include "PipeSched/Support/EnumNames.h"

namespace pipesched {

enum class OffloadAmount : uint8_t {
  All,
  Half, ///< per worker, the half that lives longest; on ties, every other one
};

template <>
struct EnumNames<OffloadAmount> {
  static constexpr EnumName<OffloadAmount> values[] = {
      {OffloadAmount::All, "all", "All"},
      {OffloadAmount::Half, "half",
       "The half that lives longest, on each worker"}};
};

struct OffloadOptions {
  /// Selects activations; empty: all. A stage is a position on its path.
  std::vector<IndexRange> stages, workers, microbatches;
  OffloadAmount amount = OffloadAmount::All;
  /// The most selected activations that a worker may keep on the device at a
  /// time; an F that runs while fewer are on the device is not offloaded.
  int64_t keep = 0;
  /// Number of compute cells between the issue of a U and the backward that
  /// needs it. They hide the copy.
  int64_t ahead = 1;
  /// Number of activations that a worker may hold, including activations that
  /// are being copied. Joins enforce it for all times of cells and copies: they
  /// delay compute cells until there is room. 0: no joins, no limit.
  int64_t memory = 0;
};

/// Rows with D and U cells.
struct OffloadChange {
  std::vector<Row> rows;
  int64_t numAdded = 0, numJoins = 0;
  // Counts of the selected activations.
  int64_t numPresent = 0;    ///< already offloaded by the table
  int64_t numRecomputed = 0; ///< skipped: an R recomputes them
  int64_t numBrief = 0;      ///< skipped: at most `ahead` compute cells between
                             ///< F and backward
};

/// Adds a D right after each selected F, or after its overlapped pair, and a U
/// `ahead` compute cells before its backward. Nothing else moves: an aligned
/// table keeps its slots.
///
///   ahead = 1   0F0 0D0  0F1  0U0 0F2  0B0 0B1 0B2      0D0 overlaps 0F1,
///                                                       0U0 overlaps 0F2
///   memory = 2  0F0 0D0 0F1 0D1 0d0 0F2 0B2 0U0 0d1 ...
///
/// With `memory`, a row that has no room for such early reloads issues all of
/// them later, at a half, a quarter, .. of `ahead`.
///
/// Linear in entries; Half sorts each row; `memory` adds a factor logarithmic
/// in `ahead`. Errors, as ViolationError: missing or circular cells that
/// verifyTable finds; a row that holds more than `memory` even if it awaits
/// every copy. Others: ranges that are out of range; `keep`, `ahead` or
/// `memory` below 0; a table of more than kMaxTableCells entries.
llvm::Expected<OffloadChange> addOffload(const TableView &table,
                                         const OffloadOptions &options = {});

} // namespace pipesched

#endif // PIPESCHED_SCHEDULE_EDIT_OFFLOAD_H
