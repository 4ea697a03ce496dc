//===- Lowering.h - From a table to what each worker runs ---*- C++ -*-===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Decides, once for all levels, which sends, receives and operands a cell
// implies and where they stand (arXiv 2605.24006, table to execution graph).
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_SCHEDULE_LOWERING_H
#define PIPESCHED_SCHEDULE_LOWERING_H

#include "PipeSched/Schedule/Program.h"
#include "PipeSched/Schedule/Slots.h"
#include "PipeSched/Support/EnumNames.h"

namespace pipesched {

/// Where a receive stands in its row.
enum class ReceivePlacement : uint8_t {
  Arrival, ///< at the slot in which the message arrives
  /// Right before the cell that needs it, or before an all-reduce that begins
  /// after the message is sent and would hold it up.
  Consumer
};

template <>
struct EnumNames<ReceivePlacement> {
  static constexpr EnumName<ReceivePlacement> values[] = {
      {ReceivePlacement::Arrival, "arrival",
       "At the slot in which the message arrives"},
      {ReceivePlacement::Consumer, "consumer",
       "Right before the cell that needs it"}};
};

/// Lowers a table. Within a slot of a row: first the cells that start in it,
/// then the sends of cells that end in it, then the receives that arrive in it,
/// by source worker:
///
///   row 1, slot 3:   compute 1F2 | send 1F2 to 2 | recv 0F3 from 0
///                                                  recv 2B0 from 2
///
/// For `Arrival` slots are those of the unit-slot alignment of the row orders
/// (`slots`, from alignUnitSlots). D and U become Offload and Reload, joins
/// Wait; G one AllReduce for each of its pieces (Collectives.h); idle entries
/// vanish. Linear in cells (messages to one worker are merged from their
/// sources). Operands of a cell are its dependences (Dependences.h), a receive
/// standing for a cell of another worker; those of a copy or an all-reduce
/// begin with the compute cell before it, its issue point. An all-reduce waits
/// for the last weight gradient of its stage as well, O for that or for the
/// all-reduces of its blocks. Needs a table that verifies. Errors: none but
/// those of size.
llvm::Expected<Program> lowerTable(const TableView &table,
                                   const CellIndex &index,
                                   const SlotAssignment &slots,
                                   ReceivePlacement placement);

/// The same by the slots that alignUnitSlots gives. Errors: also its.
llvm::Expected<Program> lowerTable(const TableView &table,
                                   ReceivePlacement placement);

} // namespace pipesched

#endif // PIPESCHED_SCHEDULE_LOWERING_H
