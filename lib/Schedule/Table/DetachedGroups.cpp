//===- DetachedGroups.cpp - Collectives that do not stop rows -------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Each row has a line of groups for each queue. A group meets when it is at the
// head of all its lines; then the next groups of these lines move to the head.
//
//===----------------------------------------------------------------------===//

#include "PipeSched/Schedule/Table/DetachedGroups.h"
#include "llvm/ADT/STLExtras.h"

using namespace pipesched;
using llvm::ArrayRef;

DetachedGroups::DetachedGroups(const TableView &table, const CellIndex &index)
    : table(table), groups(*index.getGroups()),
      lines(table.rows.size() * kNumQueues), numAtHead(groups.size(), 0),
      isMet(groups.size(), false) {}

/// The queue does not depend on the transport.
size_t DetachedGroups::lineNumber(CellRef at) const {
  Cell cell = table.rows[at.row][at.index];
  size_t number = at.row * kNumQueues;
  queuesOf(*traitsOf(cell.getPhase()).instruction, Transport::Overlap)
      .forEach([&](Queue queue) { number += static_cast<size_t>(queue); });
  return number;
}

/// Records that one more cell of a group is at the head of its line.
void DetachedGroups::arrive(int64_t group) {
  if (++numAtHead[group] == groups.membersOf(group).size())
    ready.push_back(group);
}

void DetachedGroups::pass(CellRef at) {
  int64_t group = *groups.groupsOf(table.rows[at.row][at.index]).begin();
  Line &line = lineOf(at);
  line.groups.push_back(group);
  if (line.head + 1 == line.groups.size())
    arrive(group);
  while (!ready.empty()) {
    int64_t met = ready.back();
    ready.pop_back();
    isMet[met] = true;
    for (CellRef member : groups.membersOf(met)) {
      Line &own = lineOf(member);
      if (++own.head < own.groups.size())
        arrive(own.groups[own.head]);
    }
  }
}

/// Finds the first row in whose queue a group comes after another group. All
/// rows have passed the group.
DetachedGroups::Block DetachedGroups::findBlock(int64_t group) const {
  for (CellRef member : groups.membersOf(group)) {
    const Line &line = lines[lineNumber(member)];
    if (int64_t first = line.groups[line.head]; first != group)
      return {group, member.row, first};
  }
  return {group, groups.membersOf(group).front().row, group};
}

CellRef DetachedGroups::memberOn(int64_t group, int64_t row) const {
  return *llvm::find_if(groups.membersOf(group),
                        [&](CellRef member) { return member.row == row; });
}

/// Describes a cycle of groups: each comes after the next one in some row, and
/// the last after the first. The group at the head of that row waits for its
/// cell in the next row.
std::vector<CellWait> DetachedGroups::describe(ArrayRef<Block> cycle) const {
  std::vector<CellWait> waits;
  for (size_t i = 0; i != cycle.size(); ++i) {
    const Block &next = cycle[(i + 1) % cycle.size()];
    waits.push_back(
        {memberOn(next.group, cycle[i].row), memberOn(next.group, next.row)});
  }
  return waits;
}

std::vector<CellWait> DetachedGroups::findWaits(CellRef waiting, int64_t group,
                                                ArrayRef<int64_t> next) const {
  llvm::SmallVector<Block> blocks;
  while (true) {
    for (CellRef member : groups.membersOf(group))
      if (next[member.row] <= member.index)
        return {{waiting, member}};
    blocks.push_back(findBlock(group));
    group = blocks.back().behind;
    Block *again = llvm::find_if(
        blocks, [&](const Block &block) { return block.group == group; });
    if (again != blocks.end())
      return describe(llvm::ArrayRef(again, blocks.end()));
  }
}
