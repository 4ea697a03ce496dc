//===- Table.cpp - A schedule table: workers by slots ---------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Views of tables, and the dense index from cells to their positions. One sweep
// counts phases to allocate the index, a second sweep fills it.
//
//===----------------------------------------------------------------------===//

#include "PipeSched/Schedule/Table/Table.h"
#include "PipeSched/Schedule/Kinds/PhaseSets.h"
#include "PipeSched/Schedule/Table/Groups.h"
#include "PipeSched/Support/FormatError.h"
#include "llvm/Support/MathExtras.h"
#include <algorithm>

using namespace pipesched;
using llvm::Error;
using llvm::Expected;

StageSlots::StageSlots(int64_t forward, int64_t inputGrad, int64_t weightGrad) {
  int64_t backward = 0;
  if (llvm::AddOverflow(inputGrad, weightGrad, backward))
    backward = std::numeric_limits<int64_t>::max();
  set(Phase::Forward, forward);
  set(Phase::Backward, backward);
  set(Phase::InputGrad, inputGrad);
  set(Phase::WeightGrad, weightGrad);
  set(Phase::Recompute, forward);
  setOthers(1);
}

void StageSlots::setOthers(int64_t weight) {
  (kComputePhases - kForwardPhases - kBackwardPhases).forEach([&](Phase phase) {
    set(phase, weight * traitsOf(phase).unitSlots);
  });
}

int64_t TableView::getNumCells() const {
  int64_t count = 0;
  for (llvm::ArrayRef<Cell> row : rows)
    count += row.size();
  return count;
}

TableView Table::view() const {
  TableView view;
  view.placement = &placement;
  view.gradientAfter = gradientAfter;
  view.aligned = aligned;
  view.slots = slots;
  view.rows.assign(rows.begin(), rows.end());
  return view;
}

Expected<CellIndex> CellIndex::create(const TableView &table) {
  if (!table.placement->isAssigned())
    return formatError(
        "several paths without microbatches: state them with 'takes'");
  if (int64_t cells = table.getNumCells(); cells > kMaxTableCells)
    return formatError("the table has {0} entries: there may be {1} at most",
                       cells, kMaxTableCells);
  PhaseMap<int64_t> phaseCounts = {};
  for (llvm::ArrayRef<Cell> row : table.rows)
    for (Cell cell : row)
      ++phaseCounts[cell.getPhase()];
  int64_t forwards = phaseCounts[Phase::Forward];
  int64_t wanted = 0;
  for (int64_t s = 0; s != table.placement->getNumGlobalStages(); ++s)
    wanted += table.placement->countOnStage(s);
  if (forwards < wanted)
    return formatError("the table has {0} of {1} forward cells", forwards,
                       wanted);
  CellIndex index;
  index.layOut(table, phaseCounts);
  if (Error error = index.fill(table))
    return std::move(error);
  PhaseSet present;
  (kPerPathPhases | kCollectivePhases).forEach([&](Phase phase) {
    if (phaseCounts[phase] != 0)
      present |= phase;
  });
  if (present.intersects(kPerPathPhases)) {
    Expected<ParameterSets> sets = ParameterSets::create(*table.placement);
    if (!sets)
      return sets.takeError();
    index.parameterSets =
        std::make_shared<const ParameterSets>(std::move(*sets));
  }
  if (present.intersects(kCollectivePhases))
    index.groups = std::make_shared<const Groups>(
        table, present & kCollectivePhases, index.parameterSets);
  return index;
}

void CellIndex::layOut(const TableView &table,
                       const PhaseMap<int64_t> &phaseCounts) {
  placement = table.placement;
  columnOfPhase.fill(-1);
  kIndexedPhases.forEach([&](Phase phase) {
    if (phaseCounts[phase] != 0)
      columnOfPhase[phase] = numColumns++;
  });
  rowBegins = {0};
  for (llvm::ArrayRef<Cell> row : table.rows)
    rowBegins.push_back(rowBegins.back() + row.size());
  entries.assign(getNumEntries() * numColumns, kNone);
}

Error CellIndex::fill(const TableView &table) {
  uint32_t flat = 0;
  for (llvm::ArrayRef<Cell> row : table.rows)
    for (Cell cell : row) {
      uint32_t here = flat++;
      int32_t column = columnOfPhase[cell.getPhase()];
      if (column < 0)
        continue; // not indexed
      uint32_t &slot = entries[entryOf(cell) * numColumns + column];
      if (slot != kNone)
        return formatError("{0} occurs twice", placement->nameOf(cell));
      slot = here;
    }
  return Error::success();
}

int64_t CellIndex::rowOf(uint32_t flat) const {
  return std::upper_bound(rowBegins.begin(), rowBegins.end(), flat) -
         rowBegins.begin() - 1;
}

CellRef CellIndex::refOf(uint32_t flat) const {
  int64_t row = rowOf(flat);
  return {row, flat - rowBegins[row]};
}
