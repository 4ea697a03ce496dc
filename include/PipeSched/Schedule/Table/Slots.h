//===- Slots.h - Slot alignment of tables -------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Assigns each cell the earliest slot that order, dependences and slot lengths
// allow. Level 2 of arXiv 2605.24006: structural, not temporal.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_SCHEDULE_TABLE_SLOTS_H
#define PIPESCHED_SCHEDULE_TABLE_SLOTS_H

#include "PipeSched/Schedule/Table/Table.h"

namespace pipesched {

class TimedSlots;

/// Slots of a table's cells by flat index. A copy has the slot after the
/// preceding compute cell. A join has the slot of the following entry. So does
/// an idle entry if alignment ignores it.
struct SlotAssignment {
  std::vector<int64_t> start; ///< first slot of each cell
  int64_t numSlots = 0;       ///< of the longest row, without trailing idle
                              ///< slots
};

/// Returns the earliest slots for the order of the rows. Idle entries are
/// ignored, and cells take the number of slots that the table states. D and U
/// take none. Both halves of an overlapped pair start together and end
/// together; so do the cells of a group, unless a cell is in several groups
/// (Groups.h). Errors: a cycle of dependences, which the error names.
llvm::Expected<SlotAssignment> alignSlots(const TableView &table,
                                          const CellIndex &index);

/// The same in unit slots, even if the table has other slots.
llvm::Expected<SlotAssignment> alignUnitSlots(const TableView &table,
                                              const CellIndex &index);

/// The earliest starts in ps, with messages that hold nothing: a cell of
/// another worker is awaited until its message has arrived. D and U take no
/// time, and all-reduces hold their rows as in slots. Errors: as for
/// alignSlots.
llvm::Expected<SlotAssignment> alignTimes(const TableView &table,
                                          const CellIndex &index,
                                          const TimedSlots &times);

/// How far rows come that deadlock, for a picture: each entry, also one that is
/// idle or a copy, and each pair takes one slot; -1 for entries that never
/// start.
SlotAssignment alignUntilDeadlock(const TableView &table,
                                  const CellIndex &index);

/// Returns the slots as written: idle entries count, and nothing moves. For
/// aligned tables.
SlotAssignment readSlots(const TableView &table, const CellIndex &index);

/// Calls readSlots for an aligned table, else alignSlots.
llvm::Expected<SlotAssignment> assignSlots(const TableView &table,
                                           const CellIndex &index);

/// Slots from the start to the end of one entry. Loops use the template in
/// SlotLengths.h.
int64_t slotsOf(const TableView &table, CellRef at);

/// Returns rows with idle entries that put each cell at its slot. Idle entries
/// at the end extend each row to `numSlots`.
std::vector<Row> withIdleSlots(const TableView &table,
                               const SlotAssignment &slots);

/// Returns rows in which each cell is at its earliest slot. Errors: as for
/// alignSlots and CellIndex; rows of more than kMaxTableCells entries, because
/// an idle entry counts at most 2^31 - 1 slots.
llvm::Expected<std::vector<Row>> alignRows(const TableView &table);

/// Returns the rows without idle entries.
std::vector<Row> compactRows(const TableView &table);

} // namespace pipesched

#endif // PIPESCHED_SCHEDULE_TABLE_SLOTS_H
