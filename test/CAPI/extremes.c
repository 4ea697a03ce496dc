//===- extremes.c - Numbers at their limits, in plain C -----------*- C -*-===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Each number of each function in turn is negative, 0, or so large that sums
// and products of it overflow. The answer may be an error, but it comes within
// seconds. Nothing but "done" is printed if all do.
//
//===----------------------------------------------------------------------===//

// RUN: pipesched-capi-extremes-test | FileCheck %s --match-full-lines

#define _DEFAULT_SOURCE // setitimer
#include "PipeSched-c/Catalogue.h"
#include "PipeSched-c/Overlap.h"
#include "PipeSched-c/Planning.h"
#include "PipeSched-c/Program.h"
#include "PipeSched-c/RegisterEverything.h"
#include "Print.h"
#include "mlir-c/Diagnostics.h"
#include <inttypes.h>
#include <sys/time.h>

static const int64_t kExtremes[] = {
    INT64_MIN,        -((int64_t)1 << 32), -1,       0, 3, 1000, INT32_MAX,
    (int64_t)1 << 32, (int64_t)1 << 62,    INT64_MAX};

/// Ends the program if an answer takes 20 seconds of computing.
static int64_t watch(int64_t number) {
  const struct itimerval most = {{0, 0}, {20, 0}};
  setitimer(ITIMER_PROF, &most, NULL);
  return number;
}

#define FOR_EACH_EXTREME(number)                                               \
  for (size_t i = 0; i < sizeof(kExtremes) / sizeof(*kExtremes); ++i)          \
    for (int64_t number = watch(kExtremes[i]), once = 1; once; once = 0)

static void ignore(MlirStringRef text, void *userData) {
  (void)text;
  (void)userData;
}

static MlirLogicalResult ignoreDiagnostic(MlirDiagnostic diagnostic,
                                          void *userData) {
  (void)diagnostic;
  (void)userData;
  return mlirLogicalResultSuccess();
}

static PipeschedProblem problem(MlirStringRef family) {
  PipeschedProblem given = {0};
  given.family = family;
  given.numWorkers = 2;
  given.numMicrobatches = 4;
  return given;
}

static void generate(PipeschedProblem given) {
  pipeschedTableDestroy(pipeschedTableGenerate(given, ignore, NULL));
}

//===----------------------------------------------------------------------===//
// Problems
//===----------------------------------------------------------------------===//

static void checkOptions(MlirStringRef family) {
  for (intptr_t o = 0; o < pipeschedGetNumFamilyOptions(); ++o)
    FOR_EACH_EXTREME(value) {
      char digits[32];
      snprintf(digits, sizeof(digits), "%" PRId64, value);
      PipeschedOption option = {pipeschedGetFamilyOption(o).name, text(digits)};
      PipeschedProblem given = problem(family);
      given.numOptions = 1;
      given.options = &option;
      generate(given);
    }
}

static void checkProblems(void) {
  for (intptr_t f = 0; f < pipeschedGetNumFamilies(); ++f) {
    MlirStringRef family = pipeschedGetFamily(f).name;
    checkOptions(family);
    FOR_EACH_EXTREME(number) {
      PipeschedProblem given = problem(family);
      given.numWorkers = number;
      generate(given);
      given = problem(family);
      given.numSlices = number;
      generate(given);
      given = problem(family);
      given.numMicrobatches = number;
      generate(given);
    }
  }
}

/// Slots times workers are limited where each worker takes turns in each slot.
static void checkTurns(void) {
  PipeschedProblem given = problem(text("vocab-v-half"));
  given.numWorkers = 65536;
  watch(0);
  PipeschedTable table = pipeschedTableGenerate(given, NULL, NULL);
  if (!pipeschedTableIsNull(table))
    printf("65536 workers take turns in each slot\n");
}

//===----------------------------------------------------------------------===//
// Costs
//===----------------------------------------------------------------------===//

static PipeschedCostOptions costOptions(void) {
  PipeschedCostOptions options = {0};
  options.model.kind = options.system.kind = PipeschedSourceName;
  options.model.text = text("gpt3-175b");
  options.system.text = text("a100-sxm-80gb");
  options.boundaryBytes = -1;
  return options;
}

static void ignoreKind(MlirStringRef name, int64_t count,
                       PipeschedLayerTimes times, void *userData) {
  (void)name;
  (void)count;
  (void)times;
  (void)userData;
}

