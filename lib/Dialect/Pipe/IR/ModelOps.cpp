//===- ModelOps.cpp - Models as ops and as facts --------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Verifiers of models, and conversions between ops and ModelFacts. Ids such as
// model_c2 refer to the constraints in the op's description.
//
//===----------------------------------------------------------------------===//

#include "PipeSched/Dialect/Pipe/IR/Pipe.h"
#include "llvm/ADT/StringMap.h"

using namespace mlir;
using namespace pipesched;
using namespace pipesched::pipe;

// The enums of the ops must have the values of the enums of the facts.
static_assert(int(KernelEngine::Matrix) == int(Engine::Matrix) &&
              int(KernelEngine::Vector) == int(Engine::Vector) &&
              int(KernelEngine::Link) == int(Engine::Link) &&
              int(KernelEngine::MatrixFp8) == int(Engine::MatrixFp8) &&
              int(KernelEngine::AllToAll) == int(Engine::AllToAll) &&
              int(KernelEngine::Context) == int(Engine::Context) &&
              int(KernelEngine::Attention) == int(Engine::Attention) &&
              int(KernelEngine::MatrixFp4) == int(Engine::MatrixFp4));
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

/// experts_c1, experts_c2.
LogicalResult ExpertsAttr::verify(function_ref<InFlightDiagnostic()> emitError,
                                  int64_t count, int64_t perToken, int64_t rows,
                                  int64_t parameters, int64_t activationBytes,
                                  int64_t weightGradBytes, int64_t groups,
                                  int64_t groupsPerToken,
                                  int64_t wideActivationBytes,
                                  int64_t wideWeightGradBytes) {
  if (std::min({count, perToken, rows, groups, groupsPerToken}) < 1)
    return emitError() << "expected experts, rows and groups of at least 1";
  if (std::min({parameters, activationBytes, weightGradBytes,
                wideActivationBytes, wideWeightGradBytes}) < 0)
    return emitError() << "expected parameters and bytes of at least 0";
  if (wideActivationBytes > activationBytes ||
      wideWeightGradBytes > weightGradBytes)
    return emitError() << "expected wide bytes to be a part of all, found "
                       << wideActivationBytes << " of " << activationBytes
                       << " and " << wideWeightGradBytes << " of "
                       << weightGradBytes;
  if (perToken > count)
    return emitError() << "expected a token to go to at most " << count
                       << " experts, found " << perToken;
  if (groupsPerToken > groups)
    return emitError() << "expected a token to go to at most " << groups
                       << " groups, found " << groupsPerToken;
  if (count % groups != 0)
    return emitError() << "expected " << count
                       << " experts in equal groups, found " << groups;
  return success();
}

ExpertsAttr ExpertsAttr::get(MLIRContext *context, const ExpertFacts &facts) {
  return get(context, facts.count, facts.perToken, facts.rows, facts.parameters,
             facts.activationBytes, facts.weightGradBytes, facts.groups,
             facts.groupsPerToken, facts.wide.activation,
             facts.wide.weightGrad);
}

ExpertFacts ExpertsAttr::toFacts() const {
  return {getCount(),
          getPerToken(),
          getRows(),
          getParameters(),
          getActivationBytes(),
          getWeightGradBytes(),
          getGroups(),
          getGroupsPerToken(),
          {getWideActivationBytes(), getWideWeightGradBytes()}};
}

/// attention_c1, attention_c2.
LogicalResult
AttentionAttr::verify(function_ref<InFlightDiagnostic()> emitError,
                      StringAttr kernel, int64_t headSize, int64_t sequence,
                      int64_t maskedFlops) {
  if (!enumFromName<FlashKernel>(kernel))
    return emitError() << "expected an attention kernel "
                       << quoteEnumNames<FlashKernel>() << ", found " << kernel;
  if (std::min(headSize, sequence) < 1)
    return emitError()
           << "expected head_size and sequence of at least 1, found "
           << headSize << " and " << sequence;
  if (maskedFlops < 0)
    return emitError() << "expected masked_flops of at least 0, found "
                       << maskedFlops;
  return success();
}

