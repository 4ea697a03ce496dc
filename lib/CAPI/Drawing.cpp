//===- Drawing.cpp - C API for what a drawing shows -----------------------===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Hands out the columns of a drawing.
//
//===----------------------------------------------------------------------===//

#include "PipeSched-c/Drawing.h"
#include "PipeSched/Target/DrawingColumns.h"
#include "Wrap.h"

using namespace pipesched;

DEFINE_C_API_PTR_METHODS(PipeschedDrawing, DrawingColumns)

PipeschedDrawing pipeschedDrawingCreate(PipeschedEvaluation evaluation) {
  if (!evaluation.ptr)
    return {nullptr};
  return wrap(new DrawingColumns(drawingColumnsOf(unwrap(evaluation)->result)));
}

void pipeschedDrawingDestroy(PipeschedDrawing drawing) {
  delete unwrap(drawing);
}

void pipeschedDrawingWriteFacts(PipeschedDrawing drawing,
                                MlirStringCallback callback, void *userData) {
  if (drawing.ptr)
    passText(callback, userData, unwrap(drawing)->facts);
}

/// Null if it is empty.
template <typename T>
static const T *dataOf(const std::vector<T> &column) {
  return column.empty() ? nullptr : column.data();
}

PipeschedDrawingItems pipeschedDrawingGetItems(PipeschedDrawing drawing) {
  if (!drawing.ptr)
    return {};
  const DrawingColumns &columns = *unwrap(drawing);
  PipeschedDrawingItems items = {};
  items.numWorkers = static_cast<intptr_t>(columns.rowBegins.size()) - 1;
  items.numItems = static_cast<intptr_t>(columns.size());
  items.rowBegins = columns.rowBegins.data();
  items.kind = dataOf(columns.kind);
  items.worker = dataOf(columns.worker);
  items.peer = dataOf(columns.peer);
  items.stage = dataOf(columns.stage);
  items.phase = dataOf(columns.phase);
  items.microbatch = dataOf(columns.microbatch);
  items.secondStage = dataOf(columns.secondStage);
  items.secondPhase = dataOf(columns.secondPhase);
  items.secondMicrobatch = dataOf(columns.secondMicrobatch);
  items.startPs = dataOf(columns.startPs);
  items.releasePs = dataOf(columns.releasePs);
  items.endPs = dataOf(columns.endPs);
  items.awaited = dataOf(columns.awaited);
  items.numCritical = static_cast<intptr_t>(columns.criticalPath.size());
  items.critical = dataOf(columns.criticalPath);
  items.numReductions = static_cast<intptr_t>(columns.memberBegins.size()) - 1;
  items.memberBegins = columns.memberBegins.data();
  items.members = dataOf(columns.members);
  return items;
}

PipeschedDrawingIdle pipeschedDrawingGetIdle(PipeschedDrawing drawing) {
  if (!drawing.ptr)
    return {};
  const DrawingColumns &columns = *unwrap(drawing);
  return {static_cast<intptr_t>(columns.idleCause.size()),
          dataOf(columns.idleWorker),
          dataOf(columns.idleCause),
          dataOf(columns.idleBefore),
          dataOf(columns.idleBeginPs),
          dataOf(columns.idleEndPs)};
}

PipeschedDrawingMemory pipeschedDrawingGetMemory(PipeschedDrawing drawing) {
  if (!drawing.ptr)
    return {};
  const DrawingColumns &columns = *unwrap(drawing);
  return {static_cast<intptr_t>(columns.memoryBegins.size()) - 1,
          static_cast<intptr_t>(columns.memoryPs.size()),
          columns.memoryBegins.data(), dataOf(columns.memoryPs),
          dataOf(columns.memoryHeld)};
}
