//===- program.c - Programs as data, in plain C -------------------*- C -*-===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The stages, parameter sets, instructions and groups of a schedule, of the
// program that it is lowered to, and of a program that a person wrote.
//
//===----------------------------------------------------------------------===//

// RUN: pipesched-capi-program-test | FileCheck %s

#include "PipeSched-c/Program.h"
#include "PipeSched-c/Catalogue.h"
#include "PipeSched-c/RegisterEverything.h"
#include "Print.h"
#include "mlir-c/Diagnostics.h"

#include <stdio.h>
#include <string.h>

static MlirLogicalResult printDiagnostic(MlirDiagnostic diagnostic,
                                         void *userData) {
  (void)userData;
  mlirDiagnosticPrint(diagnostic, print, NULL);
  printf(" [%d notes]\n", (int)mlirDiagnosticGetNumNotes(diagnostic));
  return mlirLogicalResultSuccess();
}

//===----------------------------------------------------------------------===//
// Printing
//===----------------------------------------------------------------------===//

/// The names of the kinds, from the catalogue.
static void printKind(int8_t kind) {
  for (intptr_t i = 0; i < pipeschedGetNumEnums(); ++i)
    if (mlirStringRefEqual(pipeschedGetEnumName(i), text("instruction")))
      print(pipeschedGetEnumValue(i, kind).name, NULL);
}

static void printCell(PipeschedInstructionCells cells, intptr_t i) {
  printf(" %d%c%d/%d", cells.stage[i], "FBIWRDUOGdu_"[cells.phase[i]],
         cells.microbatch[i], cells.path[i]);
  if (cells.activation[i] & PipeschedActivationRecomputed)
    printf("r");
  if (cells.activation[i] & PipeschedActivationOffloaded)
    printf("o");
}

static void printInstructions(PipeschedProgram program, intptr_t worker) {
  PipeschedInstructions row = pipeschedProgramGetInstructions(program, worker);
  for (intptr_t i = 0; i < row.numInstructions; ++i) {
    printf("%d.%d ", (int)worker, (int)i);
    printKind(row.kind[i]);
    printCell(row.first, i);
    if (row.second.stage[i] >= 0)
      printCell(row.second, i);
    if (row.message[i] >= 0)
      printf(" peer %d message %d sequence %d", row.peer[i], row.message[i],
             row.sequence[i]);
    if (row.group[i] >= 0)
      printf(" group %d", row.group[i]);
    if (row.holds[i] >= 0)
      printf(" holds %d", row.holds[i]);
    printf(" waits [");
    for (uint32_t w = row.waitBegins[i]; w < row.waitBegins[i + 1]; ++w)
      printf(" %d", row.waits[w]);
    printf(" ]\n");
  }
}

static void printStages(PipeschedPlacement placement, intptr_t worker) {
  PipeschedStages stages = pipeschedPlacementGetStages(placement, worker);
  printf("worker %d:", (int)worker);
  for (intptr_t i = 0; i < stages.numStages; ++i)
    printf(" path %d stage %d blocks %d to %d;", stages.path[i],
           stages.stage[i], (int)stages.firstBlock[i], (int)stages.endBlock[i]);
  printf("\n");
}

/// Prints the sets of a worker, the owner of each with a star, and then which
/// sets its stages hold and own.
static void printSets(PipeschedPlacement placement, intptr_t worker) {
  PipeschedStages stages = pipeschedPlacementGetStages(placement, worker);
  PipeschedParameterSets sets =
      pipeschedPlacementGetParameterSets(placement, worker);
  for (intptr_t k = 0; k < sets.numSets; ++k) {
    printf("set %d.%d blocks %d to %d stages", (int)worker, (int)k,
           (int)sets.firstBlock[k], (int)sets.endBlock[k]);
    for (uint32_t u = sets.stageBegins[k]; u < sets.stageBegins[k + 1]; ++u) {
      int32_t i = sets.stages[u];
      printf(" %d/%d%s", stages.stage[i], stages.path[i],
             i == sets.owner[k] ? "*" : "");
    }
    printf("\n");
  }
  for (intptr_t i = 0; i < stages.numStages; ++i)
    printf("stage %d/%d sets %d to %d owns %d to %d\n", stages.stage[i],
           stages.path[i], stages.firstSet[i], stages.endSet[i],
           stages.firstSet[i], stages.endOwnedSet[i]);
}

