//===- optimize.c - Searches for schedules, in plain C ------------*- C -*-===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What a search found, as numbers: the same that its remarks say.
//
//===----------------------------------------------------------------------===//

// RUN: pipesched-capi-optimize-test | FileCheck %s

#include "PipeSched-c/Optimize.h"
#include "PipeSched-c/RegisterEverything.h"
#include "Print.h"
#include "mlir-c/Diagnostics.h"

#include <inttypes.h>
#include <stdio.h>

static MlirLogicalResult printDiagnostic(MlirDiagnostic diagnostic,
                                         void *userData) {
  (void)userData;
  mlirDiagnosticPrint(diagnostic, print, NULL);
  printf("\n");
  for (intptr_t i = 0; i < mlirDiagnosticGetNumNotes(diagnostic); ++i) {
    mlirDiagnosticPrint(mlirDiagnosticGetNote(diagnostic, i), print, NULL);
    printf("\n");
  }
  return mlirLogicalResultSuccess();
}

static void printChoice(PipeschedChoice choice) {
  printf("placement %d, size %d", choice.hasPlacement ? choice.placement : -1,
         (int)choice.microbatchSize);
}

static void printAlternative(PipeschedAlternative found) {
  print(found.name, NULL);
  printf(": ");
  printChoice(found.choice);
  printf(", schedule %d, %" PRId64 " ps, bound %d '", found.hasSchedule,
         found.objectivePs, found.isBound);
  print(found.reason, NULL);
  printf("'\n");
}

static void printResult(PipeschedSearch search, intptr_t index) {
  PipeschedSearchResult found;
  pipeschedSearchGetResult(search, index, &found, printError, NULL);
  print(found.schedule, NULL);
  printf(" by objective %d: ", found.objective);
  printf("%" PRId64 " of %" PRId64 " ps, bound %" PRId64 " by ",
         found.objectivePs, found.makespanPs, found.lowerBoundPs);
  print(found.bound, NULL);
  printf(", gap %.4f, status %d, from ", found.gap, found.status);
  print(found.origin, NULL);
  printf(", start %" PRId64 " by ", found.startPs);
  print(found.start, NULL);
  printf("\nchosen: ");
  printChoice(found.choice);
  printf("\nin time: %d\n", found.seconds >= found.secondsToBest);
  for (intptr_t i = 0; i < found.numOthers + found.numWithout; ++i) {
    PipeschedAlternative other;
    intptr_t technique = i - found.numOthers;
    if (technique < 0)
      pipeschedSearchGetOther(search, index, i, &other, printError, NULL);
    else
      pipeschedSearchGetWithout(search, index, technique, &other, printError,
                                NULL);
    printAlternative(other);
  }
}

static const char *const kProblems =
    "pipe.schedule @tight workers 2 microbatches 4 "
    "profile <\"F=10ms,I=12ms,W=8ms\"> {\n"
    "  path on [0, 1]\n"
    "}\n"
    "pipe.schedule @rows workers 1 microbatches 1 profile <\"F=1ms,B=2ms\"> {\n"
    "  path on [0]\n"
    "  worker 0 runs [0F0 0B0]\n"
    "}\n";

static MlirModule parse(MlirContext context) {
  return pipeschedModuleParse(context, text(kProblems), text("problems"));
}

