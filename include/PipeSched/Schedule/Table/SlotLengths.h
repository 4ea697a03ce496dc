//===- SlotLengths.h - How many slots cells take ----------------*- C++ -*-===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Unit slots, or lengths that a table gives by stage and phase: blocks,
// durations, or numbers from the user. Loops over cells are compiled for both.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_SCHEDULE_TABLE_SLOTLENGTHS_H
#define PIPESCHED_SCHEDULE_TABLE_SLOTLENGTHS_H

#include "PipeSched/Schedule/Table/Placement.h"
#include "llvm/Support/MathExtras.h"
#include <array>
#include <limits>

namespace pipesched {

/// Limit of the slots of a table's cells, over all rows. With the idle slots of
/// a table (below 2^59) sums of slots fit 64 bits.
inline constexpr int64_t kMaxSlots = int64_t(1) << 62;

/// Slots that the cells of one stage take, by phase. Copies, joins and idle
/// entries have no lengths here.
class StageSlots {
public:
  /// Marks a phase that must not occur.
  static constexpr int64_t kUnknown = -1;

  /// B takes the sum of I and W (2^63 - 1 if it overflows), R as many slots as
  /// F, others their unit slots.
  StageSlots(int64_t forward = 1, int64_t inputGrad = 1,
             int64_t weightGrad = 1) {
    int64_t backward = 0;
    if (llvm::AddOverflow(inputGrad, weightGrad, backward))
      backward = std::numeric_limits<int64_t>::max();
    set(Phase::Forward, forward);
    set(Phase::Backward, backward);
    set(Phase::InputGrad, inputGrad);
    set(Phase::WeightGrad, weightGrad);
    set(Phase::Recompute, forward);
    setOthers(1);
  }
  /// The unit slots times `weight`.
  static StageSlots weighted(int64_t weight) {
    StageSlots slots(weight, weight, weight);
    slots.setOthers(weight);
    return slots;
  }
  /// Sets all phases but F, R and those of the backward to `weight` times their
  /// unit slots.
  void setOthers(int64_t weight) {
    (kComputePhases - kForwardPhases - kBackwardPhases)
        .forEach([&](Phase phase) {
          set(phase, weight * traitsOf(phase).unitSlots);
        });
  }

  int64_t of(Phase phase) const { return phases[phase]; }
  void set(Phase phase, int64_t slots) { phases[phase] = slots; }
  /// The slots of an overlapped pair whose first cell is of this stage; absent:
  /// the sum of its cells.
  std::optional<int64_t> overlapped;

  friend bool operator==(const StageSlots &a, const StageSlots &b) {
    return a.phases == b.phases && a.overlapped == b.overlapped;
  }

private:
  PhaseMap<int64_t> phases = {};
};

/// Counts unit slots: F, I, W, R, O, G take one, B two, a pair the sum.
class UnitSlots {
public:
  int64_t of(Cell cell) const { return unitSlots(cell); }
  int64_t ofPair(Cell first, Cell second) const {
    return of(first) + of(second);
  }
};

/// Counts slots by the lengths of a table. Both arguments must outlive it.
class GivenSlots {
public:
  GivenSlots(const Placement &placement, llvm::ArrayRef<StageSlots> stages)
      : placement(placement), stages(stages) {}

  int64_t of(Cell cell) const {
    if (cell.isIdle())
      return cell.getIdleSlots();
    return stageOf(cell).of(cell.getPhase());
  }
  int64_t ofPair(Cell first, Cell second) const {
    if (const std::optional<int64_t> &slots = stageOf(first).overlapped)
      return *slots;
    return of(first) + of(second);
  }

private:
  const StageSlots &stageOf(Cell cell) const {
    return stages[placement.globalStage(cell)];
  }

  const Placement &placement;
  llvm::ArrayRef<StageSlots> stages;
};

/// Slots from the start to the end of an entry of a row, or of the overlapped
/// pair that it belongs to.
template <typename Slots>
int64_t slotsOf(const Slots &slots, llvm::ArrayRef<Cell> row, int64_t index) {
  if (row[index].overlapsNext() && index + 1 < int64_t(row.size()))
    return slots.ofPair(row[index], row[index + 1]);
  if (index > 0 && row[index - 1].overlapsNext())
    return slots.ofPair(row[index - 1], row[index]);
  return slots.of(row[index]);
}

} // namespace pipesched

#endif // PIPESCHED_SCHEDULE_TABLE_SLOTLENGTHS_H
