//===- Reference.cpp - The unpipelined model ------------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Finds tensors by stage, role and name while a microbatch runs forward and
// backward.
//
//===----------------------------------------------------------------------===//

#include "PipeSched/Stages/Reference.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/Support/ErrorHandling.h"
#include <cstring>

using namespace mlir;
using namespace pipesched;
using namespace pipesched::pipe;

using Kind = StageFunctionKind;
using Role = StageRole;

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
// Tensors
//===----------------------------------------------------------------------===//

ReferenceTensor pipesched::makeReferenceZeros(RankedTensorType type) {
  int64_t bytes = std::max(alignToSlot(bytesOf(type)), kSlotAlignment);
  ReferenceTensor tensor(
      static_cast<char *>(std::aligned_alloc(kSlotAlignment, bytes)),
      std::free);
  if (!tensor)
    llvm::report_bad_alloc_error("no memory for the unpipelined model");
  std::memset(tensor.get(), 0, bytes);
  return tensor;
}

/// Returns a tensor of a block; the block must outlive it.
static ReferenceTensor tensorIn(char *block, const PersistentTensor &tensor) {
  return ReferenceTensor(ReferenceTensor(), block + tensor.offset);
}

/// Returns a copy of `whole` in which `part` is at index `number` of the first
/// dimension.
static ReferenceTensor putPart(RankedTensorType type,
                               const ReferenceTensor &part,
                               const ReferenceTensor &whole, int64_t number) {
  int64_t partBytes = bytesOf(type) / std::max<int64_t>(type.getDimSize(0), 1);
  ReferenceTensor made = makeReferenceZeros(type);
  std::memcpy(made.get(), whole.get(), bytesOf(type));
  std::memcpy(made.get() + number * partBytes, part.get(), partBytes);
  return made;
}

namespace {

/// The tensors of one stage at the current point of the step. Each slice has
/// its own, but slices share parameters, gradients and the tensors that they
/// pass on.
class StageValues {
public:
  void setSlice(int64_t number) { slice = number; }
  ReferenceTensor get(Role role, StringRef name = "") const {
    return values.lookup(key(role, name));
  }
  void set(Role role, StringRef name, ReferenceTensor value) {
    values[key(role, name)] = std::move(value);
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
  llvm::StringMap<ReferenceTensor> values;
  int64_t slice = 0;
};

class StepRunner {
public:
  StepRunner(ReferenceCaller &caller, const StageFunctions &functions,
             const PersistentLayout &layout, int64_t step, char *block)
      : caller(caller), functions(functions), layout(layout), block(block),
        values(functions.stages.size()), step(step) {}

  void run(int64_t numMicrobatches, bool updates);

private:
  void begin();
  void end();
  void sumTies();
  void setSlice(int64_t number);
  void beginSlices();
  void copyToEarlier(const Stage &stage);
  void runForward();
  void callShard(int64_t number, Kind kind);
  void runShards();
  void runBackward();
  void runMicrobatch();
  ReferenceArgument argumentOf(const RoleValue &value,
                               const StageValues &known) const;
  void call(const StageFunction *function, StageValues &known);
  void keepLoss();