/// Every use of costs, for a usual number of microbatches or an extreme one.
static void useCosts(PipeschedCosts costs, int64_t numMicrobatches) {
  const int32_t workers[] = {0, 1};
  int64_t layers[2];
  if (pipeschedCostsIsNull(costs))
    return;
  pipeschedCostsGetPeakFlops(costs);
  pipeschedCostsGetSizes(costs);
  pipeschedCostsWriteModel(costs, NULL, NULL, ignore, NULL);
  pipeschedCostsGetLayerParts(costs, numMicrobatches, ignoreKind, ignore, NULL);
  pipeschedCostsBalanceLayers(costs, numMicrobatches, 2, workers, layers,
                              ignore, NULL);
  PipeschedConfiguration configuration = {0};
  configuration.problem = problem(text("1f1b"));
  configuration.costs = costs;
  pipeschedEvaluationDestroy(
      pipeschedConfigurationEvaluate(&configuration, ignore, NULL));
}

static void useOptions(PipeschedCostOptions options) {
  PipeschedCosts costs = pipeschedCostsCreate(options, ignore, NULL);
  useCosts(costs, 4);
  pipeschedCostsDestroy(costs);
}

static void checkCosts(void) {
  PipeschedCosts costs = pipeschedCostsCreate(costOptions(), print, NULL);
  PipeschedCostOptions options = costOptions();
  options.dataParallel = 4;
  PipeschedCosts replicas = pipeschedCostsCreate(options, print, NULL);
  FOR_EACH_EXTREME(number) {
    useCosts(costs, number);
    useCosts(replicas, number);
    options = costOptions();
    int64_t *const fields[] = {
        &options.microbatchSize,  &options.globalBatch,   &options.sequence,
        &options.boundaryBytes,   &options.accelerators,  &options.dataParallel,
        &options.contextParallel, &options.expertParallel};
    for (size_t field = 0; field < sizeof(fields) / sizeof(*fields); ++field) {
      *fields[field] = number;
      useOptions(options);
      *fields[field] = fields[field] == &options.boundaryBytes ? -1 : 0;
    }
    options.expertBalance = (double)number;
    useOptions(options);
    options.expertBalance = 0;
    const int64_t bytes[] = {number, number, number};
    options.parameterBytes = bytes;
    useOptions(options);
  }
  pipeschedCostsDestroy(replicas);
  pipeschedCostsDestroy(costs);
}

static void checkDeployments(void) {
  for (intptr_t o = 0; o < pipeschedGetNumDeploymentOptions(); ++o)
    FOR_EACH_EXTREME(number) {
      char digits[32];
      snprintf(digits, sizeof(digits), "%" PRId64, number);
      PipeschedOption option = {pipeschedGetDeploymentOption(o).name,
                                text(digits)};
      PipeschedCostOptions options = costOptions();
      options.numDeploymentOptions = 1;
      options.deploymentOptions = &option;
      useOptions(options);
    }
}

/// Parts of layers, and loads to divide.
static void checkLayers(void) {
  FOR_EACH_EXTREME(number) {
    PipeschedLayerTimes layers[2] = {{{number, 0, 0}, {0}, {0}, {0}},
                                     {{0}, {0}, {1, 1, 1}, {number, 0, 0}}};
    for (int order = PipeschedPairOrderInTurn; order <= PipeschedPairOrderFluid;
         ++order)
      for (int which = 0; which < 3; ++which) {
        PipeschedPairOptions options = {(PipeschedPairOrder)order, text(""),
                                        which == 0, 100, 100};
        *(which == 1 ? &options.computePercent : &options.exchangePercent) =
            which == 0 ? 100 : number;
        PipeschedPairTimes times;
        pipeschedSchedulePair(2, layers, 2, layers, &options, &times, NULL,
                              NULL, ignore, NULL);
        pipeschedSchedulePair(0, NULL, 0, NULL, &options, &times, NULL, NULL,
                              ignore, NULL);
      }
    const int32_t workers[] = {0, (int32_t)number};
    const int64_t counts[] = {number, 2}, each[] = {1, number};
    int64_t divided[2];
    pipeschedBalanceLoads(2, workers, 2, counts, each, 0, 0, divided, ignore,
                          NULL);
    pipeschedBalanceLoads(2, workers, 1, counts, each, number, 1, divided,
                          ignore, NULL);
    pipeschedBalanceLoads(2, workers, 1, each, counts, 1, number, divided,
                          ignore, NULL);
  }
}

//===----------------------------------------------------------------------===//
// Results
//===----------------------------------------------------------------------===//

