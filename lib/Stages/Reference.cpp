//===- Reference.cpp - The unpipelined model ------------------------------===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Tensors are found by stage, role and name while a microbatch goes forward and
// back. Sums of gradients and the losses are carried through the loop.
//
//===----------------------------------------------------------------------===//

#include "PipeSched/Stages/Reference.h"
#include "PipeSched/Stages/Kernels.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Bufferization/IR/Bufferization.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "llvm/ADT/StringMap.h"

using namespace mlir;
using namespace pipesched;
using namespace pipesched::pipe;

using Kind = StageFunctionKind;
using Role = StageRole;

//===----------------------------------------------------------------------===//
// Layout
//===----------------------------------------------------------------------===//

PersistentLayout pipesched::layOutReference(const StageFunctions &functions,
                                            int64_t numMicrobatches) {
  Path path;
  path.workers.resize(functions.stages.size()); // all on worker 0
  return layOutPersistent(functions, llvm::cantFail(Placement::create(
                                         /*numWorkers=*/1, numMicrobatches,
                                         {path}, functions.numSlices)))
      .front();
}

//===----------------------------------------------------------------------===//
// Blocks of memory
//===----------------------------------------------------------------------===//

static Value viewOf(OpBuilder &builder, Location loc, Value block,
                    const PersistentTensor &tensor) {
  Value offset = arith::ConstantIndexOp::create(builder, loc, tensor.offset);
  auto type =
      MemRefType::get(tensor.type.getShape(), tensor.type.getElementType());
  return memref::ViewOp::create(builder, loc, type, block, offset,
                                ValueRange());
}

static Value readTensor(OpBuilder &builder, Location loc, Value block,
                        const PersistentTensor &tensor) {
  Value view = viewOf(builder, loc, block, tensor);
  return bufferization::ToTensorOp::create(builder, loc, tensor.type, view,
                                           /*restrict=*/true,
                                           /*writable=*/false);
}

static void writeTensor(OpBuilder &builder, Location loc, Value value,
                        Value block, const PersistentTensor &tensor) {
  Value view = viewOf(builder, loc, block, tensor);
  bufferization::MaterializeInDestinationOp::create(
      builder, loc, /*result=*/Type(), value, view, /*restrict=*/true,
      /*writable=*/true);
}

/// Adds a function without results whose arguments are `numBlocks` blocks and
/// `more`.
static func::FuncOp createFunction(OpBuilder &builder, ModuleOp module,
                                   StringRef name, unsigned numBlocks,
                                   const PersistentLayout &layout,
                                   ArrayRef<Type> more) {
  builder.setInsertionPointToEnd(module.getBody());
  SmallVector<Type> types(numBlocks,
                          MemRefType::get({layout.bytes}, builder.getI8Type()));
  llvm::append_range(types, more);
  // A module whose functions use none of these has not loaded them.
  module.getContext()
      ->loadDialect<arith::ArithDialect, bufferization::BufferizationDialect,
                    func::FuncDialect, linalg::LinalgDialect,
                    memref::MemRefDialect, scf::SCFDialect,
                    tensor::TensorDialect>();
  auto function = func::FuncOp::create(builder, module.getLoc(), name,
                                       builder.getFunctionType(types, {}));
  function->setAttr("llvm.emit_c_interface", builder.getUnitAttr());
  builder.setInsertionPointToStart(function.addEntryBlock());
  return function;
}

//===----------------------------------------------------------------------===//
// Steps
//===----------------------------------------------------------------------===//

namespace {

/// The values of the tensors of one stage at the current point of the code.
/// Those of a slice are apart; slices share parameters, their gradients and
/// what they pass on.
class StageValues {
public:
  void setSlice(int64_t number) { slice = number; }
  Value get(Role role, StringRef name = "") const {
    return values.lookup(key(role, name));
  }
  void set(Role role, StringRef name, Value value) {
    values[key(role, name)] = value;
  }

private:
  static bool isShared(Role role) {
    return role == Role::Param || role == Role::State ||
           role == Role::Gradient || role == Role::Earlier ||
           role == Role::EarlierGradient;
  }
  std::string key(Role role, StringRef name) const {
    int64_t part = isShared(role) ? 0 : slice;
    return (enumName(role) + " " + Twine(part) + " " + name).str();
  }
  llvm::StringMap<Value> values;
  int64_t slice = 0;
};

class StepBuilder {
public:
  StepBuilder(OpBuilder &builder, Location loc, const StageFunctions &functions,
              const PersistentLayout &layout, int64_t numMicrobatches)
      : builder(builder), loc(loc), functions(functions), layout(layout),
        numMicrobatches(numMicrobatches), values(functions.stages.size()) {}

