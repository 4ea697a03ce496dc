//===- Violation.cpp - Errors in tables -----------------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Describes cycles of waits, edge by edge.
//
//===----------------------------------------------------------------------===//

#include "PipeSched/Schedule/Table/Violation.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/FormatVariadic.h"

using namespace pipesched;
using llvm::ArrayRef;
using llvm::formatv;

static constexpr size_t kMaxEdgeNotes = 8;

static CellName nameIn(const TableView &table, CellRef ref) {
  return table.placement->nameOf(table.rows[ref.row][ref.index]);
}

static Violation::Note describeHold(const TableView &table, CellRef awaited,
                                    CellRef waiting) {
  bool isLater = awaited.index > waiting.index;
  return {awaited, formatv("{0} on worker {1} {2} {3} in its row",
                           nameIn(table, awaited), awaited.row,
                           isLater ? "runs after" : "is overlapped with",
                           nameIn(table, waiting))};
}

Violation pipesched::describeCycle(const TableView &table,
                                   ArrayRef<CellWait> waits) {
  Violation violation;
  std::vector<CellRef> &cycle = violation.cycle;
  for (auto [i, wait] : llvm::enumerate(waits)) {
    auto [waiting, awaited] = wait;
    cycle.push_back(waiting);
    violation.notes.push_back(
        {waiting, formatv("{0} on worker {1} waits for {2} on worker {3}",
                          nameIn(table, waiting), waiting.row,
                          nameIn(table, awaited), awaited.row)});
    CellRef next = waits[(i + 1) % waits.size()].waiting;
    if (awaited.index == next.index)
      continue;
    cycle.push_back(awaited);
    violation.notes.push_back(describeHold(table, awaited, next));
  }
  violation.at = cycle.front();
  violation.message =
      formatv("the rows deadlock: {0} waits for itself in a cycle of {1}",
              nameIn(table, cycle.front()), cycle.size());
  if (cycle.size() > kMaxEdgeNotes) {
    violation.notes.resize(kMaxEdgeNotes);
    violation.notes.push_back(
        {std::nullopt, formatv("and {0} more", cycle.size() - kMaxEdgeNotes)});
  }
  return violation;
}

std::string pipesched::toString(const Violation &violation) {
  std::string text = violation.message;
  for (const Violation::Note &note : violation.notes)
    text += "\nnote: " + note.message;
  return text;
}

char ViolationError::ID = 0;
