//===- Drawing.h - C API for what a drawing shows -----------------*- C -*-===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A timeline as columns of numbers, for drawings that are made elsewhere. The
// columns belong to the drawing and live as long as it does; several threads
// may read one at the same time. -1 in a column stands for "none".
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_C_DRAWING_H
#define PIPESCHED_C_DRAWING_H

#include "PipeSched-c/Evaluation.h"

#ifdef __cplusplus
extern "C" {
#endif

/// What a drawing of a timeline can show. Immutable; refers to nothing else.
typedef struct PipeschedDrawing {
  void *ptr;
} PipeschedDrawing;

/// Linear in cells and messages, but for sorting. Null for
/// a null evaluation.
MLIR_CAPI_EXPORTED PipeschedDrawing
pipeschedDrawingCreate(PipeschedEvaluation evaluation);
MLIR_CAPI_EXPORTED void pipeschedDrawingDestroy(PipeschedDrawing drawing);
static inline bool pipeschedDrawingIsNull(PipeschedDrawing drawing) {
  return !drawing.ptr;
}

/// Writes one JSON object that says what the numbers in the columns mean:
/// title, subtitle, makespan_ps, workers, microbatches, paths; by number stages
/// (path, stage, worker, shade), phases (letter, name, in_use, a colour per
/// shade), kinds, lanes and causes; memory (unit, bytes beside activations).
MLIR_CAPI_EXPORTED void pipeschedDrawingWriteFacts(PipeschedDrawing drawing,
                                                   MlirStringCallback callback,
                                                   void *userData);

/// What takes time, in ps: first the cells, worker by worker in row order (an
/// overlapped pair is one), then messages, copies and all-reduces, sorted by
/// worker, kind and start. The cells of worker w are the items rowBegins[w] to
/// rowBegins[w + 1] - 1. A column has numItems entries unless it says
/// otherwise.
typedef struct PipeschedDrawingItems {
  intptr_t numWorkers, numItems;
  const uint32_t *rowBegins; ///< numWorkers + 1 entries
  const int8_t *kind;        ///< a PipeschedInstructionKind
  const int32_t *worker;     ///< of a message the sender
  /// Of a message the receiver (of a recv by itself the sender), of an
  /// all-reduce its number.
  const int32_t *peer;
  const int32_t *stage;      ///< numbered over all paths, path by path
  const int8_t *phase;       ///< a PipeschedPhase
  const int32_t *microbatch; ///< the path for O and G
  /// The second cell of an overlapped pair. Null without pairs, else one entry
  /// per cell.
  const int32_t *secondStage;
  const int8_t *secondPhase;
  const int32_t *secondMicrobatch;
  /// The queue is held from start to release; the data is there at end.
  const int64_t *startPs, *releasePs, *endPs;
  /// The item for which it waited: whose release or end was its start.
  const int32_t *awaited;
  /// The items of the critical path, first to last.
  intptr_t numCritical;
  const int32_t *critical;
  /// The workers of all-reduce r are members[memberBegins[r]] to
  /// members[memberBegins[r + 1] - 1].
  intptr_t numReductions;
  const uint32_t *memberBegins; ///< numReductions + 1 entries
  const int32_t *members;       ///< memberBegins[numReductions] entries
} PipeschedDrawingItems;
MLIR_CAPI_EXPORTED PipeschedDrawingItems
pipeschedDrawingGetItems(PipeschedDrawing drawing);

/// The time in which workers are idle, worker by worker in the order of time.
/// Together with the cells it fills the step; by worker and cause it adds up to
/// the idle time of the report.
typedef struct PipeschedDrawingIdle {
  intptr_t numSpans;
  const int32_t *worker;
  const int8_t *cause;   ///< an index into "causes" of the facts
  const int32_t *before; ///< the cell that follows
  const int64_t *beginPs, *endPs;
} PipeschedDrawingIdle;
MLIR_CAPI_EXPORTED PipeschedDrawingIdle
pipeschedDrawingGetIdle(PipeschedDrawing drawing);

/// The activations that worker w holds from each time on, in samples
/// rowBegins[w] to rowBegins[w + 1] - 1; before the first sample it holds none.
typedef struct PipeschedDrawingMemory {
  intptr_t numWorkers, numSamples;
  const uint32_t *rowBegins; ///< numWorkers + 1 entries
  const int64_t *atPs;
  const int64_t *held; ///< in the unit that the facts state
} PipeschedDrawingMemory;
MLIR_CAPI_EXPORTED PipeschedDrawingMemory
pipeschedDrawingGetMemory(PipeschedDrawing drawing);

#ifdef __cplusplus
}
#endif

#endif // PIPESCHED_C_DRAWING_H
