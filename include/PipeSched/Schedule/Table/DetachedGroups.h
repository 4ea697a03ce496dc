//===- DetachedGroups.h - Collectives that do not stop rows -----*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Tracks which collectives have met while rows are swept. A row passes its cell
// of such a collective at once, and only the cells that use the result wait for
// the group.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_SCHEDULE_TABLE_DETACHEDGROUPS_H
#define PIPESCHED_SCHEDULE_TABLE_DETACHEDGROUPS_H

#include "PipeSched/Schedule/Kinds/PhaseSets.h"
#include "PipeSched/Schedule/Table/Groups.h"
#include "PipeSched/Schedule/Table/Violation.h"
#include <vector>

namespace pipesched {

/// Calls `visit(group)` for each detached group that a cell waits for: the
/// groups of the X, Y and Z cells of its stage and unit, if the table has them.
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
/// So a group meets when all its cells have been passed and are at the head of
/// their queues. Linear in the cells of detached groups.
class DetachedGroups {
public:
  DetachedGroups(const TableView &table, const CellIndex &index);

  /// Records that a row has reached its cell of a collective.
  void pass(CellRef at);
  bool hasMet(int64_t group) const { return isMet[group]; }
  /// Returns the reason why a group has not met. It is either one wait, of
  /// `waiting` for a cell that its row has not passed, or a cycle of waits if
  /// the queues of several rows have the same groups in different orders.
  /// `next` counts the entries that each row has passed.
  std::vector<CellWait> findWaits(CellRef waiting, int64_t group,
                                  llvm::ArrayRef<int64_t> next) const;

private:
  /// The groups that a row has passed and that have not met yet; they start at
  /// `head`.
  struct Line {
    std::vector<int64_t> groups;
    size_t head = 0;
  };
  /// A group that comes after another group in the queue of a row.
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
  std::vector<Line> lines; ///< by row and queue
  /// By group: number of its cells at the head of their queues.
  std::vector<uint32_t> numAtHead;
  std::vector<bool> isMet;    ///< by group
  std::vector<int64_t> ready; ///< groups that can meet now
};

} // namespace pipesched

#endif // PIPESCHED_SCHEDULE_TABLE_DETACHEDGROUPS_H