static void searchOne(MlirContext context) {
  MlirModule module = parse(context);
  PipeschedSearch search = pipeschedModuleSearch(
      module, text("pipe-optimize{memory=2 schedule=tight threads=1 "
                   "max-evaluations=200 placements=linear,v}"));
  // CHECK: @tight: makespan 134ms, proven optimal; lower bound 134ms
  // CHECK-NEXT: chosen: placement linear
  // CHECK-NEXT: with placement v: {{.+}}
  // CHECK-NEXT: without split-backward: {{.+}}
  mlirModuleDestroy(module);
  printf("results: %d\n", (int)pipeschedSearchGetNumResults(search));
  printResult(search, 0);
  // CHECK-NEXT: results: 1
  // CHECK-NEXT: tight by objective 0: 134000000000 of 134000000000 ps,
  // CHECK-SAME: bound 134000000000 by {{.+}}, gap 0.0000, status 0, from
  // CHECK-SAME: start {{[1-9][0-9]+}} by {{.+}}
  // CHECK-NEXT: chosen: placement 0, size 0
  // CHECK-NEXT: in time: 1
  // CHECK-NEXT: placement v: placement 2, size 0, schedule {{.+}}
  // CHECK-NEXT: split-backward: placement -1, size 0, schedule 1,
  // CHECK-SAME: {{[1-9][0-9]+}} ps, bound 0 ''
  PipeschedSearchResult found;
  PipeschedAlternative other;
  for (intptr_t index = -1; index <= 1; index += 2) {
    pipeschedSearchGetResult(search, index, &found, printError, NULL);
    pipeschedSearchGetOther(search, 0, index, &other, printError, NULL);
    pipeschedSearchGetOther(search, index, 0, &other, printError, NULL);
    pipeschedSearchGetWithout(search, 0, index, &other, printError, NULL);
  }
  // CHECK-NEXT: error: expected a result below 1, found -1
  // CHECK-NEXT: error: expected a choice below 1, found -1
  // CHECK-NEXT: error: expected a result below 1, found -1
  // CHECK-NEXT: error: expected a technique below 1, found -1
  // CHECK-NEXT: error: expected a result below 1, found 1
  // CHECK-NEXT: error: expected a choice below 1, found 1
  // CHECK-NEXT: error: expected a result below 1, found 1
  // CHECK-NEXT: error: expected a technique below 1, found 1
  pipeschedSearchGetResult(search, 0, NULL, printError, NULL);
  pipeschedSearchGetOther(search, 0, 0, NULL, printError, NULL);
  // CHECK-NEXT: error: expected room for the answer, found null
  // CHECK-NEXT: error: expected room for the answer, found null
  MlirLogicalResult unheard =
      pipeschedSearchGetResult(search, 7, &found, NULL, NULL);
  printf("unheard: %d\n", mlirLogicalResultIsFailure(unheard));
  // CHECK-NEXT: unheard: 1
  pipeschedSearchDestroy(search);
}

/// All schedules of a module, and pipelines that find nothing.
static void searchMore(MlirContext context) {
  MlirModule module = parse(context);
  PipeschedSearch search = pipeschedModuleSearch(
      module, text("pipe-optimize{threads=1 max-evaluations=10 explain=false "
                   "split-backward=false}"));
  printf("results: %d\n", (int)pipeschedSearchGetNumResults(search));
  printResult(search, 1);
  // CHECK: results: 2
  // CHECK-NEXT: rows by objective 0: 3000000000 of 3000000000 ps
  // CHECK-SAME: start 3000000000 by rows
  // CHECK-NEXT: chosen: placement -1, size 0
  pipeschedSearchDestroy(search);
  search = pipeschedModuleSearch(module, text("pipe-compact"));
  printf("results: %d\n", (int)pipeschedSearchGetNumResults(search));
  // CHECK: results: 0
  pipeschedSearchDestroy(search);
  search = pipeschedModuleSearch(module, text("pipe-optimize{memory=x}"));
  printf("null: %d\n", pipeschedSearchIsNull(search));
  // CHECK: memory: {{.+}}
  // CHECK: null: 1
  printf("results: %d\n", (int)pipeschedSearchGetNumResults(search));
  PipeschedSearchResult found;
  pipeschedSearchGetResult(search, 0, &found, printError, NULL);
  pipeschedSearchDestroy(search);
  // CHECK-NEXT: results: 0
  // CHECK-NEXT: error: expected a search, found null
  search = pipeschedModuleSearch((MlirModule){NULL}, text("pipe-compact"));
  printf("null: %d\n", pipeschedSearchIsNull(search));
  // CHECK-NEXT: null: 1
  mlirModuleDestroy(module);
}

int main(void) {
  MlirDialectRegistry registry = mlirDialectRegistryCreate();
  pipeschedRegisterAllDialects(registry);
  pipeschedRegisterAllPasses();
  MlirContext context = mlirContextCreateWithRegistry(registry, false);
  mlirDialectRegistryDestroy(registry);
  mlirContextAttachDiagnosticHandler(context, printDiagnostic, NULL, NULL);
  searchOne(context);
  searchMore(context);
  mlirContextDestroy(context);
  return 0;
}
