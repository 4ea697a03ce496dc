//===- VerifyParameterSets.cpp - Checks of O and G by their blocks --------===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// One sweep over each row: an O or G marks all stages that hold its blocks, and
// no later cell may be of a marked stage. verifyRow has done so for the stage
// of the O or G itself.
//
//===----------------------------------------------------------------------===//

#include "PipeSched/Schedule/Check/Verify.h"
#include "PipeSched/Schedule/Table/ParameterSets.h"
#include "llvm/Support/FormatVariadic.h"

using namespace pipesched;
using llvm::formatv;

namespace {
class ParameterSetVerifier {
public:
  ParameterSetVerifier(const TableView &table, const ParameterSets &sets)
      : table(table), placement(*table.placement), sets(sets),
        marks(placement.getNumGlobalStages()) {}

  std::optional<Violation> checkRow(int64_t row);

private:
  /// Where the row first steps and first reduces blocks of a stage.
  struct Mark {
    int64_t step = -1, reduction = -1;
  };

  std::optional<Violation> checkOwner(CellRef at) const;
  std::optional<Violation> checkCell(CellRef at) const;
  void mark(CellRef at);
  Cell cellAt(CellRef at) const { return table.rows[at.row][at.index]; }
  int64_t stageAt(CellRef at) const {
    return placement.globalStage(cellAt(at));
  }

  const TableView &table;
  const Placement &placement;
  const ParameterSets &sets;
  std::vector<Mark> marks; ///< by global stage
};
} // namespace

/// Checks that the stage of an O or G owns blocks.
std::optional<Violation> ParameterSetVerifier::checkOwner(CellRef at) const {
  Cell cell = cellAt(at).withOverlap(false);
  if (sets.ownsAny(stageAt(at)))
    return std::nullopt;
  return Violation{at,
                   formatv("cell {0} ({1}) has nothing to {2}: {3}", at.index,
                           cell, cell.is(Phase::Optimizer) ? "step" : "reduce",
                           sets.describeOwners(stageAt(at), cell.getPhase())),
                   {}};
}

void ParameterSetVerifier::mark(CellRef at) {
  bool isStep = cellAt(at).is(Phase::Optimizer);
  sets.forEachUser(stageAt(at), [&](int64_t stage) {
    int64_t &first = isStep ? marks[stage].step : marks[stage].reduction;
    if (first < 0)
      first = at.index;
  });
}

/// Checks that a cell that uses parameters comes before the O and the G of its
/// blocks. A mark behind the cell is the other half of its pair.
std::optional<Violation> ParameterSetVerifier::checkCell(CellRef at) const {
  Cell cell = cellAt(at).withOverlap(false);
  const Mark &mark = marks[stageAt(at)];
  int64_t other = mark.step;
  if (other < 0 && cell.isIn(kGradientPhases))
    other = mark.reduction;
  if (other < 0)
    return std::nullopt;
  CellRef otherAt = {at.row, other};
  Cell otherCell = cellAt(otherAt).withOverlap(false);
  return Violation{
      at,
      formatv("cell {0} ({1}) {2} {3}, which {4} its blocks", at.index,
              placement.nameOf(cell),
              other == at.index + 1 ||
                      (other + 1 == at.index && cellAt(otherAt).overlapsNext())
                  ? "is overlapped with"
                  : "runs after",
              otherCell,
              otherCell.is(Phase::Optimizer) ? "steps"
                                             : "reduces the gradients of"),
      {{otherAt, formatv("{0} is cell {1} of this row", otherCell, other)}}};
}

///   row     1F0 1F1 1B1 1B0 1O0        stages 1 of both paths are the same
///   marks                   both
std::optional<Violation> ParameterSetVerifier::checkRow(int64_t row) {
  llvm::ArrayRef<Cell> cells = table.rows[row];
  for (int64_t i = 0, end = cells.size(); i != end; ++i) {
    if (cells[i].isPerPath())
      if (std::optional<Violation> violation = checkOwner({row, i}))
        return violation;
    bool isPair = cells[i].overlapsNext() && i + 1 != end;
    if (isPair && cells[i + 1].isPerPath())
      mark({row, i + 1});
    if (cells[i].isPerPath())
      mark({row, i});
    else if (cells[i].isCompute())
      if (std::optional<Violation> violation = checkCell({row, i}))
        return violation;
  }
  return std::nullopt;
}

std::optional<Violation>
pipesched::verifyParameterSets(const TableView &table, const CellIndex &index) {
  const ParameterSets *sets = index.getParameterSets();
  if (!sets)
    return std::nullopt;
  ParameterSetVerifier verifier(table, *sets);
  for (int64_t row = 0, end = table.rows.size(); row != end; ++row)
    if (std::optional<Violation> violation = verifier.checkRow(row))
      return violation;
  return std::nullopt;
}