  void run(Value before, Value after, Value stepNumber, bool updates);

private:
  template <typename Handle>
  void forEach(PersistentKind kind, Handle handle) {
    for (const PersistentTensor &tensor : layout.tensors)
      if (tensor.kind == kind)
        handle(tensor);
  }
  Value zero(RankedTensorType type);
  void sumTies();
  void runMicrobatches();
  void setSlice(int64_t number);
  void beginSlices();
  void copyToEarlier(const Stage &stage);
  void runForward(Value number);
  void callShard(int64_t number, Kind kind);
  void runShards();
  void runBackward();
  void runMicrobatch(Value number);
  void call(const StageFunction *function, StageValues &known);
  void keepLoss(Value number);
  void addGradient(const StageFunction &function, const RoleValue &result,
                   Value value, StageValues &known);

  OpBuilder &builder;
  Location loc;
  const StageFunctions &functions;
  const PersistentLayout &layout;
  int64_t numMicrobatches;
  std::vector<StageValues> values; ///< by stage
  Value step, microbatch, slice, losses;
  int64_t sliceNumber = 0;
};

} // namespace

Value StepBuilder::zero(RankedTensorType type) {
  Value empty = tensor::EmptyOp::create(builder, loc, type.getShape(),
                                        type.getElementType());
  Value number = arith::ConstantOp::create(
      builder, loc, builder.getZeroAttr(type.getElementType()));
  return linalg::FillOp::create(builder, loc, number, empty).getResult(0);
}

/// Adds a gradient to the sum. If the function took the old sum, the gradient
/// is the new sum already.
void StepBuilder::addGradient(const StageFunction &function,
                              const RoleValue &result, Value value,
                              StageValues &known) {
  if (!function.findArgument(result.role, result.name)) {
    Value sum = known.get(result.role, result.name);
    Value empty =
        tensor::EmptyOp::create(builder, loc, result.getTensorType().getShape(),
                                result.getTensorType().getElementType());
    value = linalg::AddOp::create(builder, loc, ValueRange{sum, value}, empty)
                .getResult(0);
  }
  known.set(result.role, result.name, value);
}

/// Calls a function with the known values, and adds its results to them. Does
/// nothing without a function.
void StepBuilder::call(const StageFunction *function, StageValues &known) {
  if (!function)
    return;
  SmallVector<Value> arguments;
  for (const RoleValue &value : function->arguments)
    arguments.push_back(value.role == Role::Microbatch ? microbatch
                        : value.role == Role::Slice    ? slice
                        : value.role == Role::Step
                            ? step
                            : known.get(value.role, value.name));
  assert(!llvm::is_contained(arguments, Value()) && "loading verifies roles");
  auto results = func::CallOp::create(builder, loc, function->op, arguments);
  for (auto [value, result] :
       llvm::zip(function->results, results.getResults()))
    if (value.role == Role::Gradient || value.role == Role::EarlierGradient)
      addGradient(*function, value, result, known);
    else
      known.set(value.role, value.name, result);
}

void StepBuilder::keepLoss(Value number) {
  auto index = [&](int64_t value) -> Value {
    return arith::ConstantIndexOp::create(builder, loc, value);
  };
  Value first =
      arith::MulIOp::create(builder, loc, number, index(functions.numSlices));
  Value unit = arith::AddIOp::create(builder, loc, first, index(sliceNumber));
  Value loss = values.back().get(Role::Loss);
  Value scalar = tensor::ExtractOp::create(builder, loc, loss, ValueRange());
  losses = tensor::InsertOp::create(builder, loc, scalar, losses, unit);
}

static const StageFunction *orNull(const std::optional<StageFunction> &given) {
  return given ? &*given : nullptr;
}

void StepBuilder::setSlice(int64_t number) {
  sliceNumber = number;
  slice = arith::ConstantIntOp::create(builder, loc, number, 64);
  for (StageValues &known : values)
    known.setSlice(number);
}

/// What slices pass on begins at zero.
void StepBuilder::beginSlices() {
  for (const Stage &stage : functions.stages) {
    for (const NamedTensor &tensor : stage.earlier)
      values[stage.number].set(Role::Earlier, tensor.name, zero(tensor.type));
    for (const NamedTensor &tensor : stage.earlierGradients)
      values[stage.number].set(Role::EarlierGradient, tensor.name,
                               zero(tensor.type));
  }
}

