//===- ir.c - Schedules as IR, in plain C -------------------------*- C -*-===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Reading, making, transforming and converting modules, with diagnostics.
//
//===----------------------------------------------------------------------===//

// RUN: pipesched-capi-ir-test | FileCheck %s

#include "PipeSched-c/Dialects.h"
#include "PipeSched-c/Evaluation.h"
#include "PipeSched-c/Module.h"
#include "PipeSched-c/Program.h"
#include "PipeSched-c/RegisterEverything.h"
#include "Print.h"
#include "mlir-c/Diagnostics.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static MlirLogicalResult printDiagnostic(MlirDiagnostic diagnostic,
                                         void *userData) {
  (void)userData;
  mlirLocationPrint(mlirDiagnosticGetLocation(diagnostic), print, NULL);
  printf(": ");
  mlirDiagnosticPrint(diagnostic, print, NULL);
  printf(" [%d notes]\n", (int)mlirDiagnosticGetNumNotes(diagnostic));
  return mlirLogicalResultSuccess();
}

static MlirContext createContext(void) {
  MlirDialectRegistry registry = mlirDialectRegistryCreate();
  mlirDialectHandleInsertDialect(mlirGetDialectHandle__pipe__(), registry);
  mlirDialectHandleInsertDialect(mlirGetDialectHandle__exec__(), registry);
  pipeschedRegisterAllDialects(registry);
  MlirContext context = mlirContextCreateWithRegistry(registry, false);
  mlirDialectRegistryDestroy(registry);
  mlirContextAttachDiagnosticHandler(context, printDiagnostic, NULL, NULL);
  return context;
}

//===----------------------------------------------------------------------===//
// Reading
//===----------------------------------------------------------------------===//

static const char *const kBroken =
    "pipe.schedule @s workers 1 microbatches 1 {\n"
    "  path on [0]\n"
    "  worker 0 runs [0B0 0F0]\n"
    "}\n";

static const char *const kTwo =
    "pipe.schedule @problem workers 2 microbatches 2 {\n"
    "  path on [0, 1]\n"
    "}\n"
    "pipe.schedule @solution workers 2 microbatches 2 family \"1f1b\" {\n"
    "  path on [0, 1]\n"
    "  worker 0 runs [0F0 0F1 0B0 0B1]\n"
    "  worker 1 runs [1F0 1B0 1F1 1B1]\n"
    "}\n";

static void printSchedules(MlirModule module) {
  for (intptr_t i = 0; i < pipeschedModuleGetNumSchedules(module); ++i) {
    MlirOperation op = pipeschedModuleGetSchedule(module, i);
    PipeschedScheduleInfo info = pipeschedScheduleGetInfo(op);
    print(info.name, NULL);
    printf(" '");
    print(info.family, NULL);
    printf("' program %d problem %d, %d x %d, cells %d, path", info.isProgram,
           info.isProblem, (int)info.numWorkers, (int)info.numMicrobatches,
           (int)pipeschedScheduleGetNumCells(op));
    PipeschedPath path = pipeschedScheduleGetPath(op, 0);
    for (intptr_t stage = 0; stage < path.numStages; ++stage)
      printf(" %d", path.workers[stage]);
    printf("\n");
  }
}

static void readModules(MlirContext context) {
  MlirModule broken =
      pipeschedModuleParse(context, text(kBroken), text("broken.mlir"));
  printf("null: %d\n", mlirModuleIsNull(broken));
  // CHECK: loc("broken.mlir":3:18): 'pipe.worker' op cell 0 (0B0) runs before
  // CHECK-SAME: [1 notes]
  // CHECK-NEXT: null: 1
  MlirModule module =
      pipeschedModuleParse(context, text(kTwo), text("two.mlir"));
  printSchedules(module);
  // CHECK-NEXT: problem '' program 0 problem 1, 2 x 2, cells 0, path 0 1
  // CHECK-NEXT: solution '1f1b' program 0 problem 0, 2 x 2, cells 8, path 0 1
  MlirModule alone =
      pipeschedModuleCreateFromSchedule(pipeschedModuleGetSchedule(module, 1));
  printSchedules(alone);
  // CHECK-NEXT: solution '1f1b'
  mlirModuleDestroy(alone);
  mlirModuleDestroy(module);
}

//===----------------------------------------------------------------------===//
// Rows
//===----------------------------------------------------------------------===//

