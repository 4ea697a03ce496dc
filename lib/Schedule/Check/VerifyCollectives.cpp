//===- VerifyCollectives.cpp - Checks of gradient all-reduces -------------===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Checks that the G cells of a table match, and the slots at which they start.
//
//===----------------------------------------------------------------------===//

#include "PipeSched/Schedule/Check/Verify.h"
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
// Who takes part
//===----------------------------------------------------------------------===//

/// Finds a stage that owns the piece but has no G, although the stage that owns
/// it on another worker has one.
static std::optional<Violation> checkComplete(const TableView &table,
                                              const Collectives &collectives,
                                              int64_t piece) {
  const Placement &placement = *table.placement;
  ArrayRef<CellRef> members = collectives.membersOf(piece);
  if (members.empty())
    return std::nullopt;
  for (int64_t path = 0; path < placement.getNumPaths(); ++path) {
    int64_t stage = collectives.getReplicas().holderOf(piece, path);
    if (collectives.indexOf(stage) >= 0 ||
        !llvm::is_contained(collectives.piecesOf(stage), piece))
      continue;
    CellRef other = members.front(); // on another worker, which has a G
    int64_t worker = placement.workerOf(stage);
    return Violation{
        other,
        formatv("{0} is missing: worker {1} runs {2} and worker {3} holds the "
                "same blocks",
                cellOf(placement, path, stage, Phase::AllReduce), other.row,
                cellAt(table, other), worker),
        {}};
  }
  return std::nullopt;
}

std::optional<Violation> pipesched::verifyCollectives(const TableView &table,
                                                      const CellIndex &index) {
  const Collectives *collectives = index.getCollectives();
  if (!collectives)
    return std::nullopt;
  int64_t numPieces = collectives->getReplicas().getNumPieces();
  for (int64_t piece = 0; piece < numPieces; ++piece)
    if (auto violation = checkComplete(table, *collectives, piece))
      return violation;
  return std::nullopt;
}

//===----------------------------------------------------------------------===//
// When they meet
//===----------------------------------------------------------------------===//

namespace {
/// Checks the written slots of an aligned table.
class MeetingVerifier {
public:
  MeetingVerifier(const TableView &table, const CellIndex &index)
      : table(table), index(index), collectives(*index.getCollectives()),
        slots(readSlots(table, index)) {}

  std::optional<Violation> check(int64_t piece) const;

private:
  int64_t startOf(CellRef at) const {
    return slots.start[index.rowBegin(at.row) + at.index];
  }
  /// The slot from which the row of a G is free for it.
  int64_t freeSlotFor(CellRef at) const {
    while (at.index > 0)
      if (--at.index; cellAt(table, at).isCompute())
        return startOf(at) + slotsOf(table, at);
    return 0;
  }
  bool meetsOnce(CellRef at) const {
    int64_t stage = table.placement->globalStage(cellAt(table, at));
    return collectives.piecesOf(stage).size() == 1;
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
  const Collectives &collectives;
  SlotAssignment slots;
};
} // namespace

/// The G cells of one group start together. A G in several groups starts when
/// all their rows are free.
std::optional<Violation> MeetingVerifier::check(int64_t piece) const {
  ArrayRef<CellRef> members = collectives.membersOf(piece);
  bool isOneMeeting =
      llvm::all_of(members, [&](CellRef at) { return meetsOnce(at); });
  if (isOneMeeting) {
    for (CellRef at : members)
      if (startOf(at) != startOf(members.front()))
        return describe(at, members.front(),
                        formatv("cell {0} ({1}) of worker {2} starts at slot "
                                "{3}, {4} at slot {5}: an all-reduce starts in "
                                "all rows at once",
                                at.index, cellAt(table, at), at.row,
                                startOf(at), name(members.front()),
                                startOf(members.front())));
    return std::nullopt;
  }
  for (CellRef other : members)
    for (CellRef at : members)
      if (startOf(at) < freeSlotFor(other))
        return describe(at, other,
                        formatv("cell {0} ({1}) of worker {2} starts at slot "
                                "{3}, before worker {4} can start {5}, which "
                                "is at slot {6}",
                                at.index, cellAt(table, at), at.row,
                                startOf(at), other.row, cellAt(table, other),
                                freeSlotFor(other)));
  return std::nullopt;
}

std::optional<Violation> pipesched::verifyMeetings(const TableView &table,
                                                   const CellIndex &index) {
  if (!index.getCollectives())
    return std::nullopt;
  MeetingVerifier verifier(table, index);
  int64_t numPieces = index.getCollectives()->getReplicas().getNumPieces();
  for (int64_t piece = 0; piece < numPieces; ++piece)
    if (std::optional<Violation> violation = verifier.check(piece))
      return violation;
  return std::nullopt;
}