AttentionAttr AttentionAttr::get(MLIRContext *context,
                                 const AttentionShape &shape) {
  return get(context, StringAttr::get(context, enumName(shape.kernel)),
             shape.headSize, shape.sequence, shape.maskedFlops);
}

AttentionShape AttentionAttr::toFacts() const {
  return {*enumFromName<FlashKernel>(getKernel().getValue()), getHeadSize(),
          getSequence(), getMaskedFlops()};
}

//===----------------------------------------------------------------------===//
// ModelOp
//===----------------------------------------------------------------------===//

StringRef ModelOp::getDefaultDialect() {
  return PipeDialect::getDialectNamespace();
}

namespace {
/// Verifies the body of a model op by op.
class BodyVerifier {
public:
  LogicalResult verify(Operation &op) {
    if (++numRuns > kMaxRuns)
      return op.emitOpError() << "is more than the " << kMaxRuns
                              << " blocks and repeats that a model may have";
    if (auto block = dyn_cast<BlockOp>(op))
      return verifyBlock(block);
    if (auto repeat = dyn_cast<RepeatOp>(op))
      return verifyRepeat(repeat);
    return op.emitOpError(
        "is not a 'pipe.block' or 'pipe.repeat'; a model holds only these");
  }
  bool isEmpty() const { return !previous; }

private:
  LogicalResult verifyBlock(BlockOp block);
  LogicalResult verifyRepeat(RepeatOp repeat);
  LogicalResult addLayers(Operation *op, int64_t count) {
    if (llvm::AddOverflow(layers, count, layers))
      return op->emitOpError("brings the layers over 2^63 - 1");
    return success();
  }

  static constexpr size_t kMaxRuns = 65536;
  size_t numRuns = 0;
  int64_t layers = 0;
  BlockOp previous;
  llvm::StringMap<BlockOp> byName; ///< the last block with each name
};
} // namespace

/// model_c3, model_c4.
LogicalResult BodyVerifier::verifyBlock(BlockOp block) {
  if (previous && block.getPlace() < previous.getPlace()) {
    InFlightDiagnostic diagnostic = block.emitOpError()
                                    << "stands after a '"
                                    << stringifyBlockPlace(previous.getPlace())
                                    << "' block, expected first, layer, last";
    diagnostic.attachNote(previous.getLoc()) << "that block";
    return diagnostic;
  }
  previous = block;
  byName[block.getName()] = block;
  return block.getPlace() == BlockPlace::Layer
             ? addLayers(block, block.getCount())
             : success();
}

/// repeat_c2, model_c3, model_c4.
LogicalResult BodyVerifier::verifyRepeat(RepeatOp repeat) {
  BlockOp block = byName.lookup(repeat.getName());
  if (!block)
    return repeat.emitOpError()
           << "finds no block \"" << repeat.getName() << "\" above";
  for (BlockOp other : {block, previous}) {
    if (other.getPlace() == BlockPlace::Layer)
      continue;
    InFlightDiagnostic diagnostic =
        repeat.emitOpError()
        << (other == block ? "repeats a '" : "stands after a '")
        << stringifyBlockPlace(other.getPlace()) << "' block, expected a layer";
    diagnostic.attachNote(other.getLoc()) << "that block";
    return diagnostic;
  }
  return addLayers(repeat, repeat.getCount());
}

/// model_c2 to model_c6.
LogicalResult ModelOp::verifyRegions() {
  if (getVocabulary() < 0)
    return emitOpError() << "has a vocabulary of " << getVocabulary()
                         << " entries, expected at least 0";
  BodyVerifier verifier;
  for (Operation &op : *getBody())
    if (failed(verifier.verify(op)))
      return failure();
  if (verifier.isEmpty())
    return emitOpError("has no blocks");
  return success();
}

/// Returns the work of a phase as an attribute; null without work.
static WorkAttr workAttr(MLIRContext *context, const Work &work) {
  return work.isZero() ? WorkAttr()
                       : WorkAttr::get(context, work.flops, work.bytes);
}

