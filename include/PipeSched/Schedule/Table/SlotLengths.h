//===- SlotLengths.h - The lengths of cells in slots ------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Cells take unit slots, or lengths that a table gives by stage and phase:
// blocks, durations, or numbers from the user. Loops over cells are compiled
// for both.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_SCHEDULE_TABLE_SLOTLENGTHS_H
#define PIPESCHED_SCHEDULE_TABLE_SLOTLENGTHS_H

#include "PipeSched/Schedule/Kinds/PhaseSets.h"
#include "PipeSched/Schedule/Table/Table.h"

namespace pipesched {

/// Counts unit slots: F, I, W, R, O and G take one slot, B takes two, and an
/// overlapped pair takes the sum.
class UnitSlots {
public:
  int64_t slotsOf(Cell cell) const { return unitSlots(cell); }
  int64_t ofPair(Cell first, Cell second) const {
    return slotsOf(first) + slotsOf(second);
  }
};

/// Counts slots by the lengths of a table. Both arguments must outlive it.
class GivenSlots {
public:
  GivenSlots(const Placement &placement, llvm::ArrayRef<StageSlots> stages)
      : placement(placement), stages(stages) {}

  int64_t slotsOf(Cell cell) const {
    if (cell.isIdle())
      return cell.getIdleSlots();
    return stageOf(cell).of(cell.getPhase());
  }
  int64_t ofPair(Cell first, Cell second) const {
    if (const std::optional<int64_t> &slots = stageOf(first).overlapped)
      return *slots;
    return slotsOf(first) + slotsOf(second);
  }

private:
  const StageSlots &stageOf(Cell cell) const {
    return stages[placement.globalStage(cell)];
  }

  const Placement &placement;
  llvm::ArrayRef<StageSlots> stages;
};

class Dependences;

/// Counts picoseconds, of a cost model. The sum over a table is below 2^63.
class TimedSlots {
public:
  virtual ~TimedSlots();
  virtual int64_t slotsOf(Cell cell) const = 0;
  virtual int64_t ofPair(Cell first, Cell second) const = 0;
  /// From the end of a cell until its message is on another worker.
  virtual int64_t ofMessage(Cell cell, int64_t worker,
                            const Dependences &dependences) const = 0;
};

/// Slots from the start to the end of an entry of a row, or of the overlapped
/// pair that it belongs to.
template <typename Slots>
int64_t slotsOf(const Slots &slots, llvm::ArrayRef<Cell> row, int64_t index) {
  if (row[index].overlapsNext() && index + 1 < int64_t(row.size()))
    return slots.ofPair(row[index], row[index + 1]);
  if (index > 0 && row[index - 1].overlapsNext())
    return slots.ofPair(row[index - 1], row[index]);
  return slots.slotsOf(row[index]);
}

/// Calls `use` with the object that counts the slots of the table's cells;
/// `use` is compiled once for unit slots and once for lengths.
template <typename Use>
decltype(auto) withSlotsOf(const TableView &table, Use &&use) {
  if (table.slots.empty())
    return use(UnitSlots());
  return use(GivenSlots(*table.placement, table.slots));
}

} // namespace pipesched

#endif // PIPESCHED_SCHEDULE_TABLE_SLOTLENGTHS_H
