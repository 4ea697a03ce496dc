//===- evaluation.c - Schedules without IR, in plain C ---------- -*- C -*-===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Families, tables, costs, evaluations and sweeps; errors come by callback.
//
//===----------------------------------------------------------------------===//

// RUN: pipesched-capi-evaluation-test | FileCheck %s

#include "PipeSched-c/Evaluation.h"
#include "Print.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static PipeschedProblem problem(const char *family, int64_t workers,
                                int64_t microbatches) {
  PipeschedProblem made = {0};
  made.family = text(family);
  made.numWorkers = workers;
  made.numMicrobatches = microbatches;
  return made;
}

//===----------------------------------------------------------------------===//
// Tables
//===----------------------------------------------------------------------===//

static void printTable(PipeschedProblem given) {
  PipeschedTable table = pipeschedTableGenerate(given, printError, NULL);
  if (pipeschedTableIsNull(table))
    return;
  for (intptr_t worker = 0; worker < pipeschedTableGetNumWorkers(table);
       ++worker) {
    PipeschedCell cells[32];
    intptr_t length = pipeschedTableGetRowSize(table, worker);
    pipeschedTableGetRow(table, worker, length, cells, printError, NULL);
    for (intptr_t i = 0; i < length; ++i) {
      printf("%d", (int)cells[i].stage);
      print(pipeschedPhaseGetLetter(cells[i].phase), NULL);
      printf("%d%c", (int)cells[i].number, cells[i].overlapsNext ? '+' : ' ');
    }
    printf("\n");
  }
  pipeschedTableDestroy(table);
}

static void printTables(void) {
  PipeschedOption chunks = {text("chunks"), text("2")};
  PipeschedProblem interleaved = problem("VPP", 2, 2);
  interleaved.numOptions = 1;
  interleaved.options = &chunks;
  printTable(interleaved);
  // CHECK:      0F0 0F1 2F0 2F1 2B0 2B1 0B0 0B1
  // CHECK-NEXT: 1F0 1F1 3F0 3B0 3F1 3B1 1B0 1B1
  interleaved.options = &(PipeschedOption){text("chunk"), text("2")};
  printTable(interleaved);
  // CHECK-NEXT: error: {{.*}}'chunk'{{.*}}'chunks'
  printTable(problem("dualpipe", 3, 8));
  // CHECK-NEXT: error: {{.*}}even

  // Both ways through two workers, by turns.
  const int32_t down[] = {0, 1}, up[] = {1, 0};
  const PipeschedRange even = {0, 2, 2}, odd = {1, 2, 2};
  const PipeschedPath paths[] = {{2, down, 1, &even, NULL, NULL},
                                 {2, up, 1, &odd, NULL, NULL}};
  PipeschedProblem greedy = problem("greedy", 2, 2);
  greedy.numPaths = 2;
  greedy.paths = paths;
  printTable(greedy);
  // CHECK-NEXT: 0F0 1F1 1I1 1W1 0I0 0W0
  // CHECK-NEXT: 0F1 1F0 1I0 1W0 0I1 0W1
}

//===----------------------------------------------------------------------===//
// Costs and evaluations
//===----------------------------------------------------------------------===//

static PipeschedCosts profiled(const char *times) {
  PipeschedCostOptions options = {0};
  options.boundaryBytes = -1;
  options.profile.kind = PipeschedSourceTimes;
  options.profile.text = text(times);
  return pipeschedCostsCreate(options, printError, NULL);
}

/// A step without its end, and with all-reduces and optimizer steps.
static void printSteps(void) {
  PipeschedCostOptions peers = {0};
  peers.boundaryBytes = -1;
  peers.dataParallel = 2;
  pipeschedCostsDestroy(pipeschedCostsCreate(peers, printError, NULL));
  // CHECK-NEXT: error: data-parallel, sharding, rank-order, context-parallel,
  // CHECK-SAME: expert-parallel, expert-balance, context-exchange,
  // CHECK-SAME: expert-dispatch, used-per-node, kernel-launch, tensor-exposed,
  // CHECK-SAME: gradient-buckets, expert-exposed, slice-cut, slice-exchange and
  // CHECK-SAME: pair-order are about a system; none is given
  peers.dataParallel = 0;
  peers.expertParallel = 2;
  pipeschedCostsDestroy(pipeschedCostsCreate(peers, printError, NULL));
  // CHECK-NEXT: pair-order are about a system; none is given
  peers.expertParallel = 0;
  PipeschedOption dispatch = {text("expert-dispatch"), text("per-node")};
  peers.numDeploymentOptions = 1;
  peers.deploymentOptions = &dispatch;
  pipeschedCostsDestroy(pipeschedCostsCreate(peers, printError, NULL));
  // CHECK-NEXT: pair-order are about a system; none is given
  PipeschedConfiguration configuration = {0};
  configuration.problem = problem("1f1b", 1, 1);
  configuration.costs = profiled("F=1ms,B=2ms,G=4ms,O=8ms");
  for (int step = PipeschedOptimizerStepNone;
       step <= PipeschedOptimizerStepExposed; ++step) {
    configuration.optimizerStep = (PipeschedOptimizerStep)step;
    PipeschedEvaluation evaluation =
        pipeschedConfigurationEvaluate(&configuration, printError, NULL);
    PipeschedSummary summary = pipeschedEvaluationGetSummary(evaluation);
    printf("%d ms\n", (int)(summary.makespanPs / 1000000000));
    pipeschedEvaluationDestroy(evaluation);
  }
  // CHECK-NEXT: 3 ms
  // CHECK-NEXT: 15 ms
  // CHECK-NEXT: 15 ms
  pipeschedCostsDestroy(configuration.costs);
}

