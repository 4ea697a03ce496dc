//===- enums.c - Enums of the C API, in plain C ---------------- -*- C -*-===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Lists the names of enums; numbers that no value has are errors.
//
//===----------------------------------------------------------------------===//

// RUN: pipesched-capi-enums-test | FileCheck %s

#include "PipeSched-c/Catalogue.h"
#include "PipeSched-c/Evaluation.h"
#include "PipeSched-c/RegisterEverything.h"
#include "Print.h"
#include "mlir-c/Diagnostics.h"

#include <stdio.h>
#include <string.h>

static MlirLogicalResult printDiagnostic(MlirDiagnostic diagnostic,
                                         void *userData) {
  (void)userData;
  printf("diagnostic: ");
  mlirDiagnosticPrint(diagnostic, print, NULL);
  printf("\n");
  return mlirLogicalResultSuccess();
}

//===----------------------------------------------------------------------===//
// Names
//===----------------------------------------------------------------------===//

static void printNames(void) {
  for (intptr_t i = 0; i < pipeschedGetNumEnums(); ++i) {
    print(pipeschedGetEnumName(i), NULL);
    printf(":");
    for (intptr_t value = 0; value < pipeschedGetNumEnumValues(i); ++value) {
      printf(" ");
      print(pipeschedGetEnumValue(i, value).name, NULL);
    }
    printf("\n");
  }
  // CHECK:      transport: overlap delay blocking
  // CHECK-NEXT: receive-placement: arrival consumer
  // CHECK-NEXT: forward-sends: async sync
  // CHECK-NEXT: runtime: table torch
  // CHECK-NEXT: messages: unbounded fifo rendezvous batched
  // CHECK-NEXT: instruction: compute send recv offload reload wait all_reduce
  // CHECK-NEXT: lane: compute send receive offload reload all-reduce
  // CHECK-NEXT: recompute: none selective full
  // CHECK-NEXT: attention: as-described fused unfused flash-2 flash-3 cudnn
  // CHECK-NEXT: precision: bf16 fp8
  // CHECK-NEXT: sharding: none optimizer gradients full-kept full
  // CHECK-NEXT: rank-order: data pipeline
  // CHECK-NEXT: context-exchange: ring gather
  // CHECK-NEXT: expert-dispatch: all-to-all per-node
  // CHECK:      optimizer-step: none overlapped exposed
  // CHECK-NEXT: source: none name file json times
  // CHECK-NEXT: svg-variant: timed slots rows
  // CHECK-NEXT: torch-csv-format: compute_only compute_comms
  // CHECK-NEXT: construction: concat doubling halving
  // CHECK-NEXT: vocabulary: vocab-1 vocab-2
  // CHECK-NEXT: gradient-after: I W
  // CHECK-NEXT: slots: unit blocks durations
  // CHECK:      placements: linear interleaved v wave
  // CHECK-NEXT: finding: fastest cause equal-steps fit ranking tie all-rankings
  // CHECK-NEXT: layer-part: attention dispatch mlp combine
  // CHECK-NEXT: order: in-turn deepseek megatron best fluid
  print(pipeschedGetEnumValue(0, 1).meaning, NULL);
  printf("\n");
  // CHECK-NEXT: A delay of V/BW + L and no queue
}

//===----------------------------------------------------------------------===//
// Numbers that no value has
//===----------------------------------------------------------------------===//

static PipeschedCostOptions shippedCosts(void) {
  PipeschedCostOptions options = {0};
  options.boundaryBytes = -1;
  options.microbatchSize = 1;
  options.model.kind = options.system.kind = PipeschedSourceName;
  options.model.text = text("llama3-8b");
  options.system.text = text("h100-sxm");
  return options;
}

static void createCosts(PipeschedCostOptions options) {
  pipeschedCostsDestroy(pipeschedCostsCreate(options, printError, NULL));
}

#define REFUSE_COSTS(field, number)                                            \
  do {                                                                         \
    PipeschedCostOptions options = shippedCosts();                             \
    options.field = number;                                                    \
    createCosts(options);                                                      \
  } while (0)

static void refuseCosts(void) {
  createCosts(shippedCosts());
  printf("costs\n");
  // CHECK-NEXT: costs
  REFUSE_COSTS(recompute, 3);
  // CHECK-NEXT: error: expected recompute to be 0 (none), 1 (selective) or 2
  // CHECK-SAME: (full), found 3
  REFUSE_COSTS(attention, -1);
  // CHECK-NEXT: error: expected attention to be 0 (as-described), 1 (fused),
  // CHECK-SAME: 2 (unfused), 3 (flash-2), 4 (flash-3) or 5 (cudnn), found -1
  REFUSE_COSTS(precision, 2);
  // CHECK-NEXT: error: expected precision to be 0 (bf16) or 1 (fp8), found 2
  REFUSE_COSTS(sharding, 1000);
  // CHECK-NEXT: error: expected sharding to be 0 (none), 1 (optimizer), 2
  // CHECK-SAME: (gradients), 3 (full-kept) or 4 (full), found 1000
  REFUSE_COSTS(rankOrder, 2);
  // CHECK-NEXT: error: expected rank-order to be 0 (data) or 1 (pipeline),
  // CHECK-SAME: found 2
  REFUSE_COSTS(contextExchange, 2);
  // CHECK-NEXT: error: expected context-exchange to be 0 (ring) or 1 (gather),
  // CHECK-SAME: found 2
  REFUSE_COSTS(expertDispatch, 3);
  // CHECK-NEXT: error: expected expert-dispatch to be 0 (all-to-all), 1
  // CHECK-SAME: (per-node) or 2 (per-rank), found 3
}

