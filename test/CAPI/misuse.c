//===- misuse.c - Invalid calls in plain C ------------------------*- C -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Null handles and arrays, indices out of range, ops of another kind and rows
// that no schedule has: the answers that the headers state.
//
//===----------------------------------------------------------------------===//

// RUN: pipesched-capi-misuse-test | FileCheck %s

#include "PipeSched-c/Attributes.h"
#include "PipeSched-c/RegisterEverything.h"
#include "PipeSched-c/Schedule.h"
#include "Print.h"

static const char *const kSchedule =
    "pipe.schedule @s workers 2 microbatches 2 {\n"
    "  path on [0, 1]\n"
    "  worker 0 runs [0F0 0B0]\n"
    "  worker 1 runs [1F0 1B0]\n"
    "}\n";

/// Every function that takes a schedule; `op` is none.
static void checkOther(MlirOperation op) {
  PipeschedCell cell;
  PipeschedRow row = {0, NULL};
  printf("%d %d", (int)pipeschedScheduleGetNumRows(op),
         (int)pipeschedScheduleGetRowSize(op, 0));
  printf(" %d",
         mlirLogicalResultIsSuccess(pipeschedScheduleGetRow(op, 0, 1, &cell)));
  printf(" %d",
         mlirLogicalResultIsSuccess(pipeschedScheduleSetRows(op, 1, &row)));
  printf(" %d", mlirLogicalResultIsSuccess(
                    pipeschedScheduleWriteReport(op, print, NULL)));
  printf(" %d %d\n", pipeschedInstructionGetCell(op, &cell),
         pipeschedInstructionGetOverlappedCell(op, &cell));
  // CHECK: {{^}}-1 -1 0 0 0 0 0
  // CHECK: is not a schedule
  // CHECK: is neither a schedule nor a program
  // CHECK: {{^}} 0 0 0
}

static void setRow(MlirOperation op, PipeschedCell cell) {
  const PipeschedRow rows[] = {{1, &cell}, {0, NULL}};
  printf("set: %d\n",
         mlirLogicalResultIsSuccess(pipeschedScheduleSetRows(op, 2, rows)));
}

static void checkCells(MlirOperation op) {
  setRow(op, (PipeschedCell){(PipeschedPhase)99, 0, 0, false, 0});
  // CHECK: worker 0, cell 0: expected the number of a phase {{.*}}, found 99
  // CHECK-NEXT: set: 0
  setRow(op, (PipeschedCell){PipeschedPhaseForward, -1, 0, false, 0});
  // CHECK: expected a stage from 0 to 16777215, found -1
  setRow(op, (PipeschedCell){PipeschedPhaseForward, 1 << 24, 0, false, 0});
  // CHECK: expected a stage from 0 to 16777215, found 16777216
  setRow(op, (PipeschedCell){PipeschedPhaseIdle, 1, 1, false, 0});
  // CHECK: expected a stage from 0 to 0, found 1
  setRow(op, (PipeschedCell){PipeschedPhaseForward, 0, INT64_MAX, false, 0});
  // CHECK: expected a number from 0 to 2147483647, found 9223372036854775807
  setRow(op, (PipeschedCell){PipeschedPhaseIdle, 0, INT64_MIN, false, 0});
  // CHECK: expected a number of slots from 0 to 2147483647, found -9
  setRow(op, (PipeschedCell){PipeschedPhaseForward, 0, 0, false, 1});
  // CHECK: expected a slice from 0 to 0, found 1
  setRow(op, (PipeschedCell){PipeschedPhaseForward, 7, 0, false, 0});
  // CHECK: set: 0
}

static void checkRows(MlirOperation op) {
  PipeschedCell cells[2];
  PipeschedRow rows[] = {{2, NULL}, {-1, cells}};
  const intptr_t outside[] = {-1, 2, INTPTR_MIN, INTPTR_MAX};
  for (int i = 0; i < 4; ++i)
    printf("size: %d\n", (int)pipeschedScheduleGetRowSize(op, outside[i]));
  // CHECK: has no row of worker -1: there are 2 (0 to 1)
  // CHECK-NEXT: size: -1
  // CHECK: size: -1
  // CHECK: size: -1
  // CHECK: size: -1
  pipeschedScheduleGetRow(op, 0, 1, cells);
  pipeschedScheduleGetRow(op, 0, 2, NULL);
  // CHECK: is not read: expected room for 2 cells, found room for 1
  // CHECK: is not read: expected room for 2 cells, found null for 2
  pipeschedScheduleSetRows(op, 1, rows);
  pipeschedScheduleSetRows(op, 2, NULL);
  pipeschedScheduleSetRows(op, -1, rows);
  pipeschedScheduleSetRows(op, 1, rows + 1);
  pipeschedScheduleSetRows(op, 0, NULL);
  // CHECK: worker 0: expected an array of cells, found null for 2 cells
  // CHECK: expected an array of rows, found null for 2 rows
  // CHECK: expected an array of rows, found -1 rows
  // CHECK: worker 0: expected an array of cells, found -1 cells
  // CHECK: has 2 workers, found 0 rows
}

int main(void) {
  MlirDialectRegistry registry = mlirDialectRegistryCreate();
  pipeschedRegisterAllDialects(registry);
  MlirContext context = mlirContextCreateWithRegistry(registry, false);
  mlirDialectRegistryDestroy(registry);
  mlirContextAttachDiagnosticHandler(context, printDiagnostic, NULL, NULL);
  MlirModule module = mlirModuleCreateParse(context, text(kSchedule));
  MlirOperation op = mlirBlockGetFirstOperation(mlirModuleGetBody(module));
  checkOther((MlirOperation){NULL});
  checkOther(mlirModuleGetOperation(module));
  checkCells(op);
  checkRows(op);
  printf("%d %d\n", pipeschedAttributeIsAProfile((MlirAttribute){NULL}),
         pipeschedTypeIsAToken((MlirType){NULL}));
  // CHECK: {{^}}0 0
  mlirOperationPrint(op, print, NULL);
  // CHECK: worker 0 runs [0F0 0B0]
  // CHECK-NEXT: worker 1 runs [1F0 1B0]
  mlirModuleDestroy(module);
  mlirContextDestroy(context);
  return 0;
}
