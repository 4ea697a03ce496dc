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

/// Slots of a table's cells by flat index. Copies have the slot after the
/// compute cell before them; joins that of the entry they stand before, and so
/// have idle entries where alignment ignores them.
struct SlotAssignment {
  std::vector<int64_t> start; ///< first slot of each cell
  int64_t numSlots = 0;       ///< of the longest row, trailing idle not counted
};

/// Earliest slots for the order of the rows, idle entries ignored, cells taking
/// the slots that the table says. D and U take none. Both halves of an
/// overlapped pair start together and end together; so do the G cells of a
/// group, unless they are in several (Collectives.h). Errors: a dependency
/// cycle, naming it.
llvm::Expected<SlotAssignment> alignSlots(const TableView &table,
                                          const CellIndex &index);

/// The same in unit slots, whatever the table says.
llvm::Expected<SlotAssignment> alignUnitSlots(const TableView &table,
                                              const CellIndex &index);

/// The slots as written: idle entries count, nothing is moved. For aligned
/// tables.
SlotAssignment readSlots(const TableView &table, const CellIndex &index);

/// readSlots for an aligned table, else alignSlots.
llvm::Expected<SlotAssignment> assignSlots(const TableView &table,
                                           const CellIndex &index);

/// Slots from the start to the end of an entry of a table, for one at a time.
int64_t slotsOf(const TableView &table, CellRef at);

/// Rows with idle entries put in so that each cell stands at its slot, filled
/// up to `numSlots` at the end.
std::vector<Row> withIdleSlots(const TableView &table,
                               const SlotAssignment &slots);

/// Rows in which each cell stands at its earliest slot. Errors: those of
/// alignSlots and CellIndex; rows of more than kMaxTableCells entries, as an
/// idle entry counts 2^31 - 1 slots at most.
llvm::Expected<std::vector<Row>> alignRows(const TableView &table);

/// Rows without idle entries.
std::vector<Row> compactRows(const TableView &table);

} // namespace pipesched

#endif // PIPESCHED_SCHEDULE_SLOTS_H
