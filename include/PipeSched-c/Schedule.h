//===- Schedule.h - C API for schedule tables ---------------------*- C -*-===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Generates a table of cells from a family and sizes, without any IR.
//
// After an error, a function passes one text to the callback and returns null.
//
// In the whole C API: a null callback is not called. A null string is empty. A
// null array that should have entries and a negative number of entries are
// errors. Of a null handle, or for an index that is out of range, a function
// that has no errors answers with 0, null or an empty struct, and writes
// nothing, unless it says otherwise. Destroying null does nothing.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_C_SCHEDULE_H
#define PIPESCHED_C_SCHEDULE_H

#include "PipeSched-c/Kinds.h"
#include "mlir-c/Support.h"

#ifdef __cplusplus
extern "C" {
#endif

#define DEFINE_C_API_STRUCT(name, storage)                                     \
  struct name {                                                                \
    storage *ptr;                                                              \
  };                                                                           \
  typedef struct name name

/// A schedule as a table. Its creator owns it.
DEFINE_C_API_STRUCT(PipeschedTable, void);

#undef DEFINE_C_API_STRUCT

//===----------------------------------------------------------------------===//
// Cells
//===----------------------------------------------------------------------===//

/// The letter of a phase; empty for a number that is no phase.
MLIR_CAPI_EXPORTED MlirStringRef pipeschedPhaseGetLetter(PipeschedPhase phase);
/// Whether profiles and systems give a phase a time.
MLIR_CAPI_EXPORTED bool pipeschedPhaseHasCost(PipeschedPhase phase);
/// Whether the number of its cells is a microbatch, of which it may run a
/// slice.
MLIR_CAPI_EXPORTED bool pipeschedPhaseHasMicrobatch(PipeschedPhase phase);

/// One entry of a row. Of two cells that run overlapped, the first one has
/// `overlapsNext`, and the second one stands behind it.
typedef struct PipeschedCell {
  PipeschedPhase phase;
  int64_t stage;  ///< 0 for an idle entry
  int64_t number; ///< the microbatch, of O and G the path, of _ the slots
  bool overlapsNext;
  int64_t slice; ///< of the microbatch; 0 where microbatches are whole
} PipeschedCell;

/// What a worker runs, in order.
typedef struct PipeschedRow {
  intptr_t numCells;
  const PipeschedCell *cells;
} PipeschedRow;

//===----------------------------------------------------------------------===//
// Problems
//===----------------------------------------------------------------------===//

/// The microbatches begin, begin + step, ... below end.
typedef struct PipeschedRange {
  int64_t begin, end, step;
} PipeschedRange;

/// A path: the worker of each stage. `takes` are its microbatches; it is empty
/// if the only path takes all or the family assigns them. `blocks` and
/// `weights` have one entry per stage or are null; at most one of them is
/// given.
typedef struct PipeschedPath {
  intptr_t numStages;
  const int32_t *workers;
  intptr_t numTakes;
  const PipeschedRange *takes;
  const int64_t *blocks, *weights;
} PipeschedPath;

/// An option of a family as text, such as "chunks" and "2".
typedef struct PipeschedOption {
  MlirStringRef name, value;
} PipeschedOption;

/// A schedule to generate. Without paths the family places the stages.
typedef struct PipeschedProblem {
  MlirStringRef family; ///< a name or an alias
  int64_t numWorkers, numMicrobatches;
  intptr_t numOptions;
  const PipeschedOption *options;
  intptr_t numPaths;
  const PipeschedPath *paths;
  int64_t numSlices; ///< of a microbatch; 0: as the family says, or one
} PipeschedProblem;

//===----------------------------------------------------------------------===//
// Tables
//===----------------------------------------------------------------------===//

/// Generates the table of a family. Errors: an unknown family or option, with
/// the closest name; sizes or paths that the family has no rule for.
MLIR_CAPI_EXPORTED PipeschedTable pipeschedTableGenerate(
    PipeschedProblem problem, MlirStringCallback onError, void *userData);
MLIR_CAPI_EXPORTED void pipeschedTableDestroy(PipeschedTable table);
static inline bool pipeschedTableIsNull(PipeschedTable table) {
  return !table.ptr;
}

MLIR_CAPI_EXPORTED intptr_t pipeschedTableGetNumWorkers(PipeschedTable table);
/// How many entries the row of a worker has. No such worker: 0.
MLIR_CAPI_EXPORTED intptr_t pipeschedTableGetRowSize(PipeschedTable table,
                                                     intptr_t worker);
/// Writes the row of a worker to `cells`, which has room for `numCells`.
/// Errors, after which nothing is written: no such worker; no room for exactly
/// its entries.
MLIR_CAPI_EXPORTED MlirLogicalResult pipeschedTableGetRow(
    PipeschedTable table, intptr_t worker, intptr_t numCells,
    PipeschedCell *cells, MlirStringCallback onError, void *userData);

#ifdef __cplusplus
}
#endif

#endif // PIPESCHED_C_SCHEDULE_H
