//===- Rows.cpp - C API for the rows of schedules -------------------------===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Reads and replaces the rows of pipe.schedule ops.
//
//===----------------------------------------------------------------------===//

#include "Rows.h"
#include "Enums.h"
#include "PipeSched-c/Program.h"
#include "PipeSched/Dialect/Pipe/IR/ScheduleTable.h"
#include "PipeSched/Schedule/Check/Verify.h"
#include "PipeSched/Schedule/Table/Slots.h"
#include "Wrap.h"
#include "mlir/CAPI/IR.h"
#include "mlir/IR/Verifier.h"
#include "llvm/Support/FormatVariadic.h"

using namespace mlir;
using namespace pipesched;
using llvm::formatv;

//===----------------------------------------------------------------------===//
// Cells
//===----------------------------------------------------------------------===//

/// Phases have in C the numbers that files have.
static constexpr bool isSameCode(PipeschedPhase given, Phase phase) {
  return given == traitsOf(phase).code;
}
#define PIPESCHED_SAME(name, number)                                           \
  isSameCode(PipeschedPhase##name, Phase::name) &&
#define PIPESCHED_ONE(name, number) +1
static_assert(PIPESCHED_PHASES(PIPESCHED_SAME)
                      PIPESCHED_PHASES(PIPESCHED_ONE) == kNumPhases,
              "C has every phase by its code");
#undef PIPESCHED_SAME
#undef PIPESCHED_ONE

MlirStringRef pipeschedPhaseGetLetter(PipeschedPhase phase) {
  std::optional<Phase> found = phaseFromCode(numberOf(phase));
  return wrap(found ? StringRef(enumName(*found)) : StringRef());
}

bool pipeschedPhaseHasCost(PipeschedPhase phase) {
  std::optional<Phase> found = phaseFromCode(numberOf(phase));
  return found && kCostedPhases.contains(*found);
}

bool pipeschedPhaseHasMicrobatch(PipeschedPhase phase) {
  std::optional<Phase> found = phaseFromCode(numberOf(phase));
  return found && traitsOf(*found).number == CellNumber::Unit;
}

/// A cell of a table whose microbatches have so many slices.
static PipeschedCell cellOf(Cell cell, int64_t numSlices) {
  bool isUnit = traitsOf(cell.getPhase()).number == CellNumber::Unit;
  int64_t number = cell.getNumber(), perNumber = isUnit ? numSlices : 1;
  return {static_cast<PipeschedPhase>(traitsOf(cell.getPhase()).code),
          cell.getStage(), number / perNumber, cell.overlapsNext(),
          number % perNumber};
}

static std::string rangeText(const char *what, int64_t first, int64_t last,
                             int64_t found) {
  return formatv("expected {0} from {1} to {2}, found {3}", what, first, last,
                 found);
}

/// What keeps a struct from being a cell; empty if nothing does.
static std::string whyNoCell(const PipeschedCell &given, int64_t numSlices) {
  uint32_t code = numberOf(given.phase);
  std::optional<Phase> phase = phaseFromCode(code);
  if (!phase)
    return formatv("expected the number of a phase ({0}), found {1}",
                   describePhases(kAllPhases, " or "), code);
  bool isIdle = *phase == Phase::Idle;
  int64_t lastStage = isIdle ? 0 : Cell::kMaxStages - 1;
  if (given.stage < 0 || given.stage > lastStage)
    return rangeText("a stage", 0, lastStage, given.stage);
  if (given.number < 0 || given.number > Cell::kMaxMicrobatches)
    return rangeText(isIdle ? "a number of slots" : "a number", 0,
                     Cell::kMaxMicrobatches, given.number);
  bool isUnit = traitsOf(*phase).number == CellNumber::Unit;
  int64_t lastSlice = isUnit ? numSlices - 1 : 0;
  if (given.slice < 0 || given.slice > lastSlice)
    return rangeText("a slice", 0, lastSlice, given.slice);
  int64_t lastNumber = (Cell::kMaxMicrobatches - lastSlice) / numSlices;
  if (isUnit && given.number > lastNumber)
    return rangeText("a microbatch", 0, lastNumber, given.number);
  return "";
}

/// A struct that is a cell, of a table with so many slices.
static Cell toCell(const PipeschedCell &given, int64_t numSlices) {
  Phase phase = *phaseFromCode(numberOf(given.phase));
  bool isUnit = traitsOf(phase).number == CellNumber::Unit;
  return Cell(given.stage, phase,
              isUnit ? given.number * numSlices + given.slice : given.number,
              given.overlapsNext);
}

llvm::Error pipesched::writeRow(ArrayRef<Cell> row, int64_t numSlices,
                                intptr_t numCells, PipeschedCell *cells) {
  if (numCells != intptr_t(row.size()))
    return llvm::createStringError(
        formatv("expected room for {0} cells, found room for {1}", row.size(),
                numCells));
  if (!cells && !row.empty())
    return llvm::createStringError(
        formatv("expected room for {0} cells, found null", row.size()));
  llvm::transform(row, cells,
                  [&](Cell cell) { return cellOf(cell, numSlices); });
  return llvm::Error::success();
}

llvm::Expected<std::vector<Row>> pipesched::readRows(int64_t numSlices,
                                                     intptr_t numRows,
                                                     const PipeschedRow *rows) {
  auto given = readArray("rows", rows, numRows);
  if (!given)
    return given.takeError();
  std::vector<Row> read(given->size());
  for (auto [worker, row] : llvm::enumerate(*given)) {
    auto cells = readArray("cells", row.cells, row.numCells);
    if (!cells)
      return llvm::createStringError(formatv(
          "worker {0}: {1}", worker, llvm::toString(cells.takeError())));
    read[worker].reserve(cells->size());
    for (auto [index, cell] : llvm::enumerate(*cells)) {
      if (std::string why = whyNoCell(cell, numSlices); !why.empty())
        return llvm::createStringError(
            formatv("worker {0}, cell {1}: {2}", worker, index, why));
      read[worker].push_back(toCell(cell, numSlices));
    }
  }
  return read;
}

//===----------------------------------------------------------------------===//
// Schedules
//===----------------------------------------------------------------------===//

static pipe::ScheduleOp readRowOwner(MlirOperation handle) {
  return readSchedule(handle, "is a program; rows are those of a schedule");
}

intptr_t pipeschedScheduleGetNumRows(MlirOperation schedule) {
  pipe::ScheduleOp op = readRowOwner(schedule);
  return op ? llvm::range_size(op.getRows()) : -1;
}

/// The row of a worker. Errors, emitted: no schedule; no such row.
static FailureOr<ArrayRef<Cell>> findCells(MlirOperation schedule,
                                           intptr_t worker) {
  pipe::ScheduleOp op = readRowOwner(schedule);
  if (!op)
    return failure();
  for (pipe::WorkerOp row : op.getRows())
    if (row.getWorker() == worker)
      return ArrayRef<Cell>(row.getCells());
  if (op.isProblem())
    return pipe::emitTableError(op) << "is a problem, which has no rows";
  return pipe::emitTableError(op)
         << "has no row of worker " << worker << ": there are "
         << op.getWorkers() << " (0 to " << op.getWorkers() - 1 << ")";
}

intptr_t pipeschedScheduleGetRowSize(MlirOperation schedule, intptr_t worker) {
  FailureOr<ArrayRef<Cell>> row = findCells(schedule, worker);
  return succeeded(row) ? row->size() : -1;
}

MlirLogicalResult pipeschedScheduleGetRow(MlirOperation schedule,
                                          intptr_t worker, intptr_t numCells,
                                          PipeschedCell *cells) {
  FailureOr<ArrayRef<Cell>> row = findCells(schedule, worker);
  if (failed(row))
    return wrap(failure());
  int64_t numSlices = cast<pipe::ScheduleOp>(unwrap(schedule)).getSlices();
  if (llvm::Error error = writeRow(*row, numSlices, numCells, cells))
    return wrap(pipe::emitTableError(unwrap(schedule))
                << "is not read: " << llvm::toString(std::move(error)));
  return wrap(success());
}

MlirLogicalResult pipeschedScheduleForEachRow(MlirOperation schedule,
                                              PipeschedRowCallback callback,
                                              void *userData) {
  pipe::ScheduleOp op = readRowOwner(schedule);
  if (!op)
    return wrap(failure());
  if (!callback)
    return wrap(pipe::emitTableError(op)
                << "is not read: expected a callback for rows, found null");
  std::vector<ArrayRef<Cell>> rows(op.isProblem() ? 0 : op.getWorkers());
  for (pipe::WorkerOp row : op.getRows())
    rows[row.getWorker()] = row.getCells();
  std::vector<PipeschedCell> cells;
  for (auto [worker, row] : llvm::enumerate(rows)) {
    cells.resize(row.size());
    llvm::transform(row, cells.begin(),
                    [&](Cell cell) { return cellOf(cell, op.getSlices()); });
    callback(worker, {intptr_t(cells.size()), cells.data()}, userData);
  }
  return wrap(success());
}

MlirLogicalResult
pipeschedScheduleFindDeadlock(MlirOperation schedule,
                              PipeschedDeadlockCallback callback,
                              void *userData) {
  pipe::ScheduleOp op = readRowOwner(schedule);
  if (!op)
    return wrap(failure());
  if (!callback)
    return wrap(pipe::emitTableError(op)
                << "is not read: expected a callback for a deadlock, found "
                   "null");
  if (op.isProblem())
    return wrap(success());
  pipe::ScheduleTable loaded(op);
  TableView table = loaded.view();
  std::optional<Violation> violation = verifyTable(table);
  if (!violation || violation->cycle.empty())
    return wrap(success());
  llvm::Expected<CellIndex> index = CellIndex::create(table);
  if (!index)
    return wrap(pipe::emitTableError(op, index.takeError()));
  std::vector<int32_t> workers, indices;
  for (CellRef cell : violation->cycle) {
    workers.push_back(cell.row);
    indices.push_back(cell.index);
  }
  SlotAssignment slots = alignUntilDeadlock(table, *index);
  callback({intptr_t(workers.size()), workers.data(), indices.data(),
            intptr_t(slots.start.size()), slots.start.data()},
           userData);
  return wrap(success());
}

MlirLogicalResult pipeschedScheduleSetRows(MlirOperation schedule,
                                           intptr_t numRows,
                                           const PipeschedRow *rows) {
  pipe::ScheduleOp op = readRowOwner(schedule);
  if (!op)
    return wrap(failure());
  llvm::Expected<std::vector<Row>> read =
      readRows(op.getSlices(), numRows, rows);
  if (!read)
    return wrap(pipe::emitTableError(op) << "cannot have these rows: "
                                         << llvm::toString(read.takeError()));
  return wrap(pipe::replaceRows(op, std::move(*read)));
}

MlirLogicalResult
pipeschedScheduleSetBackward(MlirOperation schedule,
                             PipeschedGradientAfter gradientAfter,
                             PipeschedRecompute recompute) {
  pipe::ScheduleOp op = readRowOwner(schedule);
  if (!op)
    return wrap(failure());
  EnumReader reader;
  GradientAfter after = GradientAfter::InputGrad;
  Recompute kind = Recompute::None;
  reader.read("gradient-after", gradientAfter, after);
  reader.read("recompute", recompute, kind);
  if (llvm::Error error = reader.take())
    return wrap(pipe::emitTableError(op)
                << "is not changed: " << llvm::toString(std::move(error)));
  op.setGradientAfter(after);
  op.removeRecomputeAttr();
  if (kind == Recompute::Selective) // all is the default
    op.setRecompute(pipe::RecomputeKind(kind));
  return wrap(success());
}