/// Returns null if all parameters are active.
static IntegerAttr activeParametersAttr(Builder &builder,
                                        const BlockFacts &facts) {
  return facts.activeParameters
             ? builder.getI64IntegerAttr(*facts.activeParameters)
             : IntegerAttr();
}

/// Returns null if all bytes are sharded over the accelerators of a worker.
static DenseI64ArrayAttr wholeBytesAttr(Builder &builder,
                                        const WholeBytes &whole) {
  if (whole == WholeBytes())
    return {};
  return builder.getDenseI64ArrayAttr(
      {whole.activation, whole.weightGrad, whole.recomputed});
}

/// Returns the work of a phase that may be absent; null if it is absent, or is
/// not work.
static WorkAttr workAttr(MLIRContext *context,
                         const std::optional<Work> &work) {
  return work ? workAttr(context, *work) : WorkAttr();
}

static DenseI64ArrayAttr
stateBytesAttr(Builder &builder, const std::optional<StateBytes> &state) {
  if (!state)
    return {};
  return builder.getDenseI64ArrayAttr(
      {state->weight, state->gradient, state->optimizer});
}

static DenseI64ArrayAttr
messageBytesAttr(Builder &builder, const std::optional<MessageBytes> &bytes) {
  return bytes ? builder.getDenseI64ArrayAttr(
                     {bytes->activation, bytes->gradient})
               : DenseI64ArrayAttr();
}

static void buildBlock(OpBuilder &builder, Location loc,
                       const BlockFacts &facts) {
  auto block = BlockOp::create(
      builder, loc, facts.name, BlockPlace(facts.position), facts.count,
      facts.parameters, activeParametersAttr(builder, facts),
      facts.tiedParameters, facts.activationBytes, facts.weightGradBytes,
      facts.recomputedBytes, facts.coreBytes,
      wholeBytesAttr(builder, facts.whole),
      stateBytesAttr(builder, facts.state),
      messageBytesAttr(builder, facts.messages),
      facts.experts ? ExpertsAttr::get(builder.getContext(), *facts.experts)
                    : ExpertsAttr(),
      facts.shard);
  OpBuilder::InsertionGuard guard(builder);
  builder.createBlock(&block.getBodyRegion());
  MLIRContext *context = builder.getContext();
  for (const Kernel &kernel : facts.kernels)
    KernelOp::create(
        builder, loc, kernel.name, kernel.count, KernelEngine(kernel.engine),
        kernel.attention ? AttentionAttr::get(context, *kernel.attention)
                         : AttentionAttr(),
        /*kept=*/!kernel.recomputed, kernel.core, kernel.whole,
        kernel.onParameters, kernel.routed, kernel.weightBytes, kernel.launches,
        kernel.synchronizes, kernel.exchanged,
        workAttr(context, kernel.forward), workAttr(context, kernel.inputGrad),
        workAttr(context, kernel.weightGrad),
        workAttr(context, kernel.backward), workAttr(context, kernel.recompute),
        workAttr(context, kernel.optimizer), kernel.seen, kernel.logits,
        kernel.logitsGrad);
}

/// Returns the last block with a name before `index`, or null.
static const BlockFacts *findAbove(const ModelFacts &facts, size_t index,
                                   StringRef name) {
  while (index-- > 0)
    if (facts.blocks[index].name == name)
      return &facts.blocks[index];
  return nullptr;
}

/// Whether a block differs from the last block of its name at most in the
/// count.
static bool isRepeat(const ModelFacts &facts, size_t index) {
  const BlockFacts &block = facts.blocks[index];
  const BlockFacts *above = findAbove(facts, index, block.name);
  if (!above || block.position != BlockPosition::Layer)
    return false;
  BlockFacts other = *above;
  other.count = block.count;
  return other == block;
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
  if (facts.sequence)
    properties.setSequence(builder.getI64IntegerAttr(facts.sequence));
  properties.setVocabulary(facts.vocabulary);
  if (!facts.source.empty())
    properties.setSource(builder.getStringAttr(facts.source));

  OpBuilder::InsertionGuard guard(builder);
  builder.createBlock(state.addRegion());
  for (auto [index, block] : llvm::enumerate(facts.blocks)) {
    if (isRepeat(facts, index))
      RepeatOp::create(builder, state.location, block.name, block.count);
    else
      buildBlock(builder, state.location, block);
  }
}

