//===- LayersToDivide.cpp - Layers to divide ------------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Looks up the model and checks that the option agrees with it.
//
//===----------------------------------------------------------------------===//

#include "LayersToDivide.h"
#include "PipeSched/Adapter/LoadCosts.h"
#include "PipeSched/CostModel/CostModel.h"
#include "llvm/Support/FormatVariadic.h"

using namespace mlir;
using namespace pipesched;
using namespace pipesched::pipe;

/// The layers of the model that no node of the schedule holds.
static llvm::Expected<int64_t> countLayers(ScheduleOp schedule, ModelOp model) {
  AddedStages added;
  for (NodeOp node : schedule.getBody()->getOps<NodeOp>())
    added.nodes.push_back(node.toNode());
  return countPathLayers(added, model.toFacts());
}

llvm::Expected<std::optional<int64_t>> pipe::layersToDivide(ScheduleOp schedule,
                                                            int64_t blocks) {
  if (blocks < 0)
    return llvm::createStringError(
        llvm::formatv("{0} blocks: there must be 1 or more", blocks));
  ModelOp model = findModel(schedule);
  if (!model)
    return blocks == 0 ? std::nullopt : std::optional(blocks);
  llvm::Expected<int64_t> layers = countLayers(schedule, model);
  if (!layers)
    return layers.takeError();
  if (blocks != 0 && blocks != *layers)
    return llvm::createStringError(
        llvm::formatv("{0} blocks are asked for, its model @{1} has {2} layers",
                      blocks, model.getSymName(), *layers));
  return *layers;
}

llvm::Error pipe::checkPaths(ScheduleOp schedule, ArrayRef<Path> paths) {
  llvm::Expected<Placement> placement = Placement::create(
      schedule.getWorkers(), schedule.getMicrobatches(), paths);
  if (!placement)
    return placement.takeError();
  ModelOp model = findModel(schedule);
  if (!model)
    return llvm::Error::success();
  llvm::Expected<int64_t> layers = countLayers(schedule, model);
  if (!layers)
    return layers.takeError();
  for (auto [number, path] : llvm::enumerate(paths))
    if (!path.blocks.empty())
      if (llvm::Error error = splitLayers(number, path, *layers).takeError())
        return error;
  return llvm::Error::success();
}
