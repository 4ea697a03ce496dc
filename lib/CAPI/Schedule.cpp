//===- Schedule.cpp - C API for rows and reports --------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Converts cells from and to C structs, which do not depend on the library's
// layout.
//
//===----------------------------------------------------------------------===//

#include "PipeSched-c/Schedule.h"
#include "PipeSched/Adapter/Evaluate.h"
#include "PipeSched/Dialect/Exec/IR/Exec.h"
#include "PipeSched/Dialect/Pipe/IR/ScheduleTable.h"
#include "PipeSched/Schedule/Kinds/PhaseSets.h"
#include "PipeSched/Schedule/Table/CellNumbers.h"
#include "PipeSched/Target/Report.h"
#include "mlir/CAPI/IR.h"
#include "mlir/CAPI/Support.h"
#include "mlir/CAPI/Utils.h"
#include "llvm/Support/JSON.h"
#include <cstring>

using namespace mlir;
using namespace pipesched;

//===----------------------------------------------------------------------===//
// Cells
//===----------------------------------------------------------------------===//

/// Whether a phase has the same number in C as in files.
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

/// Returns the number that a caller has stored in a C enum. It may be any
/// number, and C++ must not read an enum whose number is out of range.
static uint32_t codeOf(const PipeschedPhase &phase) {
  uint32_t code;
  static_assert(sizeof(phase) == sizeof(code), "enums of C are int");
  std::memcpy(&code, &phase, sizeof(code));
  return code;
}

MlirStringRef pipeschedPhaseGetLetter(PipeschedPhase phase) {
  std::optional<Phase> found = phaseFromCode(codeOf(phase));
  return wrap(found ? StringRef(enumName(*found)) : StringRef());
}

/// A cell of a table with this many slices.
static PipeschedCell toC(Cell cell, int64_t numSlices) {
  CellNumbers numbers = numbersOf(cell, numSlices);
  return {static_cast<PipeschedPhase>(numbers.phase), numbers.stage,
          numbers.number, numbers.overlapsNext, numbers.slice};
}

/// Returns the numbers of a caller, which may be invalid.
static CellNumbers fromC(const PipeschedCell &cell) {
  return {codeOf(cell.phase), cell.stage, cell.number, cell.slice,
          cell.overlapsNext};
}

//===----------------------------------------------------------------------===//
// Rows
//===----------------------------------------------------------------------===//

/// Returns the schedule of a handle, or null after a diagnostic at the op, if
/// any.
static pipe::ScheduleOp readSchedule(MlirOperation handle) {
  Operation *op = unwrap(handle);
  auto schedule = dyn_cast_or_null<pipe::ScheduleOp>(op);
  if (op && !schedule)
    pipe::emitTableError(op) << "is not a schedule; only schedules have rows";
  return schedule;
}

intptr_t pipeschedScheduleGetNumRows(MlirOperation schedule) {
  pipe::ScheduleOp op = readSchedule(schedule);
  return op ? llvm::range_size(op.getRows()) : -1;
}

/// The row of a worker. Errors, emitted: no schedule; no such row.
static FailureOr<ArrayRef<Cell>> findRow(MlirOperation schedule,
                                         intptr_t worker) {
  pipe::ScheduleOp op = readSchedule(schedule);
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
  FailureOr<ArrayRef<Cell>> row = findRow(schedule, worker);
  return succeeded(row) ? row->size() : -1;
}

MlirLogicalResult pipeschedScheduleGetRow(MlirOperation schedule,
                                          intptr_t worker, intptr_t numCells,
                                          PipeschedCell *cells) {
  FailureOr<ArrayRef<Cell>> row = findRow(schedule, worker);
  if (failed(row))
    return wrap(failure());
  auto op = cast<pipe::ScheduleOp>(unwrap(schedule));
  bool hasRoom = numCells == intptr_t(row->size()) && (cells || row->empty());
  if (!hasRoom)
    return wrap(pipe::emitTableError(op)
                << "is not read: expected room for " << row->size()
                << " cells, found " << (cells ? "room for " : "null for ")
                << numCells);
  llvm::transform(*row, cells,
                  [&](Cell cell) { return toC(cell, op.getSlices()); });
  return wrap(success());
}

