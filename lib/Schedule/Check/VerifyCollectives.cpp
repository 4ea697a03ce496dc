//===- VerifyCollectives.cpp - Checks of groups ---------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Checks that every group of a table is complete, and the slots at which its
// cells start.
//
//===----------------------------------------------------------------------===//

#include "PipeSched/Schedule/Check/Verify.h"
#include "PipeSched/Schedule/Kinds/PhaseSets.h"
#include "PipeSched/Schedule/Table/Groups.h"
#include "PipeSched/Schedule/Table/Slots.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/FormatVariadic.h"

using namespace pipesched;
using llvm::ArrayRef;
using llvm::formatv;

static Cell cellAt(const TableView &table, CellRef ref) {
  return table.rows[ref.row][ref.index];
}

static Cell cellOf(const Placement &placement, int64_t path, int64_t global,
                   Phase phase) {
  return Cell(global - placement.stageOffset(path), phase, path);
}

//===----------------------------------------------------------------------===//
// Members
//===----------------------------------------------------------------------===//

/// Finds a stage that owns the piece but has no G, although the stage that owns
/// it on another worker has one.
static std::optional<Violation>
checkHolders(const TableView &table, const Groups &groups, int64_t group) {
  const Placement &placement = *table.placement;
  CellRef other = groups.membersOf(group).front();
  Phase phase = cellAt(table, other).getPhase();
  int64_t piece = groups.pieceOf(group);
  for (int64_t path = 0; path < placement.getNumPaths(); ++path) {
    int64_t stage = groups.getReplicas().holderOf(piece, path);
    auto owned = groups.getParameterSets().ownedPiecesOf(stage);
    if (groups.indexOf(phase, stage) >= 0 || !llvm::is_contained(owned, piece))
      continue;
    int64_t worker = placement.workerOf(stage);
    return Violation{
        other, // the owner on another worker, which has a cell of the phase
        formatv("{0} is missing: worker {1} runs {2} and worker {3} holds the "
                "same blocks",
                cellOf(placement, path, stage, phase), other.row,
                cellAt(table, other), worker),
        {}};
  }
  return std::nullopt;
}

/// Finds a worker of the path of a microbatch that does not have exactly one
/// cell of the group.
static std::optional<Violation>
checkWorkers(const TableView &table, const Groups &groups, int64_t group) {
  const Placement &placement = *table.placement;
  ArrayRef<CellRef> members = groups.membersOf(group);
  for (auto [first, second] : llvm::zip(members, members.drop_front()))
    if (first.row == second.row)
      return Violation{
          second,
          formatv("cell {0} ({1}) is a second cell in the group of {2}",
                  second.index, cellAt(table, second), cellAt(table, first)),
          {{first, formatv("{0} is cell {1} of this row", cellAt(table, first),
                           first.index)}}};
  CellRef other = members.front();
  Cell cell = cellAt(table, other);
  int64_t path = placement.pathOf(cell);
  for (int64_t stage = placement.stageOffset(path),
               end = placement.stageOffset(path + 1);
       stage != end; ++stage) {
    int64_t worker = placement.workerOf(stage);
    const CellRef *member = llvm::lower_bound(
        members, worker, [](CellRef a, int64_t b) { return a.row < b; });
    if (member != members.end() && member->row == worker)
      continue;
    return Violation{other,
                     formatv("{0} is missing: worker {1} runs {2} and worker "
                             "{3} is on the path of the same microbatch",
                             Cell(stage - placement.stageOffset(path),
                                  cell.getPhase(), cell.getUnit()),
                             other.row, cell, worker),
                     {}};
  }
  return std::nullopt;
}

static std::optional<Violation>
checkComplete(const TableView &table, const Groups &groups, int64_t group) {
  switch (groups.nameOf(group).grouping()) {
  case Grouping::None:
    break;
  case Grouping::Blocks:
    return checkHolders(table, groups, group);
  case Grouping::Unit:
    return checkWorkers(table, groups, group);
  }
  return std::nullopt;
}

std::optional<Violation> pipesched::verifyCollectives(const TableView &table,
                                                      const CellIndex &index) {
  const Groups *groups = index.getGroups();
  if (!groups)
    return std::nullopt;
  for (int64_t group = 0; group != groups->size(); ++group)
    if (auto violation = checkComplete(table, *groups, group))
      return violation;
  return std::nullopt;
}

//===----------------------------------------------------------------------===//
// Slots
//===----------------------------------------------------------------------===//