static void printRow(intptr_t worker, PipeschedRow row, void *userData) {
  (void)userData;
  printf("row %d:", (int)worker);
  for (intptr_t i = 0; i < row.numCells; ++i) {
    PipeschedCell cell = row.cells[i];
    printf(" %d", (int)cell.stage);
    print(pipeschedPhaseGetLetter(cell.phase), NULL);
    printf("%d%s", (int)cell.number, cell.overlapsNext ? "+" : "");
  }
  printf("\n");
}

/// Two cells that overlap, an idle entry and O, whose number is a path.
static void storeRows(MlirOperation op) {
  const PipeschedCell first[] = {{PipeschedPhaseForward, 0, 0, false, 0},
                                 {PipeschedPhaseForward, 0, 1, true, 0},
                                 {PipeschedPhaseBackward, 0, 0, false, 0},
                                 {PipeschedPhaseIdle, 0, 2, false, 0},
                                 {PipeschedPhaseBackward, 0, 1, false, 0},
                                 {PipeschedPhaseOptimizer, 0, 0, false, 0}};
  const PipeschedCell second[] = {{PipeschedPhaseForward, 1, 0, false, 0},
                                  {PipeschedPhaseInputGrad, 1, 0, false, 0}};
  const PipeschedRow rows[] = {{6, first}, {2, second}};
  printf("store: %d\n",
         mlirLogicalResultIsSuccess(pipeschedScheduleSetRows(op, 2, rows)));
}

static void run(MlirModule module, const char *pipeline);

static void changeRows(MlirContext context) {
  MlirModule module =
      pipeschedModuleParse(context, text(kTwo), text("two.mlir"));
  MlirOperation problem = pipeschedModuleGetSchedule(module, 0);
  MlirOperation solution = pipeschedModuleGetSchedule(module, 1);
  printf("rows: %d, %d\n", (int)pipeschedScheduleGetNumRows(problem),
         (int)pipeschedScheduleGetNumRows(solution));
  // CHECK: rows: 0, 2
  PipeschedCell cells[4];
  pipeschedScheduleGetRow(solution, 1, 4, cells);
  printRow(1, (PipeschedRow){pipeschedScheduleGetRowSize(solution, 1), cells},
           NULL);
  // CHECK-NEXT: row 1: 1F0 1B0 1F1 1B1
  storeRows(problem);
  storeRows(solution);
  pipeschedScheduleForEachRow(problem, printRow, NULL);
  // CHECK-NEXT: store: 1
  // CHECK-NEXT: store: 1
  // CHECK-NEXT: row 0: 0F0 0F1+ 0B0 0_2 0B1 0O0
  // CHECK-NEXT: row 1: 1F0 1I0
  pipeschedScheduleSetBackward(solution, PipeschedGradientAfterWeightGrad,
                               PipeschedRecomputeSelective);
  mlirOperationPrint(solution, print, NULL);
  printf("\n");
  // CHECK-NEXT: pipe.schedule @solution workers 2 microbatches 2
  // CHECK-SAME: gradient after W recompute selective
  // CHECK-NOT: family
  // CHECK-SAME: {
  // CHECK: worker 0 runs [0F0 0F1+0B0 _2 0B1 0O0]
  // CHECK-NEXT: worker 1 runs [1F0 1I0]
  pipeschedScheduleSetBackward(solution, PipeschedGradientAfterInputGrad,
                               PipeschedRecomputeFull);
  mlirOperationPrint(solution, print, NULL);
  printf("\n");
  // CHECK: pipe.schedule @solution workers 2 microbatches 2 {
  mlirModuleDestroy(module);
}

//===----------------------------------------------------------------------===//
// Making and transforming
//===----------------------------------------------------------------------===//

static void run(MlirModule module, const char *pipeline) {
  MlirLogicalResult result = pipeschedModuleRunPipeline(module, text(pipeline));
  printf("run: %d\n", mlirLogicalResultIsSuccess(result));
}

static void transform(MlirContext context) {
  PipeschedProblem problem = {0};
  problem.numWorkers = 2;
  problem.numMicrobatches = 2;
  MlirModule module = pipeschedModuleCreateProblem(context, text("p"), problem);
  run(module, "pipe-schedule-1f2b");
  // CHECK: loc(unknown): 'pipe-schedule-1f2b' does not refer to a registered
  // pass CHECK-NEXT: run: 0
  run(module, "pipe-verify");
  // CHECK-NEXT: {{.*}}has no rows
  // CHECK-NEXT: run: 0
  run(module, "builtin.module(pipe-schedule-1f1b, pipe-align-slots)");
  // CHECK-NEXT: run: 1
  mlirOperationPrint(mlirModuleGetOperation(module), print, NULL);
  // CHECK:      pipe.schedule @p {{.*}} family "1f1b" aligned {
  // CHECK-NEXT:   path on [0, 1]
  // CHECK-NEXT:   worker 0 runs [0F0 0F1 _2 0B0 _ 0B1]
  // CHECK-NEXT:   worker 1 runs [_ 1F0 1B0 1F1 1B1 _2]
  run(module, "convert-pipe-to-exec");
  // CHECK: run: 1
  printSchedules(module);
  // CHECK-NEXT: p '1f1b' program 1 problem 0, 2 x 2, cells 8, path 0 1
  mlirModuleDestroy(module);
}

