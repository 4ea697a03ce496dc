//===- Backward.cpp - Whole and split backwards ---------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Each row is swept once, independently of the others. Slots of other rows
// matter only if a merged backward sends its gradient later.
//
//===----------------------------------------------------------------------===//

#include "PipeSched/Schedule/Edit/Backward.h"
#include "PipeSched/Schedule/Check/Verify.h"
#include "PipeSched/Schedule/Table/Slots.h"
#include "PipeSched/Support/FormatError.h"

using namespace pipesched;
using llvm::ArrayRef;
using llvm::Error;
using llvm::Expected;
using llvm::formatv;

static bool isOverlapped(ArrayRef<Cell> row, int64_t i) {
  return row[i].overlapsNext() || (i > 0 && row[i - 1].overlapsNext());
}

/// Prints "cell 3 (2B1) of worker 2".
static std::string name(const TableView &table, CellRef at) {
  return formatv("cell {0} ({1}) of worker {2}", at.index,
                 table.rows[at.row][at.index], at.row);
}

/// Moves the cells of an aligned table to their earliest slots if the written
/// slots are not valid for the changed rows.
static Error settleSlots(const TableView &table, BackwardChange &change) {
  TableView changed = table;
  changed.gradientAfter = change.gradientAfter;
  changed.rows.assign(change.rows.begin(), change.rows.end());
  if (std::optional<Violation> violation = verifySlotLengths(changed))
    return llvm::make_error<ViolationError>(std::move(*violation));
  if (!table.aligned)
    return Error::success();
  Expected<CellIndex> index = CellIndex::create(changed);
  if (!index)
    return index.takeError();
  if (!verifyAligned(changed, *index))
    return Error::success();
  Expected<std::vector<Row>> aligned = alignRows(changed);
  if (!aligned)
    return aligned.takeError();
  change.rows = std::move(*aligned);
  return Error::success();
}

//===----------------------------------------------------------------------===//
// Split
//===----------------------------------------------------------------------===//

namespace {
/// The backwards that can be split.
struct Backwards {
  std::vector<int64_t> numWhole; ///< by row, the cells that are not overlapped
  int64_t numOverlapped = 0;
  std::optional<CellRef> firstOverlapped, firstSplit;
};
} // namespace

/// Whether a cell is an I with a W that follows it; frozen stages have no W.
static bool isHalf(const TableView &table, Cell cell) {
  return cell.is(Phase::InputGrad) &&
         table.placement->backwardOf(cell) == StageBackward::Whole;
}

static Backwards countBackwards(const TableView &table) {
  Backwards found;
  found.numWhole.assign(table.rows.size(), 0);
  for (int64_t row = 0, end = table.rows.size(); row != end; ++row) {
    ArrayRef<Cell> cells = table.rows[row];
    for (int64_t i = 0, e = cells.size(); i != e; ++i) {
      if (isHalf(table, cells[i]) && !found.firstSplit)
        found.firstSplit = CellRef{row, i};
      if (!cells[i].is(Phase::Backward))
        continue;
      if (!isOverlapped(cells, i)) {
        ++found.numWhole[row];
        continue;
      }
      if (++found.numOverlapped == 1)
        found.firstOverlapped = CellRef{row, i};
    }
  }
  return found;
}

static char letterOf(GradientAfter gradientAfter) {
  return gradientAfter == GradientAfter::InputGrad ? 'I' : 'W';
}

/// Chooses the gradient rule. All split backwards of a table follow the same
/// rule.
static Expected<GradientAfter> chooseRule(const TableView &table,
                                          const Backwards &found,
                                          const SplitOptions &options) {
  if (!found.firstSplit)
    return options.gradientAfter.value_or(GradientAfter::WeightGrad);
  GradientAfter rule = options.gradientAfter.value_or(table.gradientAfter);
  if (rule == table.gradientAfter)
    return rule;
  return llvm::make_error<ViolationError>(Violation{
      found.firstSplit,
      formatv("{0} is split already and sends its gradient after {1}, as all "
              "split backwards of a schedule do; found gradient-after={2}",
              name(table, *found.firstSplit), letterOf(table.gradientAfter),
              letterOf(rule)),
      {}});
}

/// Splits the backwards of a row, except overlapped ones:
///
///   0F1+3B0 3B1 0B0   ->   0F1+3B0 3I1 3W1 0I0 0W0
static Row splitRow(ArrayRef<Cell> cells, int64_t numWhole) {
  Row row;
  row.reserve(cells.size() + numWhole);
  for (int64_t i = 0, e = cells.size(); i != e; ++i) {
    if (!cells[i].is(Phase::Backward) || isOverlapped(cells, i)) {
      row.push_back(cells[i]);
      continue;
    }
    row.push_back(cells[i].withPhase(Phase::InputGrad));
    row.push_back(cells[i].withPhase(Phase::WeightGrad));
  }
  return row;
}