void StepBuilder::copyToEarlier(const Stage &stage) {
  StageValues &known = values[stage.number];
  for (const NamedTensor &tensor : stage.earlier) {
    known.set(Role::Earlier, tensor.name,
              putSlice(builder, loc, known.get(Role::Residual, tensor.name),
                       known.get(Role::Earlier, tensor.name),
                       builder.getIndexAttr(sliceNumber)));
  }
}

/// Calls a function of shard `number`.
void StepBuilder::callShard(int64_t number, Kind kind) {
  int64_t stage = functions.shards[number];
  const StageFunction *function = functions.stages[stage].get(kind);
  StageValues &known = values[stage];
  known.set(Role::Shard, "",
            arith::ConstantIntOp::create(builder, loc, number, 64));
  known.set(Role::LastOutput, "", values.back().get(Role::Output));
  if (function->findArgument(Role::Target))
    call(orNull(functions.target), known);
  call(function, known);
}

/// One shard after the other: what each tells all, and then the gradients. The
/// gradient of the last output is the sum of theirs.
void StepBuilder::runShards() {
  auto numShards = static_cast<int64_t>(functions.shards.size());
  for (int64_t shard = 0; shard < numShards; ++shard)
    callShard(shard, Kind::Shard);
  for (const NamedTensor &tensor : functions.partials) {
    Value all = zero(tensor.type);
    for (auto [shard, stage] : llvm::enumerate(functions.shards))
      all =
          putSlice(builder, loc, values[stage].get(Role::Partial, tensor.name),
                   all, builder.getIndexAttr(shard));
    for (int64_t stage : functions.shards)
      values[stage].set(Role::Partials, tensor.name, all);
    values.back().set(Role::Partials, tensor.name, all);
  }
  Value sum;
  for (int64_t shard = 0; shard < numShards; ++shard) {
    callShard(shard, Kind::ShardBackward);
    Value part = values[functions.shards[shard]].get(Role::LastOutputGradient);
    if (part && sum)
      part = linalg::AddOp::create(builder, loc, ValueRange{sum, part},
                                   zero(functions.lastOutputGradient))
                 .getResult(0);
    sum = part;
  }
  if (sum)
    values.back().set(Role::OutputGradient, "", sum);
}

void StepBuilder::runForward(Value number) {
  call(orNull(functions.data), values.front());
  for (const Stage &stage : functions.stages) {
    StageValues &known = values[stage.number];
    if (stage.number > 0)
      known.set(Role::Input, "", values[stage.number - 1].get(Role::Output));
    call(stage.get(Kind::Forward), known);
    copyToEarlier(stage);
  }
  if (!functions.shards.empty())
    runShards();
  if (!functions.loss)
    return;
  if (functions.loss->findArgument(Role::Target))
    call(orNull(functions.target), values.back());
  call(orNull(functions.loss), values.back());
  keepLoss(number);
}

void StepBuilder::runBackward() {
  for (const Stage &stage : llvm::reverse(functions.stages)) {
    StageValues &known = values[stage.number];
    if (&stage != &functions.stages.back())
      known.set(Role::OutputGradient, "",
                values[stage.number + 1].get(Role::InputGradient));
    if (const StageFunction *whole = stage.get(Kind::Backward)) {
      call(whole, known);
      continue;
    }
    call(stage.get(Kind::InputGradient), known);
    call(stage.get(Kind::WeightGradient), known);
  }
}

/// Forwards of the slices in their order, then backwards in the reverse order.
void StepBuilder::runMicrobatch(Value number) {
  microbatch =
      arith::IndexCastOp::create(builder, loc, builder.getI64Type(), number);
  beginSlices();
  for (int64_t each = 0; each < functions.numSlices; ++each) {
    setSlice(each);
    runForward(number);
  }
  if (!functions.loss)
    return;
  for (int64_t each = functions.numSlices; each-- > 0;) {
    setSlice(each);
    runBackward();
  }
}