  ReferenceCaller &caller;
  const StageFunctions &functions;
  const PersistentLayout &layout;
  char *block;
  std::vector<StageValues> values; ///< by stage
  ReferenceTensor losses;
  int64_t step, microbatch = 0, slice = 0, shard = 0;
};

} // namespace

//===----------------------------------------------------------------------===//
// Calls
//===----------------------------------------------------------------------===//

ReferenceArgument StepRunner::argumentOf(const RoleValue &value,
                                         const StageValues &known) const {
  switch (value.role) {
  case Role::Microbatch:
    return {nullptr, microbatch};
  case Role::Slice:
    return {nullptr, slice};
  case Role::Step:
    return {nullptr, step};
  case Role::Shard:
    return {nullptr, shard};
  default:
    break;
  }
  ReferenceTensor tensor = known.get(value.role, value.name);
  assert(tensor && "loading verifies roles");
  return {std::move(tensor)};
}

/// Calls a function with the known tensors, and adds its results to them. A
/// gradient is added to the old sum, unless the function takes the old sum.
/// Does nothing if the function is null.
void StepRunner::call(const StageFunction *function, StageValues &known) {
  if (!function)
    return;
  std::vector<ReferenceArgument> arguments;
  for (const RoleValue &value : function->arguments)
    arguments.push_back(argumentOf(value, known));
  std::vector<ReferenceTensor> results = caller.call(*function, arguments);
  for (auto [value, result] : llvm::zip_equal(function->results, results)) {
    bool isGradient =
        value.role == Role::Gradient || value.role == Role::EarlierGradient;
    if (isGradient && !function->findArgument(value.role, value.name))
      result = caller.add(value.getTensorType(),
                          known.get(value.role, value.name), result);
    known.set(value.role, value.name, std::move(result));
  }
}

static const StageFunction *orNull(const std::optional<StageFunction> &given) {
  return given ? &*given : nullptr;
}

void StepRunner::keepLoss() {
  const RoleValue &loss = *functions.loss->findResult(Role::Loss);
  int64_t bytes = bytesOf(loss.getTensorType());
  std::memcpy(losses.get() + (microbatch * functions.numSlices + slice) * bytes,
              values.back().get(Role::Loss).get(), bytes);
}

//===----------------------------------------------------------------------===//
// A microbatch
//===----------------------------------------------------------------------===//

void StepRunner::setSlice(int64_t number) {
  slice = number;
  for (StageValues &known : values)
    known.setSlice(number);
}

/// Tensors that slices pass on start at zero.
void StepRunner::beginSlices() {
  for (const Stage &stage : functions.stages) {
    for (const NamedTensor &tensor : stage.earlier)
      values[stage.number].set(Role::Earlier, tensor.name,
                               makeReferenceZeros(tensor.type));
    for (const NamedTensor &tensor : stage.earlierGradients)
      values[stage.number].set(Role::EarlierGradient, tensor.name,
                               makeReferenceZeros(tensor.type));
  }
}

void StepRunner::copyToEarlier(const Stage &stage) {
  StageValues &known = values[stage.number];
  for (const NamedTensor &tensor : stage.earlier)
    known.set(Role::Earlier, tensor.name,
              putPart(tensor.type, known.get(Role::Residual, tensor.name),
                      known.get(Role::Earlier, tensor.name), slice));
}

void StepRunner::callShard(int64_t number, Kind kind) {
  int64_t stage = functions.shards[number];
  const StageFunction *function = functions.stages[stage].get(kind);
  StageValues &known = values[stage];
  shard = number;
  known.set(Role::LastOutput, "", values.back().get(Role::Output));
  if (function->findArgument(Role::Target))
    call(orNull(functions.target), known);
  call(function, known);
}

/// Runs the shards one after the other: first for the partials, then for the
/// gradients. The gradient of the last output is the sum over shards.
void StepRunner::runShards() {
  auto numShards = static_cast<int64_t>(functions.shards.size());
  for (int64_t number = 0; number < numShards; ++number)
    callShard(number, Kind::Shard);
  for (const NamedTensor &tensor : functions.partials) {
    ReferenceTensor all = makeReferenceZeros(tensor.type);
    for (auto [number, stage] : llvm::enumerate(functions.shards))
      all = putPart(tensor.type, values[stage].get(Role::Partial, tensor.name),
                    all, number);
    for (int64_t stage : functions.shards)
      values[stage].set(Role::Partials, tensor.name, all);
    values.back().set(Role::Partials, tensor.name, all);
  }
  ReferenceTensor sum;
  for (int64_t number = 0; number < numShards; ++number) {
    callShard(number, Kind::ShardBackward);
    ReferenceTensor part =
        values[functions.shards[number]].get(Role::LastOutputGradient);
    if (part)
      sum = sum ? caller.add(functions.lastOutputGradient, sum, part) : part;
  }
  if (sum)
    values.back().set(Role::OutputGradient, "", sum);
}

void StepRunner::runForward() {
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
  keepLoss();
}

void StepRunner::runBackward() {
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

/// Runs the forwards of the slices in order, then the backwards in reverse
/// order.
void StepRunner::runMicrobatch() {
  beginSlices();
  for (int64_t each = 0; each < functions.numSlices; ++each) {
    setSlice(each);
    runForward();
  }
  if (!functions.loss)
    return;
  for (int64_t each = functions.numSlices; each-- > 0;) {
    setSlice(each);
    runBackward();
  }
}

//===----------------------------------------------------------------------===//
// A step
//===----------------------------------------------------------------------===//

static Role roleOf(PersistentKind kind) {
  return kind == PersistentKind::Param   ? Role::Param
         : kind == PersistentKind::State ? Role::State
                                         : Role::Gradient;
}

void StepRunner::begin() {
  for (const PersistentTensor &tensor : layout.tensors) {
    if (tensor.kind == PersistentKind::Loss) {
      losses = makeReferenceZeros(tensor.type);
      continue;
    }
    bool isSum = tensor.kind == PersistentKind::Gradient;
    values[tensor.stage].set(roleOf(tensor.kind), tensor.name,
                             isSum ? makeReferenceZeros(tensor.type)
                                   : tensorIn(block, tensor));
  }
}

void StepRunner::end() {
  for (const PersistentTensor &tensor : layout.tensors) {
    ReferenceTensor made =
        tensor.kind == PersistentKind::Loss
            ? losses
            : values[tensor.stage].get(roleOf(tensor.kind), tensor.name);
    std::memmove(block + tensor.offset, made.get(), tensor.bytes);
  }
}

/// Replaces the gradients of tied parameters by their sum.
void StepRunner::sumTies() {
  for (const Tie &tie : functions.ties) {
    ReferenceTensor sum;
    for (auto [stage, index] : tie.gradients) {
      const NamedTensor &gradient = functions.stages[stage].gradients[index];
      ReferenceTensor own = values[stage].get(Role::Gradient, gradient.name);
      sum = sum ? caller.add(gradient.type, sum, own) : own;
    }
    for (auto [stage, index] : tie.gradients)
      values[stage].set(Role::Gradient,
                        functions.stages[stage].gradients[index].name, sum);
  }
}

void StepRunner::run(int64_t numMicrobatches, bool updates) {
  begin();
  for (microbatch = 0; microbatch < numMicrobatches; ++microbatch)
    runMicrobatch();
  if (updates) {
    sumTies();
    for (const Stage &stage : functions.stages)
      call(stage.get(Kind::Update), values[stage.number]);
  }
  end();
}

void pipesched::runReferenceStep(ReferenceCaller &caller,
                                 const StageFunctions &functions,
                                 const PersistentLayout &layout,
                                 int64_t numMicrobatches, bool updates,
                                 int64_t step, char *block) {
  StepRunner(caller, functions, layout, step, block)
      .run(numMicrobatches, updates);
}

void pipesched::runReferenceInit(ReferenceCaller &caller,
                                 const StageFunctions &functions,
                                 const PersistentLayout &layout, char *block) {
  for (const Stage &stage : functions.stages) {
    const StageFunction *init = stage.get(Kind::Init);
    if (!init)
      continue;
    std::vector<ReferenceTensor> made = caller.call(*init, {});
    for (auto [value, result] : llvm::zip_equal(init->results, made))
      for (const PersistentTensor &tensor : layout.tensors)
        if (tensor.kind == PersistentKind::Param &&
            tensor.stage == stage.number && tensor.name == value.name)
          std::memcpy(block + tensor.offset, result.get(), tensor.bytes);
  }
}
