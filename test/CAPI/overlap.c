//===- overlap.c - Overlapped layers, in plain C ---------------- -*- C -*-===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Pairs of layers by hand, the parts of a model's layers, and misuse.
//
//===----------------------------------------------------------------------===//

// RUN: pipesched-capi-overlap-test | FileCheck %s

#include "PipeSched-c/Overlap.h"
#include "Print.h"

#include <stdlib.h>

static void onRun(PipeschedPartRun run, void *userData) {
  (void)userData;
  if (run.part == PipeschedLayerPartCombine)
    printf("combine of layer %d: %d to %d\n", (int)run.layer, (int)run.startPs,
           (int)run.endPs);
}

static const PipeschedLayerTimes layer = {
    {4, 4, 2}, {3, 3, 0}, {6, 6, 6}, {3, 3, 0}};

static void schedule(const PipeschedLayerTimes *times,
                     PipeschedPairOptions options) {
  PipeschedPairTimes found;
  if (mlirLogicalResultIsSuccess(
          pipeschedSchedulePair(1, times, 1, times, &options, &found, print,
                                onRun, printError, NULL)))
    printf("\npair: %d, seen %d, bound %d, best %d\n", (int)found.endPs,
           (int)found.exposedPs, (int)found.boundPs, (int)found.isOptimal);
}

static PipeschedPairOptions makeOptions(PipeschedPairOrder order) {
  PipeschedPairOptions options = {order, text(""), true, 100, 100};
  return options;
}

static void pairs(void) {
  schedule(&layer, makeOptions(PipeschedPairOrderDeepSeek));
  // CHECK: combine.I,attention.F,mlp.I,dispatch.F,dispatch.I,mlp.W,mlp.F,
  // CHECK-SAME: attention.I,attention.W,combine.F
  // CHECK-SAME: combine of layer 0: 0 to 3
  // CHECK-NEXT: combine of layer 0: 22 to 25
  // CHECK: pair: 28, seen 0, bound 28, best 1
  PipeschedPairOptions options = makeOptions(PipeschedPairOrderDeepSeek);
  options.pattern = text("mlp.F");
  schedule(&layer, options);
  // CHECK-NEXT: error: the order leaves out attention.F
  schedule(&layer, makeOptions((PipeschedPairOrder)7));
  // CHECK-NEXT: error: expected order to be 0 (in-turn)
  // CHECK-SAME: found 7
  PipeschedLayerTimes wrong = layer;
  wrong.mlp[1] = -1;
  schedule(&wrong, makeOptions(PipeschedPairOrderBest));
  // CHECK-NEXT: error: layer 0 of the forward: mlp.I takes -1 ps
}

static void misuse(void) {
  PipeschedPairOptions options = makeOptions(PipeschedPairOrderBest);
  PipeschedPairTimes found;
  pipeschedSchedulePair(1, NULL, 0, NULL, &options, &found, NULL, NULL,
                        printError, NULL);
  // CHECK-NEXT: error: expected 1 layers of the forward, found null
  pipeschedSchedulePair(0, NULL, -1, NULL, &options, &found, NULL, NULL,
                        printError, NULL);
  // CHECK-NEXT: error: expected the number of layers of the backward to be
  pipeschedSchedulePair(1, &layer, 1, &layer, NULL, &found, NULL, NULL,
                        printError, NULL);
  // CHECK-NEXT: error: expected options of a pair, found null
  pipeschedSchedulePair(1, &layer, 1, &layer, &options, NULL, NULL, NULL,
                        printError, NULL);
  // CHECK-NEXT: error: expected the times of a pair, found null
  PipeschedCosts none = {NULL};
  pipeschedCostsGetLayerParts(none, 1, NULL, printError, NULL);
  // CHECK-NEXT: error: expected costs, found null
  printf("null callbacks: %d\n",
         (int)mlirLogicalResultIsSuccess(pipeschedSchedulePair(
             1, &layer, 1, &layer, &options, &found, NULL, NULL, NULL, NULL)));
  // CHECK-NEXT: null callbacks: 1
}

int main(void) {
  pairs();
  misuse();
  return EXIT_SUCCESS;
}
