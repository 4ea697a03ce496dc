//===- Table.h - A schedule table: workers by slots ---------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The central data structure. A Table owns its rows; analyses and checks read a
// TableView of rows that a Table or ops own.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_SCHEDULE_TABLE_TABLE_H
#define PIPESCHED_SCHEDULE_TABLE_TABLE_H

#include "PipeSched/Schedule/Table/Placement.h"
#include "PipeSched/Support/EnumNames.h"
#include <limits>
#include <memory>

namespace pipesched {

class Groups;
class ParameterSets;

using Row = std::vector<Cell>;

/// Limit of a table's entries, including idle ones: 2 GiB of rows. It lets flat
/// indices of cells, instructions and tasks fit 32 bits.
inline constexpr int64_t kMaxTableCells = int64_t(1) << 28;

/// The cell of a split backward that sends the gradient to the previous stage.
/// A whole B always sends it at its end.
enum class GradientAfter : uint8_t { InputGrad, WeightGrad };

template <>
struct EnumNames<GradientAfter> {
  static constexpr EnumName<GradientAfter> values[] = {
      {GradientAfter::InputGrad, "I", "The input gradient"},
      {GradientAfter::WeightGrad, "W", "The weight gradient"}};
};

/// Limit of the slots of all cells of a table, over all rows. Sums with the
/// idle slots of the table (below 2^59) then fit 64 bits.
inline constexpr int64_t kMaxSlots = int64_t(1) << 62;

/// The slots that cells of one stage take, by phase. Copies, joins and idle
/// entries are not included.
class StageSlots {
public:
  /// Marks a phase that must not occur.
  static constexpr int64_t kUnknown = -1;

  /// B takes the sum of I and W (2^63 - 1 if it overflows), R as many slots as
  /// F, and other phases their unit slots.
  StageSlots(int64_t forward = 1, int64_t inputGrad = 1,
             int64_t weightGrad = 1);
  /// The unit slots times `weight`.
  static StageSlots makeWeighted(int64_t weight) {
    StageSlots slots(weight, weight, weight);
    slots.setOthers(weight);
    return slots;
  }
  /// Sets all phases except F, R and the phases of the backward to `weight`
  /// times their unit slots.
  void setOthers(int64_t weight);

  int64_t of(Phase phase) const { return phases[phase]; }
  void set(Phase phase, int64_t slots) { phases[phase] = slots; }
  /// The slots of an overlapped pair whose first cell is of this stage. If
  /// absent, the sum of both cells.
  std::optional<int64_t> overlapped;

  friend bool operator==(const StageSlots &a, const StageSlots &b) {
    return a.phases == b.phases && a.overlapped == b.overlapped;
  }

private:
  PhaseMap<int64_t> phases = {};
};

/// Position of a cell: row (worker) and index in the row, where idle entries
/// count.
struct CellRef {
  int64_t row = 0, index = 0;
};

/// A table whose rows another object owns.
struct TableView {
  const Placement *placement = nullptr;
  GradientAfter gradientAfter = GradientAfter::InputGrad;
  bool aligned = false;
  std::vector<StageSlots> slots; ///< by global stage; empty: unit slots
  llvm::SmallVector<llvm::ArrayRef<Cell>> rows; ///< one per worker

  /// Entries of all rows, idle ones included.
  int64_t getNumCells() const;
};

/// A table that owns its rows; generators return it.
struct Table {
  Placement placement;
  GradientAfter gradientAfter = GradientAfter::InputGrad;
  bool aligned = false;
  std::vector<StageSlots> slots; ///< by global stage; empty: unit slots
  std::vector<Row> rows;

  TableView view() const;
};

/// The position of each cell of a table, in one dense array:
///
///   entry = Placement::pairOf(stage, unit)
///   entries[entry x columns + column of the phase] = flat index
///
/// Cells are numbered row by row, including idle entries ("flat index").
/// Look-ups are O(1); memory is 4 bytes per (stage, microbatch, phase that
/// occurs). Only kIndexedPhases are indexed: no cell waits for O, G or joins by
/// name. getParameterSets() has the stages of an O or G, getGroups() the cells
/// of a group.
class CellIndex {
public:
  static constexpr uint32_t kNone = std::numeric_limits<uint32_t>::max();

  /// All cells of the rows must be in range (verifyRow), and the placement must
  /// outlive the index. Errors: several paths without assigned microbatches;
  /// more than kMaxTableCells entries; fewer forward cells than a complete
  /// table has (the dense array would not be linear in the table); a cell that
  /// occurs twice; errors of ParameterSets if the table has O or G cells.
  /// verifyTable reports the same findings with their positions.
  static llvm::Expected<CellIndex> create(const TableView &table);

  /// The entry of a stage and unit, for several look-ups with at().
  int64_t entryOf(int64_t stage, int64_t unit) const {
    return placement->pairOnPath(stage, unit);
  }
  int64_t entryOf(Cell cell) const {
    return entryOf(cell.getStage(), cell.getUnit());
  }
  /// Entries are numbered by path, stage and rank on the path.
  int64_t getNumEntries() const { return placement->getNumPairs(); }
  /// Flat index of a phase of the entry, or kNone.
  uint32_t at(int64_t entry, Phase phase) const {
    int32_t column = columnOfPhase[phase];
    return column < 0 ? kNone : entries[entry * numColumns + column];
  }
  /// Flat index of the cell, or kNone. The stage must be on the microbatch's
  /// path.
  uint32_t lookup(int64_t stage, Phase phase, int64_t microbatch) const {
    return has(phase) ? at(entryOf(stage, microbatch), phase) : kNone;
  }
  bool has(Phase phase) const { return columnOfPhase[phase] >= 0; }
  /// The column of a phase that the table has, for many look-ups of it.
  int32_t columnOf(Phase phase) const { return columnOfPhase[phase]; }
  uint32_t inColumn(int64_t entry, int32_t column) const {
    return entries[entry * numColumns + column];
  }
  /// Whether the table has O or G cells.
  bool hasPerPath() const { return parameterSets != nullptr; }
  /// The stages that use the blocks which an O steps or a G reduces; null if
  /// the table has no O and no G.
  const ParameterSets *getParameterSets() const { return parameterSets.get(); }
  /// The groups of the table's cells; null if there are none.
  const Groups *getGroups() const { return groups.get(); }
  /// First flat index of a row; row numWorkers gives the total.
  uint32_t rowBegin(int64_t row) const { return rowBegins[row]; }
  int64_t rowOf(uint32_t flat) const; ///< binary search; not for inner loops
  CellRef refOf(uint32_t flat) const; ///< likewise

private:
  void layOut(const TableView &table, const PhaseMap<int64_t> &phaseCounts);
  llvm::Error fill(const TableView &table);

  const Placement *placement = nullptr;
  PhaseMap<int32_t> columnOfPhase;
  int64_t numColumns = 0;
  std::vector<uint32_t> rowBegins; ///< by row, D + 1
  std::vector<uint32_t> entries;
  std::shared_ptr<const ParameterSets> parameterSets;
  std::shared_ptr<const Groups> groups;
};

} // namespace pipesched

#endif // PIPESCHED_SCHEDULE_TABLE_TABLE_H