static void printGroups(PipeschedProgram program) {
  PipeschedGroups groups = pipeschedProgramGetGroups(program);
  for (intptr_t g = 0; g < groups.numGroups; ++g) {
    printf("group %d blocks %d to %d workers", (int)g,
           (int)groups.firstBlock[g], (int)groups.endBlock[g]);
    for (uint32_t m = groups.memberBegins[g]; m < groups.memberBegins[g + 1];
         ++m)
      printf(" %d", groups.members[m]);
    printf(" stages");
    for (uint32_t s = groups.stageBegins[g]; s < groups.stageBegins[g + 1]; ++s)
      printf(" %d/%d", groups.stage[s], groups.path[s]);
    printf("\n");
  }
}

//===----------------------------------------------------------------------===//
// Schedules
//===----------------------------------------------------------------------===//

/// Worker 0 overlaps a pair, worker 1 recomputes and offloads. Both hold both
/// halves of the model, divided at different layers.
static const char *const kReplicas =
    "pipe.schedule @replicas workers 2 microbatches 2 recompute selective {\n"
    "  path on [0, 1] takes [0] blocks [2, 2]\n"
    "  path on [1, 0] takes [1] blocks [1, 3]\n"
    "  worker 0 runs [0F0 1F1 1B1+0B0 1G1 0G0 1O1 0O0]\n"
    "  worker 1 runs [0F1 0D1 1F0 1B0 0U1 0d1 0R1 0B1 1G0 0G1 0O1 1O0]\n"
    "}\n";

static void printFacts(MlirOperation op) {
  PipeschedPath path = pipeschedScheduleGetPath(op, 1);
  printf("path: %d stages, takes %d:%d:%d, blocks %d %d, weights %d\n",
         (int)path.numStages, (int)path.takes[0].begin, (int)path.takes[0].end,
         (int)path.takes[0].step, (int)path.blocks[0], (int)path.blocks[1],
         path.weights != NULL);
  // CHECK: path: 2 stages, takes 1:2:1, blocks 1 3, weights 0
  printf("empty: %d\n", (int)pipeschedScheduleGetPath(op, 2).numStages);
  // CHECK-NEXT: empty: 0
  printf("gradient after %d, recompute %d\n",
         pipeschedScheduleGetGradientAfter(op),
         pipeschedScheduleGetRecompute(op));
  // CHECK-NEXT: gradient after 0, recompute 1

  PipeschedPlacement placement = pipeschedPlacementCreate(op);
  printf("%d blocks, paths %d %d %d\n",
         (int)pipeschedPlacementGetNumBlocks(placement),
         (int)pipeschedPlacementGetPathOf(placement, 0),
         (int)pipeschedPlacementGetPathOf(placement, 1),
         (int)pipeschedPlacementGetPathOf(placement, 2));
  // CHECK-NEXT: 4 blocks, paths 0 1 -1
  for (intptr_t worker = -1; worker < 3; ++worker)
    printStages(placement, worker);
  // CHECK-NEXT: worker -1:{{$}}
  // CHECK-NEXT: worker 0: path 0 stage 0 blocks 0 to 2; path 1 stage 1 blocks 1
  // CHECK-SAME: to 4;
  // CHECK-NEXT: worker 1: path 0 stage 1 blocks 2 to 4; path 1 stage 0 blocks 0
  // CHECK-SAME: to 1;
  // CHECK-NEXT: worker 2:{{$}}
  for (intptr_t worker = -1; worker < 3; ++worker)
    printSets(placement, worker);
  // CHECK-NEXT: set 0.0 blocks 0 to 1 stages 0/0*
  // CHECK-NEXT: set 0.1 blocks 1 to 2 stages 0/0 1/1*
  // CHECK-NEXT: set 0.2 blocks 2 to 4 stages 1/1*
  // CHECK-NEXT: stage 0/0 sets 0 to 2 owns 0 to 1
  // CHECK-NEXT: stage 1/1 sets 1 to 3 owns 1 to 3
  // CHECK-NEXT: set 1.0 blocks 0 to 1 stages 0/1*
  // CHECK-NEXT: set 1.1 blocks 2 to 4 stages 1/0*
  // CHECK-NEXT: stage 1/0 sets 1 to 2 owns 1 to 2
  // CHECK-NEXT: stage 0/1 sets 0 to 1 owns 0 to 1
  pipeschedPlacementDestroy(placement);
}

