//===- Slots.h - Slot alignment of tables -------------------*- C++ -*-===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Gives each cell its slot: as early as order, dependences and slots allow.
// Level 2 of arXiv 2605.24006: structural, not temporal.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_SCHEDULE_SLOTS_H
#define PIPESCHED_SCHEDULE_SLOTS_H

#include "PipeSched/Schedule/Dependences.h"

namespace pipesched {

/// Slots from the start to the end of a cell: its own, and those of the other
/// half where it is overlapped.
inline int64_t slotsOf(llvm::ArrayRef<Cell> row, int64_t index) {
  int64_t slots = unitSlots(row[index]);
  if (row[index].overlapsNext() && index + 1 < int64_t(row.size()))
    slots += unitSlots(row[index + 1]);
  if (index > 0 && row[index - 1].overlapsNext())
    slots += unitSlots(row[index - 1]);
  return slots;
}

/// Slots of a table's cells by flat index. Copies have the slot after the
/// compute cell before them; joins that of the entry they stand before, and so
/// have idle entries where alignment ignores them.
struct SlotAssignment {
  std::vector<int64_t> start; ///< first slot of each cell
  int64_t numSlots = 0;       ///< of the longest row, trailing idle not counted

  /// First slot after the cell with this flat index, the index-th of its row.
  int64_t end(uint32_t flat, llvm::ArrayRef<Cell> row, int64_t index) const {
    return start[flat] + slotsOf(row, index);
  }
};

/// Earliest unit slots for the order of the rows, idle entries ignored. D and U
/// take no slots. Both halves of an overlapped pair start together and end
/// together. Errors: a dependency cycle, naming it.
llvm::Expected<SlotAssignment> alignSlots(const TableView &table,
                                          const CellIndex &index);

/// The slots as written: idle entries count, nothing is moved. For aligned
/// tables.
SlotAssignment readSlots(const TableView &table, const CellIndex &index);

/// readSlots for an aligned table, else alignSlots.
llvm::Expected<SlotAssignment> assignSlots(const TableView &table,
                                           const CellIndex &index);

/// Rows with idle entries put in so that each cell stands at its slot, filled
/// up to `numSlots` at the end.
std::vector<Row> withIdleSlots(const TableView &table,
                               const SlotAssignment &slots);

/// Rows without idle entries.
std::vector<Row> compactRows(const TableView &table);

} // namespace pipesched

#endif // PIPESCHED_SCHEDULE_SLOTS_H
