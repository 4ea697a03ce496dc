//===- StageModel.cpp - A model whose layers are stages -------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Work by phase comes from FunctionWork, bytes from the signatures of
// functions.
//
//===----------------------------------------------------------------------===//

#include "PipeSched/Stages/StageModel.h"
#include "PipeSched/Stages/FunctionWork.h"
#include "PipeSched/Support/CheckedInt.h"
#include "llvm/ADT/StringMap.h"

using namespace mlir;
using namespace pipesched;
using namespace pipesched::pipe;

using Kind = StageFunctionKind;
using Role = StageRole;

//===----------------------------------------------------------------------===//
// Bytes
//===----------------------------------------------------------------------===//

static int64_t bytesOfType(Type type) {
  return type ? bytesOfTensor(type).value_or(0) : 0;
}

template <typename RangeT>
static CheckedInt sumTensorBytes(const RangeT &tensors) {
  CheckedInt bytes;
  for (const NamedTensor &tensor : tensors)
    bytes += bytesOfType(tensor.type);
  return bytes;
}

/// Total bytes that the slices of a microbatch pass on.
static int64_t bytesOfEarlier(const Stage &stage) {
  CheckedInt bytes = sumTensorBytes(stage.earlier);
  return bytes.get(); // at most kMaxStageBytes
}

namespace {
/// The set of tensors that a stage holds for a microbatch.
class HeldTensors {
public:
  /// Adds the `values` that outlive a phase: input and output of the stage, and
  /// residuals.
  void add(ArrayRef<RoleValue> values) {
    for (const RoleValue &value : values)
      if (value.role == Role::Input || value.role == Role::Output ||
          value.role == Role::Residual)
        tensors[keyOf(value)] = bytesOfType(value.type);
  }
  void addGradient(ArrayRef<RoleValue> values) {
    for (const RoleValue &value : values)
      if (value.role == Role::OutputGradient)
        tensors[keyOf(value)] = bytesOfType(value.type);
  }
  void remove(ArrayRef<RoleValue> values) {
    for (const RoleValue &value : values)
      tensors.erase(keyOf(value));
  }

  CheckedInt getBytes() const {
    CheckedInt bytes;
    for (const auto &entry : tensors)
      bytes += entry.second;
    return bytes;
  }

private:
  static std::string keyOf(const RoleValue &value) {
    return (enumName(value.role) + "." + value.name).str();
  }

  llvm::StringMap<int64_t> tensors;
};
} // namespace

//===----------------------------------------------------------------------===//
// Builder
//===----------------------------------------------------------------------===//

namespace {
/// The phases in which a function runs.
struct KernelPhases {
  SmallVector<Work Kernel::*, 2> always;
  SmallVector<std::optional<Work> Kernel::*, 2> stated;
  bool recomputed = true;
};

class StageModelBuilder {
public:
  StageModelBuilder(const StageFunctions &functions, StageFusion fusion)
      : functions(functions), fusion(fusion) {}

  FailureOr<ModelFacts> build();

private:
  LogicalResult addKernels(const StageFunction *function,
                           const KernelPhases &phases, BlockFacts &block);
  void addAccumulation(const StageFunction &function,
                       const KernelPhases &phases, BlockFacts &block);
  LogicalResult addWork(const Stage &stage, BlockFacts &block);
  LogicalResult addLossWork(const Stage &stage, BlockFacts &block);
  LogicalResult addWithTarget(const StageFunction *function,
                              const KernelPhases &phases, BlockFacts &block);
  LogicalResult addBytes(const Stage &stage, BlockFacts &block);
  LogicalResult joinSlices(const Stage &stage, BlockFacts &block);
  void addKeys(const Stage &stage, BlockFacts &block);
  ShardBytes shardBytes(const Stage &stage) const;
  HeldTensors heldForBackward(const Stage &stage) const;
  bool isLast(const Stage &stage) const {
    return &stage == &functions.stages.back();
  }

  const StageFunctions &functions;
  StageFusion fusion;
  FunctionWorkAnalysis analysis;
};
} // namespace

