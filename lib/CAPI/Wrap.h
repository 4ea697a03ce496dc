//===- Wrap.h - C++ behind the C API ----------------------------*- C++ -*-===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The types behind the handles of the C API, and conversions from structs of C
// to those of the library.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_LIB_CAPI_WRAP_H
#define PIPESCHED_LIB_CAPI_WRAP_H

#include "PipeSched-c/Evaluation.h"
#include "PipeSched/Dialect/Pipe/IR/Pipe.h"
#include "PipeSched/Evaluation/Sweep.h"
#include "PipeSched/Schedule/Kinds/Instructions.h"
#include "PipeSched/Schedule/Kinds/PhaseSets.h"
#include "mlir/CAPI/Support.h"
#include "mlir/CAPI/Utils.h"
#include "mlir/CAPI/Wrap.h"

namespace pipesched {

/// A table, with the family and options that made it.
struct GeneratedTable {
  Problem problem;
  Table table;
};

/// An evaluation; `table` owns the rows if no op does.
using OwnedEvaluation = EvaluatedTable;

/// Converts a problem from C. Errors: unknown families and options; invalid
/// values of options; paths with both blocks and weights; numbers that no value
/// of their enum has.
llvm::Expected<Problem> readProblem(const PipeschedProblem &problem);
/// Converts only the paths.
llvm::Expected<std::vector<Path>> readPaths(const PipeschedProblem &problem);
llvm::Expected<Configuration>
readConfiguration(const PipeschedConfiguration &configuration);
/// Errors: numbers that no value of their enum has; those of parseDisturbance.
llvm::Expected<TimingOptions> readTiming(const PipeschedTiming &timing);

/// Passes a text to a callback in one call, unless the callback is null.
inline void passText(MlirStringCallback callback, void *userData,
                     llvm::StringRef text) {
  if (callback)
    callback(wrap(text), userData);
}
inline void passError(MlirStringCallback callback, void *userData,
                      llvm::Error error) {
  passText(callback, userData, llvm::toString(std::move(error)));
}

/// The text of a caller; null is empty whatever its length.
inline llvm::StringRef readText(MlirStringRef text) {
  return text.data ? unwrap(text) : llvm::StringRef();
}

/// The array of a caller. Errors: a negative size; null in the place of
/// entries.
template <typename T>
llvm::Expected<llvm::ArrayRef<T>> readArray(llvm::StringRef what, const T *data,
                                            intptr_t size) {
  if (size < 0)
    return llvm::createStringError("expected the number of " + what +
                                   " to be at least 0, found " +
                                   llvm::Twine(size));
  if (!data && size != 0)
    return llvm::createStringError("expected " + llvm::Twine(size) + " " +
                                   what + ", found null");
  return llvm::ArrayRef(data, size);
}

/// Error: a null handle or pointer.
inline llvm::Error checkGiven(llvm::StringRef what, const void *given) {
  return given ? llvm::Error::success()
               : llvm::createStringError("expected " + what + ", found null");
}

/// The op of a handle if it is a schedule or program. Otherwise null, after a
/// diagnostic at the op if there is one.
mlir::Operation *readEvaluable(MlirOperation handle);

/// The schedule of a handle, or null after a diagnostic; of a program it says
/// `refusal`.
pipe::ScheduleOp readSchedule(MlirOperation handle, llvm::StringRef refusal);

/// Writes cells to the columns, one after the other.
class CellWriter {
public:
  CellWriter(const PipeschedCellColumns &columns, int64_t numSlices)
      : columns(columns), numSlices(numSlices) {}

  void write(int64_t worker, Cell cell, int64_t startPs = 0, int64_t endPs = 0,
             int64_t message = -1) {
    index = worker == lastWorker ? index + 1 : 0;
    lastWorker = worker;
    bool isSecondHalf = index != 0 && isFirstHalf;
    if (isSecondHalf && columns.pair)
      columns.pair[row - 1] = index;
    put(columns.pair, isSecondHalf ? index - 1 : -1);
    isFirstHalf = !isSecondHalf && cell.overlapsNext();
    put(columns.queue, static_cast<int64_t>(laneOf(cell)));
    put(columns.message, message);
    put(columns.worker, worker);
    put(columns.index, index);
    put(columns.stage, cell.getStage());
    put(columns.phase, traitsOf(cell.getPhase()).code);
    bool isUnit = traitsOf(cell.getPhase()).number == CellNumber::Unit;
    int64_t number = cell.getNumber(), perNumber = isUnit ? numSlices : 1;
    put(columns.microbatch, number / perNumber);
    put(columns.slice, number % perNumber);
    put(columns.startPs, startPs);
    put(columns.endPs, endPs);
    ++row;
  }

private:
  static Lane laneOf(Cell cell) {
    std::optional<InstructionKind> kind = traitsOf(cell.getPhase()).instruction;
    return kind ? traitsOf(*kind).lane : Lane::Compute;
  }

  template <typename T>
  void put(T *column, int64_t value) {
    if (column)
      column[row] = static_cast<T>(value);
  }

  PipeschedCellColumns columns;
  int64_t numSlices;
  size_t row = 0;
  int64_t lastWorker = -1, index = 0;
  bool isFirstHalf = false; ///< the last cell begins a pair
};

} // namespace pipesched

DEFINE_C_API_PTR_METHODS(PipeschedTable, pipesched::GeneratedTable)
DEFINE_C_API_PTR_METHODS(PipeschedCosts, pipesched::CostSources)
DEFINE_C_API_PTR_METHODS(PipeschedEvaluation, pipesched::OwnedEvaluation)

#endif // PIPESCHED_LIB_CAPI_WRAP_H