static void printEvaluation(void) {
  printSteps();
  pipeschedCostsDestroy(profiled("F=1ms,Q=2ms"));
  // CHECK-NEXT: error: unknown name 'Q'
  PipeschedConfiguration configuration = {0};
  configuration.problem = problem("1f1b", 8, 24);
  configuration.costs =
      profiled("F=18.522ms,I=18.086ms,W=9.337ms,comm=0.601ms");
  configuration.timing.transport = PipeschedTransportDelay;
  PipeschedEvaluation evaluation =
      pipeschedConfigurationEvaluate(&configuration, printError, NULL);
  PipeschedSummary summary = pipeschedEvaluationGetSummary(evaluation);
  printf("%.4f %.4f %d %d %d\n", summary.spanBubbleRatio,
         summary.tableBubbleRatio, (int)summary.peakActivations,
         (int)summary.microbatchSize, (int)summary.peakBytes);
  // CHECK-NEXT: 0.2431 0.2258 8 -1 -1
  pipeschedEvaluationWriteReport(evaluation, print, NULL);
  // CHECK-NEXT: {
  // CHECK-NEXT:   "schedule": "1f1b",
  // CHECK:        "memory": null
  intptr_t count = pipeschedEvaluationGetNumCells(evaluation);
  int64_t *ends = malloc(count * sizeof(int64_t));
  PipeschedCellColumns columns = {0};
  columns.endPs = ends;
  pipeschedEvaluationGetCells(evaluation, columns);
  int64_t last = 0;
  for (intptr_t i = 0; i < count; ++i)
    last = ends[i] > last ? ends[i] : last;
  printf("\ncells: %d, makespan: %d\n", (int)count, last == summary.makespanPs);
  // CHECK: cells: 384, makespan: 1
  free(ends);
  pipeschedWriteComparison(1, &evaluation, print, NULL);
  // CHECK: 1f1b
  pipeschedEvaluationDestroy(evaluation);
  pipeschedCostsDestroy(configuration.costs);
}

//===----------------------------------------------------------------------===//
// Sweeps
//===----------------------------------------------------------------------===//

enum { kPoints = 64 };

typedef struct Sweep {
  int64_t makespans[kPoints];
  intptr_t done;
} Sweep;

static void consume(intptr_t index, PipeschedEvaluation evaluation,
                    MlirStringRef error, void *userData) {
  Sweep *sweep = userData;
  if (pipeschedEvaluationIsNull(evaluation)) {
    sweep->makespans[index] = -(int64_t)error.length;
    return;
  }
  sweep->makespans[index] =
      pipeschedEvaluationGetSummary(evaluation).makespanPs;
}

static bool keepGoing(intptr_t done, void *userData) {
  ((Sweep *)userData)->done = done;
  return true;
}

static bool stopAtOnce(intptr_t done, void *userData) {
  (void)done, (void)userData;
  return false;
}

static void ignore(intptr_t index, PipeschedEvaluation evaluation,
                   MlirStringRef error, void *userData) {
  (void)index, (void)evaluation, (void)error, (void)userData;
}

static void sweepAll(void) {
  PipeschedConfiguration points[kPoints] = {0};
  for (int i = 0; i < kPoints; ++i) // every eighth has no microbatches
    points[i].problem = problem(i % 2 ? "zb-h1" : "gpipe", 4, i % 8);
  Sweep alone = {0}, together = {0};
  PipeschedSweepCalls calls = {consume, keepGoing, &alone};
  bool isDone = pipeschedSweep(kPoints, points, 1, calls);
  calls.userData = &together;
  isDone &= pipeschedSweep(kPoints, points, 0, calls);
  printf("sweep: %d %d %d, errors: %d\n", isDone, (int)together.done,
         !memcmp(alone.makespans, together.makespans, sizeof(alone.makespans)),
         alone.makespans[8] < 0 && alone.makespans[9] > 0);
  // CHECK: sweep: 1 64 1, errors: 1
}

/// Hours of work, of which a twentieth of a second is done.
static void sweepAndStop(void) {
  enum { kMany = 1000000 };
  PipeschedConfiguration *points = calloc(kMany, sizeof(*points));
  for (int i = 0; i < kMany; ++i)
    points[i].problem = problem("1f1b", 64, 64);
  PipeschedSweepCalls calls = {ignore, stopAtOnce, NULL};
  printf("stopped: %d\n", !pipeschedSweep(kMany, points, 0, calls));
  // CHECK-NEXT: stopped: 1
  free(points);
}

int main(void) {
  printTables();
  printEvaluation();
  sweepAll();
  sweepAndStop();
  return 0;
}
