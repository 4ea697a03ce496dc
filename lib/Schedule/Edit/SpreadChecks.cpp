//===- SpreadChecks.cpp - What can be spread over workers -----------------===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Looks for cells that rows must not have, and counts those that they get.
//
//===----------------------------------------------------------------------===//

#include "SpreadChecks.h"
#include "PipeSched/Support/FormatError.h"

using namespace pipesched;
using llvm::formatv;
using llvm::StringRef;

/// Finds a cell that is spread already, or that would run too early.
static std::optional<Violation>
findSpreadOrEnded(const TableView &table, PhaseSet added, StringRef what) {
  for (int64_t row = 0, end = table.rows.size(); row != end; ++row)
    for (int64_t i = 0, e = table.rows[row].size(); i != e; ++i) {
      Cell cell = table.rows[row][i];
      std::string reason;
      if (cell.isIn(added))
        reason = formatv("the {0} is spread over the workers already", what);
      else if (cell.isPerPath())
        reason = formatv("it would run before the shards have added their "
                         "gradients; spread the {0} before optimizer steps "
                         "are added",
                         what);
      if (!reason.empty())
        return Violation{CellRef{row, i},
                         formatv("cell {0} ({1}): {2}", i,
                                 table.placement->nameOf(cell), reason),
                         {}};
    }
  return std::nullopt;
}

llvm::Error pipesched::checkSpreadable(const TableView &table, PhaseSet added,
                                       int64_t cellsPerUnit, StringRef what) {
  std::optional<Violation> violation = findSpreadOrEnded(table, added, what);
  if (!violation && table.aligned)
    violation = {std::nullopt,
                 formatv("the schedule has written slots; spread the {0} "
                         "before it is aligned",
                         what),
                 {}};
  if (!violation)
    violation = verifyTable(table);
  if (violation)
    return llvm::make_error<ViolationError>(std::move(*violation));
  int64_t numCells =
      table.getNumCells() + table.placement->getNumUnits() *
                                table.placement->getNumWorkers() * cellsPerUnit;
  if (numCells > kMaxTableCells)
    return formatError("with shards of the {0} the rows would have {1} "
                       "entries: a table may have {2}",
                       what, numCells, kMaxTableCells);
  return llvm::Error::success();
}
