//===- ModelOps.cpp - What is trained, in facts ---------------------------===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Verifiers of models, and the way between ops and ModelFacts. Ids such as
// model_c2 are those of the op's description.
//
//===----------------------------------------------------------------------===//

#include "PipeSched/Dialect/Pipe/IR/Pipe.h"

using namespace mlir;
using namespace pipesched;
using namespace pipesched::pipe;

// The enums of the ops are those of the facts.
static_assert(int(KernelEngine::Matrix) == int(Engine::Matrix) &&
              int(KernelEngine::Vector) == int(Engine::Vector) &&
              int(KernelEngine::Link) == int(Engine::Link));
static_assert(int(BlockPlace::First) == int(BlockPosition::First) &&
              int(BlockPlace::Layer) == int(BlockPosition::Layer) &&
              int(BlockPlace::Last) == int(BlockPosition::Last));
static_assert(int(RecomputeKind::None) == int(Recompute::None) &&
              int(RecomputeKind::Selective) == int(Recompute::Selective) &&
              int(RecomputeKind::Full) == int(Recompute::Full));

/// work_c1, work_c2.
LogicalResult WorkAttr::verify(function_ref<InFlightDiagnostic()> emitError,
                               int64_t flops, int64_t bytes) {
  if (flops < 0 || bytes < 0)
    return emitError() << "expected FLOPs and bytes of at least 0, found "
                       << flops << " flops, " << bytes << " bytes";
  if (flops == 0 && bytes == 0)
    return emitError() << "expected work, found 0 flops, 0 bytes; leave out "
                          "phases in which the kernel does not run";
  return success();
}

//===----------------------------------------------------------------------===//
// ModelOp
//===----------------------------------------------------------------------===//

StringRef ModelOp::getDefaultDialect() {
  return PipeDialect::getDialectNamespace();
}

/// model_c2 to model_c4.
LogicalResult ModelOp::verifyRegions() {
  BlockOp previous;
  int64_t layers = 0;
  for (Operation &op : *getBody()) {
    auto block = dyn_cast<BlockOp>(op);
    if (!block)
      return op.emitOpError("is not a 'pipe.block', all that a model holds");
    if (previous && block.getPlace() < previous.getPlace()) {
      InFlightDiagnostic diagnostic =
          block.emitOpError()
          << "stands after a '" << stringifyBlockPlace(previous.getPlace())
          << "' block, expected first, layer, last";
      diagnostic.attachNote(previous.getLoc()) << "that block";
      return diagnostic;
    }
    bool isLayer = block.getPlace() == BlockPlace::Layer;
    if (isLayer && llvm::AddOverflow(layers, int64_t(block.getCount()), layers))
      return block.emitOpError("brings the layers over 2^63 - 1");
    previous = block;
  }
  if (!previous)
    return emitOpError("has no blocks");
  return success();
}

/// The facts of a phase as an attribute; a phase without work has none.
static WorkAttr workAttr(MLIRContext *context, const Work &work) {
  return work.isZero() ? WorkAttr()
                       : WorkAttr::get(context, work.flops, work.bytes);
}

static void buildBlock(OpBuilder &builder, Location loc,
                       const BlockFacts &facts) {
  auto block =
      BlockOp::create(builder, loc, facts.name, BlockPlace(facts.position),
                      facts.count, facts.parameters, facts.activationBytes,
                      facts.weightGradBytes, facts.recomputedBytes);
  OpBuilder::InsertionGuard guard(builder);
  builder.createBlock(&block.getBodyRegion());
  MLIRContext *context = builder.getContext();
  for (const Kernel &kernel : facts.kernels)
    KernelOp::create(builder, loc, kernel.name, KernelEngine(kernel.engine),
                     /*kept=*/!kernel.recomputed,
                     workAttr(context, kernel.forward),
                     workAttr(context, kernel.inputGrad),
                     workAttr(context, kernel.weightGrad));
}