static void addKernel(StringRef function, StringRef what, const OpWork &op,
                      const KernelPhases &phases, BlockFacts &block) {
  if (op.run.work.isZero())
    return;
  Kernel &kernel = block.kernels.emplace_back();
  kernel.name = (function + ": " + what).str();
  kernel.engine = op.run.engine;
  kernel.count = op.count;
  kernel.recomputed = phases.recomputed;
  for (Work Kernel::*phase : phases.always)
    kernel.*phase = op.run.work;
  for (std::optional<Work> Kernel::*phase : phases.stated)
    kernel.*phase = op.run.work;
}

/// Merges ops into one kernel per engine. The first kernel moves the bytes of
/// all. All-reduces stay separate kernels.
static std::vector<OpWork> fuse(const FunctionWork &work) {
  std::vector<OpWork> fused;
  int64_t bytes = work.fusedBytes;
  for (Engine engine : {Engine::Matrix, Engine::MatrixFp8, Engine::Vector}) {
    OpWork sum;
    sum.name = engine == Engine::Vector ? "other ops" : "contractions";
    sum.run.engine = engine;
    for (const OpWork &op : work.ops)
      if (op.run.engine == engine) // in all at most 2^63 - 1, see FunctionWork
        sum.run.work.flops += op.count * op.run.work.flops;
    if (sum.run.work.flops == 0 && engine != Engine::Vector)
      continue;
    sum.run.work.bytes = std::exchange(bytes, 0);
    fused.push_back(std::move(sum));
  }
  for (const OpWork &op : work.ops)
    if (op.run.engine == Engine::Link)
      fused.push_back(op);
  return fused;
}

LogicalResult StageModelBuilder::addKernels(const StageFunction *function,
                                            const KernelPhases &phases,
                                            BlockFacts &block) {
  if (!function)
    return success();
  func::FuncOp op = function->op;
  FailureOr<FunctionWork> work = analysis.compute(op);
  if (failed(work))
    return failure();
  for (const OpWork &kernel :
       fusion == StageFusion::None ? work->ops : fuse(*work))
    addKernel(op.getSymName(), kernel.name, kernel, phases, block);
  addAccumulation(*function, phases, block);
  return success();
}

/// Adds the work of adding gradients to their sums, for gradients that the
/// function does not add itself. With fusion the function writes the new sum,
/// so only reading the old sum is counted.
void StageModelBuilder::addAccumulation(const StageFunction &function,
                                        const KernelPhases &phases,
                                        BlockFacts &block) {
  for (const RoleValue &result : function.results) {
    if (result.role != Role::Gradient ||
        function.findArgument(Role::Gradient, result.name))
      continue;
    int64_t bytes = bytesOfType(result.type);
    OpWork sum;
    sum.run.engine = Engine::Vector;
    sum.run.work = {result.getTensorType().getNumElements(),
                    fusion == StageFusion::None ? 3 * bytes : bytes};
    func::FuncOp op = function.op;
    addKernel(op.getSymName(), "sum of gradient " + result.name, sum, phases,
              block);
  }
}

/// Adds the work of the target and the loss functions. It belongs to B, and to
/// I if there is an I.
LogicalResult StageModelBuilder::addLossWork(const Stage &stage,
                                             BlockFacts &block) {
  KernelPhases phases;
  if (stage.get(Kind::Backward))
    phases.stated.push_back(&Kernel::backward);
  if (stage.get(Kind::InputGradient))
    phases.always.push_back(&Kernel::inputGrad);
  if (phases.stated.empty() && phases.always.empty())
    return success();
  return functions.loss ? addWithTarget(&*functions.loss, phases, block)
                        : success();
}

/// Adds a function, and before it the function that makes its target.
LogicalResult StageModelBuilder::addWithTarget(const StageFunction *function,
                                               const KernelPhases &phases,
                                               BlockFacts &block) {
  if (function && functions.target && function->findArgument(Role::Target) &&
      failed(addKernels(&*functions.target, phases, block)))
    return failure();
  return addKernels(function, phases, block);
}