/// Returns the rows of a caller as numbers. Errors: null instead of entries;
/// negative numbers of entries.
static llvm::Expected<std::vector<std::vector<CellNumbers>>>
readRows(intptr_t numRows, const PipeschedRow *rows) {
  if (numRows < 0 || (!rows && numRows != 0))
    return llvm::createStringError("expected an array of rows, found " +
                                   Twine(rows ? "" : "null for ") +
                                   Twine(numRows) + " rows");
  std::vector<std::vector<CellNumbers>> read(numRows);
  for (intptr_t worker = 0; worker < numRows; ++worker) {
    auto [numCells, cells] = rows[worker];
    if (numCells < 0 || (!cells && numCells != 0))
      return llvm::createStringError(
          "worker " + Twine(worker) + ": expected an array of cells, found " +
          Twine(cells ? "" : "null for ") + Twine(numCells) + " cells");
    llvm::transform(ArrayRef(cells, numCells), std::back_inserter(read[worker]),
                    fromC);
  }
  return read;
}

static llvm::Expected<std::vector<Row>>
makeRowsOf(pipe::ScheduleOp op, intptr_t numRows, const PipeschedRow *rows) {
  auto numbers = readRows(numRows, rows);
  if (!numbers)
    return numbers.takeError();
  return makeRows(*numbers, op.getSlices());
}

MlirLogicalResult pipeschedScheduleSetRows(MlirOperation schedule,
                                           intptr_t numRows,
                                           const PipeschedRow *rows) {
  pipe::ScheduleOp op = readSchedule(schedule);
  if (!op)
    return wrap(failure());
  auto made = makeRowsOf(op, numRows, rows);
  if (!made)
    return wrap(pipe::emitTableError(op) << "cannot have these rows: "
                                         << llvm::toString(made.takeError()));
  return wrap(pipe::replaceRows(op, std::move(*made)));
}

//===----------------------------------------------------------------------===//
// Instructions
//===----------------------------------------------------------------------===//

static bool getCell(
    MlirOperation handle, PipeschedCell *cell,
    llvm::function_ref<std::optional<Cell>(exec::InstructionOpInterface)> get) {
  auto op = dyn_cast_or_null<exec::InstructionOpInterface>(unwrap(handle));
  std::optional<Cell> found = op ? get(op) : std::nullopt;
  if (!found || !cell)
    return false;
  auto program = op->getParentOfType<exec::ProgramOp>();
  *cell = toC(*found, program ? program.getSlices() : 1);
  return true;
}

bool pipeschedInstructionGetCell(MlirOperation instruction,
                                 PipeschedCell *cell) {
  return getCell(instruction, cell,
                 [](auto op) { return op.getInstructionCell(); });
}

bool pipeschedInstructionGetOverlappedCell(MlirOperation instruction,
                                           PipeschedCell *cell) {
  return getCell(instruction, cell,
                 [](auto op) { return op.getOverlappedCell(); });
}

//===----------------------------------------------------------------------===//
// Reports
//===----------------------------------------------------------------------===//

MlirLogicalResult pipeschedScheduleWriteReport(MlirOperation scheduleOrProgram,
                                               MlirStringCallback callback,
                                               void *userData) {
  Operation *op = unwrap(scheduleOrProgram);
  if (!op)
    return wrap(failure());
  if (!isa<pipe::ScheduleOp, exec::ProgramOp>(op))
    return wrap(pipe::emitTableError(op)
                << "is neither a schedule nor a program");
  FailureOr<NamedEvaluation> result = evaluate(op, TimingOptions());
  if (failed(result))
    return wrap(failure());
  mlir::detail::CallbackOstream os(callback, userData);
  llvm::json::OStream json(os, /*IndentSize=*/2);
  writeReport(json, *result);
  return wrap(success());
}