void ModelOp::build(OpBuilder &builder, OperationState &state,
                    const ModelFacts &facts) {
  Properties &properties = state.getOrAddProperties<Properties>();
  properties.setSymName(builder.getStringAttr(facts.name));
  properties.setMicrobatchSize(builder.getI64IntegerAttr(facts.microbatchSize));
  properties.setBoundaryBytes(builder.getI64IntegerAttr(facts.boundaryBytes));
  properties.setStateBytes(builder.getDenseI64ArrayAttr(
      {facts.weightBytesPerParameter, facts.gradientBytesPerParameter,
       facts.optimizerBytesPerParameter}));
  properties.setRecompute(RecomputeKindAttr::get(
      builder.getContext(), RecomputeKind(facts.recompute)));
  if (!facts.source.empty())
    properties.setSource(builder.getStringAttr(facts.source));

  OpBuilder::InsertionGuard guard(builder);
  builder.createBlock(state.addRegion());
  for (const BlockFacts &block : facts.blocks)
    buildBlock(builder, state.location, block);
}

static Work toWork(std::optional<WorkAttr> work) {
  return work ? Work{work->getFlops(), work->getBytes()} : Work();
}

static BlockFacts toBlockFacts(BlockOp op) {
  BlockFacts facts;
  facts.name = op.getName().str();
  facts.position = BlockPosition(op.getPlace());
  facts.count = op.getCount();
  facts.parameters = op.getParameters();
  facts.activationBytes = op.getActivationBytes();
  facts.weightGradBytes = op.getWeightGradBytes();
  facts.recomputedBytes = op.getRecomputedBytes();
  for (KernelOp kernel : op.getOps<KernelOp>())
    facts.kernels.push_back({kernel.getName().str(), Engine(kernel.getEngine()),
                             toWork(kernel.getForward()),
                             toWork(kernel.getInputGrad()),
                             toWork(kernel.getWeightGrad()),
                             /*recomputed=*/!kernel.getKept()});
  return facts;
}

ModelFacts ModelOp::toFacts() {
  ModelFacts facts;
  facts.name = getSymName().str();
  facts.source = getSource().value_or("").str();
  facts.microbatchSize = getMicrobatchSize();
  facts.boundaryBytes = getBoundaryBytes();
  ArrayRef<int64_t> stateBytes = getStateBytes();
  facts.weightBytesPerParameter = stateBytes[0];
  facts.gradientBytesPerParameter = stateBytes[1];
  facts.optimizerBytesPerParameter = stateBytes[2];
  facts.recompute = Recompute(getRecompute());
  for (BlockOp block : getOps<BlockOp>())
    facts.blocks.push_back(toBlockFacts(block));
  return facts;
}

//===----------------------------------------------------------------------===//
// BlockOp and KernelOp
//===----------------------------------------------------------------------===//

StringRef BlockOp::getDefaultDialect() {
  return PipeDialect::getDialectNamespace();
}

/// block_c3.
LogicalResult BlockOp::verify() {
  if (getRecomputedBytes() > getActivationBytes())
    return emitOpError() << "keeps " << getRecomputedBytes()
                         << " recomputed_bytes, more than its "
                         << getActivationBytes() << " activation_bytes";
  return success();
}

/// block_c2.
LogicalResult BlockOp::verifyRegions() {
  for (Operation &op : *getBody())
    if (!isa<KernelOp>(op))
      return op.emitOpError("is not a 'pipe.kernel', all that a block holds");
  return success();
}

/// kernel_c1, kernel_c2.
LogicalResult KernelOp::verify() {
  std::optional<WorkAttr> phases[] = {getForward(), getInputGrad(),
                                      getWeightGrad()};
  if (llvm::none_of(phases, [](auto &work) { return work.has_value(); }))
    return emitOpError("has no work in any phase, expected F, I or W");
  if (getEngine() != KernelEngine::Link)
    return success();
  for (std::optional<WorkAttr> &work : phases)
    if (work && work->getFlops() != 0)
      return emitOpError() << "on link has " << work->getFlops()
                           << " flops, expected bytes only";
  return success();
}
