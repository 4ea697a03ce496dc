//===- drawing.c - What a drawing shows, in plain C ------------- -*- C -*-===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The columns of a timeline: cells and messages, idle time, memory.
//
//===----------------------------------------------------------------------===//

// RUN: pipesched-capi-drawing-test | FileCheck %s

#include "PipeSched-c/Drawing.h"
#include "Print.h"

#include <inttypes.h>

static void printItems(PipeschedDrawing drawing) {
  PipeschedDrawingItems items = pipeschedDrawingGetItems(drawing);
  printf("%d workers, %d items, pairs: %s\n", (int)items.numWorkers,
         (int)items.numItems, items.secondStage ? "yes" : "no");
  for (intptr_t i = 0; i < items.numItems; ++i)
    printf("%d: %d %d %d, %d %d %d, %" PRId64 " %" PRId64 " %" PRId64 ", %d\n",
           (int)i, items.kind[i], items.worker[i], items.peer[i],
           items.stage[i], items.phase[i], items.microbatch[i],
           items.startPs[i], items.releasePs[i], items.endPs[i],
           items.awaited[i]);
  printf("critical:");
  for (intptr_t i = 0; i < items.numCritical; ++i)
    printf(" %d", items.critical[i]);
  printf("; all-reduces: %d\n", (int)items.numReductions);
  //     item: kind, worker, peer; stage, phase, microbatch; times; awaited
  // CHECK:      2 workers, 6 items, pairs: no
  // CHECK-NEXT: 0: 0 0 -1, 0 0 0, 0 10 10, -1
  // CHECK-NEXT: 1: 0 0 -1, 0 1 0, 44 64 64, 5
  // CHECK-NEXT: 2: 0 1 -1, 1 0 0, 12 22 22, 4
  // CHECK-NEXT: 3: 0 1 -1, 1 1 0, 22 42 42, 2
  // CHECK-NEXT: 4: 1 0 1, 0 0 0, 10 10 12, 0
  // CHECK-NEXT: 5: 1 1 0, 1 1 0, 42 42 44, 3
  // CHECK-NEXT: critical: 0 4 2 3 5 1; all-reduces: 0
}

static void printIdle(PipeschedDrawing drawing) {
  PipeschedDrawingIdle idle = pipeschedDrawingGetIdle(drawing);
  for (intptr_t i = 0; i < idle.numSpans; ++i)
    printf("worker %d is idle in [%" PRId64 ", %" PRId64
           "), cause %d, before %d\n",
           idle.worker[i], idle.beginPs[i], idle.endPs[i], idle.cause[i],
           idle.before[i]);
  // CHECK-NEXT: worker 0 is idle in [10, 42), cause 2, before 1
  // CHECK-NEXT: worker 0 is idle in [42, 44), cause 4, before 1
  // CHECK-NEXT: worker 1 is idle in [0, 12), cause 0, before 2
  // CHECK-NEXT: worker 1 is idle in [42, 64), cause 1, before -1
}

static void printMemory(PipeschedDrawing drawing) {
  PipeschedDrawingMemory memory = pipeschedDrawingGetMemory(drawing);
  for (intptr_t w = 0; w < memory.numWorkers; ++w)
    for (uint32_t i = memory.rowBegins[w]; i < memory.rowBegins[w + 1]; ++i)
      printf("worker %d holds %" PRId64 " from %" PRId64 " on\n", (int)w,
             memory.held[i], memory.atPs[i]);
  // CHECK-NEXT: worker 0 holds 1 from 0 on
  // CHECK-NEXT: worker 0 holds 0 from 64 on
  // CHECK-NEXT: worker 1 holds 1 from 12 on
  // CHECK-NEXT: worker 1 holds 0 from 42 on
}

int main(void) {
  PipeschedCostOptions options = {0};
  options.boundaryBytes = -1;
  options.profile.kind = PipeschedSourceTimes;
  options.profile.text = text("F=10ps,B=20ps,comm=2ps");
  PipeschedConfiguration configuration = {0};
  configuration.problem.family = text("1f1b");
  configuration.problem.numWorkers = 2;
  configuration.problem.numMicrobatches = 1;
  configuration.costs = pipeschedCostsCreate(options, print, NULL);
  PipeschedEvaluation evaluation =
      pipeschedConfigurationEvaluate(&configuration, print, NULL);
  PipeschedDrawing drawing = pipeschedDrawingCreate(evaluation);
  pipeschedEvaluationDestroy(evaluation);
  pipeschedCostsDestroy(configuration.costs);
  printItems(drawing);
  printIdle(drawing);
  printMemory(drawing);
  pipeschedDrawingWriteFacts(drawing, print, NULL);
  // CHECK-NEXT: {"title":"1f1b",
  // CHECK-SAME: "makespan_ps":64,"workers":2,"microbatches":1,
  // CHECK-SAME: "slices":1,"paths":1,
  // CHECK-SAME: {"letter":"F","name":"forward","in_use":true,
  // CHECK-SAME: {"letter":"W",{{.*}}"in_use":false,
  // CHECK-SAME: {"path":0,"stage":1,"worker":1,"shade":0}]
  // CHECK-SAME: "kinds":[{"name":"compute","role":"compute","lane":0},
  // CHECK-SAME: "lanes":["compute","send","receive",
  // CHECK-SAME: "causes":["fill","drain",
  // CHECK-SAME: "memory":{"unit":"activations"}}
  pipeschedDrawingDestroy(drawing);
  return 0;
}
