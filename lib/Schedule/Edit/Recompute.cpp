//===- Recompute.cpp - Adds recompute cells to tables ---------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Decides for each row which activations are recomputed, then places their R
// cells. They go right before their backwards, or into slots in which a row
// waits; a sweep over all rows finds these.
//
//===----------------------------------------------------------------------===//

#include "PipeSched/Schedule/Edit/Recompute.h"
#include "../Table/Entries.h"
#include "PipeSched/Schedule/Check/Verify.h"
#include "PipeSched/Schedule/Kinds/PhaseSets.h"
#include "PipeSched/Schedule/Table/Dependences.h"
#include "PipeSched/Schedule/Table/RowSweep.h"
#include "PipeSched/Schedule/Table/SlotLengths.h"
#include "PipeSched/Schedule/Table/Slots.h"
#include "PipeSched/Support/FormatError.h"
#include "llvm/ADT/BitVector.h"
#include "llvm/ADT/STLExtras.h"
#include <algorithm>

using namespace pipesched;
using llvm::ArrayRef;
using llvm::Error;
using llvm::Expected;

//===----------------------------------------------------------------------===//
// Options
//===----------------------------------------------------------------------===//

static Error checkRecomputeOptions(const Placement &placement,
                                   const RecomputeOptions &options) {
  if (options.keep < 0 || options.ahead < 0)
    return formatError("activations to keep or to recompute ahead are 0 or "
                       "more, found {0}",
                       std::min(options.keep, options.ahead));
  return checkSelection(placement, options.stages, options.workers,
                        options.microbatches);
}

//===----------------------------------------------------------------------===//
// Selection of activations
//===----------------------------------------------------------------------===//

namespace {
/// Decides, in the order of each row, which activations are recomputed.
class RecomputeChooser {
public:
  RecomputeChooser(const TableView &table, const CellIndex &index,
                   const RecomputeOptions &options)
      : table(table), index(index), options(options),
        isChosen(index.getNumEntries()), isKept(index.getNumEntries()) {}

  void run() {
    for (int64_t row = 0, end = table.rows.size(); row != end; ++row)
      if (isInRanges(options.workers, row))
        chooseRow(row);
  }

private:
  void chooseRow(int64_t row) {
    int64_t numKept = 0;
    forEachEntry(table.rows[row], [&](int64_t i, ArrayRef<Cell> cells) {
      for (Cell cell : cells)
        if (cell.is(Phase::Forward))
          choose(cell, {row, i + static_cast<int64_t>(cells.size())}, numKept);
      for (Cell cell : cells)
        if (cell.isIn(kReleasingPhases) && isKept.test(index.entryOf(cell)))
          --numKept;
    });
  }

  /// Decides for the activations of a forward whose entry ends at `end`.
  void choose(Cell forward, CellRef end, int64_t &numKept) {
    if (!isInRanges(options.stages, forward.getStage()) ||
        !isInRanges(options.microbatches,
                    table.placement->microbatchOf(forward.getUnit())))
      return;
    int64_t entry = index.entryOf(forward);
    if (index.at(entry, Phase::Recompute) != CellIndex::kNone) {
      ++numPresent;
      return;
    }
    if (options.skipAdjacent && isNext(entry, end))
      return;
    if (numKept < options.keep) {
      ++numKept;
      isKept.set(entry);
      return;
    }
    isChosen.set(entry);
    ++numChosen;
  }

  /// Whether the backward is the next entry of the row that is not idle.
  bool isNext(int64_t entry, CellRef at) const {
    ArrayRef<Cell> row = table.rows[at.row];
    while (at.index < static_cast<int64_t>(row.size()) &&
           row[at.index].isIdle())
      ++at.index;
    uint32_t backward = index.at(entry, Phase::Backward);
    if (backward == CellIndex::kNone)
      backward = index.at(entry, Phase::InputGrad);
    int64_t distance =
        static_cast<int64_t>(backward) - index.rowBegin(at.row) - at.index;
    return distance == 0 || (distance == 1 && row[at.index].overlapsNext());
  }

  const TableView &table;
  const CellIndex &index;
  const RecomputeOptions &options;

public:
  llvm::BitVector isChosen; ///< by entry of the index
  int64_t numChosen = 0, numPresent = 0;

private:
  /// By entry of the index: held in full because of `keep`.
  llvm::BitVector isKept;
};
} // namespace

//===----------------------------------------------------------------------===//
// Placement right before the backward
//===----------------------------------------------------------------------===//

