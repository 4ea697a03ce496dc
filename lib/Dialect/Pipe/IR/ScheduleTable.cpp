//===- ScheduleTable.cpp - A schedule op as a table -----------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Reads and writes the rows that worker ops own.
//
//===----------------------------------------------------------------------===//

#include "PipeSched/Dialect/Pipe/IR/ScheduleTable.h"
#include "PipeSched/Dialect/Pipe/IR/Editing.h"
#include "mlir/IR/Verifier.h"

using namespace mlir;
using namespace pipesched;
using namespace pipesched::pipe;

static Placement placementOf(ScheduleOp schedule) {
  FailureOr<Placement> placement = loadPlacement(schedule);
  assert(succeeded(placement) && "the schedule is verified");
  return std::move(*placement);
}

ScheduleTable::ScheduleTable(ScheduleOp schedule)
    : placement(placementOf(schedule)),
      gradientAfter(schedule.getGradientAfter()),
      aligned(schedule.getAligned()), rows(schedule.getWorkers()) {
  for (WorkerOp row : schedule.getRows())
    rows[row.getWorker()] = row.getCells();
  if (SlotsAttr lengths = schedule.getSlotsAttr())
    slots = llvm::cantFail(lengths.toStages(placement));
}

TableView ScheduleTable::view() const {
  TableView view;
  view.placement = &placement;
  view.gradientAfter = gradientAfter;
  view.aligned = aligned;
  view.slots = slots;
  view.rows = rows;
  return view;
}

LogicalResult pipe::verifyUnsliced(PlacementOwnerOpInterface owner,
                                   StringRef reader) {
  if (owner.getNumSlices() == 1)
    return success();
  return emitTableError(owner)
         << "has " << owner.getNumSlices() << " slices a microbatch; " << reader
         << " takes whole microbatches only";
}

LogicalResult pipe::verifyChains(PlacementOwnerOpInterface owner,
                                 StringRef reader) {
  if (owner->getRegion(0).front().getOps<EdgeOp>().empty())
    return success();
  FailureOr<Placement> placement = loadPlacement(owner);
  if (failed(placement))
    return failure();
  return emitTableError(owner)
         << llvm::toString(placement->checkChains(reader));
}

LogicalResult pipe::verifyTrainsAll(PlacementOwnerOpInterface owner,
                                    StringRef reader) {
  FailureOr<Placement> placement = loadPlacement(owner);
  if (failed(placement))
    return failure();
  if (llvm::Error error = placement->checkTrainsAll(reader))
    return emitTableError(owner) << llvm::toString(std::move(error));
  return success();
}

void pipe::storePaths(ScheduleOp schedule, ArrayRef<Path> paths) {
  for (PathOp path : llvm::make_early_inc_range(schedule.getPaths()))
    path.erase();
  auto builder = OpBuilder::atBlockBegin(schedule.getBody());
  for (const Path &path : paths)
    PathOp::create(builder, schedule.getLoc(), path);
}

void pipe::storeRows(ScheduleOp schedule, std::vector<Row> &&rows) {
  SmallVector<WorkerOp> ops(rows.size());
  for (WorkerOp row : schedule.getRows())
    ops[row.getWorker()] = row;
  auto builder = OpBuilder::atBlockEnd(schedule.getBody());
  for (auto [worker, cells] : llvm::enumerate(rows))
    if (WorkerOp row = ops[worker])
      row.takeCells(std::move(cells));
    else
      WorkerOp::create(builder, schedule.getLoc(), worker, std::move(cells));
}

LogicalResult pipe::replaceRows(ScheduleOp schedule, std::vector<Row> &&rows) {
  if (static_cast<int64_t>(rows.size()) != schedule.getWorkers())
    return emitTableError(schedule)
           << "has " << schedule.getWorkers() << " workers, found "
           << rows.size() << " rows";
  bool wasProblem = schedule.isProblem();
  std::vector<Row> before(wasProblem ? 0 : schedule.getWorkers());
  for (WorkerOp row : schedule.getRows())
    before[row.getWorker()] = row.getCells();
  storeRows(schedule, std::move(rows));
  if (succeeded(verify(schedule))) {
    schedule.dropFamily();
    return success();
  }
  if (!wasProblem)
    storeRows(schedule, std::move(before));
  else
    for (WorkerOp row : llvm::make_early_inc_range(schedule.getRows()))
      row.erase();
  return failure();
}

void pipe::storeSlots(ScheduleOp schedule, const Placement &placement,
                      ArrayRef<StageSlots> slots) {
  schedule.setSlotsAttr(
      SlotsAttr::get(schedule.getContext(), placement, slots));
}

/// Returns the location of a cell, else of its row, else of the schedule.
/// Searches all rows, so it is only for diagnostics.
static Location locationOf(ScheduleOp schedule,
                           const std::optional<CellRef> &at) {
  if (at)
    for (WorkerOp row : schedule.getRows())
      if (row.getWorker() == at->row)
        return locationOfCell(row, at->index);
  return schedule.getLoc();
}

LogicalResult pipe::emitTableError(ScheduleOp schedule, llvm::Error error) {
  llvm::handleAllErrors(
      std::move(error),
      [&](const ViolationError &found) {
        emitViolation(schedule, found.getViolation());
      },
      [&](const llvm::ErrorInfoBase &other) {
        emitTableError(schedule) << other.message();
      });
  return failure();
}

InFlightDiagnostic pipe::emitViolation(ScheduleOp schedule,
                                       const Violation &violation) {
  StringRef name = violation.at ? WorkerOp::getOperationName()
                                : ScheduleOp::getOperationName();
  InFlightDiagnostic diagnostic = emitError(locationOf(schedule, violation.at))
                                  << "'" << name << "' op "
                                  << violation.message;
  for (const Violation::Note &note : violation.notes)
    diagnostic.attachNote(
        locationOf(schedule, note.at ? note.at : violation.at))
        << note.message;
  return diagnostic;
}
