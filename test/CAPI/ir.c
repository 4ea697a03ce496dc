//===- ir.c - Schedules as IR, in plain C -------------------------*- C -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Rows written and read, passes, instructions, attributes and reports.
//
//===----------------------------------------------------------------------===//

// RUN: pipesched-capi-ir-test | FileCheck %s

#include "PipeSched-c/Attributes.h"
#include "PipeSched-c/Dialects.h"
#include "PipeSched-c/RegisterEverything.h"
#include "PipeSched-c/Schedule.h"
#include "Print.h"
#include "mlir-c/BuiltinTypes.h"
#include "mlir-c/Pass.h"

static const char *const kTwo =
    "pipe.schedule @problem workers 2 microbatches 2 {\n"
    "  path on [0, 1]\n"
    "}\n"
    "pipe.schedule @solution workers 2 microbatches 2 family \"1f1b\" {\n"
    "  path on [0, 1]\n"
    "  worker 0 runs [0F0 0F1 0B0 0B1]\n"
    "  worker 1 runs [1F0 1B0 1F1 1B1]\n"
    "}\n";

/// Contexts work with the handles of dialects, too.
static MlirContext createContext(void) {
  MlirDialectRegistry registry = mlirDialectRegistryCreate();
  mlirDialectHandleInsertDialect(mlirGetDialectHandle__pipe__(), registry);
  mlirDialectHandleInsertDialect(mlirGetDialectHandle__exec__(), registry);
  pipeschedRegisterAllDialects(registry);
  MlirContext context = mlirContextCreateWithRegistry(registry, false);
  mlirDialectRegistryDestroy(registry);
  mlirContextAttachDiagnosticHandler(context, printDiagnostic, NULL, NULL);
  mlirContextLoadAllAvailableDialects(context);
  return context;
}

static MlirOperation firstOf(MlirModule module) {
  return mlirBlockGetFirstOperation(mlirModuleGetBody(module));
}

//===----------------------------------------------------------------------===//
// Rows
//===----------------------------------------------------------------------===//

static void printCell(PipeschedCell cell) {
  printf(" %d", (int)cell.stage);
  print(pipeschedPhaseGetLetter(cell.phase), NULL);
  printf("%d.%d%s", (int)cell.number, (int)cell.slice,
         cell.overlapsNext ? "+" : "");
}

