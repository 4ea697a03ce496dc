//===- MegatronLayoutTranslation.cpp - Layouts for the tool ---------------===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Connects schedule ops to lib/Exchange: options, names, diagnostics.
//
//===----------------------------------------------------------------------===//

#include "PipeSched/Adapter/LoadCosts.h"
#include "PipeSched/Dialect/Exec/IR/Exec.h"
#include "PipeSched/Exchange/MegatronLayout.h"
#include "PipeSched/Target/MegatronLayout.h"
#include "PipeSched/Target/Translations.h"
#include "RegisterExport.h"
#include "SelectSchedule.h"
#include "llvm/Support/CommandLine.h"

using namespace mlir;
using namespace pipesched;

/// Created at the first registration; LLVM requires options to outlive parsing.
static llvm::cl::opt<std::string> &scheduleOption() {
  static llvm::cl::opt<std::string> instance{
      "megatron-schedule",
      llvm::cl::desc("The schedule that --export-megatron-layout writes, where "
                     "there are several"),
      llvm::cl::value_desc("name")};
  return instance;
}

/// Checks that stage s is on rank s mod D.
static LogicalResult checkStages(pipe::ScheduleOp schedule,
                                 const Placement &placement) {
  if (placement.getNumPaths() != 1)
    return pipe::emitTableError(schedule)
           << "has " << placement.getNumPaths()
           << " paths; a layout of Megatron-Core has one";
  int64_t numStages = placement.getMaxStages();
  int64_t numWorkers = placement.getNumWorkers();
  for (int64_t stage = 0; stage < numStages; ++stage)
    if (placement.workerOf(stage) != stage % numWorkers)
      return pipe::emitTableError(schedule)
             << "has stage " << stage << " on worker "
             << placement.workerOf(stage)
             << "; a layout of Megatron-Core has it on worker "
             << stage % numWorkers;
  if (numStages % numWorkers != 0)
    return pipe::emitTableError(schedule)
           << "has " << numStages << " stages; a layout of Megatron-Core for "
           << numWorkers << " workers has a multiple of them";
  return success();
}

static FailureOr<std::vector<int64_t>> layersOf(pipe::ScheduleOp schedule,
                                                const Placement &placement) {
  FailureOr<CostInputs> costs = loadCosts(schedule);
  if (failed(costs))
    return failure();
  const Path &path = placement.getPath(0);
  if (!costs->model && !path.blocks.empty())
    return path.blocks;
  if (!costs->model)
    return pipe::emitTableError(schedule)
           << "does not say how many layers its stages hold: give its path "
              "blocks, or attach a model";
  llvm::Expected<std::vector<int64_t>> layers =
      splitLayers(placement, *costs->model);
  if (!layers)
    return pipe::emitTableError(schedule) << llvm::toString(layers.takeError());
  return std::move(*layers);
}

FailureOr<std::string>
pipesched::exportMegatronLayout(pipe::ScheduleOp schedule) {
  FailureOr<Placement> placement = pipe::loadPlacement(schedule);
  if (failed(placement) || failed(checkStages(schedule, *placement)))
    return failure();
  FailureOr<std::vector<int64_t>> layers = layersOf(schedule, *placement);
  if (failed(layers))
    return failure();
  return writeMegatronLayout(*layers);
}

static LogicalResult exportLayout(Operation *root, raw_ostream &os) {
  FailureOr<pipe::ScheduleOp> schedule = selectSchedule(
      root, scheduleOption(), scheduleOption().ArgStr, "a layout");
  if (failed(schedule))
    return failure();
  FailureOr<std::string> layout = exportMegatronLayout(*schedule);
  if (failed(layout))
    return failure();
  os << *layout << '\n';
  return success();
}

void pipesched::registerMegatronTranslations() {
  scheduleOption();
  registerExport("export-megatron-layout",
                 "a pipeline layout for Megatron-Core", exportLayout);
}
