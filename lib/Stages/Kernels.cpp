//===- Kernels.cpp - Calls of a cell --------------------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Lists the calls of each kernel and assigns every argument and result its
// source or destination.
//
//===----------------------------------------------------------------------===//

#include "PipeSched/Stages/Kernels.h"
#include "PipeSched/Schedule/Kinds/PhaseSets.h"
#include "PipeSched/Stages/PersistentLayout.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

using namespace mlir;
using namespace pipesched;
using namespace pipesched::pipe;

using Kind = StageFunctionKind;
using Role = StageRole;
using OperandKind = KernelOperand::Kind;

RankedTensorType pipesched::typeOf(const StageFunctions &functions,
                                   const Stage &stage, ActivationName name) {
  switch (name.role) {
  case Role::Input:
    return stage.input;
  case Role::Output:
    return stage.output;
  case Role::OutputGradient:
    return stage.outputGradient;
  case Role::InputGradient:
    return stage.inputGradient;
  case Role::Residual:
    return stage.residuals[name.index].type;
  case Role::Earlier:
    return stage.earlier[name.index].type;
  case Role::EarlierGradient:
    return stage.earlierGradients[name.index].type;
  case Role::Target:
    return functions.target->findResult(Role::Target)->getTensorType();
  case Role::LastOutput:
    return functions.stages.back().output;
  case Role::LastOutputGradient:
    return functions.lastOutputGradient;
  case Role::Partials:
    return functions.partials[name.index].type;
  default:
    llvm_unreachable("no activation");
  }
}

Value pipesched::putSlice(OpBuilder &builder, Location loc, Value residual,
                          Value whole, OpFoldResult slice) {
  ArrayRef<int64_t> shape = cast<RankedTensorType>(whole.getType()).getShape();
  SmallVector<OpFoldResult> offsets(shape.size(), builder.getIndexAttr(0));
  SmallVector<OpFoldResult> strides(shape.size(), builder.getIndexAttr(1));
  SmallVector<OpFoldResult> sizes =
      getAsIndexOpFoldResult(builder.getContext(), shape);
  offsets[0] = slice;
  sizes[0] = builder.getIndexAttr(1);
  return tensor::InsertSliceOp::create(builder, loc, residual, whole, offsets,
                                       sizes, strides);
}

bool KernelCall::givesPartial(unsigned result) const {
  return function->results[result].role == Role::Partial;
}

bool StageKernel::takesShard() const {
  return llvm::any_of(calls, [](const KernelCall &call) {
    return call.function->findArgument(Role::Shard) ||
           call.function->findResult(Role::Partial);
  });
}

bool KernelCall::givesSum(unsigned result) const {
  const RoleValue &value = function->results[result];
  return function->findArgument(value.role, value.name) != nullptr;
}

namespace {
class KernelBuilder {
public:
  KernelBuilder(const StageFunctions &functions, const Stage &stage,
                Phase phase)
      : functions(functions), stage(stage) {
    kernel.stage = &stage;
    kernel.phase = phase;
  }

  /// Returns nothing if a function is missing.
  std::optional<StageKernel> run();

private:
  bool isFirst() const { return stage.number == 0; }
  bool isLast() const { return &stage == &functions.stages.back(); }
  bool add(const std::optional<StageFunction> &function);
  bool add(Kind kind) { return add(stage.functions[unsigned(kind)]); }
  bool addWithTarget(const std::optional<StageFunction> &function);
  void addLoss();
  bool addBackward();
  void addUnmade();
  bool addCalls();
  KernelOperand place(const RoleValue &value, bool isResult);
  unsigned bufferOf(ActivationName name, bool isResult);
  unsigned sharedBufferOf(ActivationName name);
  void addCopies();

  const StageFunctions &functions;
  const Stage &stage;
  StageKernel kernel;
};
} // namespace

static unsigned indexOf(ArrayRef<NamedTensor> tensors, StringRef name) {
  const auto *found = llvm::find_if(
      tensors, [&](const NamedTensor &tensor) { return tensor.name == name; });
  assert(found != tensors.end() && "loading collects all names");
  return found - tensors.begin();
}

unsigned KernelBuilder::bufferOf(ActivationName name, bool isResult) {
  auto *found = llvm::find_if(kernel.buffers, [&](const KernelBuffer &buffer) {
    return buffer.name == name;
  });
  if (found == kernel.buffers.end()) {
    RankedTensorType type = typeOf(functions, stage, name);
    kernel.buffers.push_back({name, type, bytesOf(type)});
    found = &kernel.buffers.back();
  }
  if (isResult)
    found->isWritten = true;
  else if (!found->isWritten)
    found->isRead = true;
  return found - kernel.buffers.begin();
}

unsigned KernelBuilder::sharedBufferOf(ActivationName name) {
  unsigned index = bufferOf(name, /*isResult=*/false);
  kernel.buffers[index].isWritten = true;
  return index;
}

/// Adds copies of the residuals of forward that other slices read.
void KernelBuilder::addCopies() {
  for (auto [i, earlier] : llvm::enumerate(stage.earlier)) {
    unsigned residual =
        bufferOf({Role::Residual, indexOf(stage.residuals, earlier.name)},
                 /*isResult=*/true);
    kernel.copies.push_back(
        {residual, sharedBufferOf({Role::Earlier, static_cast<unsigned>(i)})});
  }
}