static Cell recomputeOf(Cell cell) {
  return Cell(cell.getStage(), Phase::Recompute, cell.getUnit());
}

/// Places each R right before its backward or overlapped pair:
///
///   0F1+3B0 0u1 0B1   ->   3R0 0F1+3B0 0u1 0R1 0B1
static std::vector<Row> placeBefore(const TableView &table,
                                    const CellIndex &index,
                                    const llvm::BitVector &isChosen) {
  auto needs = [&](Cell cell) {
    return cell.isIn(kBackwardStarts) && isChosen.test(index.entryOf(cell));
  };
  std::vector<Row> rows;
  rows.reserve(table.rows.size());
  for (ArrayRef<Cell> cells : table.rows) {
    Row &row = rows.emplace_back();
    row.reserve(cells.size() + llvm::count_if(cells, needs));
    forEachEntry(cells, [&](int64_t, ArrayRef<Cell> entry) {
      for (Cell cell : entry)
        if (needs(cell))
          row.push_back(recomputeOf(cell));
      row.insert(row.end(), entry.begin(), entry.end());
    });
  }
  return rows;
}

//===----------------------------------------------------------------------===//
// Placement ahead of the backward
//===----------------------------------------------------------------------===//

namespace {
/// Sweeps all rows, runs each cell as early as possible, and writes the cells
/// in the order in which they run. If a row waits for a message, the recomputes
/// of its next backwards run first.
///
///   clock |   wait   | own R | B     R of later backwards fill the wait as far
///         | R1 | R2  |  R0   | B0    as they fit before the own R
template <typename Slots>
class AheadPlacer {
public:
  AheadPlacer(const Slots &lengths, const TableView &table,
              const CellIndex &index, const llvm::BitVector &isChosen,
              int64_t most)
      : lengths(lengths), table(table), index(index), isChosen(isChosen),
        most(most), isAhead(isChosen.size()),
        ends(index.rowBegin(table.rows.size())), rows(table.rows.size()) {}

  std::vector<Row> run() {
    std::vector<Row> written(table.rows.size());
    for (auto [row, cells] : llvm::zip_equal(written, table.rows))
      row.reserve(cells.size() + cells.size() / 2);
    [[maybe_unused]] std::vector<CellWait> cycle =
        RowSweep(table, index).run([&](const RowStep &step) {
          visit(step, written[step.row]);
        });
    assert(cycle.empty() && "the table is verified");
    return written;
  }

private:
  struct RowState {
    int64_t clock = 0;
    int64_t numAhead = 0; ///< recomputed activations whose backward is still to
                          ///< come
    /// Backwards whose R may run, as positions in the row: a heap, with the
    /// next backward on top. It may still contain backwards that the row has
    /// passed.
    std::vector<uint32_t> ready;
  };

  int64_t entryOf(Cell cell) const { return index.entryOf(cell); }
  bool needsRecompute(Cell cell) const {
    return cell.isIn(kBackwardStarts) && isChosen.test(entryOf(cell)) &&
           !isAhead.test(entryOf(cell));
  }

  void visit(const RowStep &step, Row &written) {
    RowState &row = rows[step.row];
    ArrayRef<Cell> cells = table.rows[step.row].slice(step.index, step.count);
    int64_t start = row.clock, ownSlots = 0;
    for (unsigned i = 0; i < step.count; ++i) {
      if (Dependences::Producer producer = step.producers[i])
        start = std::max(start, ends[producer.flat]);
      if (needsRecompute(cells[i]))
        ownSlots += lengths.slotsOf(recomputeOf(cells[i]));
    }
    fillWait(step, start - row.clock - ownSlots, written);
    for (Cell cell : cells)
      if (needsRecompute(cell))
        put(row, recomputeOf(cell), written);
    written.insert(written.end(), cells.begin(), cells.end());
    start = std::max(start, row.clock);
    int64_t end = start;
    if (cells.front().isCompute())
      end = row.clock =
          start + slotsOf(lengths, table.rows[step.row], step.index);
    uint32_t flat = index.rowBegin(step.row) + step.index;
    std::fill_n(ends.begin() + flat, step.count, end);
    for (Cell cell : cells)
      leave(row, step.row, cell);
  }

  void put(RowState &row, Cell recompute, Row &written) {
    written.push_back(recompute);
    row.clock += lengths.slotsOf(recompute);
  }

