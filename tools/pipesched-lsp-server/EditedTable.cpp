//===- EditedTable.cpp - A table that is being edited ---------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Reads rows cell by cell that no verifier has accepted.
//
//===----------------------------------------------------------------------===//

#include "EditedTable.h"
#include "PipeSched/Dialect/Pipe/IR/ScheduleTable.h"
#include "PipeSched/Schedule/Check/Verify.h"
#include "PipeSched/Schedule/Kinds/PhaseSets.h"

using namespace pipesched;

std::unique_ptr<EditedTable> EditedTable::load(pipe::ScheduleOp schedule) {
  mlir::FailureOr<Placement> placement = pipe::loadPlacement(schedule);
  if (failed(placement) || !placement->isAssigned() ||
      placement->getNumPairs() > kMostPairs)
    return nullptr;
  auto table = std::make_unique<EditedTable>();
  table->placement = std::move(*placement);
  table->view.placement = &table->placement;
  table->view.gradientAfter = schedule.getGradientAfter();
  table->view.aligned = schedule.getAligned();
  if (pipe::SlotsAttr lengths = schedule.getSlotsAttr()) {
    llvm::Expected<std::vector<StageSlots>> slots =
        lengths.toStages(table->placement);
    if (slots)
      table->view.slots = std::move(*slots);
    else
      table->problem = llvm::toString(slots.takeError());
  }
  table->readRows(schedule);
  table->complete();
  for (const Row &row : table->rows)
    table->view.rows.push_back(row);
  llvm::Expected<CellIndex> index = CellIndex::create(table->view);
  if (index)
    table->index = std::move(*index);
  else
    table->problem = llvm::toString(index.takeError());
  return table;
}

/// Records a cell if it belongs to this worker and occurs for the first time.
bool EditedTable::take(int64_t worker, Cell cell) {
  if (cell.isIdle())
    return true;
  bool isPerPath = cell.isPerPath();
  int64_t limit = isPerPath ? placement.getNumPaths() : placement.getNumUnits();
  if (cell.getNumber() >= limit ||
      cell.getStage() >= placement.getNumStages(placement.pathOf(cell)))
    return false;
  int64_t stage = placement.globalStage(cell);
  if (placement.workerOf(stage) != worker)
    return false;
  PhaseSet &phases =
      isPerPath ? presentOfStage[stage] : present[placement.pairOf(cell)];
  if (phases.contains(cell.getPhase()) && !cell.isJoin())
    return false;
  phases |= cell.getPhase();
  used |= cell.getPhase();
  return true;
}

void EditedTable::readRows(pipe::ScheduleOp schedule) {
  rows.resize(placement.getNumWorkers());
  present.resize(placement.getNumPairs());
  presentOfStage.resize(placement.getNumGlobalStages());
  for (pipe::WorkerOp op : schedule.getRows()) {
    int64_t worker = op.getWorker();
    if (worker >= int64_t(rows.size()) || !rows[worker].empty())
      continue;
    llvm::ArrayRef<Cell> cells = op.getCells();
    std::optional<Violation> violation = verifyRow(placement, worker, cells);
    if (violation && problem.empty())
      problem = violation->message;
    for (Cell cell : cells)
      rows[worker].push_back(
          take(worker, cell) ? cell
                             : Cell::idle(1).withOverlap(cell.overlapsNext()));
  }
  for (const Row &row : rows)
    numWritten.push_back(row.size());
}

PhaseSet EditedTable::wantedBackward(int64_t globalStage) const {
  StageBackward backward = placement.backwardOf(globalStage);
  if (backward != StageBackward::Whole)
    return backwardStarts(backward);
  bool isSplit = used.intersects(kSplitBackward);
  return isSplit && !used.contains(Phase::Backward) ? kSplitBackward
                                                    : Phase::Backward;
}

void EditedTable::complete(int64_t globalStage, int64_t unit) {
  int64_t worker = placement.workerOf(globalStage);
  int64_t stage =
      globalStage - placement.stageOffset(placement.pathOfStage(globalStage));
  PhaseSet written = present[placement.pairOf(globalStage, unit)];
  PhaseSet wanted = Phase::Forward;
  StageBackward backward = placement.backwardOf(globalStage);
  if (!written.intersects(backwardStarts(backward)))
    wanted |= wantedBackward(globalStage);
  written.forEach([&](Phase phase) {
    wanted |= traitsOf(phase).order.needs;
    if (std::optional<Phase> next = followerOf(phase, backward))
      wanted |= *next;
  });
  (wanted - written).forEach([&](Phase phase) {
    missing.push_back(Cell(stage, phase, unit));
    rows[worker].push_back(missing.back());
  });
}

/// Adds the missing cells of a complete table, by units and stages.
void EditedTable::complete() {
  for (int64_t unit = 0; unit != placement.getNumUnits(); ++unit) {
    int64_t path = placement.pathOf(unit), first = placement.stageOffset(path);
    for (int64_t stage = 0; stage != placement.getNumStages(path); ++stage)
      complete(first + stage, unit);
  }
}