static void printReplicas(MlirContext context) {
  MlirModule module =
      pipeschedModuleParse(context, text(kReplicas), text("replicas.mlir"));
  MlirOperation op = pipeschedModuleGetSchedule(module, 0);
  printFacts(op);
  PipeschedProgram program =
      pipeschedProgramCreate(op, PipeschedReceiveAtConsumer);
  mlirModuleDestroy(module); // the program has all it needs
  printf("%d workers\n", (int)pipeschedProgramGetNumWorkers(program));
  // CHECK-NEXT: 2 workers
  printGroups(program);
  // CHECK-NEXT: group 0 blocks 0 to 1 workers 0 1 stages 0/0 0/1
  // CHECK-NEXT: group 1 blocks 1 to 2 workers 0 stages 0/0 1/1
  // CHECK-NEXT: group 2 blocks 2 to 4 workers 0 1 stages 1/0 1/1
  for (intptr_t worker = 0; worker < 3; ++worker)
    printInstructions(program, worker);
  // CHECK-NEXT: 0.0 compute 0F0/0 waits [ ]
  // CHECK-NEXT: 0.1 send 0F0/0 peer 1 message 0 sequence 0 waits [ 0 ]
  // CHECK-NEXT: 0.2 recv 0F1/1ro peer 1 message 2 sequence 0 waits [ ]
  // CHECK-NEXT: 0.3 compute 1F1/1 waits [ 2 ]
  // CHECK-NEXT: 0.4 recv 1B0/0 peer 1 message 3 sequence 1 waits [ ]
  // CHECK-NEXT: 0.5 compute 1B1/1 0B0/0 waits [ 3 0 4 ]
  // CHECK-NEXT: 0.6 send 1B1/1 peer 1 message 1 sequence 1 waits [ 5 ]
  // CHECK-NEXT: 0.7 all_reduce 1G1/1 group 1 waits [ 5 ]
  // CHECK-NEXT: 0.8 all_reduce 1G1/1 group 2 waits [ 5 ]
  // CHECK-NEXT: 0.9 all_reduce 0G0/0 group 0 waits [ 5 ]
  // CHECK-NEXT: 0.10 compute 1O1/1 waits [ 7 8 ]
  // CHECK-NEXT: 0.11 compute 0O0/0 waits [ 9 ]
  // CHECK-NEXT: 1.0 compute 0F1/1ro waits [ ]
  // CHECK:      1.2 offload 0D1/1ro waits [ 0 1 ]
  // CHECK:      1.7 reload 0U1/1ro waits [ 5 2 ]
  // CHECK-NEXT: 1.8 wait 0d1/1ro holds 9 waits [ 2 ]
  // CHECK-NEXT: 1.9 compute 0R1/1ro waits [ 0 7 8 ]
  // CHECK:      1.15 compute 1O0/0 waits [ 12 ]
  pipeschedProgramDestroy(program);
}

//===----------------------------------------------------------------------===//
// Profiles
//===----------------------------------------------------------------------===//

/// Each instruction takes 10 us and the next one follows it; messages arrive 5
/// us after their receives are posted.
static void printProfile(MlirContext context) {
  enum { most = 16, workers = 2 };
  MlirModule module =
      pipeschedModuleParse(context,
                           text("pipe.schedule @s workers 2 microbatches 1 {\n"
                                "  path on [0, 1]\n"
                                "  worker 0 runs [0F0 0B0 0O0]\n"
                                "  worker 1 runs [1F0 1B0 1O0]\n"
                                "}\n"),
                           text("profile"));
  MlirOperation op = pipeschedModuleGetSchedule(module, 0);
  PipeschedPlacement placement = pipeschedPlacementCreate(op);
  PipeschedProgram program =
      pipeschedProgramCreate(op, PipeschedReceiveAtArrival);
  int64_t start[most], end[most], unknown[most], arrived[most];
  for (int i = 0; i < most; ++i) {
    start[i] = 10000 * i;
    end[i] = start[i] + 10000;
    unknown[i] = INT64_MIN;
    arrived[i] = end[i] + 5000;
  }
  PipeschedStamps stamps[workers];
  for (int worker = 0; worker < workers; ++worker)
    stamps[worker] = (PipeschedStamps){start, start, end, unknown, arrived};
  mlirLogicalResultIsSuccess(pipeschedProgramWriteProfile(
      program, placement, 1, workers, stamps, false, print, NULL, print, NULL));
  // CHECK: F=10us,B=10us,O=10us,comm=5us
  printf("\n");
  pipeschedProgramDestroy(program);
  pipeschedPlacementDestroy(placement);
  mlirModuleDestroy(module);
}

int main(void) {
  MlirDialectRegistry registry = mlirDialectRegistryCreate();
  pipeschedRegisterAllDialects(registry);
  MlirContext context = mlirContextCreateWithRegistry(registry, false);
  mlirDialectRegistryDestroy(registry);
  mlirContextAttachDiagnosticHandler(context, printDiagnostic, NULL, NULL);
  printReplicas(context);
  printProfile(context);
  mlirContextDestroy(context);
  return 0;
}