LogicalResult StageModelBuilder::addWork(const Stage &stage,
                                         BlockFacts &block) {
  KernelPhases forward = {{&Kernel::forward}, {}, true};
  KernelPhases data = {{&Kernel::forward}, {}, false};
  if (stage.number == 0 && functions.data &&
      failed(addKernels(&*functions.data, data, block)))
    return failure();
  if (failed(addKernels(stage.get(Kind::Forward), forward, block)))
    return failure();
  const std::pair<Kind, KernelPhases> others[] = {
      {Kind::Recompute, {{}, {&Kernel::recompute}}},
      {Kind::Backward, {{}, {&Kernel::backward}}},
      {Kind::InputGradient, {{&Kernel::inputGrad}, {}}},
      {Kind::WeightGradient, {{&Kernel::weightGrad}, {}}},
      {Kind::Update, {{}, {&Kernel::optimizer}}}};
  if (isLast(stage) && failed(addLossWork(stage, block)))
    return failure();
  for (const auto &[kind, phases] : others)
    if (failed(addKernels(stage.get(kind), phases, block)))
      return failure();
  const std::pair<Kind, Work Kernel::*> shards[] = {
      {Kind::Shard, &Kernel::logits},
      {Kind::ShardBackward, &Kernel::logitsGrad}};
  for (auto [kind, phase] : shards)
    if (failed(addWithTarget(stage.get(kind), {{phase}, {}}, block)))
      return failure();
  return success();
}

/// Returns the tensors that a stage keeps of a microbatch until its backward:
/// the tensors that the functions of the backward take, except tensors that I
/// makes for W, and the output if the loss takes it.
HeldTensors StageModelBuilder::heldForBackward(const Stage &stage) const {
  HeldTensors held;
  if (const StageFunction *weight = stage.get(Kind::WeightGradient)) {
    held.add(weight->arguments);
    if (const StageFunction *input = stage.get(Kind::InputGradient))
      held.remove(input->results);
  }
  for (Kind kind : {Kind::Backward, Kind::InputGradient})
    if (const StageFunction *function = stage.get(kind))
      held.add(function->arguments);
  if (isLast(stage) && functions.loss)
    held.add(functions.loss->arguments);
  return held;
}

/// Returns the tensors that a stage keeps until R runs: the tensors that R
/// takes, and the tensors that the backward needs and R does not recompute.
/// Without an R function the forward runs again.
static HeldTensors heldForRecompute(const Stage &stage, HeldTensors held) {
  const StageFunction *again = stage.get(Kind::Recompute);
  if (!again)
    again = stage.get(Kind::Forward);
  held.remove(again->results);
  held.add(again->arguments);
  return held;
}

/// Returns the bytes that a shard keeps for T, and the bytes that collectives
/// send to it.
ShardBytes StageModelBuilder::shardBytes(const Stage &stage) const {
  const StageFunction *backward = stage.get(Kind::ShardBackward);
  if (!backward)
    return {};
  ShardBytes bytes;
  for (const RoleValue &value : backward->arguments)
    if (value.role == Role::Residual || value.role == Role::LastOutput ||
        value.role == Role::Partials)
      bytes.kept += bytesOfType(value.type);
  bytes.broadcast = bytesOfType(functions.stages.back().output);
  bytes.combined = sumTensorBytes(functions.partials).get();
  bytes.reduced = bytesOfType(functions.lastOutputGradient);
  return bytes; // each of them at most kMaxStageBytes
}

LogicalResult StageModelBuilder::addBytes(const Stage &stage,
                                          BlockFacts &block) {
  HeldTensors held = heldForBackward(stage);
  CheckedInt activation = held.getBytes();
  CheckedInt checkpoint = heldForRecompute(stage, held).getBytes();
  HeldTensors betweenSplit;
  if (const StageFunction *weight = stage.get(Kind::WeightGradient)) {
    betweenSplit.add(weight->arguments);
    betweenSplit.addGradient(weight->arguments);
  }
  CheckedInt weightGrad = betweenSplit.getBytes();
  int64_t ofEarlier = bytesOfEarlier(stage) / functions.numSlices;
  activation += ofEarlier;
  checkpoint += ofEarlier;
  if (stage.get(Kind::WeightGradient))
    weightGrad += ofEarlier;
  CheckedInt weights = sumTensorBytes(stage.params);
  CheckedInt gradients = sumTensorBytes(stage.gradients);
  CheckedInt states = sumTensorBytes(stage.states);
  CheckedInt parameters;
  for (const NamedTensor &param : stage.params)
    parameters += param.type.getNumElements();
  for (CheckedInt sum : {activation, checkpoint, weightGrad, weights, gradients,
                         states, parameters})
    if (!sum.isValid())
      return emitTableError(stage.op) << "holds over 2^63 - 1 bytes";

  block.parameters = parameters.get();
  block.activationBytes = std::max(activation.get(), checkpoint.get());
  block.recomputedBytes = checkpoint.get();
  block.weightGradBytes = weightGrad.get();
  block.state = {weights.get(), gradients.get(), states.get()};
  bool sendsGradient = stage.number != 0 && (stage.get(Kind::Backward) ||
                                             stage.get(Kind::InputGradient));
  block.messages = {isLast(stage) ? 0 : bytesOfType(stage.output),
                    sendsGradient ? bytesOfType(stage.inputGradient) : 0};
  block.shard = shardBytes(stage);
  return success();
}