static void refuseSources(void) {
  REFUSE_COSTS(model.kind, 5);
  // CHECK-NEXT: error: expected the kind of the model's source to be 0 (none),
  // CHECK-SAME: 1 (name), 2 (file), 3 (json) or 4 (times), found 5
  REFUSE_COSTS(system.kind, PipeschedSourceTimes);
  // CHECK-NEXT: error: a system is not read from a source of the kind 'times'
  REFUSE_COSTS(profile.kind, PipeschedSourceName);
  // CHECK-NEXT: error: a profile is not read from a source of the kind 'name'
}

static PipeschedConfiguration smallConfiguration(void) {
  PipeschedConfiguration configuration = {0};
  configuration.problem.family = text("1f1b");
  configuration.problem.numWorkers = 2;
  configuration.problem.numMicrobatches = 2;
  return configuration;
}

static void evaluate(PipeschedConfiguration configuration) {
  pipeschedEvaluationDestroy(
      pipeschedConfigurationEvaluate(&configuration, printError, NULL));
}

#define REFUSE_CONFIGURATION(field, number)                                    \
  do {                                                                         \
    PipeschedConfiguration configuration = smallConfiguration();               \
    configuration.field = number;                                              \
    evaluate(configuration);                                                   \
  } while (0)

/// The last value of an enum is one that configurations take.
static void takePairs(void) {
  PipeschedConfiguration configuration = smallConfiguration();
  configuration.timing.transport = PipeschedTransportPairs;
  evaluate(configuration);
  REFUSE_CONFIGURATION(timing.transport, PipeschedTransportPairs + 1);
  // CHECK-NEXT: error: expected transport to be 0 (overlap), {{.*}}, found 4
}

static void refuseConfigurations(void) {
  REFUSE_CONFIGURATION(timing.transport, 1000);
  // CHECK-NEXT: error: expected transport to be 0 (overlap), {{.*}}, found 1000
  REFUSE_CONFIGURATION(timing.receivePlacement, 2);
  // CHECK-NEXT: error: expected receive-placement to be 0 (arrival) or 1
  // CHECK-SAME: (consumer), found 2
  REFUSE_CONFIGURATION(timing.forwardSends, 2);
  // CHECK-NEXT: error: expected forward-sends to be 0 (async) or 1 (sync),
  // CHECK-SAME: found 2
  REFUSE_CONFIGURATION(timing.runtime, 2);
  // CHECK-NEXT: error: expected runtime to be 0 (table) or 1 (torch), found 2
  REFUSE_CONFIGURATION(optimizerStep, 3);
  // CHECK-NEXT: error: expected optimizer-step to be 0 (none), 1 (overlapped)
  // CHECK-SAME: or 2 (exposed), found 3
}

static void refuseVariants(void) {
  PipeschedConfiguration configuration = smallConfiguration();
  PipeschedEvaluation evaluation =
      pipeschedConfigurationEvaluate(&configuration, printError, NULL);
  MlirLogicalResult result = pipeschedWriteSvg(
      1, &evaluation, (PipeschedSvgVariant)3, print, NULL, printError, NULL);
  // CHECK-NEXT: error: expected svg-variant to be 0 (timed), 1 (slots) or 2
  // CHECK-SAME: (rows), found 3
  printf("written: %d\n", mlirLogicalResultIsSuccess(result));
  // CHECK-NEXT: written: 0
  pipeschedEvaluationDestroy(evaluation);
}

/// With IR, errors are diagnostics.
static void refuseWithIR(void) {
  MlirContext context = mlirContextCreate();
  mlirContextAttachDiagnosticHandler(context, printDiagnostic, NULL, NULL);
  MlirDialectRegistry registry = mlirDialectRegistryCreate();
  pipeschedRegisterAllDialects(registry);
  mlirContextAppendDialectRegistry(context, registry);
  mlirDialectRegistryDestroy(registry);
  PipeschedTable table =
      pipeschedTableGenerate(smallConfiguration().problem, printError, NULL);
  MlirModule module =
      pipeschedModuleCreateFromTable(context, text("table"), table);
  pipeschedTableDestroy(table);
  MlirOperation schedule = pipeschedModuleGetSchedule(module, 0);
  PipeschedTiming timing = {(PipeschedTransport)1000,
                            PipeschedReceiveAtArrival,
                            PipeschedForwardSendsAsync,
                            PipeschedRuntimeTable,
                            {NULL, 0}};
  PipeschedCosts none = {NULL};
  PipeschedEvaluation evaluation =
      pipeschedScheduleEvaluate(schedule, none, timing);
  // CHECK-NEXT: diagnostic: {{.*}}cannot be timed: expected transport to be
  // CHECK-SAME: 0 (overlap), {{.*}}, found 1000
  printf("evaluated: %d\n", !pipeschedEvaluationIsNull(evaluation));
  // CHECK-NEXT: evaluated: 0
  pipeschedScheduleExportTorchCsv(schedule, (PipeschedTorchCsvFormat)2, print,
                                  NULL);
  // CHECK-NEXT: diagnostic: {{.*}}cannot be written: expected torch-csv-format
  // CHECK-SAME: to be 0 (compute_only) or 1 (compute_comms), found 2
  mlirModuleDestroy(module);
  mlirContextDestroy(context);
}

int main(void) {
  printNames();
  refuseCosts();
  refuseSources();
  takePairs();
  refuseConfigurations();
  refuseVariants();
  refuseWithIR();
  return 0;
}