  /// Runs the R of backwards after `step`, as far as they fit into `slots` free
  /// slots.
  void fillWait(const RowStep &step, int64_t slots, Row &written) {
    RowState &row = rows[step.row];
    while (!row.ready.empty()) {
      uint32_t position = row.ready.front();
      Cell recompute = recomputeOf(table.rows[step.row][position]);
      bool isPassed = position < step.index + step.count;
      bool fits = row.numAhead < most && lengths.slotsOf(recompute) <= slots;
      if (!isPassed && !fits)
        return;
      std::pop_heap(row.ready.begin(), row.ready.end(), std::greater<>());
      row.ready.pop_back();
      if (isPassed)
        continue;
      put(row, recompute, written);
      slots -= lengths.slotsOf(recompute);
      ++row.numAhead;
      isAhead.set(entryOf(recompute));
    }
  }

  /// Updates the state after a cell has run. An R needs its F, and its U if
  /// there is one.
  void leave(RowState &row, int64_t number, Cell cell) {
    bool isForward = cell.is(Phase::Forward);
    if (!isForward && !cell.isIn(kBackwardStarts) && !cell.is(Phase::Reload))
      return;
    int64_t entry = entryOf(cell);
    if (cell.isIn(kBackwardStarts)) {
      row.numAhead -= isAhead.test(entry);
      return;
    }
    bool isReloaded = index.at(entry, Phase::Reload) != CellIndex::kNone;
    if (!isChosen.test(entry) || (isForward && isReloaded))
      return;
    uint32_t backward = index.at(entry, Phase::Backward);
    if (backward == CellIndex::kNone)
      backward = index.at(entry, Phase::InputGrad);
    row.ready.push_back(backward - index.rowBegin(number));
    std::push_heap(row.ready.begin(), row.ready.end(), std::greater<>());
  }

  const Slots &lengths;
  const TableView &table;
  const CellIndex &index;
  const llvm::BitVector &isChosen;
  int64_t most;
  llvm::BitVector isAhead;   ///< by entry
  std::vector<int64_t> ends; ///< by flat index
  std::vector<RowState> rows;
};
} // namespace

template <typename Slots>
static std::vector<Row>
placeAhead(const Slots &lengths, const TableView &table, const CellIndex &index,
           const llvm::BitVector &isChosen, int64_t most) {
  return AheadPlacer<Slots>(lengths, table, index, isChosen, most).run();
}

//===----------------------------------------------------------------------===//
// The whole table
//===----------------------------------------------------------------------===//

static TableView withRows(const TableView &table,
                          const std::vector<Row> &rows) {
  TableView changed = table;
  changed.rows.assign(rows.begin(), rows.end());
  return changed;
}

static Error refuse(std::optional<Violation> violation) {
  if (!violation)
    return Error::success();
  return llvm::make_error<ViolationError>(std::move(*violation));
}

Expected<RecomputeChange>
pipesched::addRecompute(const TableView &table,
                        const RecomputeOptions &options) {
  if (Error error = checkRecomputeOptions(*table.placement, options))
    return std::move(error);
  if (Error error = table.placement->checkTrainsAll("recomputation takes"))
    return std::move(error);
  TableView order = table;
  order.aligned = false; // ignore the written slots
  if (Error error = refuse(verifyTable(order)))
    return std::move(error);
  CellIndex index = llvm::cantFail(CellIndex::create(order));
  RecomputeChooser chooser(order, index, options);
  chooser.run();
  if (int64_t cells = order.getNumCells() + chooser.numChosen;
      cells > kMaxTableCells)
    return formatError("with recompute the table has {0} entries: there may be "
                       "{1} at most",
                       cells, kMaxTableCells);
  RecomputeChange change;
  change.numAdded = chooser.numChosen;
  change.numPresent = chooser.numPresent;
  change.rows = placeBefore(order, index, chooser.isChosen);
  if (chooser.numChosen == 0)
    return change;
  if (Error error = refuse(verifySlotLengths(withRows(order, change.rows))))
    return std::move(error);
  if (options.ahead > 0)
    change.rows = withSlotsOf(order, [&](const auto &lengths) {
      return placeAhead(lengths, order, index, chooser.isChosen, options.ahead);
    });
  if (!table.aligned)
    return change;
  Expected<std::vector<Row>> aligned = alignRows(withRows(order, change.rows));
  if (!aligned)
    return aligned.takeError();
  change.rows = std::move(*aligned);
  return change;
}