//===----------------------------------------------------------------------===//
// Slices
//===----------------------------------------------------------------------===//

/// A slice counts as this many tokens of the model, a number with many
/// divisors, because functions have no tokens.
static constexpr int64_t kTokensOfSlice = 322560; // 2^10 x 3^2 x 5 x 7

/// Makes one block of a microbatch from the block of a slice; analyses divide
/// it into slices again (CostModel/Layers/Slices.h). The optimizer runs once.
LogicalResult StageModelBuilder::joinSlices(const Stage &stage,
                                            BlockFacts &block) {
  bool isValid = true;
  auto join = [&](int64_t &number) {
    CheckedInt product = CheckedInt(number) * functions.numSlices;
    isValid &= product.isValid();
    number = isValid ? product.get() : 0;
  };
  auto joinWork = [&](Work &work) {
    join(work.flops);
    join(work.bytes);
  };
  for (Kernel &kernel : block.kernels) {
    for (auto work :
         {&Kernel::forward, &Kernel::inputGrad, &Kernel::weightGrad})
      joinWork(kernel.*work);
    for (auto work : {&Kernel::backward, &Kernel::recompute})
      if (kernel.*work)
        joinWork(*(kernel.*work));
  }
  for (auto bytes : {&BlockFacts::activationBytes, &BlockFacts::recomputedBytes,
                     &BlockFacts::weightGradBytes})
    join(block.*bytes);
  join(block.messages->activation);
  join(block.messages->gradient);
  if (!isValid)
    return emitTableError(stage.op)
           << "has over 2^63 - 1 FLOPs or bytes in the " << functions.numSlices
           << " slices of a microbatch";
  addKeys(stage, block);
  return success();
}

/// Adds the tensors that slices pass on as if they were keys and values: they
/// are held until the microbatch has finished, and their gradients from the
/// last slice on.
void StageModelBuilder::addKeys(const Stage &stage, BlockFacts &block) {
  int64_t bytes = bytesOfEarlier(stage);
  if (bytes == 0)
    return;
  Kernel &keys = block.kernels.emplace_back();
  keys.name = "earlier slices";
  keys.engine = Engine::Context;
  keys.core = true;
  keys.forward.bytes = bytes;
  keys.inputGrad.bytes = 2 * bytes;
  keys.seen = functions.numSlices * kTokensOfSlice;
}

FailureOr<ModelFacts> StageModelBuilder::build() {
  ModelFacts model;
  bool isSliced = functions.numSlices > 1;
  if (isSliced)
    model.sequence = functions.numSlices * kTokensOfSlice;
  model.weightBytesPerParameter = model.gradientBytesPerParameter =
      model.optimizerBytesPerParameter = 0;
  for (const Stage &stage : functions.stages) {
    BlockFacts &block = model.blocks.emplace_back();
    block.name = "stage " + std::to_string(stage.number);
    if (failed(addWork(stage, block)) || failed(addBytes(stage, block)) ||
        (isSliced && failed(joinSlices(stage, block))))
      return failure();
    model.boundaryBytes =
        std::max({model.boundaryBytes, block.messages->activation,
                  block.messages->gradient});
  }
  return model;
}

FailureOr<ModelFacts> pipesched::makeStageModel(const StageFunctions &functions,
                                                StageFusion fusion,
                                                int64_t microbatchSize) {
  FailureOr<ModelFacts> model = StageModelBuilder(functions, fusion).build();
  if (failed(model))
    return failure();
  model->microbatchSize = microbatchSize;
  model->source = ("functions of stages, fusion " + enumName(fusion)).str();
  return model;
}