static Work toWork(std::optional<WorkAttr> work) {
  return work ? Work{work->getFlops(), work->getBytes()} : Work();
}

static std::optional<Work> toOptionalWork(std::optional<WorkAttr> work) {
  return work ? std::optional(toWork(work)) : std::nullopt;
}

static Kernel toKernel(KernelOp op) {
  Kernel kernel;
  kernel.name = op.getName().str();
  kernel.engine = Engine(op.getEngine());
  if (std::optional<AttentionAttr> shape = op.getShape())
    kernel.attention = shape->toFacts();
  kernel.forward = toWork(op.getForward());
  kernel.inputGrad = toWork(op.getInputGrad());
  kernel.weightGrad = toWork(op.getWeightGrad());
  kernel.recomputed = !op.getKept();
  kernel.core = op.getCore();
  kernel.whole = op.getWhole();
  kernel.onParameters = op.getOnParameters();
  kernel.routed = op.getRouted();
  kernel.weightBytes = op.getWeightBytes();
  kernel.launches = op.getLaunches();
  kernel.synchronizes = op.getSynchronizes();
  kernel.exchanged = op.getExchanged();
  kernel.seen = op.getSeen();
  kernel.count = op.getCount();
  kernel.backward = toOptionalWork(op.getBackward());
  kernel.recompute = toOptionalWork(op.getRecompute());
  kernel.optimizer = toOptionalWork(op.getOptimizer());
  kernel.logits = op.getLogits();
  kernel.logitsGrad = op.getLogitsGrad();
  return kernel;
}

static BlockFacts toBlockFacts(BlockOp op) {
  BlockFacts facts;
  facts.name = op.getName().str();
  facts.position = BlockPosition(op.getPlace());
  facts.count = op.getCount();
  facts.parameters = op.getParameters();
  facts.activeParameters = op.getActiveParameters();
  facts.tiedParameters = op.getTiedParameters();
  facts.activationBytes = op.getActivationBytes();
  facts.weightGradBytes = op.getWeightGradBytes();
  facts.recomputedBytes = op.getRecomputedBytes();
  facts.coreBytes = op.getCoreBytes();
  if (std::optional<ArrayRef<int64_t>> whole = op.getWholeBytes())
    facts.whole = {(*whole)[0], (*whole)[1], (*whole)[2]};
  if (std::optional<ArrayRef<int64_t>> state = op.getStateBytes())
    facts.state = {(*state)[0], (*state)[1], (*state)[2]};
  if (std::optional<ArrayRef<int64_t>> messages = op.getMessageBytes())
    facts.messages = {(*messages)[0], (*messages)[1]};
  if (std::optional<ExpertsAttr> experts = op.getExperts())
    facts.experts = experts->toFacts();
  facts.shard = op.getShardBytes();
  for (KernelOp kernel : op.getOps<KernelOp>())
    facts.kernels.push_back(toKernel(kernel));
  return facts;
}

ModelFacts ModelOp::toFacts() {
  ModelFacts facts;
  facts.name = getSymName().str();
  facts.source = getSource().value_or("").str();
  facts.microbatchSize = getMicrobatchSize();
  facts.sequence = getSequence().value_or(0);
  facts.vocabulary = getVocabulary();
  facts.boundaryBytes = getBoundaryBytes();
  ArrayRef<int64_t> stateBytes = getStateBytes();
  facts.weightBytesPerParameter = stateBytes[0];
  facts.gradientBytesPerParameter = stateBytes[1];
  facts.optimizerBytesPerParameter = stateBytes[2];
  facts.recompute = Recompute(getRecompute());
  for (Operation &op : *getBody()) {
    if (auto block = dyn_cast<BlockOp>(op))
      facts.blocks.push_back(toBlockFacts(block));
    if (auto repeat = dyn_cast<RepeatOp>(op)) {
      BlockFacts again =
          *findAbove(facts, facts.blocks.size(), repeat.getName());
      again.count = repeat.getCount();
      facts.blocks.push_back(std::move(again));
    }
  }
  return facts;
}