namespace {
/// Checks the written slots of an aligned table.
class MeetingVerifier {
public:
  MeetingVerifier(const TableView &table, const CellIndex &index)
      : table(table), index(index), groups(*index.getGroups()),
        slots(readSlots(table, index)) {}

  std::optional<Violation> check(int64_t group) const;

private:
  std::optional<Violation> checkUsers(int64_t group) const;
  int64_t startOf(CellRef at) const {
    return slots.start[index.rowBegin(at.row) + at.index];
  }
  int64_t freeSlotFor(CellRef at) const {
    while (at.index > 0)
      if (--at.index; cellAt(table, at).isCompute())
        return startOf(at) + slotsOf(table, at);
    return 0;
  }
  bool meetsOnce(CellRef at) const {
    return groups.groupsOf(cellAt(table, at)).size() == 1;
  }
  std::string name(CellRef at) const {
    return formatv("{0} of worker {1}", cellAt(table, at), at.row);
  }
  Violation describe(CellRef at, CellRef other, std::string message) const {
    return {at,
            std::move(message),
            {{other, formatv("{0} is cell {1} of worker {2} and starts at slot "
                             "{3}",
                             cellAt(table, other), other.index, other.row,
                             startOf(other))}}};
  }

  const TableView &table;
  const CellIndex &index;
  const Groups &groups;
  SlotAssignment slots;
};
} // namespace

/// Checks detached groups, which rows do not stop for: users of a cell of the
/// group start after the last row has reached its cell of the group.
std::optional<Violation> MeetingVerifier::checkUsers(int64_t group) const {
  ArrayRef<CellRef> members = groups.membersOf(group);
  CellRef last = *llvm::max_element(
      members, [&](CellRef a, CellRef b) { return startOf(a) < startOf(b); });
  std::optional<Violation> violation;
  for (CellRef at : members)
    kUnitComputePhases.forEach([&](Phase phase) {
      Cell cell = cellAt(table, at);
      const OwnEdges &edges = kOwnEdges[phase];
      uint32_t user = index.at(index.entryOf(cell), phase);
      if (violation || user == CellIndex::kNone ||
          !llvm::is_contained(ArrayRef(edges.phases, edges.count),
                              cell.getPhase()) ||
          startOf(index.refOf(user)) >= startOf(last))
        return;
      CellRef here = index.refOf(user);
      violation = describe(
          here, last,
          formatv("cell {0} ({1}) of worker {2} starts at slot {3}, but worker "
                  "{4} reaches {5} only at slot {6}",
                  here.index, cellAt(table, here), here.row, startOf(here),
                  last.row, cellAt(table, last), startOf(last)));
    });
  return violation;
}

/// Checks that the cells of one group start together. A cell in several groups
/// starts when all their rows are free.
std::optional<Violation> MeetingVerifier::check(int64_t group) const {
  ArrayRef<CellRef> members = groups.membersOf(group);
  if (cellAt(table, members.front()).isIn(kDetachedPhases))
    return checkUsers(group);
  bool isOneMeeting =
      llvm::all_of(members, [&](CellRef at) { return meetsOnce(at); });
  if (isOneMeeting) {
    for (CellRef at : members)
      if (startOf(at) != startOf(members.front()))
        return describe(at, members.front(),
                        formatv("cell {0} ({1}) of worker {2} starts at slot "
                                "{3}, {4} at slot {5}: {6} starts in all rows "
                                "at once",
                                at.index, cellAt(table, at), at.row,
                                startOf(at), name(members.front()),
                                startOf(members.front()),
                                describePhase(cellAt(table, at).getPhase())));
    return std::nullopt;
  }
  for (CellRef other : members)
    for (CellRef at : members)
      if (startOf(at) < freeSlotFor(other))
        return describe(
            at, other,
            formatv("cell {0} ({1}) of worker {2} starts at slot {3}, but "
                    "worker {4} can start {5} only at slot {6}",
                    at.index, cellAt(table, at), at.row, startOf(at), other.row,
                    cellAt(table, other), freeSlotFor(other)));
  return std::nullopt;
}

std::optional<Violation> pipesched::verifyMeetings(const TableView &table,
                                                   const CellIndex &index) {
  if (!index.getGroups())
    return std::nullopt;
  MeetingVerifier verifier(table, index);
  for (int64_t group = 0; group != index.getGroups()->size(); ++group)
    if (std::optional<Violation> violation = verifier.check(group))
      return violation;
  return std::nullopt;
}
