//===- PipePlaceBlocks.cpp - pipe-place-blocks ----------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Divides the layers of the model over the stages of each path.
//
//===----------------------------------------------------------------------===//

#include "../SchedulePass.h"
#include "LayersToDivide.h"
#include "PipeSched/Adapter/LoadCosts.h"
#include "PipeSched/Dialect/Pipe/IR/ScheduleTable.h"
#include "PipeSched/Schedule/Table/PathText.h"
#include "PipeSched/Transforms/Passes.h"
#include "llvm/Support/FormatVariadic.h"

namespace pipesched::pipe {
#define GEN_PASS_DEF_PIPEPLACEBLOCKSPASS
#include "PipeSched/Transforms/Passes.h.inc"
} // namespace pipesched::pipe

using namespace mlir;
using namespace pipesched;
using namespace pipesched::pipe;

namespace {
struct PipePlaceBlocksPass final
    : SchedulePass<PipePlaceBlocksPass, pipe::impl::PipePlaceBlocksPassBase,
                   Treats::All> {
  using Base::Base;

  /// Stages stay on their workers, so rows stay valid.
  LogicalResult treat(ScheduleOp op) const {
    llvm::Expected<std::vector<Path>> paths = placeOn(op);
    if (!paths)
      return emitTableError(op)
             << "cannot be placed: " << llvm::toString(paths.takeError());
    storePaths(op, *paths);
    return success();
  }

private:
  llvm::Expected<std::vector<Path>> placeOn(ScheduleOp op) const;
  llvm::Error give(MutableArrayRef<Path> paths) const;
  llvm::Error divide(ScheduleOp op, MutableArrayRef<Path> paths) const;
  llvm::Expected<LayerLoads> loadLayers(ScheduleOp op, int64_t layers) const;
};
} // namespace

llvm::Expected<std::vector<Path>>
PipePlaceBlocksPass::placeOn(ScheduleOp op) const {
  std::vector<Path> paths;
  for (PathOp path : op.getPaths())
    paths.push_back(path.toPath());
  if (llvm::Error error = counts.empty() ? divide(op, paths) : give(paths))
    return std::move(error);
  for (Path &path : paths)
    path.weights.clear();
  if (llvm::Error error = checkPaths(op, paths))
    return std::move(error);
  return paths;
}

/// Sets the blocks of each path to the counts that the option lists.
llvm::Error PipePlaceBlocksPass::give(MutableArrayRef<Path> paths) const {
  if (balance != Balance::Exact || blocks != 0 || embedding != 0 || head != 0)
    return llvm::createStringError("counts say how many layers each stage "
                                   "holds; balance, blocks, embedding and head "
                                   "do not go with them");
  llvm::Expected<std::vector<std::vector<int64_t>>> lists =
      parseStageCounts(counts);
  if (!lists)
    return llvm::createStringError("counts, " +
                                   llvm::toString(lists.takeError()));
  if (lists->size() != 1 && lists->size() != paths.size())
    return llvm::createStringError(llvm::formatv(
        "{0} lists of counts, but the number of paths is {1}: give one list "
        "for all, or one for each",
        lists->size(), paths.size()));
  for (auto [number, path] : llvm::enumerate(paths))
    path.blocks = (*lists)[lists->size() == 1 ? 0 : number];
  return llvm::Error::success();
}

llvm::Expected<LayerLoads>
PipePlaceBlocksPass::loadLayers(ScheduleOp op, int64_t layers) const {
  if (balance != Balance::Cost) {
    LayerLoads loads;
    loads.first = embedding;
    loads.last = head;
    loads.runs = {{layers, 1}};
    return loads;
  }
  if (embedding != 0 || head != 0)
    return llvm::createStringError("the model says what embedding and head "
                                   "cost; their options are for exact and "
                                   "count");
  if (!op.getBody()->getOps<NodeOp>().empty())
    return llvm::createStringError("balance=cost takes only chains of stages, "
                                   "and the schedule has nodes; give counts");
  FailureOr<CostInputs> costs = loadCosts(op);
  if (failed(costs))
    return llvm::createStringError("its costs cannot be read");
  if (!costs->model || !costs->system)
    return llvm::createStringError("balance=cost needs a model, and a system "
                                   "for its costs; attach both first");
  return costLayers(*costs->model, *costs->system);
}

llvm::Error PipePlaceBlocksPass::divide(ScheduleOp op,
                                        MutableArrayRef<Path> paths) const {
  if (embedding < 0 || head < 0)
    return llvm::createStringError("embedding and head stand for 0 layers or "
                                   "more");
  llvm::Expected<std::optional<int64_t>> layers = layersToDivide(op, blocks);
  if (!layers)
    return layers.takeError();
  if (!*layers)
    return llvm::createStringError("there are no layers to divide: attach a "
                                   "model, or give blocks or counts");
  llvm::Expected<LayerLoads> loads = loadLayers(op, **layers);
  if (!loads)
    return loads.takeError();
  for (Path &path : paths) {
    llvm::Expected<std::vector<int64_t>> divided =
        balance == Balance::Exact
            ? divideExactly(path.getNumStages(), **layers, embedding, head)
            : balanceLayers(path.workers, *loads);
    if (!divided)
      return divided.takeError();
    path.blocks = std::move(*divided);
  }
  return llvm::Error::success();
}
