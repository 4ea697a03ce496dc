//===- VerifyFamily.cpp - Checks the family of rows -----------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Generates the rows again and compares. Generating is cheaper than any
// analysis, and only equal rows prove that the formula holds.
//
//===----------------------------------------------------------------------===//

#include "PipeSched/Schedule/Family/VerifyFamily.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/FormatVariadic.h"

using namespace pipesched;
using llvm::ArrayRef;
using llvm::formatv;

static constexpr llvm::StringLiteral kAdvice =
    "; remove 'family' from the schedule, or generate its rows again";

/// Returns the first cell at or after an index that is not idle; none at the
/// end.
static std::optional<Cell> nextBusyCell(ArrayRef<Cell> row, size_t &index) {
  while (index < row.size() && row[index].isIdle())
    ++index;
  return index < row.size() ? std::optional(row[index]) : std::nullopt;
}

/// Describes the cell that the family's row has in place of the found cell.
static std::string describeWanted(const Placement &placement, Cell found,
                                  std::optional<Cell> wanted) {
  if (!wanted)
    return "no more cells";
  bool differsInOverlap = found == wanted->withOverlap(found.overlapsNext());
  return formatv("{0}{1}", placement.nameOf(*wanted),
                 !differsInOverlap ? ""
                 : wanted->overlapsNext()
                     ? " overlapped with the next cell"
                     : " not overlapped with the next cell");
}

/// Finds the first cell of a row that differs from the row of the family.
static std::optional<Violation> compareRow(const Placement &placement,
                                           int64_t row, ArrayRef<Cell> found,
                                           ArrayRef<Cell> wanted,
                                           llvm::StringRef family) {
  if (found == wanted)
    return std::nullopt;
  size_t index = 0, wantedIndex = 0;
  std::optional<Cell> cell, other;
  do {
    cell = nextBusyCell(found, index);
    other = nextBusyCell(wanted, wantedIndex);
    ++index;
    ++wantedIndex;
  } while (cell && cell == other);
  if (cell == other)
    return std::nullopt;
  if (!cell)
    return Violation{
        std::nullopt,
        formatv("worker {0} ends, but family \"{1}\" has {2} next{3}", row,
                family, placement.nameOf(*other), kAdvice),
        {}};
  auto at = static_cast<int64_t>(index) - 1;
  return Violation{
      CellRef{row, at},
      formatv(
          "cell {0} ({1}) differs from family \"{2}\", which has {3} here{4}",
          at, placement.nameOf(*cell), family,
          describeWanted(placement, *cell, other), kAdvice),
      {}};
}

std::optional<Violation> pipesched::verifyFamily(const TableView &table,
                                                 const Family &family,
                                                 const FamilyOptions &options) {
  FamilyOptions asTable = options;
  if (family.takes(FamilyOption::Slices))
    asTable.slices = table.placement->getNumSlices();
  llvm::Expected<Table> generated = generate(family, *table.placement, asTable);
  if (!generated)
    return Violation{std::nullopt,
                     formatv("is not a schedule of family \"{0}\": {1}{2}",
                             family.name, llvm::toString(generated.takeError()),
                             kAdvice),
                     {}};
  for (auto [row, found] : llvm::enumerate(table.rows))
    if (std::optional<Violation> violation = compareRow(
            *table.placement, row, found, generated->rows[row], family.name))
      return violation;
  return std::nullopt;
}
