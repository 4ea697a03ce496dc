//===- OptimizerStep.cpp - O and G cells of a table -----------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Decides the new cells of each row, in order, then writes each row in one
// sweep.
//
//===----------------------------------------------------------------------===//

#include "PipeSched/Schedule/Edit/OptimizerStep.h"
#include "PipeSched/Schedule/Check/Verify.h"
#include "PipeSched/Schedule/Kinds/PhaseSets.h"
#include "PipeSched/Schedule/Table/ParameterSets.h"
#include "PipeSched/Schedule/Table/SlotLengths.h"
#include "PipeSched/Schedule/Table/Slots.h"
#include "PipeSched/Support/FormatError.h"
#include "llvm/ADT/STLExtras.h"

using namespace pipesched;
using llvm::ArrayRef;
using llvm::Error;
using llvm::Expected;

/// The slot after all cells of a row.
static constexpr int64_t kEnd = std::numeric_limits<int64_t>::max();

namespace {
/// A stage that owns blocks, so its worker runs an O for it.
struct SteppedStage {
  int64_t slot;     ///< slot of its G, or kEnd
  int64_t endPiece; ///< one past its last owned piece
  int64_t path, stage;
  bool isReduced;

  Cell cell(Phase phase) const { return Cell(stage, phase, path); }
  friend bool operator<(const SteppedStage &a, const SteppedStage &b) {
    return std::tie(a.slot, a.endPiece, a.path, a.stage) <
           std::tie(b.slot, b.endPiece, b.path, b.stage);
  }
};

/// Finds the stages of each worker and writes its row:
///
///   row      0F0 0F1 3F2 3B2 3F3 3B3         0B0     0B1
///   slots     0   1   3   4   6   7           10      13
///   eager                             3G1 at 10           0G0 at 15, 0O0 3O1
class StepWriter {
public:
  StepWriter(const TableView &table, const ParameterSets &sets)
      : table(table), placement(*table.placement), sets(sets),
        replicas(sets.getReplicas()), stages(table.rows.size()) {}

  Error findSlots();
  void findStages(ReductionPlace place, ReducedStages reduced);
  OptimizerChange write() const;

private:
  std::vector<int64_t> findReadySlots() const;
  void writeRow(ArrayRef<Cell> cells, ArrayRef<SteppedStage> ends,
                const int64_t *starts, Row &row) const;

  const TableView &table;
  const Placement &placement;
  const ParameterSets &sets;
  const Replicas &replicas;
  SlotAssignment slots;                          ///< used if G are eager
  std::vector<std::vector<SteppedStage>> stages; ///< by worker, in order
};
} // namespace

/// Uses unit slots, because in unit slots every wait leads to an earlier slot.
Error StepWriter::findSlots() {
  Expected<CellIndex> index = CellIndex::create(table);
  if (!index)
    return index.takeError();
  Expected<SlotAssignment> found = alignUnitSlots(table, *index);
  if (!found)
    return found.takeError();
  slots = std::move(*found);
  return Error::success();
}

/// For each piece, the slot after the last weight gradient of the stages that
/// start with it; kEnd if other paths cut these stages.
std::vector<int64_t> StepWriter::findReadySlots() const {
  std::vector<int64_t> ready(replicas.getNumPieces(), 0);
  const int64_t *start = slots.start.data();
  for (ArrayRef<Cell> row : table.rows)
    for (int64_t i = 0, e = row.size(); i != e; ++i, ++start) {
      if (!row[i].isIn(kGradientPhases))
        continue;
      int64_t stage = placement.globalStage(row[i]);
      if (replicas.piecesOf(stage).empty())
        continue;
      int64_t &slot = ready[replicas.firstPieceOf(stage)];
      slot = std::max(slot, *start + slotsOf(UnitSlots(), row, i));
    }
  for (auto [piece, slot] : llvm::enumerate(ready))
    if (!replicas.isSegment(piece))
      slot = kEnd;
  return ready;
}

void StepWriter::findStages(ReductionPlace place, ReducedStages reduced) {
  bool isEager = place == ReductionPlace::Eager;
  std::vector<int64_t> readySlots;
  if (isEager)
    readySlots = findReadySlots();
  for (int64_t path = 0; path < placement.getNumPaths(); ++path)
    for (int64_t stage = 0; stage < placement.getNumStages(path); ++stage) {
      int64_t global = placement.stageOffset(path) + stage;
      if (!sets.ownsAny(global) ||
          placement.backwardOf(global) != StageBackward::Whole)
        continue;
      bool hasPeers =
          reduced == ReducedStages::All || sets.isReplicated(global);
      bool isReduced = place != ReductionPlace::None && hasPeers;
      int64_t slot = kEnd;
      if (isEager && isReduced)
        slot = readySlots[replicas.firstPieceOf(global)];
      stages[placement.workerOf(global)].push_back(
          {slot, *sets.ownedPiecesOf(global).end(), path, stage, isReduced});
    }
  for (std::vector<SteppedStage> &worker : stages)
    llvm::sort(worker);
}

