//===- misuse.c - What cannot be answered, in plain C -------------*- C -*-===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Null handles, strings, arrays and callbacks, indices out of range and ops of
// another kind, for each function: the answers that the headers state. Nothing
// but "done" is printed if all are as stated.
//
//===----------------------------------------------------------------------===//

// RUN: pipesched-capi-misuse-test | FileCheck %s --match-full-lines

#include "PipeSched-c/Catalogue.h"
#include "PipeSched-c/Drawing.h"
#include "PipeSched-c/Planning.h"
#include "PipeSched-c/Program.h"
#include "PipeSched-c/RegisterEverything.h"
#include "Print.h"
#include "mlir-c/Diagnostics.h"

#define IS(answer)                                                             \
  do {                                                                         \
    if (!(answer))                                                             \
      printf("line %d: not %s\n", __LINE__, #answer);                          \
  } while (0)
/// The call fails with an error that has this text, and fails as well if no one
/// listens.
#define FAILS_WITH(call, text)                                                 \
  do {                                                                         \
    MlirStringCallback onError = keep;                                         \
    kept[0] = '\0';                                                            \
    IS(call);                                                                  \
    if (!strstr(kept, text))                                                   \
      printf("line %d: '%s', not '%s'\n", __LINE__, kept, text);               \
    onError = NULL;                                                            \
    IS(call);                                                                  \
  } while (0)
#define FAILED(result) mlirLogicalResultIsFailure(result)

static char kept[400];

static void keep(MlirStringRef text, void *userData) {
  (void)userData;
  snprintf(kept, sizeof(kept), "%.*s", (int)text.length, text.data);
}

/// Diagnostics come in pieces.
static void append(MlirStringRef text, void *userData) {
  (void)userData;
  size_t length = strlen(kept);
  snprintf(kept + length, sizeof(kept) - length, "%.*s", (int)text.length,
           text.data);
}

static MlirLogicalResult keepDiagnostic(MlirDiagnostic diagnostic,
                                        void *userData) {
  kept[0] = '\0';
  mlirDiagnosticPrint(diagnostic, append, userData);
  return mlirLogicalResultSuccess();
}

static const MlirStringRef kNoText = {NULL, 3};
static const intptr_t kOutside[] = {-1, 1000, INTPTR_MIN, INTPTR_MAX};
#define FOR_EACH_OUTSIDE(index)                                                \
  for (intptr_t i = 0, index; i < 4 && ((index = kOutside[i]), 1); ++i)

//===----------------------------------------------------------------------===//
// Without IR
//===----------------------------------------------------------------------===//

static void checkCatalogue(void) {
  FOR_EACH_OUTSIDE(index) {
    IS(pipeschedGetFamily(index).name.length == 0);
    IS(pipeschedGetFamilyAlias(index).alias.length == 0);
    IS(pipeschedGetFamilyOption(index).name.length == 0);
    IS(!pipeschedFamilyTakesOption(index, 0));
    IS(!pipeschedFamilyTakesOption(0, index));
    IS(pipeschedGetEnumName(index).length == 0);
    IS(pipeschedGetNumEnumValues(index) == 0);
    IS(pipeschedGetEnumValue(index, 0).name.length == 0);
    IS(pipeschedGetEnumValue(0, index).name.length == 0);
    IS(pipeschedGetSystem(index).name.length == 0);
    IS(pipeschedGetModel(index).name.length == 0);
  }
}

static PipeschedProblem problem(void) {
  PipeschedProblem made = {0};
  made.family = text("1f1b");
  made.numWorkers = 2;
  made.numMicrobatches = 2;
  return made;
}

#define GENERATE(given)                                                        \
  pipeschedTableIsNull(pipeschedTableGenerate(given, onError, NULL))

static void checkTables(void) {
  PipeschedProblem given = problem();
  given.family = kNoText;
  FAILS_WITH(GENERATE(given), "family");
  given = problem();
  given.numOptions = 2;
  FAILS_WITH(GENERATE(given), "expected 2 options, found null");
  given.numOptions = -1;
  FAILS_WITH(GENERATE(given), "number of options to be at least 0, found -1");
  given = problem();
  given.numPaths = 1;
  FAILS_WITH(GENERATE(given), "expected 1 paths, found null");
  PipeschedPath path = {2, NULL, 0, NULL, NULL, NULL};
  given.paths = &path;
  FAILS_WITH(GENERATE(given), "expected 2 workers of stages, found null");
  const int32_t workers[] = {0, 1};
  path.workers = workers;
  path.numTakes = -5;
  FAILS_WITH(GENERATE(given), "ranges of a path to be at least 0, found -5");

  PipeschedTable none = {NULL};
  PipeschedTable table = pipeschedTableGenerate(problem(), NULL, NULL);
  PipeschedCell cells[4];
  IS(pipeschedTableGetNumWorkers(none) == 0);
  IS(pipeschedTableGetRowSize(none, 0) == 0);
  IS(pipeschedTableGetRowSize(table, 1) == 4);
#define ROW(table, worker, numCells, cells)                                    \
  FAILED(pipeschedTableGetRow(table, worker, numCells, cells, onError, NULL))
  FAILS_WITH(ROW(none, 0, 4, cells), "expected a worker below 0, found 0");
  FAILS_WITH(ROW(table, 1, 3, cells), "room for 4 cells, found room for 3");
  FAILS_WITH(ROW(table, 1, -4, cells), "room for 4 cells, found room for -4");
  FAILS_WITH(ROW(table, 1, 4, NULL), "room for 4 cells, found null");
  FOR_EACH_OUTSIDE(index) {
    IS(pipeschedTableGetRowSize(table, index) == 0);
    FAILS_WITH(ROW(table, index, 4, cells), "expected a worker below 2");
  }
  IS(pipeschedPhaseGetLetter((PipeschedPhase)21).length == 0);
  IS(pipeschedPhaseGetLetter((PipeschedPhase)-1).length == 0);
  pipeschedTableDestroy(table);
  pipeschedTableDestroy(none);
}

static void checkCosts(void) {
  PipeschedCosts none = {NULL};
  PipeschedCostOptions options = {0};
  options.boundaryBytes = -1;
  for (int kind = PipeschedSourceName; kind <= PipeschedSourceTimes; ++kind) {
    options.system.kind = (PipeschedSourceKind)kind;
    options.system.text = kNoText;
    FAILS_WITH(
        pipeschedCostsIsNull(pipeschedCostsCreate(options, onError, NULL)), "");
  }
  IS(pipeschedCostsGetPeakFlops(none) == 0);
  IS(pipeschedCostsGetSizes(none).layers == 0);
  FAILS_WITH(FAILED(pipeschedCostsWriteModel(none, NULL, NULL, onError, NULL)),
             "expected a model, found none");
  const int32_t workers[] = {0, 1};
  const int64_t counts[] = {4};
  int64_t layers[2];
#define BALANCE(workers, layers)                                               \
  FAILED(                                                                      \
      pipeschedCostsBalanceLayers(none, 1, 2, workers, layers, onError, NULL))
  FAILS_WITH(BALANCE(workers, layers), "expected costs, found null");
  FAILS_WITH(BALANCE(NULL, layers), "expected 2 workers of stages, found null");
  FAILS_WITH(BALANCE(workers, NULL), "array for the layers, found null");
#define LOADS(numStages, workers, counts, each, layers)                        \
  FAILED(pipeschedBalanceLoads(numStages, workers, 1, counts, each, 0, 0,      \
                               layers, onError, NULL))
  FAILS_WITH(LOADS(-1, workers, counts, counts, layers), "found -1");
  FAILS_WITH(LOADS(2, NULL, counts, counts, layers), "found null");
  FAILS_WITH(LOADS(2, workers, NULL, counts, layers), "counts of runs, found");
  FAILS_WITH(LOADS(2, workers, counts, NULL, layers), "loads of runs, found");
  FAILS_WITH(LOADS(2, workers, counts, counts, NULL), "layers, found null");
  IS(!FAILED(pipeschedBalanceLoads(2, workers, 1, counts, counts, 0, 0, layers,
                                   NULL, NULL)));
  pipeschedCostsDestroy(none);
}

//===----------------------------------------------------------------------===//
// Evaluations
//===----------------------------------------------------------------------===//

static void checkNoEvaluation(void) {
  PipeschedEvaluation none = {NULL};
  PipeschedCellColumns columns = {0};
  PipeschedSummary summary = pipeschedEvaluationGetSummary(none);
  IS(summary.workers == -1 && summary.makespanPs == -1 &&
     summary.capacityBytes == -1 && summary.fill != summary.fill &&
     summary.communication != summary.communication);
  IS(pipeschedEvaluationGetNumCells(none) == 0);
  pipeschedEvaluationGetCells(none, columns);
  pipeschedEvaluationWriteReport(none, print, NULL);
  FAILS_WITH(pipeschedEvaluationIsNull(pipeschedEvaluationCreateMeasured(
                 none, kNoText, 0, NULL, NULL, 0, onError, NULL)),
             "expected an evaluation, found null");
  FAILS_WITH(pipeschedEvaluationIsNull(
                 pipeschedConfigurationEvaluate(NULL, onError, NULL)),
             "expected a configuration, found null");

  PipeschedDrawing drawing = pipeschedDrawingCreate(none);
  IS(pipeschedDrawingIsNull(drawing));
  pipeschedDrawingWriteFacts(drawing, print, NULL);
  IS(pipeschedDrawingGetItems(drawing).numItems == 0);
  IS(pipeschedDrawingGetIdle(drawing).numSpans == 0);
  IS(pipeschedDrawingGetMemory(drawing).numWorkers == 0);
  pipeschedDrawingDestroy(drawing);
  pipeschedEvaluationDestroy(none);
}

static void checkDrawn(intptr_t count, const PipeschedEvaluation *evaluations,
                       const char *wanted) {
  FAILS_WITH(FAILED(pipeschedWriteText(count, evaluations, 80, false, NULL,
                                       NULL, onError, NULL)),
             wanted);
  FAILS_WITH(FAILED(pipeschedWriteSvg(count, evaluations, PipeschedSvgTimed,
                                      NULL, NULL, onError, NULL)),
             wanted);
  pipeschedWriteChromeTrace(count, evaluations, NULL, NULL);
  pipeschedWriteComparison(count, evaluations, NULL, NULL);
  pipeschedListFindings(count, evaluations, NULL, NULL);
}

static void checkEvaluations(void) {
  PipeschedConfiguration configuration = {0};
  configuration.problem = problem();
  PipeschedEvaluation two[] = {
      pipeschedConfigurationEvaluate(&configuration, print, NULL), {NULL}};
  checkDrawn(2, two, "expected an evaluation, found null");
  checkDrawn(1, NULL, "expected 1 evaluations, found null");
  checkDrawn(-1, two, "evaluations to be at least 0, found -1");
  const int64_t times[8] = {0};
#define MEASURE(number, starts, ends)                                          \
  pipeschedEvaluationIsNull(pipeschedEvaluationCreateMeasured(                 \
      two[0], kNoText, number, starts, ends, 1, onError, NULL))
  FAILS_WITH(MEASURE(-1, times, times), "starts to be at least 0, found -1");
  FAILS_WITH(MEASURE(8, NULL, times), "expected 8 starts, found null");
  FAILS_WITH(MEASURE(8, times, NULL), "expected 8 ends, found null");
  PipeschedDrawing drawing = pipeschedDrawingCreate(two[0]);
  pipeschedDrawingWriteFacts(drawing, NULL, NULL);
  pipeschedDrawingDestroy(drawing);
  pipeschedEvaluationWriteReport(two[0], NULL, NULL);
  pipeschedEvaluationDestroy(two[0]);

  PipeschedSweepCalls calls = {0};
  IS(pipeschedSweep(1, &configuration, 1, calls));
  IS(pipeschedSweep(0, NULL, 1, calls));
  IS(!pipeschedSweep(1, NULL, 1, calls));
  IS(!pipeschedSweep(-1, &configuration, 1, calls));
}

//===----------------------------------------------------------------------===//
// Modules
//===----------------------------------------------------------------------===//

static void checkNoModule(MlirContext context) {
  MlirContext nowhere = {NULL};
  MlirModule none = {NULL};
  PipeschedTable empty = {NULL};
  IS(!pipeschedModuleParse(nowhere, kNoText, kNoText).ptr);
  IS(!pipeschedModuleCreateFromTable(nowhere, text("s"), empty).ptr);
  IS(!pipeschedModuleCreateProblem(nowhere, text("s"), problem()).ptr);
  IS(!pipeschedModuleImportTorchCsv(nowhere, kNoText, kNoText, false, 0).ptr);
  IS(FAILED(pipeschedModuleRunPipeline(none, kNoText)));
  IS(FAILED(pipeschedModuleRunSearchPipeline(none, kNoText)));
  IS(pipeschedModuleGetNumSchedules(none) == 0);
  IS(!pipeschedModuleGetSchedule(none, 0).ptr);
  IS(!pipeschedModuleCreateProblem(context, kNoText, problem()).ptr);
  IS(strstr(kept, "needs a name"));
  IS(!pipeschedModuleCreateFromTable(context, text("s"), empty).ptr);
  IS(strstr(kept, "expected a table with rows"));
  PipeschedProblem given = problem();
  given.numPaths = 3;
  IS(!pipeschedModuleCreateProblem(context, text("s"), given).ptr);
  IS(strstr(kept, "expected 3 paths, found null"));
  IS(!pipeschedModuleImportTorchCsv(context, kNoText, kNoText, false, -1).ptr);
  MlirModule parsed = pipeschedModuleParse(context, kNoText, kNoText);
  FOR_EACH_OUTSIDE(index)
  IS(!pipeschedModuleGetSchedule(parsed, index).ptr);
  mlirModuleDestroy(parsed);
  pipeschedRegisterAllDialects((MlirDialectRegistry){NULL});
}

static void ignoreRow(intptr_t worker, PipeschedRow row, void *userData) {
  (void)worker;
  (void)row;
  (void)userData;
}

/// Every function that takes a schedule or program.
static void checkOp(MlirOperation op) {
  PipeschedCellColumns columns = {0};
  PipeschedTiming timing = {0};
  PipeschedCosts none = {NULL};
  IS(!pipeschedModuleCreateFromSchedule(op).ptr);
  IS(pipeschedScheduleGetInfo(op).numWorkers == 0);
  IS(pipeschedScheduleGetPath(op, 0).numStages == 0);
  IS(pipeschedScheduleGetNumCells(op) == -1);
  pipeschedScheduleGetCells(op, columns);
  IS(FAILED(pipeschedScheduleExportSlotSvg(op, print, NULL)));
  IS(FAILED(pipeschedScheduleExportTorchCsv(op, PipeschedTorchCsvComputeOnly,
                                            print, NULL)));
  IS(FAILED(pipeschedScheduleExportMegatronLayout(op, print, NULL)));
  IS(FAILED(pipeschedScheduleExportShardyRules(op, print, NULL)));
  IS(pipeschedEvaluationIsNull(pipeschedScheduleEvaluate(op, none, timing)));
  IS(pipeschedPlacementIsNull(pipeschedPlacementCreate(op)));
  IS(pipeschedScheduleGetGradientAfter(op) == 0);
  IS(pipeschedScheduleGetRecompute(op) == PipeschedRecomputeNone);
  IS(FAILED(pipeschedScheduleSetName(op, text("other"))));
  IS(pipeschedScheduleGetNumRows(op) == -1);
  IS(pipeschedScheduleGetRowSize(op, 0) == -1);
  IS(FAILED(pipeschedScheduleGetRow(op, 0, 0, NULL)));
  IS(FAILED(pipeschedScheduleForEachRow(op, ignoreRow, NULL)));
  IS(FAILED(pipeschedScheduleFindDeadlock(op, NULL, NULL)));
  IS(FAILED(pipeschedScheduleSetRows(op, 0, NULL)));
  IS(FAILED(
      pipeschedScheduleSetBackward(op, PipeschedGradientAfterInputGrad, 0)));
  IS(pipeschedProgramIsNull(
      pipeschedProgramCreate(op, PipeschedReceiveAtArrival)));
}

static void checkNoProgram(void) {
  PipeschedPlacement placement = {NULL};
  PipeschedProgram program = {NULL};
  IS(pipeschedPlacementGetNumBlocks(placement) == 0);
  IS(pipeschedPlacementGetPathOf(placement, 0) == -1);
  IS(pipeschedPlacementGetStages(placement, 0).numStages == 0);
  IS(pipeschedPlacementGetParameterSets(placement, 0).numSets == 0);
  IS(pipeschedProgramGetNumWorkers(program) == 0);
  IS(pipeschedProgramGetInstructions(program, 0).numInstructions == 0);
  IS(pipeschedProgramGetGroups(program).numGroups == 0);
  pipeschedPlacementDestroy(placement);
  pipeschedProgramDestroy(program);
}

/// The call fails with a diagnostic that has this text.
#define REPORTS(call, text)                                                    \
  do {                                                                         \
    kept[0] = '\0';                                                            \
    IS(call);                                                                  \
    if (!strstr(kept, text))                                                   \
      printf("line %d: '%s', not '%s'\n", __LINE__, kept, text);               \
  } while (0)

/// Rows that no schedule of two workers and two microbatches has: the old ones
/// stay.
static void checkWrongRows(MlirOperation op) {
  PipeschedCell cells[] = {{PipeschedPhaseForward, 0, 0, false, 0},
                           {PipeschedPhaseBackward, 0, 0, false, 0}};
  PipeschedRow rows[] = {{2, cells}, {0, NULL}};
#define SET_ROWS(numRows, rows)                                                \
  FAILED(pipeschedScheduleSetRows(op, numRows, rows))
  REPORTS(SET_ROWS(-1, rows), "number of rows to be at least 0, found -1");
  REPORTS(SET_ROWS(2, NULL), "expected 2 rows, found null");
  REPORTS(SET_ROWS(1, rows), "has 2 workers, found 1 rows");
  rows[1].numCells = 3;
  REPORTS(SET_ROWS(2, rows), "worker 1: expected 3 cells, found null");
  rows[1].numCells = -1;
  REPORTS(SET_ROWS(2, rows), "worker 1: expected the number of cells to be at");
  rows[1].numCells = 0;
  cells[1].phase = (PipeschedPhase)21;
  REPORTS(SET_ROWS(2, rows),
          "worker 0, cell 1: expected the number of a phase (F, B, I, "
          "W, R, D, U, O, G, d, u, _, S, T, X, Y, Z, E, A, C or V), "
          "found 21");
  cells[1].phase = PipeschedPhaseIdle;
  REPORTS(SET_ROWS(2, rows), "counts 0 idle slots");
  cells[1].stage = 1;
  REPORTS(SET_ROWS(2, rows), "expected a stage from 0 to 0, found 1");
  cells[1] = (PipeschedCell){PipeschedPhaseBackward, 1 << 24, 0, false, 0};
  REPORTS(SET_ROWS(2, rows),
          "expected a stage from 0 to 16777215, found 16777");
  FOR_EACH_OUTSIDE(index) {
    cells[1] = (PipeschedCell){PipeschedPhaseBackward, index, 0, false, 0};
    IS(SET_ROWS(2, rows));
    cells[1] = (PipeschedCell){PipeschedPhaseBackward, 0, index, false, 0};
    IS(SET_ROWS(2, rows));
  }
  cells[1] = (PipeschedCell){PipeschedPhaseForward, 0, 0, false, 0};
  REPORTS(SET_ROWS(2, rows), "cell 1 (0F0) occurs twice");
  cells[1] = (PipeschedCell){PipeschedPhaseBackward, 0, 0, true, 0};
  REPORTS(SET_ROWS(2, rows), "is overlapped with the next cell");
}

/// Reading and writing the rows of a schedule.
static void checkRows(MlirContext context, MlirOperation op) {
  PipeschedCell cells[5];
  FOR_EACH_OUTSIDE(index) {
    REPORTS(pipeschedScheduleGetRowSize(op, index) == -1,
            "has no row of worker");
    REPORTS(FAILED(pipeschedScheduleGetRow(op, index, 4, cells)),
            "there are 2 (0 to 1)");
    REPORTS(FAILED(pipeschedScheduleGetRow(op, 0, index, cells)),
            "expected room for 4 cells, found room for");
  }
  REPORTS(FAILED(pipeschedScheduleGetRow(op, 0, 4, NULL)), "cells, found null");
  REPORTS(FAILED(pipeschedScheduleForEachRow(op, NULL, NULL)),
          "expected a callback for rows, found null");
  REPORTS(FAILED(pipeschedScheduleFindDeadlock(op, NULL, NULL)),
          "expected a callback for a deadlock, found null");
  REPORTS(FAILED(pipeschedScheduleSetBackward(op, 2, PipeschedRecomputeNone)),
          "expected gradient-after to be 0");
  REPORTS(FAILED(pipeschedScheduleSetBackward(op, 0, (PipeschedRecompute)3)),
          "expected recompute to be 0");
  checkWrongRows(op);
  IS(pipeschedScheduleGetRowSize(op, 1) == 4);
  IS(pipeschedScheduleGetInfo(op).family.length > 0);
  MlirModule empty =
      pipeschedModuleCreateProblem(context, text("p"), problem());
  MlirOperation asked = pipeschedModuleGetSchedule(empty, 0);
  IS(pipeschedScheduleGetNumRows(asked) == 0);
  REPORTS(pipeschedScheduleGetRowSize(asked, 0) == -1, "which has no rows");
  checkWrongRows(asked);
  IS(pipeschedScheduleGetNumRows(asked) == 0);
  mlirModuleDestroy(empty);
}

/// Callbacks that are null, and indices out of range, of a schedule.
static bool isProfile(PipeschedProgram program, PipeschedPlacement placement,
                      intptr_t numSteps, intptr_t numWorkers,
                      const PipeschedStamps *workers) {
  return !FAILED(pipeschedProgramWriteProfile(program, placement, numSteps,
                                              numWorkers, workers, true, NULL,
                                              NULL, NULL, NULL));
}

/// A profile of no steps needs no times; else they must be there.
static void checkProfile(PipeschedProgram program,
                         PipeschedPlacement placement) {
  PipeschedStamps stamps[64] = {{NULL, NULL, NULL, NULL, NULL}};
  intptr_t numWorkers = pipeschedProgramGetNumWorkers(program);
  IS(isProfile(program, placement, 0, numWorkers, stamps));
  IS(!isProfile(program, placement, 1, numWorkers, stamps));
  IS(!isProfile(program, placement, 0, numWorkers, NULL));
  IS(!isProfile(program, placement, 0, numWorkers + 1, stamps));
  IS(!isProfile(program, placement, 0, numWorkers - 1, stamps));
  IS(!isProfile(program, placement, -1, numWorkers, stamps));
  IS(!isProfile(program, placement, INTPTR_MAX, numWorkers, stamps));
  IS(!isProfile(program, placement, 0, -1, stamps));
  IS(!isProfile((PipeschedProgram){NULL}, placement, 0, numWorkers, stamps));
  IS(!isProfile(program, (PipeschedPlacement){NULL}, 0, numWorkers, stamps));
}

static void checkSchedule(MlirContext context) {
  PipeschedTable table = pipeschedTableGenerate(problem(), NULL, NULL);
  MlirModule module = pipeschedModuleCreateFromTable(context, text("s"), table);
  IS(!pipeschedModuleCreateFromTable(context, text("again"), table).ptr);
  pipeschedTableDestroy(table);
  MlirOperation op = pipeschedModuleGetSchedule(module, 0);
  PipeschedPlacement placement = pipeschedPlacementCreate(op);
  PipeschedProgram program =
      pipeschedProgramCreate(op, PipeschedReceiveAtArrival);
  FOR_EACH_OUTSIDE(index) {
    IS(!pipeschedModuleGetSchedule(module, index).ptr);
    IS(pipeschedScheduleGetPath(op, index).numStages == 0);
    IS(pipeschedPlacementGetPathOf(placement, index) == -1);
    IS(pipeschedPlacementGetStages(placement, index).numStages == 0);
    IS(pipeschedPlacementGetParameterSets(placement, index).numSets == 0);
    IS(pipeschedProgramGetInstructions(program, index).numInstructions == 0);
  }
  checkProfile(program, placement);
  IS(!FAILED(pipeschedScheduleExportSlotSvg(op, NULL, NULL)));
  IS(!FAILED(pipeschedScheduleExportTorchCsv(op, PipeschedTorchCsvComputeOnly,
                                             NULL, NULL)));
  (void)pipeschedScheduleExportMegatronLayout(op, NULL, NULL);
  (void)pipeschedScheduleExportShardyRules(op, NULL, NULL);
  IS(FAILED(pipeschedModuleRunPipeline(module, text("nothing"))));
  checkRows(context, op);
  REPORTS(FAILED(pipeschedScheduleSetName(op, kNoText)), "needs a name");
  pipeschedProgramDestroy(program);
  pipeschedPlacementDestroy(placement);
  mlirModuleDestroy(module);
}

/// Cells say their slice; runtimes take whole microbatches only.
static void checkSlices(MlirContext context) {
  MlirModule module = pipeschedModuleParse(
      context,
      text("pipe.schedule @sliced workers 1 microbatches 1 slices 2 {"
           "path on [0] worker 0 runs [0F0.0 0F0.1 0B0.1 0B0.0] }"),
      text("sliced"));
  IS(pipeschedModuleGetNumSchedules(module) == 1);
  MlirOperation schedule = pipeschedModuleGetSchedule(module, 0);
  IS(pipeschedScheduleGetInfo(schedule).numSlices == 2);
  PipeschedCell row[4];
  IS(mlirLogicalResultIsSuccess(pipeschedScheduleGetRow(schedule, 0, 4, row)));
  IS(row[1].number == 0 && row[1].slice == 1);
  PipeschedRow rows = {4, row};
  IS(mlirLogicalResultIsSuccess(pipeschedScheduleSetRows(schedule, 1, &rows)));
  row[1].slice = 2;
  kept[0] = '\0';
  IS(mlirLogicalResultIsFailure(pipeschedScheduleSetRows(schedule, 1, &rows)));
  IS(strstr(kept, "cell 1: expected a slice from 0 to 1, found 2"));
  int32_t microbatch[4], slice[4];
  PipeschedCellColumns columns = {0};
  columns.microbatch = microbatch;
  columns.slice = slice;
  IS(pipeschedScheduleGetNumCells(schedule) == 4);
  pipeschedScheduleGetCells(schedule, columns);
  IS(microbatch[2] == 0 && slice[2] == 1 && slice[3] == 0);
  kept[0] = '\0';
  PipeschedProgram program =
      pipeschedProgramCreate(schedule, PipeschedReceiveAtArrival);
  IS(!program.ptr);
  IS(strstr(kept, "what a runtime reads takes whole microbatches only"));
  mlirModuleDestroy(module);
}

int main(void) {
  MlirContext context = mlirContextCreate();
  mlirContextAttachDiagnosticHandler(context, keepDiagnostic, NULL, NULL);
  checkCatalogue();
  checkTables();
  checkCosts();
  checkNoEvaluation();
  checkEvaluations();
  checkNoModule(context);
  MlirModule other = mlirModuleCreateEmpty(mlirLocationUnknownGet(context));
  kept[0] = '\0';
  checkOp(mlirModuleGetOperation(other));
  IS(strstr(kept, "is neither a schedule nor a program"));
  mlirModuleDestroy(other);
  checkOp((MlirOperation){NULL});
  checkNoProgram();
  checkSchedule(context);
  checkSlices(context);
  mlirContextDestroy(context);
  // CHECK-NOT: line{{.*}}
  // CHECK: done
  printf("done\n");
  return 0;
}