static void printRow(MlirOperation op, intptr_t worker) {
  PipeschedCell cells[8];
  intptr_t size = pipeschedScheduleGetRowSize(op, worker);
  if (mlirLogicalResultIsFailure(
          pipeschedScheduleGetRow(op, worker, size, cells)))
    return;
  printf("row %d:", (int)worker);
  for (intptr_t i = 0; i < size; ++i)
    printCell(cells[i]);
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

static void changeRows(MlirContext context) {
  MlirModule module = mlirModuleCreateParse(context, text(kTwo));
  MlirOperation problem = firstOf(module);
  MlirOperation solution = mlirOperationGetNextInBlock(problem);
  printf("rows: %d, %d\n", (int)pipeschedScheduleGetNumRows(problem),
         (int)pipeschedScheduleGetNumRows(solution));
  printRow(solution, 1);
  // CHECK: rows: 0, 2
  // CHECK-NEXT: row 1: 1F0.0 1B0.0 1F1.0 1B1.0
  storeRows(problem);
  storeRows(solution);
  printRow(problem, 0);
  printRow(problem, 1);
  // CHECK-NEXT: store: 1
  // CHECK-NEXT: store: 1
  // CHECK-NEXT: row 0: 0F0.0 0F1.0+ 0B0.0 0_2.0 0B1.0 0O0.0
  // CHECK-NEXT: row 1: 1F0.0 1I0.0
  mlirOperationPrint(solution, print, NULL);
  printf("\n");
  // CHECK-NEXT: pipe.schedule @solution workers 2 microbatches 2 {
  // CHECK: worker 0 runs [0F0 0F1+0B0 _2 0B1 0O0]
  // CHECK-NEXT: worker 1 runs [1F0 1I0]
  mlirModuleDestroy(module);
}

//===----------------------------------------------------------------------===//
// Passes, instructions and reports
//===----------------------------------------------------------------------===//

static void run(MlirModule module, const char *pipeline) {
  MlirOperation op = mlirModuleGetOperation(module);
  MlirPassManager passes = mlirPassManagerCreate(mlirModuleGetContext(module));
  MlirLogicalResult result =
      mlirOpPassManagerAddPipeline(mlirPassManagerGetAsOpPassManager(passes),
                                   text(pipeline), printError, NULL);
  if (mlirLogicalResultIsSuccess(result))
    result = mlirPassManagerRunOnOp(passes, op);
  printf("run: %d\n", mlirLogicalResultIsSuccess(result));
  mlirPassManagerDestroy(passes);
}

static MlirWalkResult printInstruction(MlirOperation op, void *userData) {
  (void)userData;
  PipeschedCell cell;
  if (!pipeschedInstructionGetCell(op, &cell))
    return MlirWalkResultAdvance;
  print(mlirIdentifierStr(mlirOperationGetName(op)), NULL);
  printCell(cell);
  if (pipeschedInstructionGetOverlappedCell(op, &cell))
    printCell(cell);
  MlirType type = mlirValueGetType(mlirOperationGetResult(op, 0));
  printf(" token: %d\n", pipeschedTypeIsAToken(type));
  return MlirWalkResultAdvance;
}

static void writeReport(MlirModule module) {
  MlirLogicalResult result =
      pipeschedScheduleWriteReport(firstOf(module), print, NULL);
  printf("\nreport: %d\n", mlirLogicalResultIsSuccess(result));
}

static void transform(MlirContext context) {
  MlirModule module = mlirModuleCreateParse(
      context, text("pipe.schedule @p workers 1 microbatches 2 slices 2\n"
                    "    profile <\"F=10us,B=20us\"> { path on [0] }"));
  run(module, "pipe-verify");
  writeReport(module);
  // CHECK: {{.*}}has no rows
  // CHECK-NEXT: run: 0
  // CHECK: {{.*}}has no rows
  // CHECK: report: 0
  const PipeschedCell row[] = {{PipeschedPhaseForward, 0, 0, false, 0},
                               {PipeschedPhaseForward, 0, 0, false, 1},
                               {PipeschedPhaseBackward, 0, 0, true, 1},
                               {PipeschedPhaseForward, 0, 1, false, 0},
                               {PipeschedPhaseForward, 0, 1, false, 1},
                               {PipeschedPhaseBackward, 0, 0, false, 0},
                               {PipeschedPhaseBackward, 0, 1, false, 1},
                               {PipeschedPhaseBackward, 0, 1, false, 0}};
  const PipeschedRow rows[] = {{8, row}};
  pipeschedScheduleSetRows(firstOf(module), 1, rows);
  writeReport(module);
  // CHECK: "schedule": "p",
  // CHECK: "makespan_ps": 60000000,
  // CHECK: report: 1
  run(module, "convert-pipe-to-exec");
  mlirOperationWalk(mlirModuleGetOperation(module), printInstruction, NULL,
                    MlirWalkPreOrder);
  // CHECK-NEXT: run: 1
  // CHECK-NEXT: exec.compute 0F0.0 token: 1
  // CHECK-NEXT: exec.compute 0F0.1 token: 1
  // CHECK-NEXT: exec.compute 0B0.1{{\+?}} 0F1.0 token: 1
  writeReport(module);
  // CHECK: "makespan_ps": 60000000,
  mlirModuleDestroy(module);
}

//===----------------------------------------------------------------------===//
// Attributes
//===----------------------------------------------------------------------===//

static void printAttribute(MlirAttribute attribute) {
  if (mlirAttributeIsNull(attribute)) {
    printf("null\n");
    return;
  }
  mlirAttributePrint(attribute, print, NULL);
  printf(" profile: %d, slots: %d\n", pipeschedAttributeIsAProfile(attribute),
         pipeschedAttributeIsASlots(attribute));
}

static void makeAttributes(MlirContext context) {
  MlirLocation at = mlirLocationUnknownGet(context);
  MlirAttribute profile = pipeschedProfileAttrGet(at, text("F=1ms,B=2ms"));
  printAttribute(profile);
  print(pipeschedProfileAttrGetTimes(profile), NULL);
  printf("\n");
  printAttribute(pipeschedProfileAttrGet(at, text("F=1")));
  // CHECK: #pipe.profile<"F=1ms,B=2ms"> profile: 1, slots: 0
  // CHECK-NEXT: F=1ms,B=2ms
  // CHECK-NEXT: {{.*}}F{{.*}}
  // CHECK-NEXT: null
  MlirAttribute parsed =
      mlirAttributeParseGet(context, text("#pipe.slots<F = [4, 5], B = 9>"));
  printAttribute(parsed);
  printAttribute(pipeschedSlotsAttrGet(at, 0, NULL, 0, NULL));
  // CHECK-NEXT: #pipe.slots<F = [4, 5], B = 9> profile: 0, slots: 1
  // CHECK-NEXT: {{.*}}expected {{[0-9]+}} counts
  // CHECK-NEXT: null
  mlirTypePrint(pipeschedTokenTypeGet(context), print, NULL);
  printf(" token: %d\n", pipeschedTypeIsAToken(mlirIndexTypeGet(context)));
  // CHECK-NEXT: !exec.token token: 0
}

int main(void) {
  pipeschedRegisterAllPasses();
  MlirContext context = createContext();
  changeRows(context);
  transform(context);
  makeAttributes(context);
  mlirContextDestroy(context);
  print(pipeschedGetVersion(), NULL);
  printf("\n");
  // CHECK: {{^[0-9]+\.[0-9]+\.[0-9]+$}}
  printf("%s compiler\n", pipeschedHasCompiler() ? "has a" : "has no");
  // CHECK: {{^has (a|no) compiler$}}
  return 0;
}
