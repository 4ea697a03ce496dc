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
#include "PipeSched-c/Catalogue.h"
#include "PipeSched-c/Planning.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static MlirStringRef text(const char *string) {
  return mlirStringRefCreate(string, strlen(string));
}

static void print(MlirStringRef string, void *userData) {
  (void)userData;
  fwrite(string.data, 1, string.length, stdout);
}

static void printError(MlirStringRef string, void *userData) {
  (void)userData;
  printf("error: ");
  print(string, NULL);
  printf("\n");
}

static PipeschedProblem problem(const char *family, int64_t workers,
                                int64_t microbatches) {
  PipeschedProblem made = {0};
  made.family = text(family);
  made.numWorkers = workers;
  made.numMicrobatches = microbatches;
  return made;
}

//===----------------------------------------------------------------------===//
// Catalogue
//===----------------------------------------------------------------------===//

static void printCatalogue(void) {
  for (intptr_t i = 0; i < pipeschedGetNumFamilies(); ++i) {
    PipeschedFamilyInfo family = pipeschedGetFamily(i);
    if (strncmp(family.name.data, "chimera", family.name.length))
      continue;
    print(family.source, NULL);
    for (intptr_t j = 0; j < pipeschedGetNumFamilyOptions(); ++j)
      if (pipeschedFamilyTakesOption(i, j)) {
        printf(" ");
        print(pipeschedGetFamilyOption(j).name, NULL);
      }
    printf("\n");
  }
  // CHECK: Li and Hoefler 2021, arXiv 2107.06925
  // CHECK-SAME: pairs construction split-backward gradient-after
  printf("aliases: %d\n", pipeschedGetNumFamilyAliases() > 10);
  // CHECK-NEXT: aliases: 1
  PipeschedDescription system = pipeschedGetSystem(0);
  printf("%d %.1s\n", pipeschedGetNumSystems() > 0, system.text.data);
  // CHECK-NEXT: 1 {
  PipeschedDescription model = pipeschedGetModel(0);
  printf("%d %.1s\n", pipeschedGetNumModels() > 0, model.text.data);
  // CHECK-NEXT: 1 {
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
  // CHECK-NEXT: 0F0 0F1 2F0 2F1 2B0 2B1 0B0 0B1
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

/// Two workers of Chimera reduce each half of the model together, each by the
/// G cell of its own stage.
static void printCellsOfStep(void) {
  PipeschedConfiguration configuration = {0};
  configuration.problem = problem("chimera", 2, 2);
  configuration.costs = profiled("F=1ms,B=2ms,G=4ms,O=8ms");
  configuration.optimizerStep = PipeschedOptimizerStepOverlapped;
  PipeschedEvaluation evaluation =
      pipeschedConfigurationEvaluate(&configuration, printError, NULL);
  enum { kMost = 16 };
  int32_t worker[kMost], index[kMost], stage[kMost], microbatch[kMost];
  int32_t pair[kMost], message[kMost];
  int8_t phase[kMost], queue[kMost];
  int64_t start[kMost], end[kMost];
  PipeschedCellColumns columns = {worker, index, stage, phase, microbatch, NULL,
                                  start,  end,   queue, pair,  message};
  intptr_t count = pipeschedEvaluationGetNumCells(evaluation);
  printf("%d cells\n", (int)count);
  // CHECK-NEXT: 16 cells
  if (count == kMost)
    pipeschedEvaluationGetCells(evaluation, columns);
  for (intptr_t i = 0; i < count && count == kMost; ++i)
    printf("%d.%d %d%c%d %d-%d queue %d pair %d message %d\n", worker[i],
           index[i], stage[i], "FBIWRDUOGdu_"[phase[i]], microbatch[i],
           (int)(start[i] / 1000000000), (int)(end[i] / 1000000000), queue[i],
           pair[i], message[i]);
  // CHECK-NEXT: {{^}}0.0 0F0 0-1 queue 0 pair -1 message 0{{$}}
  // CHECK-NEXT: {{^}}0.1 1F1 1-2 queue 0 pair -1 message -1{{$}}
  // CHECK-NEXT: {{^}}0.2 1B1 2-4 queue 0 pair -1 message 1{{$}}
  // CHECK-NEXT: {{^}}0.3 1G1 4-8 queue 5 pair -1 message -1{{$}}
  // CHECK-NEXT: {{^}}0.4 0B0 4-6 queue 0 {{.*}}
  // CHECK-NEXT: {{^}}0.5 0G0 8-12 queue 5 {{.*}}
  // CHECK-NEXT: {{^}}0.6 1O1 8-16 queue 0 {{.*}}
  // CHECK-NEXT: {{^}}0.7 0O0 16-24 {{.*}}
  // CHECK-NEXT: {{^}}1.0 0F1 0-1 queue 0 pair -1 message 2{{$}}
  // CHECK-NEXT: {{^}}1.1 1F0 1-2 {{.*}}
  // CHECK-NEXT: {{^}}1.2 1B0 2-4 queue 0 pair -1 message 3{{$}}
  // CHECK-NEXT: {{^}}1.3 1G0 4-8 {{.*}}
  // CHECK-NEXT: {{^}}1.4 0B1 4-6 {{.*}}
  // CHECK-NEXT: {{^}}1.5 0G1 8-12 {{.*}}
  // CHECK-NEXT: {{^}}1.6 1O0 8-16 {{.*}}
  // CHECK-NEXT: {{^}}1.7 0O1 16-24 {{.*}}
  pipeschedEvaluationDestroy(evaluation);
  pipeschedCostsDestroy(configuration.costs);
}

/// A run of two workers: 0F0, its send, a receive, 0B0; a receive, 1F0, 1B0 and
/// its send.
static void printMeasured(void) {
  PipeschedConfiguration configuration = {0};
  configuration.problem = problem("1f1b", 2, 1);
  configuration.costs = profiled("F=1ns,B=2ns");
  PipeschedEvaluation predicted =
      pipeschedConfigurationEvaluate(&configuration, printError, NULL);
  const int64_t startPs[] = {0, 1100, 1200, 5100, 0, 1500, 2600, 4700};
  const int64_t endPs[] = {1000, 1200, 5000, 7000, 1400, 2600, 4600, 4800};
  PipeschedEvaluation measured = pipeschedEvaluationCreateMeasured(
      predicted, text("a run"), 8, startPs, endPs, 7100, printError, NULL);
  for (PipeschedEvaluation each = predicted;; each = measured) {
    PipeschedSummary summary = pipeschedEvaluationGetSummary(each);
    printf("%d ps, idle %.3f\n", (int)summary.makespanPs, summary.idleRatio);
    if (each.ptr == measured.ptr)
      break;
  }
  // CHECK-NEXT: 6000 ps, idle 0.500
  // CHECK-NEXT: 7100 ps, idle 0.577
  pipeschedEvaluationCreateMeasured(predicted, text("short"), 7, startPs, endPs,
                                    7100, printError, NULL);
  // CHECK-NEXT: error: measured times of 7 starts and 7 ends
  pipeschedEvaluationDestroy(measured);
  pipeschedEvaluationDestroy(predicted);
  pipeschedCostsDestroy(configuration.costs);
}

static void printEvaluation(void) {
  printSteps();
  printCellsOfStep();
  printMeasured();
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

//===----------------------------------------------------------------------===//
// Planning
//===----------------------------------------------------------------------===//

static void printBalance(PipeschedCosts costs) {
  const int32_t workers[] = {0, 1, 2};
  int64_t layers[3];
  if (mlirLogicalResultIsSuccess(pipeschedCostsBalanceLayers(
          costs, 6, 3, workers, layers, printError, NULL)))
    printf("layers: %d %d %d\n", (int)layers[0], (int)layers[1],
           (int)layers[2]);
}

/// Llama 3 8B has 32 layers and a head that costs as much as about two.
static void plan(void) {
  PipeschedCostOptions options = {0};
  options.boundaryBytes = -1;
  options.microbatchSize = 1;
  options.model.kind = options.system.kind = PipeschedSourceName;
  options.model.text = text("llama3-8b");
  options.system.text = text("h100-sxm");
  PipeschedCosts costs = pipeschedCostsCreate(options, printError, NULL);
  PipeschedSizes sizes = pipeschedCostsGetSizes(costs);
  printf("sizes: %d %d %d %d %d %d %.0f, host %d\n", (int)sizes.layers,
         (int)sizes.attentionHeads, (int)sizes.keyValueHeads,
         (int)sizes.sequence, (int)sizes.accelerators,
         (int)sizes.acceleratorsPerNode, (double)sizes.memoryBytes,
         sizes.hostBytesPerSecond > 0);
  // CHECK-NEXT: sizes: 32 32 8 8192 1 8 80000000000, host 1
  printBalance(costs);
  // CHECK-NEXT: layers: 11 11 10
  pipeschedCostsDestroy(costs);
  costs = profiled("F=1ms,B=2ms");
  printf("no layers: %d\n", (int)pipeschedCostsGetSizes(costs).layers);
  // CHECK-NEXT: no layers: 0
  printBalance(costs);
  // CHECK-NEXT: error: layers are balanced by the costs of a model
  pipeschedCostsDestroy(costs);
}

/// 13 layers of one unit and a head of three on four workers: 4 units each.
static void balanceLoads(void) {
  const int32_t workers[] = {0, 1, 2, 3};
  int64_t counts[] = {13}, each[] = {7}, layers[4];
  if (mlirLogicalResultIsSuccess(pipeschedBalanceLoads(
          4, workers, 1, counts, each, 0, 21, layers, printError, NULL)))
    printf("loads: %d %d %d %d\n", (int)layers[0], (int)layers[1],
           (int)layers[2], (int)layers[3]);
  // CHECK-NEXT: loads: 4 4 4 1
  each[0] = -1;
  pipeschedBalanceLoads(4, workers, 1, counts, each, 0, 21, layers, printError,
                        NULL);
  // CHECK-NEXT: error: loads and counts are 0 or more
  pipeschedBalanceLoads(0, workers, 1, counts, each, 0, 21, layers, printError,
                        NULL);
  // CHECK-NEXT: error: a path without stages holds no layers
}

int main(void) {
  printCatalogue();
  printTables();
  printEvaluation();
  sweepAll();
  sweepAndStop();
  plan();
  balanceLoads();
  return 0;
}