/// The loop over microbatches; it carries the sums of gradients, and the losses
/// where there are any.
void StepBuilder::runMicrobatches() {
  SmallVector<Value> carried;
  for (PersistentKind kind : {PersistentKind::Gradient, PersistentKind::Loss})
    forEach(kind, [&](const PersistentTensor &tensor) {
      carried.push_back(zero(tensor.type));
    });
  auto index = [&](int64_t value) -> Value {
    return arith::ConstantIndexOp::create(builder, loc, value);
  };
  auto loop = scf::ForOp::create(builder, loc, index(0), index(numMicrobatches),
                                 index(1), carried);
  auto setCarried = [&](ValueRange now) {
    size_t next = 0;
    forEach(PersistentKind::Gradient, [&](const PersistentTensor &tensor) {
      values[tensor.stage].set(Role::Gradient, tensor.name, now[next++]);
    });
    losses = next < now.size() ? now[next] : Value();
  };
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPointToStart(loop.getBody());
  setCarried(loop.getRegionIterArgs());
  runMicrobatch(loop.getInductionVar());
  SmallVector<Value> results;
  forEach(PersistentKind::Gradient, [&](const PersistentTensor &tensor) {
    results.push_back(values[tensor.stage].get(Role::Gradient, tensor.name));
  });
  if (losses)
    results.push_back(losses);
  // An upstream builder gives a loop without carried values its terminator.
  if (!results.empty())
    scf::YieldOp::create(builder, loc, results);
  setCarried(loop.getResults());
}

/// Gives all parameters that are one the sum of their gradients.
void StepBuilder::sumTies() {
  for (const Tie &tie : functions.ties) {
    Value sum;
    auto nameOf = [&](std::pair<int64_t, unsigned> at) -> StringRef {
      return functions.stages[at.first].gradients[at.second].name;
    };
    for (auto at : tie.gradients) {
      Value own = values[at.first].get(Role::Gradient, nameOf(at));
      auto type = cast<RankedTensorType>(own.getType());
      if (sum)
        own = linalg::AddOp::create(builder, loc, ValueRange{sum, own},
                                    zero(type))
                  .getResult(0);
      sum = own;
    }
    for (auto at : tie.gradients)
      values[at.first].set(Role::Gradient, nameOf(at), sum);
  }
}

void StepBuilder::run(Value before, Value after, Value stepNumber,
                      bool updates) {
  step = stepNumber;
  auto roleOf = [](PersistentKind kind) {
    return kind == PersistentKind::Param   ? Role::Param
           : kind == PersistentKind::State ? Role::State
                                           : Role::Gradient;
  };
  for (PersistentKind kind : {PersistentKind::Param, PersistentKind::State})
    forEach(kind, [&](const PersistentTensor &tensor) {
      values[tensor.stage].set(roleOf(kind), tensor.name,
                               readTensor(builder, loc, before, tensor));
    });
  runMicrobatches();
  if (updates) {
    sumTies();
    for (const Stage &stage : functions.stages)
      call(stage.get(Kind::Update), values[stage.number]);
  }
  for (const PersistentTensor &tensor : layout.tensors)
    writeTensor(
        builder, loc,
        tensor.kind == PersistentKind::Loss
            ? losses
            : values[tensor.stage].get(roleOf(tensor.kind), tensor.name),
        after, tensor);
}

func::FuncOp pipesched::buildReferenceStep(ModuleOp module, StringRef name,
                                           const StageFunctions &functions,
                                           const PersistentLayout &layout,
                                           int64_t numMicrobatches,
                                           bool updates) {
  OpBuilder builder(module.getContext());
  func::FuncOp function =
      createFunction(builder, module, name, 2, layout, {builder.getI64Type()});
  StepBuilder(builder, module.getLoc(), functions, layout, numMicrobatches)
      .run(function.getArgument(0), function.getArgument(1),
           function.getArgument(2), updates);
  func::ReturnOp::create(builder, module.getLoc());
  return function;
}

func::FuncOp pipesched::buildReferenceInit(ModuleOp module, StringRef name,
                                           const StageFunctions &functions,
                                           const PersistentLayout &layout) {
  OpBuilder builder(module.getContext());
  Location loc = module.getLoc();
  func::FuncOp function = createFunction(builder, module, name, 1, layout, {});
  for (const Stage &stage : functions.stages) {
    const StageFunction *init = stage.get(Kind::Init);
    if (!init)
      continue;
    auto call = func::CallOp::create(builder, loc, init->op, ValueRange());
    for (auto [value, result] : llvm::zip(init->results, call.getResults()))
      for (const PersistentTensor &tensor : layout.tensors)
        if (tensor.kind == PersistentKind::Param &&
            tensor.stage == stage.number && tensor.name == value.name)
          writeTensor(builder, loc, result, function.getArgument(0), tensor);
  }
  func::ReturnOp::create(builder, loc);
  return function;
}
