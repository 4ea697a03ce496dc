//===- Lowering.h - From a table to a program -------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Decides, for both dialects, which sends, receives and operands a cell needs
// and where they are (arXiv 2605.24006, table to execution graph).
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_SCHEDULE_PROGRAM_LOWERING_H
#define PIPESCHED_SCHEDULE_PROGRAM_LOWERING_H

#include "PipeSched/Schedule/Program/Program.h"
#include "PipeSched/Schedule/Table/Table.h"
#include "PipeSched/Support/EnumNames.h"

namespace pipesched {

class TimedSlots;
struct SlotAssignment;

enum class ReceivePlacement : uint8_t {
  Arrival, ///< at the slot in which the message arrives
  /// Right before the cell that needs it, or earlier: before an all-reduce that
  /// starts after the message is sent and would delay the receive.
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
/// `Arrival` needs the slots of the rows: `slots` from alignUnitSlots. D and U
/// become Offload and Reload, joins become Wait, a cell of a collective becomes
/// one collective for each of its groups (Groups.h); idle entries vanish. The
/// operands of a cell are its dependences (Dependences.h), with a receive in
/// place of a cell of another worker. The operands of a copy or a collective
/// start with the compute cell before it, its issue point; an Offload also
/// waits for the Send of its forward's output, whose memory it frees. An
/// all-reduce also waits for the last weight gradient of each stage of its
/// worker that holds its blocks, and O for these gradients or for the
/// all-reduces of its blocks (ParameterSets.h). Needs a table that verifies.
/// Linear in cells (the messages to one worker are merged from their sources).
/// Errors: only a program that is too large.
llvm::Expected<Program> lowerTable(const TableView &table,
                                   const CellIndex &index,
                                   const SlotAssignment &slots,
                                   ReceivePlacement placement);

/// The same with the slots of alignUnitSlots. `times`, if given, order the
/// messages of `Arrival` instead: by the time at which their data is made in
/// alignTimes, then by its slot. Errors: also as for alignUnitSlots.
llvm::Expected<Program> lowerTable(const TableView &table,
                                   ReceivePlacement placement,
                                   const TimedSlots *times = nullptr);

} // namespace pipesched

#endif // PIPESCHED_SCHEDULE_PROGRAM_LOWERING_H