KernelOperand KernelBuilder::place(const RoleValue &value, bool isResult) {
  switch (value.role) {
  case Role::Param:
    return {OperandKind::Param, indexOf(stage.params, value.name)};
  case Role::Gradient:
    return {OperandKind::Gradient, indexOf(stage.gradients, value.name)};
  case Role::State:
    return {OperandKind::State, indexOf(stage.states, value.name)};
  case Role::Loss:
    return {OperandKind::Loss};
  case Role::Microbatch:
    return {OperandKind::Microbatch};
  case Role::Slice:
    return {OperandKind::Slice};
  case Role::Step:
    return {OperandKind::Step};
  case Role::Shard:
    return {OperandKind::Shard};
  case Role::Partial: // its place among the partials of all shards
  case Role::Partials:
    return {OperandKind::Buffer,
            bufferOf({Role::Partials, indexOf(functions.partials, value.name)},
                     isResult)};
  case Role::Earlier:
    return {OperandKind::Buffer,
            bufferOf({Role::Earlier, indexOf(stage.earlier, value.name)},
                     isResult)};
  case Role::EarlierGradient:
    return {OperandKind::Buffer,
            sharedBufferOf({Role::EarlierGradient,
                            indexOf(stage.earlierGradients, value.name)})};
  case Role::Residual:
    return {OperandKind::Buffer,
            bufferOf({Role::Residual, indexOf(stage.residuals, value.name)},
                     isResult)};
  case Role::Input:
  case Role::Output:
  case Role::OutputGradient:
  case Role::InputGradient:
  case Role::Target:
  case Role::LastOutput:
  case Role::LastOutputGradient:
    return {OperandKind::Buffer, bufferOf({value.role}, isResult)};
  }
  llvm_unreachable("covered switch");
}

bool KernelBuilder::add(const std::optional<StageFunction> &function) {
  if (!function)
    return false;
  KernelCall call;
  call.function = &*function;
  for (const RoleValue &value : function->arguments)
    call.arguments.push_back(place(value, /*isResult=*/false));
  for (const RoleValue &value : function->results)
    call.results.push_back(place(value, /*isResult=*/true));
  kernel.calls.push_back(std::move(call));
  return true;
}

/// Adds the function after `target`, if it takes a target.
bool KernelBuilder::addWithTarget(
    const std::optional<StageFunction> &function) {
  if (function && function->findArgument(Role::Target))
    add(functions.target);
  return add(function);
}

void KernelBuilder::addLoss() {
  if (isLast())
    addWithTarget(functions.loss);
}

/// Adds a tensor that no function makes or reads: the gradient that is sent
/// after B or I if no earlier stage trains.
void KernelBuilder::addUnmade() {
  auto gives = [](const KernelCall &call) {
    return call.function->findResult(Role::InputGradient) != nullptr;
  };
  if (!isFirst() && llvm::none_of(kernel.calls, gives))
    bufferOf({Role::InputGradient}, /*isResult=*/true);
}

/// Adds the calls of B or I.
bool KernelBuilder::addBackward() {
  addLoss();
  bool isAdded = kernel.phase == Phase::InputGrad
                     ? add(Kind::InputGradient)
                     : add(Kind::Backward) || (add(Kind::InputGradient) &&
                                               add(Kind::WeightGradient));
  addUnmade();
  return isAdded;
}

/// Adds the calls for a cell of the phase. Returns false if a function is
/// missing, and for phases without functions.
bool KernelBuilder::addCalls() {
  Phase phase = kernel.phase;
  if (phase == Phase::Forward && isFirst())
    add(functions.data);
  if (phase == Phase::Backward || phase == Phase::InputGrad)
    return addBackward();
  if (phase == Phase::Logits)
    return addWithTarget(stage.functions[unsigned(Kind::Shard)]);
  if (phase == Phase::LogitsGrad)
    return addWithTarget(stage.functions[unsigned(Kind::ShardBackward)]);
  static constexpr std::pair<Phase, Kind> kKinds[] = {
      {Phase::Forward, Kind::Forward},
      {Phase::WeightGrad, Kind::WeightGradient},
      {Phase::Recompute, Kind::Recompute},
      {Phase::Optimizer, Kind::Update}};
  for (auto [own, kind] : kKinds)
    if (own == phase) {
      bool isAdded =
          add(kind) || (phase == Phase::Recompute && add(Kind::Forward));
      if (phase == Phase::Forward)
        addCopies();
      // O of a stage that does not train runs nothing.
      return isAdded || (phase == Phase::Optimizer && stage.gradients.empty());
    }
  return false;
}

std::optional<StageKernel> KernelBuilder::run() {
  return addCalls() ? std::optional(std::move(kernel)) : std::nullopt;
}

StageKernels::StageKernels(const StageFunctions &functions)
    : functions(functions), kernels(functions.stages.size()) {
  for (auto [stage, byPhase] : llvm::zip_equal(functions.stages, kernels))
    kCostedPhases.forEach([&, &stage = stage, &byPhase = byPhase](Phase phase) {
      byPhase[phase] = KernelBuilder(functions, stage, phase).run();
    });
}

const StageKernel *StageKernels::find(int64_t stage, Phase phase) const {
  const std::optional<StageKernel> &kernel = kernels[stage][phase];
  return kernel ? &*kernel : nullptr;
}