//===----------------------------------------------------------------------===//
// BlockOp and KernelOp
//===----------------------------------------------------------------------===//

StringRef BlockOp::getDefaultDialect() {
  return PipeDialect::getDialectNamespace();
}

/// block_c5.
static LogicalResult verifyWholeBytes(BlockOp block) {
  std::optional<ArrayRef<int64_t>> whole = block.getWholeBytes();
  if (!whole)
    return success();
  auto toInt = [](uint64_t bytes) { return static_cast<int64_t>(bytes); };
  const std::pair<StringRef, int64_t> limits[] = {
      {"activation_bytes", toInt(block.getActivationBytes())},
      {"weight_grad_bytes", toInt(block.getWeightGradBytes())},
      {"recomputed_bytes", toInt(block.getRecomputedBytes())}};
  for (auto [bytes, limit] : llvm::zip_equal(*whole, limits))
    if (bytes > limit.second)
      return block.emitOpError() << "has " << bytes << " whole_bytes of its "
                                 << limit.second << ' ' << limit.first;
  return success();
}

/// block_c7.
static LogicalResult verifyExperts(BlockOp block) {
  std::optional<ExpertsAttr> experts = block.getExperts();
  if (!experts)
    return success();
  auto toInt = [](uint64_t number) { return static_cast<int64_t>(number); };
  const std::tuple<StringRef, int64_t, int64_t> parts[] = {
      {"parameters", experts->getParameters(), toInt(block.getParameters())},
      {"activation_bytes", experts->getActivationBytes(),
       toInt(block.getActivationBytes())},
      {"weight_grad_bytes", experts->getWeightGradBytes(),
       toInt(block.getWeightGradBytes())}};
  for (auto [name, part, whole] : parts)
    if (part > whole)
      return block.emitOpError() << "has experts with " << part << " of its "
                                 << whole << ' ' << name;
  return success();
}

/// block_c3, block_c4, block_c7.
LogicalResult BlockOp::verify() {
  if (getRecomputedBytes() > getActivationBytes())
    return emitOpError() << "keeps " << getRecomputedBytes()
                         << " recomputed_bytes, more than its "
                         << getActivationBytes() << " activation_bytes";
  if (getCoreBytes() > getActivationBytes())
    return emitOpError() << "has " << getCoreBytes()
                         << " core_bytes, more than its "
                         << getActivationBytes() << " activation_bytes";
  if (failed(verifyWholeBytes(*this)) || failed(verifyExperts(*this)))
    return failure();
  uint64_t active = getActiveParameters().value_or(getParameters());
  if (active > getParameters())
    return emitOpError() << "has " << active
                         << " active_parameters, more than its "
                         << getParameters() << " parameters";
  if (getTiedParameters() > active)
    return emitOpError() << "has " << getTiedParameters()
                         << " tied_parameters, more than its " << active
                         << " active parameters";
  return success();
}

static bool hasShardWork(KernelOp kernel) {
  return !kernel.getLogits().isZero() || !kernel.getLogitsGrad().isZero();
}

/// block_c9.
static LogicalResult verifyShard(BlockOp block) {
  const ShardBytes bytes = block.getShardBytes();
  if (std::min({bytes.kept, bytes.broadcast, bytes.combined, bytes.reduced}) <
      0)
    return block.emitOpError("has negative shard_bytes");
  bool hasBytes = bytes != ShardBytes();
  if (hasBytes && bytes.broadcast == 0)
    return block.emitOpError(
        "has a shard and no bytes of X, which brings it the last output");
  auto kernels = block.getOps<KernelOp>();
  auto found = llvm::find_if(kernels, hasShardWork);
  if (found != kernels.end() && !hasBytes)
    return (*found).emitOpError(
        "runs in S or T, and its block has no shard_bytes");
  if (found == kernels.end() && hasBytes)
    return block.emitOpError(
        "has shard_bytes, and no kernel that runs in S or T");
  return success();
}