static void checkEvaluation(void) {
  PipeschedConfiguration configuration = {0};
  configuration.problem = problem(text("1f1b"));
  PipeschedEvaluation made =
      pipeschedConfigurationEvaluate(&configuration, print, NULL);
  FOR_EACH_EXTREME(number) {
    pipeschedWriteText(1, &made, number, false, NULL, NULL, ignore, NULL);
    int64_t startPs[64], endPs[64];
    for (size_t which = 0; which < 64; ++which) {
      startPs[which] = number;
      endPs[which] = number < 0 ? 0 : number;
    }
    for (intptr_t count = 0; count <= 64; ++count) {
      PipeschedEvaluation measured = pipeschedEvaluationCreateMeasured(
          made, text("m"), count, startPs, endPs, number, ignore, NULL);
      pipeschedEvaluationGetSummary(measured);
      pipeschedEvaluationWriteReport(measured, NULL, NULL);
      pipeschedEvaluationDestroy(measured);
    }
  }
  pipeschedEvaluationDestroy(made);
}

//===----------------------------------------------------------------------===//
// Modules
//===----------------------------------------------------------------------===//

static void useSchedule(MlirOperation op, int64_t number) {
  pipeschedScheduleGetPath(op, number);
  pipeschedScheduleGetRowSize(op, number);
  PipeschedPlacement placement = pipeschedPlacementCreate(op);
  pipeschedPlacementGetPathOf(placement, number);
  pipeschedPlacementGetStages(placement, number);
  pipeschedPlacementGetParameterSets(placement, number);
  PipeschedProgram program =
      pipeschedProgramCreate(op, (PipeschedReceivePlacement)number);
  pipeschedProgramGetInstructions(program, number);
  pipeschedProgramWriteProfile(program, placement, number, 0, NULL, false, NULL,
                               NULL, ignore, NULL);
  pipeschedProgramDestroy(program);
  pipeschedPlacementDestroy(placement);
  PipeschedCell cells[] = {{PipeschedPhaseForward, number, 0, false, 0},
                           {PipeschedPhaseForward, 0, number, false, 0},
                           {PipeschedPhaseForward, 0, 0, false, number}};
  for (size_t cell = 0; cell < 3; ++cell) {
    PipeschedRow rows[] = {{1, &cells[cell]}, {1, &cells[cell]}};
    pipeschedScheduleSetRows(op, 2, rows);
  }
}

static void checkModules(void) {
  MlirDialectRegistry registry = mlirDialectRegistryCreate();
  pipeschedRegisterAllDialects(registry);
  MlirContext context = mlirContextCreateWithRegistry(registry, false);
  mlirContextAttachDiagnosticHandler(context, ignoreDiagnostic, NULL, NULL);
  FOR_EACH_EXTREME(number) {
    for (int field = 0; field < 8; ++field) {
      PipeschedRange range = {0, 4, 1};
      int32_t workers[] = {0, 1};
      int64_t lengths[] = {1, 1};
      PipeschedPath path = {2, workers, 1, &range, NULL, NULL};
      PipeschedProblem given = problem(text(""));
      given.numPaths = 1;
      given.paths = &path;
      if (field == 5)
        workers[1] = (int32_t)number;
      lengths[1] = number;
      if (field == 6)
        path.blocks = lengths;
      if (field == 7)
        path.weights = lengths;
      int64_t *const fields[] = {&range.begin,
                                 &range.end,
                                 &range.step,
                                 &given.numWorkers,
                                 &given.numMicrobatches,
                                 &given.numSlices};
      if (field < 6)
        *fields[field] = number;
      MlirModule module =
          pipeschedModuleCreateProblem(context, text("s"), given);
      if (!mlirModuleIsNull(module)) {
        useSchedule(pipeschedModuleGetSchedule(module, 0), number);
        mlirModuleDestroy(module);
      }
    }
    MlirModule read = pipeschedModuleImportTorchCsv(
        context, text("0F0,0B0\n1F0,1B0\n"), text("f"), false, number);
    if (!mlirModuleIsNull(read))
      mlirModuleDestroy(read);
  }
  mlirContextDestroy(context);
  mlirDialectRegistryDestroy(registry);
}

int main(void) {

  checkTurns();
  checkCosts();
  checkDeployments();
  checkLayers();
  checkEvaluation();
  checkModules();
  checkProblems();
  printf("done\n"); // CHECK: done
  return 0;
}