Expected<BackwardChange> pipesched::splitBackward(const TableView &table,
                                                  const SplitOptions &options) {
  Backwards found = countBackwards(table);
  Expected<GradientAfter> rule = chooseRule(table, found, options);
  if (!rule)
    return rule.takeError();
  if (found.firstOverlapped && options.overlapped == Remainder::Refuse)
    return llvm::make_error<ViolationError>(
        Violation{found.firstOverlapped,
                  formatv("{0} is overlapped and cannot be split: only whole "
                          "backwards overlap",
                          name(table, *found.firstOverlapped)),
                  {}});
  BackwardChange change;
  change.numKept = found.numOverlapped;
  for (int64_t count : found.numWhole)
    change.numChanged += count;
  if (int64_t cells = table.getNumCells() + change.numChanged;
      cells > kMaxTableCells)
    return formatError("the split table has {0} entries: there may be {1} at "
                       "most",
                       cells, kMaxTableCells);
  // Without a changed backward the rule has no effect, so keep it.
  change.gradientAfter = change.numChanged > 0 ? *rule : table.gradientAfter;
  change.rows.reserve(table.rows.size());
  for (auto [row, cells] : llvm::enumerate(table.rows))
    change.rows.push_back(splitRow(cells, found.numWhole[row]));
  // In unit slots, I and W take the slots of B.
  if (table.slots.empty() || change.numChanged == 0)
    return change;
  if (Error error = settleSlots(table, change))
    return std::move(error);
  return change;
}

//===----------------------------------------------------------------------===//
// Merge
//===----------------------------------------------------------------------===//

/// Returns the index of the next entry after `i` that is not idle, or the end
/// of the row.
static int64_t nextCell(ArrayRef<Cell> row, int64_t i) {
  do
    ++i;
  while (i != static_cast<int64_t>(row.size()) && row[i].isIdle());
  return i;
}

/// Returns the index of the W that forms a B with the I at index `i`, or -1.
static int64_t findOwnWeightGrad(ArrayRef<Cell> row, int64_t i) {
  int64_t next = nextCell(row, i);
  if (next == static_cast<int64_t>(row.size()) ||
      row[next] != row[i].withPhase(Phase::WeightGrad) || isOverlapped(row, i))
    return -1;
  return next;
}

/// Explains why the I at a position is kept.
static Violation describeApart(const TableView &table, CellRef at) {
  ArrayRef<Cell> row = table.rows[at.row];
  Cell own = row[at.index].withPhase(Phase::WeightGrad).withOverlap(false);
  int64_t index = at.index;
  for (int64_t e = row.size(); index != e; ++index)
    if (row[index].withOverlap(false) == own)
      break;
  if (index == static_cast<int64_t>(row.size()))
    return {
        at,
        formatv("{0} cannot be merged: there is no {1}", name(table, at), own),
        {}};
  int64_t next = nextCell(row, at.index);
  std::string reason = isOverlapped(row, at.index) || isOverlapped(row, index)
                           ? "one of the two is overlapped"
                           : formatv("{0} is between the two", row[next]).str();
  CellRef other = {at.row, index};
  return {at,
          formatv("{0} cannot be merged with {1}: {2}", name(table, at), own,
                  reason),
          {{other, formatv("{0} is cell {1} of this row", own, index)}}};
}

namespace {
/// Merges the backwards of each row, and counts the merged ones.
class Merger {
public:
  explicit Merger(const TableView &table) : table(table) {}

  /// Merges the backwards of a row; idle slots move after them:
  ///
  ///   0I0 _2 0W0 3I1 0F2 3W1   ->   0B0 _2 3I1 0F2 3W1
  Row mergeRow(int64_t number) {
    ArrayRef<Cell> cells = table.rows[number];
    Row row;
    row.reserve(cells.size());
    int64_t ownWeightGrad = -1; // of the last I
    for (int64_t i = 0, e = cells.size(); i != e; ++i) {
      if (i == ownWeightGrad)
        continue;
      if (!isHalf(table, cells[i])) {
        hasSplit |= cells[i].is(Phase::WeightGrad);
        row.push_back(cells[i]);
        continue;
      }
      ownWeightGrad = findOwnWeightGrad(cells, i);
      bool isMerged = ownWeightGrad >= 0;
      row.push_back(isMerged ? cells[i].withPhase(Phase::Backward) : cells[i]);
      ++(isMerged ? numMerged : numApart);
      if (!isMerged && !firstApart)
        firstApart = CellRef{number, i};
    }
    return row;
  }

  int64_t numMerged = 0, numApart = 0;
  bool hasSplit = false; ///< some W remains
  std::optional<CellRef> firstApart;

private:
  const TableView &table;
};
} // namespace

Expected<BackwardChange> pipesched::mergeBackward(const TableView &table,
                                                  const MergeOptions &options) {
  BackwardChange change;
  Merger merger(table);
  change.rows.reserve(table.rows.size());
  for (int64_t row = 0, end = table.rows.size(); row != end; ++row)
    change.rows.push_back(merger.mergeRow(row));
  if (merger.firstApart && options.apart == Remainder::Refuse)
    return llvm::make_error<ViolationError>(
        describeApart(table, *merger.firstApart));
  change.numChanged = merger.numMerged;
  change.numKept = merger.numApart;
  change.gradientAfter = table.gradientAfter;
  if (merger.numMerged == 0)
    return change;
  if (!merger.hasSplit && merger.numApart == 0)
    change.gradientAfter = GradientAfter::InputGrad;
  if (Error error = settleSlots(table, change))
    return std::move(error);
  return change;
}