/// Writes a row. A join stays directly before the cell that it delays.
void StepWriter::writeRow(ArrayRef<Cell> cells, ArrayRef<SteppedStage> ends,
                          const int64_t *starts, Row &row) const {
  auto writeReductions = [&, next = ends.begin()](int64_t slot) mutable {
    for (; next != ends.end() && next->slot <= slot; ++next)
      if (next->isReduced)
        row.push_back(next->cell(Phase::AllReduce));
  };
  for (size_t i = 0; i < cells.size(); ++i) {
    if (table.aligned && cells[i].isIdle())
      continue; // the row is aligned again later
    bool isSecondHalf = i > 0 && cells[i - 1].overlapsNext();
    if (starts && (cells[i].isCompute() || cells[i].isJoin()) && !isSecondHalf)
      writeReductions(starts[i]);
    row.push_back(cells[i]);
  }
  writeReductions(kEnd);
  for (const SteppedStage &stage : ends)
    row.push_back(stage.cell(Phase::Optimizer));
}

OptimizerChange StepWriter::write() const {
  OptimizerChange change;
  const int64_t *starts = slots.start.empty() ? nullptr : slots.start.data();
  for (auto [cells, ends] : llvm::zip_equal(table.rows, stages)) {
    int64_t numReductions = llvm::count_if(
        ends, [](const SteppedStage &stage) { return stage.isReduced; });
    change.numSteps += ends.size();
    change.numReductions += numReductions;
    Row &row = change.rows.emplace_back();
    row.reserve(cells.size() + ends.size() + numReductions);
    writeRow(cells, ends, starts, row);
    if (starts)
      starts += cells.size();
  }
  return change;
}

//===----------------------------------------------------------------------===//
// The whole table
//===----------------------------------------------------------------------===//

static Error refuseStep(std::optional<Violation> violation) {
  if (!violation)
    return Error::success();
  return llvm::make_error<ViolationError>(std::move(*violation));
}

static std::optional<Violation> findStep(const TableView &table) {
  for (auto [number, row] : llvm::enumerate(table.rows))
    for (auto [i, cell] : llvm::enumerate(row))
      if (cell.isPerPath())
        return Violation{
            CellRef{static_cast<int64_t>(number), static_cast<int64_t>(i)},
            llvm::formatv("cell {0} ({1}): the schedule has optimizer steps "
                          "or all-reduces already",
                          i, cell),
            {}};
  return std::nullopt;
}

/// Checks that the table is valid, and small enough for the added cells.
static Error checkTable(const TableView &table) {
  if (Error error = refuseStep(verifyTable(table)))
    return error;
  if (Error error = refuseStep(findStep(table)))
    return error;
  int64_t cells =
      table.getNumCells() + 2 * table.placement->getNumGlobalStages();
  if (cells > kMaxTableCells)
    return formatError("with optimizer steps the table has up to {0} entries: "
                       "there may be {1} at most",
                       cells, kMaxTableCells);
  return Error::success();
}

/// Checks the lengths of O and G, and aligns an aligned table again.
static Error finish(const TableView &table, std::vector<Row> &rows) {
  TableView changed = table;
  changed.aligned = false;
  changed.rows.assign(rows.begin(), rows.end());
  if (Error error = refuseStep(verifySlotLengths(changed)))
    return error;
  if (!table.aligned)
    return Error::success();
  Expected<std::vector<Row>> aligned = alignRows(changed);
  if (!aligned)
    return aligned.takeError();
  rows = std::move(*aligned);
  return Error::success();
}

Expected<OptimizerChange> pipesched::addOptimizerStep(const TableView &table,
                                                      ReductionPlace place,
                                                      ReducedStages reduced) {
  if (Error error = checkTable(table))
    return std::move(error);
  Expected<ParameterSets> sets = ParameterSets::create(*table.placement);
  if (!sets)
    return sets.takeError();
  StepWriter writer(table, *sets);
  if (place == ReductionPlace::Eager)
    if (Error error = writer.findSlots())
      return std::move(error);
  writer.findStages(place, reduced);
  OptimizerChange change = writer.write();
  if (Error error = finish(table, change.rows))
    return std::move(error);
  return change;
}
