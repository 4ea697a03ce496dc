//===- Module.h - C API for schedules as IR -----------------------*- C -*-===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Modules that hold schedules and programs. Errors are diagnostics of the
// context; a null context, module or op has none, and is an error all the same.
// An op that is neither a schedule nor a program is an error also where a
// function has no others, and the answer is then that for a null op.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_C_MODULE_H
#define PIPESCHED_C_MODULE_H

#include "PipeSched-c/Schedule.h"
#include "mlir-c/IR.h"

#ifdef __cplusplus
extern "C" {
#endif

//===----------------------------------------------------------------------===//
// Modules
//===----------------------------------------------------------------------===//

/// Parses text or bytecode. `name` is the file name in locations. Null after an
/// error. MLIR's reader of bytecode trusts what it reads, so a child process
/// reads it first (fork), with the dialects that the context has registered.
MLIR_CAPI_EXPORTED MlirModule pipeschedModuleParse(MlirContext context,
                                                   MlirStringRef source,
                                                   MlirStringRef name);

/// The same without the child process and without a limit of nesting, for what
/// this program or another trusted one has written: other bytes may end the
/// process.
MLIR_CAPI_EXPORTED MlirModule pipeschedModuleParseTrusted(MlirContext context,
                                                          MlirStringRef source,
                                                          MlirStringRef name);

/// Lets diagnostics about IR that goes from one context to another as bytecode
/// still point at cells: the first one knows where they stand in the text.
MLIR_CAPI_EXPORTED void pipeschedCellPlacesCopy(MlirContext from,
                                                MlirContext to);

/// A module with the schedule `name` and its family. It takes the rows out of
/// the table, which can then only be destroyed. Null after an error, such as a
/// table without rows.
MLIR_CAPI_EXPORTED MlirModule pipeschedModuleCreateFromTable(
    MlirContext context, MlirStringRef name, PipeschedTable table);

/// A module with a schedule without rows, which a pass can fill. Ignores the
/// family of the problem and its options. A problem without paths gets a linear
/// one.
MLIR_CAPI_EXPORTED MlirModule pipeschedModuleCreateProblem(
    MlirContext context, MlirStringRef name, PipeschedProblem problem);

/// Runs `a,b{c=1}` or `builtin.module(a,b{c=1})`. If a pass fails, the module
/// keeps the changes made so far.
MLIR_CAPI_EXPORTED MlirLogicalResult
pipeschedModuleRunPipeline(MlirModule module, MlirStringRef pipeline);

/// The same for a long search, by a program that owns its process. Passes get
/// one thread per core if the context has none. SIGINT ends the search; the
/// handler of the process gets the signal afterwards.
MLIR_CAPI_EXPORTED MlirLogicalResult
pipeschedModuleRunSearchPipeline(MlirModule module, MlirStringRef pipeline);

//===----------------------------------------------------------------------===//
// Schedules and programs
//===----------------------------------------------------------------------===//

/// The `pipe.schedule` and `exec.program` ops of a module, in order.
MLIR_CAPI_EXPORTED intptr_t pipeschedModuleGetNumSchedules(MlirModule module);
/// Null for an index out of range.
MLIR_CAPI_EXPORTED MlirOperation pipeschedModuleGetSchedule(MlirModule module,
                                                            intptr_t index);

/// Copies one schedule or program, with its model, its system and the functions
/// of its stages, to a new module.
MLIR_CAPI_EXPORTED MlirModule
pipeschedModuleCreateFromSchedule(MlirOperation scheduleOrProgram);

/// Properties of an op. Strings live as long as the op.
typedef struct PipeschedScheduleInfo {
  MlirStringRef name;
  MlirStringRef family; ///< empty: none
  bool isProgram;
  bool isProblem; ///< a schedule without rows
  int64_t numWorkers, numMicrobatches;
  int64_t numSlices;   ///< of a microbatch
  intptr_t numPaths;   ///< 0 for programs without paths
  bool hasModel;       ///< it names one
  bool hasSystem;      ///< a module around it describes one
  MlirStringRef times; ///< its profile, `F=1ms,B=2ms`; empty: none
} PipeschedScheduleInfo;
MLIR_CAPI_EXPORTED PipeschedScheduleInfo
pipeschedScheduleGetInfo(MlirOperation scheduleOrProgram);

/// Gives a schedule or program another name. Errors: no such op; an empty name;
/// one that another op of the module has.
MLIR_CAPI_EXPORTED MlirLogicalResult
pipeschedScheduleSetName(MlirOperation scheduleOrProgram, MlirStringRef name);

/// A path as it is written; its arrays live as long as the op. An index out of
/// range gives an empty path.
MLIR_CAPI_EXPORTED PipeschedPath
pipeschedScheduleGetPath(MlirOperation scheduleOrProgram, intptr_t path);

/// The arrays that cells are written to; null columns are left out. `index` is
/// the position among the cells of the worker, `phase` a PipeschedPhase.
typedef struct PipeschedCellColumns {
  int32_t *worker, *index, *stage;
  int8_t *phase;
  int32_t *microbatch; ///< the path for O and G
  int32_t *slice;      ///< of the microbatch
  int64_t *startPs, *endPs;
  int8_t *queue; ///< on which the cell runs, a value of the enum "lane"
  int32_t *pair; ///< `index` of the cell that it overlaps with, or -1
  /// The message that sends its result to another worker, numbered as in
  /// PipeschedInstructions, or -1.
  int32_t *message;
} PipeschedCellColumns;

/// The number of cells of a schedule or program, without idle entries and
/// joins. In a program, a G that takes part in several all-reduces counts once.
/// -1 after an error: no schedule or program; a program that does not say where
/// its stages are.
MLIR_CAPI_EXPORTED intptr_t
pipeschedScheduleGetNumCells(MlirOperation scheduleOrProgram);
/// The cells, row by row. `startPs`, `endPs` and `message` are not written.
MLIR_CAPI_EXPORTED void
pipeschedScheduleGetCells(MlirOperation scheduleOrProgram,
                          PipeschedCellColumns columns);

//===----------------------------------------------------------------------===//
// Rows
//===----------------------------------------------------------------------===//

/// How many rows a schedule has: one per worker, or none if it is a problem.
/// -1 after an error, such as a program, which has instructions instead.
MLIR_CAPI_EXPORTED intptr_t pipeschedScheduleGetNumRows(MlirOperation schedule);
/// How many entries the row of a worker has. -1 after an error: no schedule; no
/// such row.
MLIR_CAPI_EXPORTED intptr_t pipeschedScheduleGetRowSize(MlirOperation schedule,
                                                        intptr_t worker);
/// Writes the row of a worker to `cells`, which has room for `numCells`.
/// Errors, after which nothing is written: those of
/// pipeschedScheduleGetRowSize; no room for exactly its entries.
MLIR_CAPI_EXPORTED MlirLogicalResult
pipeschedScheduleGetRow(MlirOperation schedule, intptr_t worker,
                        intptr_t numCells, PipeschedCell *cells);

/// Takes the row of a worker, which lives during the call alone.
typedef void (*PipeschedRowCallback)(intptr_t worker, PipeschedRow row,
                                     void *userData);
/// Calls `callback` for each row, in the order of the workers; faster than
/// asking for one row after the other. Errors: no schedule; null in the place
/// of a callback.
MLIR_CAPI_EXPORTED MlirLogicalResult pipeschedScheduleForEachRow(
    MlirOperation schedule, PipeschedRowCallback callback, void *userData);

/// Why rows cannot run to their end, and how far they come if each entry, and
/// each pair, takes one slot. Cell k of the cycle is entry index[k] of the row
/// of worker[k]; each waits for the next one, the last for the first.
typedef struct PipeschedDeadlock {
  intptr_t numWaiting;
  const int32_t *worker, *index;
  intptr_t numEntries; ///< of all rows, by ascending worker
  const int64_t *slot; ///< in which an entry starts; -1: it never does
} PipeschedDeadlock;
/// Takes a deadlock, which lives during the call alone.
typedef void (*PipeschedDeadlockCallback)(PipeschedDeadlock deadlock,
                                          void *userData);
/// Calls `callback` if the rows of a schedule are complete and deadlock.
/// Errors: no schedule; null in the place of a callback.
MLIR_CAPI_EXPORTED MlirLogicalResult pipeschedScheduleFindDeadlock(
    MlirOperation schedule, PipeschedDeadlockCallback callback, void *userData);

/// Replaces the rows of a schedule, or fills a problem, and drops the name of
/// its family. Errors, after which all is as before: no schedule; not one row
/// per worker; a phase, stage or number that no cell has; rows that the
/// schedule's verifier refuses.
MLIR_CAPI_EXPORTED MlirLogicalResult pipeschedScheduleSetRows(
    MlirOperation schedule, intptr_t numRows, const PipeschedRow *rows);

//===----------------------------------------------------------------------===//
// Exchange
//===----------------------------------------------------------------------===//

/// Draws the table of a schedule in its slots; writes nothing after an error.
MLIR_CAPI_EXPORTED MlirLogicalResult pipeschedScheduleExportSlotSvg(
    MlirOperation schedule, MlirStringCallback callback, void *userData);

typedef enum PipeschedTorchCsvFormat {
  PipeschedTorchCsvComputeOnly,
  PipeschedTorchCsvComputeComms
} PipeschedTorchCsvFormat;

/// A module with the schedule of a file; its name is that of the file without
/// folder and extension. With `keepColumns`, empty cells are idle slots. With
/// `stagesPerPath` other than 0, stage p * stagesPerPath + s of the file is
/// stage s of path p. Null after an error, which is emitted at its line and
/// column.
MLIR_CAPI_EXPORTED MlirModule pipeschedModuleImportTorchCsv(
    MlirContext context, MlirStringRef text, MlirStringRef file,
    bool keepColumns, int64_t stagesPerPath);

/// Writes a schedule; nothing after an error, such as a schedule that PyTorch
/// cannot express or would compute wrongly.
MLIR_CAPI_EXPORTED MlirLogicalResult pipeschedScheduleExportTorchCsv(
    MlirOperation schedule, PipeschedTorchCsvFormat format,
    MlirStringCallback callback, void *userData);

/// Writes the value of Megatron-Core's --pipeline-model-parallel-layout for a
/// schedule with or without rows; nothing after an error.
MLIR_CAPI_EXPORTED MlirLogicalResult pipeschedScheduleExportMegatronLayout(
    MlirOperation schedule, MlirStringCallback callback, void *userData);

/// Writes the value of Shardy's -mpmd-rule-based-schedule as one line, with
/// computations s0, s1, ... and meshes m0, m1, ...; nothing after an error. A
/// warning says where Shardy would deviate from the schedule.
MLIR_CAPI_EXPORTED MlirLogicalResult pipeschedScheduleExportShardyRules(
    MlirOperation schedule, MlirStringCallback callback, void *userData);

#ifdef __cplusplus
}
#endif

#endif // PIPESCHED_C_MODULE_H
