//===- Groups.h - Which cells of a table meet ---------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The groups of all collectives of a table. Sweeps, walks, proofs and lowering
// know groups only by their numbers and members; Groups.cpp decides which cells
// meet, with one provider for each Grouping.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_SCHEDULE_TABLE_GROUPS_H
#define PIPESCHED_SCHEDULE_TABLE_GROUPS_H

#include "PipeSched/Schedule/Table/GroupName.h"
#include "PipeSched/Schedule/Table/ParameterSets.h"
#include "PipeSched/Schedule/Table/Table.h"

namespace pipesched {

/// Groups are numbered from 0 in the order of their names (GroupName.h): groups
/// of blocks first, in the order of the model. Programs, task graphs, costs and
/// pictures of the table use the same numbers.
///
/// By blocks, there is one group for each piece of the model (Replicas.h) that
/// some G reduces, among the stages that own it on their workers:
///
///   worker 0   .. 0G0 1G1        0G0, 0G1 meet for piece 0,
///   worker 1   .. 0G1 1G0        1G0, 1G1 for piece 1
///
/// A worker holds one copy of a piece, even if several of its stages use it. So
/// it takes part in an all-reduce once, at the G of the stage that owns the
/// piece (ParameterSets.h). If no other worker holds the piece, it is the only
/// member. By unit, all cells of a phase with the same microbatch are a group.
///
/// A worker joins the groups of a cell when its row reaches the cell, and the
/// cell holds the row until all of them have met.
class Groups {
public:
  /// Creates the groups of a table, which must outlive the result. Errors: as
  /// for ParameterSets::create if the table has cells that are grouped by
  /// blocks.
  static llvm::Expected<Groups> create(const TableView &table);
  /// Linear in the table's entries, in the pieces of all stages and in the
  /// microbatches. The cells of the rows must be in range, and the table must
  /// outlive the result. `parameterSets` may be null if no phase of `phases` is
  /// grouped by blocks; `phases` are the collective phases of the table.
  Groups(const TableView &table, PhaseSet phases,
         std::shared_ptr<const ParameterSets> parameterSets);

  int64_t size() const { return names.size(); }
  const GroupName &nameOf(int64_t number) const { return names[number]; }
  llvm::ArrayRef<GroupName> getNames() const { return names; }
  /// The cells with which workers take part in a group, by ascending row.
  llvm::ArrayRef<CellRef> membersOf(int64_t number) const {
    return llvm::ArrayRef(members).slice(
        memberBegins[number], memberBegins[number + 1] - memberBegins[number]);
  }
  /// The groups of a cell of the table: consecutive numbers. Empty for a cell
  /// without a group.
  llvm::iota_range<int64_t> groupsOf(Cell cell) const {
    llvm::iota_range<int64_t> keys = keysOf(cell);
    if (keys.empty())
      return keys;
    int64_t first = numbers[*keys.begin()];
    return llvm::seq<int64_t>(first, first + keys.size());
  }
  /// Whether every cell is in exactly one group. Only then can a walk time the
  /// table (docs/Dialects/RationaleTimes.md).
  bool eachMeetsOnce() const;
  /// The phases of the table that have groups.
  PhaseSet getPhases() const { return phases; }

  //===--------------------------------------------------------------------===//
  // Groups by blocks
  //===--------------------------------------------------------------------===//

  const ParameterSets &getParameterSets() const { return *parameterSets; }
  const Replicas &getReplicas() const { return parameterSets->getReplicas(); }
  int64_t pieceOf(int64_t number) const { return keys[number]; }
  /// Index, in the row of its worker, of the cell with which a stage takes part
  /// in a phase; -1 if the stage has none.
  int64_t indexOf(Phase phase, int64_t globalStage) const {
    int64_t first = firstIndex[phase];
    return first < 0 ? -1 : indices[first + globalStage];
  }

private:
  llvm::iota_range<int64_t> keysOf(Cell cell) const;
  int64_t countKeys(Grouping grouping) const;
  GroupName nameOfKey(Phase phase, int64_t key) const;
  bool isFirst(CellRef at, Cell cell) const;
  template <typename Visit>
  void forEachMember(const TableView &table, Visit &&visit) const;
  void noteFirst(const TableView &table);
  void numberKeys(const std::vector<uint32_t> &memberCounts);

  const Placement *placement;
  PhaseSet phases;
  std::shared_ptr<const ParameterSets> parameterSets;
  /// The key by which a provider distinguishes groups of a phase: a piece or a
  /// unit. The keys of a phase start at firstKey; `numbers` has the number of
  /// the group for each key, or -1.
  PhaseMap<int64_t> firstKey;
  std::vector<int64_t> numbers;
  /// Where the global stages of a phase start in `indices`; -1: not by blocks.
  PhaseMap<int64_t> firstIndex;
  std::vector<int64_t> indices;
  std::vector<GroupName> names;       ///< by number
  std::vector<int64_t> keys;          ///< by number: the piece or the unit
  std::vector<uint32_t> memberBegins; ///< by number: CSR
  std::vector<CellRef> members;
};

} // namespace pipesched

#endif // PIPESCHED_SCHEDULE_TABLE_GROUPS_H
