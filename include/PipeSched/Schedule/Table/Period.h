//===- Period.h - Rows that repeat ------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Between warm-up and drain, most schedules repeat the same cells every few
// microbatches. If a period leaves the state of a walk unchanged except for
// constants, the walk can leap over all periods that follow.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_SCHEDULE_TABLE_PERIOD_H
#define PIPESCHED_SCHEDULE_TABLE_PERIOD_H

#include "PipeSched/Schedule/Table/Table.h"

namespace pipesched {

/// The part of a row that repeats: `row[i] == row[i - length]` with the unit
/// that is one period later, for i from `begin + length` up to `end`.
struct RowPeriod {
  int64_t begin = 0, end = 0, length = 0;
};

struct TablePeriod {
  /// How much the number of the unit grows from one period to the next: by
  /// whole microbatches, so that slices stay the same. If the paths divide the
  /// microbatches, all paths grow by this number.
  int64_t units = 0;
  int64_t numSlices = 1;
  std::vector<int64_t> ranks; ///< by path: number of its units in a period
  std::vector<RowPeriod> rows;

  /// Microbatches of all paths in a period.
  int64_t getNumMicrobatches() const;
  /// Returns the period that consists of `count` of these periods.
  TablePeriod times(int64_t count) const;
};

/// Finds a period that occurs at least four times in the middle of all rows.
/// Returns nothing if the shortest has more than 1,024 microbatches, or a path
/// takes microbatches by several ranges. Linear in cells if it finds a period;
/// otherwise it looks at a small part of them.
std::optional<TablePeriod> findPeriod(const TableView &table);

} // namespace pipesched

#endif // PIPESCHED_SCHEDULE_TABLE_PERIOD_H
