//===- DetachedGroups.h - Collectives that rows do not stop for -*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Which collectives have met while rows are swept. A row passes its cell of
// such a collective at once, and the cells that use it wait for the group.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_SCHEDULE_TABLE_DETACHEDGROUPS_H
#define PIPESCHED_SCHEDULE_TABLE_DETACHEDGROUPS_H

#include "PipeSched/Schedule/Kinds/PhaseSets.h"
#include "PipeSched/Schedule/Table/Groups.h"
#include "PipeSched/Schedule/Table/Violation.h"
#include <vector>

namespace pipesched {

/// Calls `visit(group)` for each group alongside rows that a cell waits for:
/// the groups of the X, Y and Z of its stage and unit that the table has.
template <typename Visit>
void forEachAwaitedGroup(const CellIndex &index, Cell cell, Visit &&visit) {
  if (traitsOf(cell.getPhase()).number != CellNumber::Unit)
    return;
  const OwnEdges &edges = kOwnEdges[cell.getPhase()];
  for (unsigned i = 0; i != edges.count; ++i) {
    Phase phase = edges.phases[i];
    if (!kDetachedPhases.contains(phase) ||
        index.at(index.entryOf(cell), phase) == CellIndex::kNone)
      continue;
    Cell member = cell.withPhase(phase).withOverlap(false);
    visit(*index.getGroups()->groupsOf(member).begin());
  }
}

/// A worker takes part in the collectives of a queue in the order of its row:
///
///   row 0   .. Y0 .. Y1          Y0 meets when both rows have passed theirs,
///   row 1   .. Y0 ..... Y1       Y1 not before Y0
///
/// so a group meets when each of its cells is passed and at the head of its
/// queue. Linear in the cells of such groups.
class DetachedGroups {
public:
  DetachedGroups(const TableView &table, const CellIndex &index);

  /// Notes that a row has come to its cell of a collective.
  void pass(CellRef at);
  bool hasMet(int64_t group) const { return isMet[group]; }
  /// Why a group has not met: one wait, of `waiting` for a cell that its row
  /// has not passed; or a cycle of waits, if the queues of several rows have
  /// the same groups in different orders. `next` counts the entries that each
  /// row has passed.
  std::vector<CellWait> findWaits(CellRef waiting, int64_t group,
                                  llvm::ArrayRef<int64_t> next) const;

private:
  /// The groups that a row has passed and that have not met, from `head` on.
  struct Line {
    std::vector<int64_t> groups;
    size_t head = 0;
  };
  /// A group that comes after another one in the queue of a row.
  struct Block {
    int64_t group, row, behind;
  };

  Line &lineOf(CellRef at) { return lines[lineNumber(at)]; }
  size_t lineNumber(CellRef at) const;
  void arrive(int64_t group);
  Block findBlock(int64_t group) const;
  CellRef memberOn(int64_t group, int64_t row) const;
  std::vector<CellWait> describe(llvm::ArrayRef<Block> cycle) const;

  const TableView &table;
  const Groups &groups;
  std::vector<Line> lines;         ///< by row and queue
  std::vector<uint32_t> numAtHead; ///< by group: its cells at the head
  std::vector<bool> isMet;         ///< by group
  std::vector<int64_t> ready;      ///< groups that meet now
};

} // namespace pipesched

#endif // PIPESCHED_SCHEDULE_TABLE_DETACHEDGROUPS_H
