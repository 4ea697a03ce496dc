//===- PipeAttachModel.cpp - pipe-attach-model ----------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Expands an architecture for the microbatch size of each schedule or program,
// attaches the model, and turns the weights of paths into blocks.
//
//===----------------------------------------------------------------------===//

#include "CostOwners.h"
#include "PipeSched/Adapter/LoadCosts.h"
#include "PipeSched/Description/Description.h"
#include "PipeSched/Dialect/Pipe/IR/System.h"
#include "PipeSched/Evaluation/CostSources.h"
#include "PipeSched/Transforms/Passes.h"

namespace pipesched::pipe {
#define GEN_PASS_DEF_PIPEATTACHMODELPASS
#include "PipeSched/Transforms/Passes.h.inc"
} // namespace pipesched::pipe

using namespace mlir;
using namespace pipesched;
using namespace pipesched::pipe;

/// Paths have weights only until a model gives the number of layers.
static LogicalResult makeBlocksOfWeights(PlacementOwnerOpInterface owner,
                                         const ModelFacts &model) {
  auto paths = owner->getRegion(0).front().getOps<PathOp>();
  if (llvm::none_of(paths, [](PathOp op) { return op.getWeights(); }))
    return success();
  FailureOr<Placement> placement = loadPlacement(owner);
  if (failed(placement))
    return failure();
  llvm::Expected<int64_t> layers =
      countPathLayers(placement->getAdded(), model);
  if (!layers)
    return emitTableError(owner) << llvm::toString(layers.takeError());
  for (auto [number, op] : llvm::enumerate(paths)) {
    if (!op.getWeights())
      continue;
    llvm::Expected<std::vector<int64_t>> blocks =
        splitLayers(number, op.toPath(), *layers);
    if (!blocks)
      return emitTableError(op) << llvm::toString(blocks.takeError());
    op.setBlocks(*blocks);
    op.removeWeightsAttr();
  }
  return success();
}

namespace {
struct PipeAttachModelPass final
    : pipe::impl::PipeAttachModelPassBase<PipeAttachModelPass> {
  using Base::Base;

  void runOnOperation() override {
    if (failed(attach()))
      signalPassFailure();
  }

private:
  LogicalResult attach();
  FailureOr<Architecture> loadArchitecture();
  FailureOr<int64_t> getMicrobatchSize(PlacementOwnerOpInterface owner,
                                       const Architecture &architecture);
};
} // namespace

FailureOr<Architecture> PipeAttachModelPass::loadArchitecture() {
  ModuleOp module = getOperation();
  FailureOr<OneOf> given =
      expectOne(module, getArgument(), "name", name, "file", file);
  if (failed(given))
    return failure();
  llvm::Expected<Architecture> architecture =
      *given == OneOf::First ? findArchitecture(name, sequence)
                             : readArchitecture(file, sequence);
  if (!architecture)
    return emitError(module.getLoc())
           << llvm::toString(architecture.takeError());
  for (const std::string &note : architecture->notes)
    emitRemark(module.getLoc())
        << "model '" << architecture->name << "' " << note;
  architecture->attention = chooseAttention(attention, architecture->attention);
  SmallVector<int64_t> bytes(parameterBytes.begin(), parameterBytes.end());
  if (llvm::Error error = setParameterBytes(*architecture, bytes))
    return emitError(module.getLoc()) << llvm::toString(std::move(error));
  return std::move(*architecture);
}

/// The number of data-parallel pipelines of the attached system; 1 without a
/// system.
static FailureOr<int64_t> getDataParallel(Operation *op) {
  ModuleOp module = findSystemModule(op);
  if (!module)
    return 1;
  FailureOr<SystemFacts> system = systemFromAttribute(
      module.getTargetSystemSpec(), [&] { return emitError(module.getLoc()); });
  if (failed(system))
    return failure();
  return system->dataParallel;
}

FailureOr<int64_t>
PipeAttachModelPass::getMicrobatchSize(PlacementOwnerOpInterface owner,
                                       const Architecture &architecture) {
  if (microbatchSize != 0)
    return int64_t(microbatchSize);
  FailureOr<int64_t> dataParallel = getDataParallel(owner);
  if (failed(dataParallel))
    return failure();
  llvm::Expected<int64_t> size = microbatchSizeOf(
      architecture, globalBatch, owner.getNumMicrobatches(), *dataParallel);
  if (!size)
    return owner->emitOpError("has ") << llvm::toString(size.takeError());
  return *size;
}

LogicalResult PipeAttachModelPass::attach() {
  ModuleOp module = getOperation();
  if (microbatchSize < 0 || globalBatch < 0 || sequence < 0 ||
      boundaryBytes < -1)
    return emitError(module.getLoc())
           << getArgument()
           << " expects microbatch-size, global-batch, sequence and "
              "boundary-bytes of at least 0, found "
           << std::min({int64_t(microbatchSize), int64_t(globalBatch),
                        int64_t(sequence), int64_t(boundaryBytes)});
  if (microbatchSize != 0 && globalBatch != 0)
    return emitError(module.getLoc())
           << getArgument()
           << " needs one of 'microbatch-size' and 'global-batch', both given";
  FailureOr<SmallVector<PlacementOwnerOpInterface>> owners =
      selectCostOwners(module, schedule);
  FailureOr<Architecture> architecture = loadArchitecture();
  if (failed(owners) || failed(architecture))
    return failure();

  SymbolTable symbols(module);
  ExpansionOptions options;
  options.recompute = recompute;
  options.precision = precision;
  options.sequenceParallel = sequenceParallel;
  if (boundaryBytes >= 0)
    options.boundaryBytes = boundaryBytes;
  for (PlacementOwnerOpInterface owner : *owners) {
    FailureOr<int64_t> size = getMicrobatchSize(owner, *architecture);
    if (failed(size))
      return failure();
    options.microbatchSize = *size;
    llvm::Expected<ModelFacts> facts =
        expandArchitecture(*architecture, options);
    if (!facts)
      return emitError(module.getLoc())
             << "model '" << architecture->name
             << "': " << llvm::toString(facts.takeError());
    if (failed(makeBlocksOfWeights(owner, *facts)))
      return failure();
    ModelOp model = getOrCreateModel(module, symbols, owner, std::move(*facts));
    setModel(owner, model.getSymName());
  }
  return success();
}
