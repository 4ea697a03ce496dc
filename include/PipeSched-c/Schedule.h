//===- Schedule.h - C API for rows and reports --------------------*- C -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Reads and writes the rows of a `pipe.schedule`, reads the cells of an
// `exec.program`, and times both. Passes (mlir-c/Pass.h) make and change
// schedules; MLIR's own functions parse their text and find their ops.
//
// Errors are diagnostics of the context. A null op has no context, but is an
// error too; so are an op of another kind, null instead of entries, and a
// negative number of entries.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_C_SCHEDULE_H
#define PIPESCHED_C_SCHEDULE_H

#include "PipeSched-c/Kinds.h"
#include "mlir-c/IR.h"

#ifdef __cplusplus
extern "C" {
#endif

//===----------------------------------------------------------------------===//
// Rows
//===----------------------------------------------------------------------===//

/// Returns the letter of a phase; empty if the number is not a phase.
MLIR_CAPI_EXPORTED MlirStringRef pipeschedPhaseGetLetter(PipeschedPhase phase);

/// One entry of a row. The first of two overlapped cells has `overlapsNext`;
/// the second follows it.
typedef struct PipeschedCell {
  PipeschedPhase phase;
  int64_t stage;  ///< 0 for an idle entry
  int64_t number; ///< the microbatch; for O and G the path, for _ the slots
  bool overlapsNext;
  int64_t slice; ///< of the microbatch; 0 if microbatches are not divided
} PipeschedCell;

/// The cells of a worker, in order.
typedef struct PipeschedRow {
  intptr_t numCells;
  const PipeschedCell *cells;
} PipeschedRow;

/// Returns the number of rows of a schedule: one per worker, or none for a
/// problem. -1 after an error, such as a program, which has instructions
/// instead.
MLIR_CAPI_EXPORTED intptr_t pipeschedScheduleGetNumRows(MlirOperation schedule);
/// Returns the number of entries in the row of a worker. -1 after an error: not
/// a schedule; no such row.
MLIR_CAPI_EXPORTED intptr_t pipeschedScheduleGetRowSize(MlirOperation schedule,
                                                        intptr_t worker);
/// Writes the row of a worker to `cells`, which has room for `numCells`.
/// Errors, after which nothing is written: as for pipeschedScheduleGetRowSize;
/// no room for exactly its entries.
MLIR_CAPI_EXPORTED MlirLogicalResult
pipeschedScheduleGetRow(MlirOperation schedule, intptr_t worker,
                        intptr_t numCells, PipeschedCell *cells);

/// Replaces the rows of a schedule, or fills a problem, and drops the name of
/// its family. Errors, after which nothing has changed: not a schedule; not
/// exactly one row per worker; a phase, stage or number that no cell has; rows
/// that the schedule's verifier refuses.
MLIR_CAPI_EXPORTED MlirLogicalResult pipeschedScheduleSetRows(
    MlirOperation schedule, intptr_t numRows, const PipeschedRow *rows);

//===----------------------------------------------------------------------===//
// Instructions
//===----------------------------------------------------------------------===//

/// Writes the cell of an instruction of an `exec.program`; the next function,
/// the second cell of an overlapped pair. Returns false and writes nothing if
/// there is no such cell.
MLIR_CAPI_EXPORTED bool pipeschedInstructionGetCell(MlirOperation instruction,
                                                    PipeschedCell *cell);
MLIR_CAPI_EXPORTED bool
pipeschedInstructionGetOverlappedCell(MlirOperation instruction,
                                      PipeschedCell *cell);

//===----------------------------------------------------------------------===//
// Reports
//===----------------------------------------------------------------------===//

/// Times a `pipe.schedule` or `exec.program` with the model, system and profile
/// that it names, and writes the report as one JSON object (docs/Report.md).
/// Without costs one slot takes 1 us and messages take no time. Writes nothing
/// after an error: no rows; rows that pipe-verify rejects; a deadlock; costs
/// that do not cover the rows.
MLIR_CAPI_EXPORTED MlirLogicalResult
pipeschedScheduleWriteReport(MlirOperation scheduleOrProgram,
                             MlirStringCallback callback, void *userData);

#ifdef __cplusplus
}
#endif

#endif // PIPESCHED_C_SCHEDULE_H
