//===- Period.h - Rows that repeat ------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Between warm-up and drain most schedules do the same for every few
// microbatches. A walk whose state after such a period is the state before it,
// except for constants, can leap over all periods that follow.
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
  /// The growth of the number of the unit from one period to the next: whole
  /// microbatches, so that slices stay the same. If each path takes a part of
  /// the microbatches, all paths grow by this number.
  int64_t units = 0;
  int64_t numSlices = 1;
  std::vector<int64_t> ranks; ///< by path: units of it in a period
  std::vector<RowPeriod> rows;

  /// Microbatches of all paths in a period.
  int64_t getNumMicrobatches() const;
  /// `count` of these periods as one period.
  TablePeriod times(int64_t count) const;
};

/// Finds a period in the middle of all rows that occurs at least four times.
/// Nothing if there is none with up to 1,024 microbatches, or a path takes
/// microbatches by several ranges. Linear in cells if it finds one; else it
/// looks at a small part of them.
std::optional<TablePeriod> findPeriod(const TableView &table);

} // namespace pipesched

#endif // PIPESCHED_SCHEDULE_TABLE_PERIOD_H