/// block_c2, block_c8, block_c9, kernel_c9.
LogicalResult BlockOp::verifyRegions() {
  auto model = cast<ModelOp>((*this)->getParentOp());
  std::optional<uint64_t> sequence = model.getSequence();
  for (Operation &op : *getBody()) {
    auto kernel = dyn_cast<KernelOp>(op);
    if (!kernel)
      return op.emitOpError("is not a 'pipe.kernel', all that a block holds");
    bool isAllToAll = kernel.getEngine() == KernelEngine::AllToAll;
    if (!getExperts() && (kernel.getRouted() || isAllToAll))
      return kernel.emitOpError("is about experts, which its block has not");
    if (sequence && kernel.getSeen() > int64_t(*sequence))
      return kernel.emitOpError()
             << "sees " << kernel.getSeen() << " tokens, a sequence of model @"
             << model.getSymName() << " has " << *sequence;
  }
  return verifyShard(*this);
}

static bool isCollective(KernelEngine engine) {
  return engine == KernelEngine::Link || engine == KernelEngine::AllToAll ||
         engine == KernelEngine::Context;
}

/// kernel_c1 to kernel_c9, except for the part of kernel_c9 that needs the
/// model.
LogicalResult KernelOp::verify() {
  std::optional<WorkAttr> phases[] = {getForward(),    getInputGrad(),
                                      getWeightGrad(), getBackward(),
                                      getRecompute(),  getOptimizer()};
  if (llvm::none_of(phases, [](auto &work) { return work.has_value(); }) &&
      !hasShardWork(*this))
    return emitOpError(
        "has no work in any phase, expected F, I, W, B, R, O, S or T");
  for (const Work &work : {getLogits(), getLogitsGrad()})
    if (std::min(work.flops, work.bytes) < 0)
      return emitOpError("has negative work in S or T");
  if (getKept() && getCore())
    return emitOpError("is both 'kept', never recomputed, and 'core', always "
                       "recomputed");
  if (getOnParameters() && (getWhole() || isCollective(getEngine())))
    return emitOpError("is 'on_parameters', which is for work of every rank "
                       "that has the parameters, and ")
           << (getWhole() ? "'whole'" : "a collective");
  bool isAttention = getEngine() == KernelEngine::Attention;
  if (isAttention != getShape().has_value())
    return emitOpError()
           << "on " << stringifyKernelEngine(getEngine())
           << (isAttention
                   ? " has no 'shape'"
                   : " has a 'shape', which only attention kernels have");
  auto weightBytes = static_cast<int64_t>(getWeightBytes());
  if (weightBytes > 0 && !getRouted())
    return emitOpError("has weight_bytes, but is not 'routed'");
  for (std::optional<WorkAttr> &work : phases)
    if (work && work->getBytes() < weightBytes)
      return emitOpError() << "has a phase of " << work->getBytes()
                           << " bytes, fewer than its " << weightBytes
                           << " weight_bytes";
  if (getExchanged() && !getRouted())
    return emitOpError("is 'exchanged', but not 'routed'");
  if (getSeen() < 0)
    return emitOpError() << "sees " << getSeen()
                         << " tokens, expected at least 0";
  if (!isCollective(getEngine()))
    return success();
  StringRef engine = stringifyKernelEngine(getEngine());
  if (getWhole())
    return emitOpError() << "on " << engine
                         << " is 'whole', while its accelerators share it";
  for (std::optional<WorkAttr> &work : phases)
    if (work && work->getFlops() != 0)
      return emitOpError() << "on " << engine << " has " << work->getFlops()
                           << " flops, expected bytes only";
  for (const Work &work : {getLogits(), getLogitsGrad()})
    if (work.flops != 0)
      return emitOpError() << "on " << engine << " has " << work.flops
                           << " flops, expected bytes only";
  return success();
}