static void generate(MlirContext context) {
  PipeschedOption construction = {text("construction"), text("doubling")};
  PipeschedProblem problem = {text("chimera"), 2, 4,    1,
                              &construction,   0, NULL, 0};
  PipeschedTable table = pipeschedTableGenerate(problem, print, NULL);
  MlirModule module =
      pipeschedModuleCreateFromTable(context, text("made"), table);
  pipeschedTableDestroy(table);
  MlirOperation op = pipeschedModuleGetSchedule(module, 0);
  mlirOperationPrint(op, print, NULL);
  // CHECK: pipe.schedule @made workers 2 microbatches 4 family "chimera"
  // CHECK-SAME: construction = "doubling"
  printf("\n");

  intptr_t count = pipeschedScheduleGetNumCells(op);
  int32_t *worker = malloc(count * sizeof(int32_t));
  int32_t *index = malloc(count * sizeof(int32_t));
  PipeschedCellColumns columns = {0};
  columns.worker = worker;
  columns.index = index;
  pipeschedScheduleGetCells(op, columns);
  printf("cells: %d, the last is %d of worker %d\n", (int)count,
         index[count - 1], worker[count - 1]);
  // CHECK: cells: 16, the last is 7 of worker 1
  free(worker);
  free(index);

  PipeschedCosts none = {NULL};
  PipeschedTiming timing = {PipeschedTransportOverlap,
                            PipeschedReceiveAtArrival,
                            PipeschedForwardSendsAsync,
                            PipeschedRuntimeTable,
                            {NULL, 0}};
  PipeschedEvaluation evaluation = pipeschedScheduleEvaluate(op, none, timing);
  printf("makespan: %d us\n",
         (int)(pipeschedEvaluationGetSummary(evaluation).makespanPs / 1000000));
  // CHECK-NEXT: makespan: {{[1-9][0-9]*}} us
  pipeschedScheduleExportSlotSvg(op, print, NULL);
  // CHECK: <svg
  // CHECK: </svg>
  pipeschedWriteSvg(1, &evaluation, PipeschedSvgTimed, print, NULL, print,
                    NULL);
  // CHECK: <svg
  // CHECK: </svg>
  pipeschedEvaluationDestroy(evaluation);
  mlirModuleDestroy(module);
}

//===----------------------------------------------------------------------===//
// PyTorch's CSV
//===----------------------------------------------------------------------===//

static void convert(MlirContext context) {
  MlirModule bad = pipeschedModuleImportTorchCsv(
      context, text("0F0,0B0\n1F0,x\n"), text("bad.csv"), false, 0);
  printf("null: %d\n", mlirModuleIsNull(bad));
  // CHECK: loc("bad.csv":2:5): {{.*}}x
  // CHECK-NEXT: null: 1
  MlirModule module = pipeschedModuleImportTorchCsv(
      context, text("0F0,,,0B0\n,1F0,1B0,\n"), text("good.csv"), true, 0);
  MlirOperation op = pipeschedModuleGetSchedule(module, 0);
  pipeschedScheduleExportTorchCsv(op, PipeschedTorchCsvComputeComms, print,
                                  NULL);
  // CHECK-NEXT: 0F0,0SEND_F0,0RECV_B0,0B0
  // CHECK-NEXT: 1RECV_F0,1F0,1B0,1SEND_B0
  mlirModuleDestroy(module);
}

int main(void) {
  pipeschedRegisterAllPasses();
  MlirContext context = createContext();
  readModules(context);
  changeRows(context);
  transform(context);
  generate(context);
  convert(context);
  mlirContextDestroy(context);
  print(pipeschedGetVersion(), NULL);
  printf("\n");
  // CHECK: {{^[0-9]+\.[0-9]+\.[0-9]+$}}
  printf("%s compiler\n", pipeschedHasCompiler() ? "has a" : "has no");
  // CHECK: {{^has (a|no) compiler$}}
  return 0;
}
