//===- Groups.cpp - Which cells of a table meet ---------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A provider maps a cell to the keys by which it meets others: pieces of the
// model, or its microbatch. Two sweeps over the rows find the cells: the first
// counts the members of each key, the second writes them. The keys with members
// are the groups.
//
//===----------------------------------------------------------------------===//

#include "PipeSched/Schedule/Table/Groups.h"
#include "PipeSched/Schedule/Kinds/PhaseSets.h"
#include "llvm/ADT/STLExtras.h"

using namespace pipesched;

std::string pipesched::describeGroup(const GroupName &name) {
  if (name.grouping() == Grouping::Blocks)
    return "blocks " + std::to_string(name.blocks.begin) + " to " +
           std::to_string(name.blocks.end);
  return "microbatch " + std::to_string(name.unit);
}

//===----------------------------------------------------------------------===//
// Providers of groups, by Grouping
//===----------------------------------------------------------------------===//

/// The number of keys.
int64_t Groups::countKeys(Grouping grouping) const {
  switch (grouping) {
  case Grouping::None:
    return 0;
  case Grouping::Blocks:
    return getReplicas().getNumPieces();
  case Grouping::Unit:
    return placement->getNumUnits();
  }
  llvm_unreachable("covered switch");
}

/// The keys of a cell, one for each group that it joins.
llvm::iota_range<int64_t> Groups::keysOf(Cell cell) const {
  int64_t first = firstKey[cell.getPhase()];
  switch (groupingOf(cell.getPhase())) {
  case Grouping::None:
    break;
  case Grouping::Blocks: {
    auto owned = parameterSets->ownedPiecesOf(placement->globalStage(cell));
    return llvm::seq(first + *owned.begin(), first + *owned.end());
  }
  case Grouping::Unit:
    return llvm::seq(first + cell.getUnit(), first + cell.getUnit() + 1);
  }
  return llvm::seq<int64_t>(0, 0);
}

/// The name of the group of a key. Keys count from 0 in each phase.
GroupName Groups::nameOfKey(Phase phase, int64_t key) const {
  GroupName name;
  name.kind = *traitsOf(phase).instruction;
  if (name.grouping() == Grouping::Blocks)
    name.blocks = getReplicas().blocksOf(key);
  else
    name.unit = key;
  return name;
}

//===----------------------------------------------------------------------===//
// Groups
//===----------------------------------------------------------------------===//

/// Whether a cell of the table is the first of its stage and path. If an
/// invalid table has the cell twice, only the first counts.
bool Groups::isFirst(CellRef at, Cell cell) const {
  int64_t first = firstIndex[cell.getPhase()];
  return first < 0 || indices[first + placement->globalStage(cell)] == at.index;
}

/// Calls `visit(at, cell)` for each cell that is in a group, row by row.
template <typename Visit>
void Groups::forEachMember(const TableView &table, Visit &&visit) const {
  for (int64_t row = 0, end = table.rows.size(); row != end; ++row)
    for (auto [index, cell] : llvm::enumerate(table.rows[row]))
      if (cell.isIn(phases))
        visit(CellRef{row, int64_t(index)}, cell);
}

void Groups::noteFirst(const TableView &table) {
  forEachMember(table, [&](CellRef at, Cell cell) {
    int64_t first = firstIndex[cell.getPhase()];
    if (first < 0)
      return;
    int64_t &index = indices[first + placement->globalStage(cell)];
    if (index < 0)
      index = at.index;
  });
}

/// Numbers the keys that have members. The phases of blocks come first.
void Groups::numberKeys(const std::vector<uint32_t> &memberCounts) {
  numbers.assign(memberCounts.size(), -1);
  memberBegins = {0};
  for (Grouping grouping : {Grouping::Blocks, Grouping::Unit})
    phases.forEach([&](Phase phase) {
      if (groupingOf(phase) != grouping)
        return;
      for (int64_t key = 0, e = countKeys(grouping); key != e; ++key) {
        uint32_t count = memberCounts[firstKey[phase] + key];
        if (count == 0)
          continue;
        numbers[firstKey[phase] + key] = names.size();
        names.push_back(nameOfKey(phase, key));
        keys.push_back(key);
        memberBegins.push_back(memberBegins.back() + count);
      }
    });
}

Groups::Groups(const TableView &table, PhaseSet phases,
               std::shared_ptr<const ParameterSets> sets)
    : placement(table.placement), phases(phases),
      parameterSets(std::move(sets)) {
  firstKey.fill(0);
  firstIndex.fill(-1);
  int64_t numKeys = 0;
  phases.forEach([&](Phase phase) {
    firstKey[phase] = numKeys;
    numKeys += countKeys(groupingOf(phase));
    if (groupingOf(phase) != Grouping::Blocks)
      return;
    firstIndex[phase] = indices.size();
    indices.resize(indices.size() + placement->getNumGlobalStages(), -1);
  });
  noteFirst(table);
  std::vector<uint32_t> counts(numKeys, 0);
  forEachMember(table, [&](CellRef at, Cell cell) {
    if (isFirst(at, cell))
      for (int64_t key : keysOf(cell))
        ++counts[key];
  });
  numberKeys(counts);
  members.resize(memberBegins.back());
  std::vector<uint32_t> next(memberBegins.begin(), memberBegins.end() - 1);
  forEachMember(table, [&](CellRef at, Cell cell) {
    if (isFirst(at, cell))
      for (int64_t key : keysOf(cell))
        members[next[numbers[key]]++] = at;
  });
}

llvm::Expected<Groups> Groups::create(const TableView &table) {
  PhaseSet phases;
  for (llvm::ArrayRef<Cell> row : table.rows)
    for (Cell cell : row)
      phases |= cell.getPhase();
  phases = phases & kCollectivePhases;
  std::shared_ptr<const ParameterSets> sets;
  if (phases.intersects(kBlockPhases)) {
    llvm::Expected<ParameterSets> found =
        ParameterSets::create(*table.placement);
    if (!found)
      return found.takeError();
    sets = std::make_shared<const ParameterSets>(std::move(*found));
  }
  return Groups(table, phases, std::move(sets));
}

bool Groups::eachMeetsOnce() const {
  bool meetsOnce = true;
  phases.forEach([&](Phase phase) {
    if (groupingOf(phase) != Grouping::Blocks)
      return;
    for (int64_t stage = 0, e = placement->getNumGlobalStages(); stage != e;
         ++stage)
      meetsOnce &= indexOf(phase, stage) < 0 ||
                   parameterSets->ownedPiecesOf(stage).size() == 1;
  });
  return meetsOnce;
}
