//===- EmitDeadlock.cpp - Deadlocks as diagnostics ------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Emits an error for the cycle and notes for its waits.
//
//===----------------------------------------------------------------------===//

#include "PipeSched/Adapter/EmitDeadlock.h"
#include "PipeSched/Dialect/Pipe/IR/Editing.h"
#include "PipeSched/Dialect/Pipe/IR/ScheduleTable.h"

using namespace mlir;
using namespace pipesched;

LogicalResult
pipesched::emitDeadlock(Operation *op, const Program &program,
                        const Deadlock &deadlock, StringRef condition,
                        llvm::function_ref<Location(uint32_t)> placeOf) {
  constexpr size_t kMaxNotes = 8;
  ArrayRef<Wait> cycle = deadlock.cycle;
  InFlightDiagnostic diagnostic = pipe::emitTableError(op) << "deadlocks ";
  if (!condition.empty())
    diagnostic << "with " << condition << ' ';
  diagnostic << "in a cycle of " << cycle.size() << " waits";
  for (const Wait &wait : cycle.take_front(kMaxNotes))
    diagnostic.attachNote(placeOf(wait.waiter)) << describeWait(program, wait);
  if (cycle.size() > kMaxNotes)
    diagnostic.attachNote(op->getLoc())
        << "and " << cycle.size() - kMaxNotes << " more";
  return diagnostic;
}

/// Returns the location of the cell that an instruction runs or whose result it
/// sends. A receive has no cell in its row, so its location is the row.
static Location placeInRow(pipe::WorkerOp row, Cell cell) {
  for (auto [index, other] : llvm::enumerate(row.getCells()))
    if (other.withOverlap(false) == cell.withOverlap(false))
      return pipe::locationOfCell(row, index);
  return row.getLoc();
}

LogicalResult pipesched::emitProgramError(pipe::ScheduleOp schedule,
                                          const Program &program,
                                          llvm::Error error,
                                          StringRef condition) {
  SmallVector<pipe::WorkerOp> rows(program.getNumWorkers());
  for (pipe::WorkerOp row : schedule.getRows())
    rows[row.getWorker()] = row;
  auto placeOf = [&](uint32_t instruction) {
    pipe::WorkerOp row =
        rows[llvm::upper_bound(program.rowBegins, instruction) -
             program.rowBegins.begin() - 1];
    return row ? placeInRow(row, program.instructions[instruction].cell)
               : schedule.getLoc();
  };
  llvm::Error other =
      llvm::handleErrors(std::move(error), [&](const DeadlockError &found) {
        (void)emitDeadlock(schedule, program, found.getDeadlock(), condition,
                           placeOf);
      });
  if (other)
    return pipe::emitTableError(schedule, std::move(other));
  return failure();
}
