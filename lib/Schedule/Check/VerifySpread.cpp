//===- VerifySpread.cpp - Checks of phases that workers share -------------===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A phase with Occurrence::Spread computes a shard on each worker, so each
// worker of a unit's path has one cell of it.
//
//===----------------------------------------------------------------------===//

#include "PipeSched/Schedule/Check/Verify.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallBitVector.h"
#include "llvm/Support/FormatVariadic.h"

using namespace pipesched;
using llvm::ArrayRef;
using llvm::formatv;

namespace {
/// Checks the cells of one phase.
class SpreadVerifier {
public:
  SpreadVerifier(const TableView &table, Phase phase)
      : table(table), placement(*table.placement), phase(phase),
        byUnit(placement.getNumUnits()) {}

  std::optional<Violation> run();

private:
  /// The cells of a unit that were found.
  struct Shards {
    int64_t count = 0;
    CellRef last = {-1, -1}; ///< in the order of the rows
  };

  std::optional<Violation> readRow(int64_t row);
  std::optional<Violation> checkStage(CellRef here) const;
  std::optional<Violation> checkUnit(int64_t unit) const;
  bool hasCell(int64_t row, int64_t unit) const {
    return llvm::any_of(table.rows[row], [&](Cell cell) {
      return cell.is(phase) && cell.getUnit() == unit;
    });
  }
  CellName nameAt(CellRef at) const {
    return placement.nameOf(table.rows[at.row][at.index]);
  }

  const TableView &table;
  const Placement &placement;
  Phase phase;
  std::vector<Shards> byUnit;
  std::vector<int64_t> numWorkersOf; ///< by path
  std::optional<CellRef> any;        ///< a cell of the phase
};
} // namespace

/// On the worker of the first or last stage, what takes its input or output is
/// a cell of it: that is what the order of the row and its waits go by.
std::optional<Violation> SpreadVerifier::checkStage(CellRef here) const {
  Cell cell = table.rows[here.row][here.index];
  int64_t path = placement.pathOf(cell.getUnit());
  std::optional<PathEnd> end = traitsOf(phase).order.end;
  if (!end)
    return std::nullopt;
  bool isFirst = *end == PathEnd::First;
  int64_t stage = isFirst ? 0 : placement.getNumStages(path) - 1;
  if (cell.getStage() == stage ||
      placement.workerOf(placement.stageOffset(path) + stage) != here.row)
    return std::nullopt;
  return Violation{
      here,
      formatv("cell {0} ({1}) is of stage {2}, but worker {3} has the {4} "
              "stage of its path, from which shards take and to which they "
              "give: it has to be {5}",
              here.index, nameAt(here), cell.getStage(), here.row,
              isFirst ? "first" : "last",
              placement.nameOf(Cell(stage, phase, cell.getUnit()))),
      {}};
}

std::optional<Violation> SpreadVerifier::readRow(int64_t row) {
  ArrayRef<Cell> cells = table.rows[row];
  for (int64_t i = 0, e = cells.size(); i != e; ++i) {
    if (!cells[i].is(phase))
      continue;
    CellRef here = {row, i};
    if (std::optional<Violation> violation = checkStage(here))
      return violation;
    Shards &shards = byUnit[cells[i].getUnit()];
    if (shards.last.row == row)
      return Violation{
          here,
          formatv("cell {0} ({1}) runs the shard of worker {2} a second time",
                  i, nameAt(here), row),
          {{shards.last, formatv("{0} is cell {1} of this row",
                                 nameAt(shards.last), shards.last.index)}}};
    shards.last = here;
    ++shards.count;
    if (!any)
      any = here;
  }
  return std::nullopt;
}

/// Finds a worker of the path of a unit that has no cell.
std::optional<Violation> SpreadVerifier::checkUnit(int64_t unit) const {
  int64_t path = placement.pathOf(unit);
  const Shards &shards = byUnit[unit];
  if (shards.count == numWorkersOf[path])
    return std::nullopt;
  CellRef other = shards.count == 0 ? *any : shards.last;
  for (int64_t stage = 0; stage != placement.getNumStages(path); ++stage) {
    int64_t worker = placement.workerOf(placement.stageOffset(path) + stage);
    if (shards.count != 0 && hasCell(worker, unit))
      continue;
    return Violation{
        other,
        formatv("{0} is missing: worker {1} runs {2}, and worker {3} has a "
                "shard of it",
                placement.nameOf(Cell(stage, phase, unit)), other.row,
                nameAt(other), worker),
        {}};
  }
  return std::nullopt;
}

std::optional<Violation> SpreadVerifier::run() {
  for (int64_t row = 0, e = table.rows.size(); row != e; ++row)
    if (std::optional<Violation> violation = readRow(row))
      return violation;
  if (!any)
    return std::nullopt;
  for (int64_t path = 0; path != placement.getNumPaths(); ++path) {
    llvm::SmallBitVector isOnPath(placement.getNumWorkers());
    for (int32_t worker : placement.getPath(path).workers)
      isOnPath.set(worker);
    numWorkersOf.push_back(isOnPath.count());
  }
  for (int64_t unit = 0; unit != placement.getNumUnits(); ++unit)
    if (std::optional<Violation> violation = checkUnit(unit))
      return violation;
  return std::nullopt;
}

std::optional<Violation> pipesched::verifySpread(const TableView &table) {
  std::optional<Violation> violation;
  kSpreadPhases.forEach([&](Phase phase) {
    if (!violation)
      violation = SpreadVerifier(table, phase).run();
  });
  return violation;
}
