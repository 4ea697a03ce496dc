//===- VerifyStages.cpp - Functions of stages together --------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// In a consistent stage, all functions use a role and name for the same tensor.
// In a consistent pipeline, the output of each stage is the input of the next
// one, and likewise for their gradients.
//
//===----------------------------------------------------------------------===//

#include "VerifyStages.h"
#include "PipeSched/Dialect/Pipe/IR/ScheduleTable.h"
#include "PipeSched/Stages/PersistentLayout.h"

using namespace mlir;
using namespace pipesched;
using namespace pipesched::pipe;

using Kind = StageFunctionKind;
using Role = StageRole;

//===----------------------------------------------------------------------===//
// Number of stages
//===----------------------------------------------------------------------===//

static InFlightDiagnostic emitPathError(PathOp path, PathOp first) {
  InFlightDiagnostic diagnostic = emitTableError(path);
  diagnostic.attachNote(first.getLoc()) << "the first path";
  return diagnostic;
}

FailureOr<int64_t> pipesched::countStages(PlacementOwnerOpInterface owner) {
  Block &body = owner->getRegion(0).front();
  auto paths = body.getOps<PathOp>();
  if (paths.empty())
    return llvm::range_size(body.getOps<StageOp>());
  if (failed(verifyChains(owner, "functions fill")))
    return failure();
  PathOp first = *paths.begin();
  Path wanted = first.toPath();
  for (PathOp op : paths) {
    Path path = op.toPath();
    if (!path.backward.isFull())
      return emitTableError(op)
             << "has stages that do not train; functions belong to stages that "
                "all train";
    if (path.workers.size() != wanted.workers.size())
      return emitPathError(op, first)
             << "has " << path.workers.size() << " stages and the first path "
             << wanted.workers.size()
             << "; functions belong to the stages of all paths alike";
    if (path.blocks != wanted.blocks || path.weights != wanted.weights)
      return emitPathError(op, first)
             << "splits the model differently from the first path; functions "
                "belong to the stages of all paths alike";
  }
  return wanted.workers.size();
}

//===----------------------------------------------------------------------===//
// One stage
//===----------------------------------------------------------------------===//

static const NamedTensor *findTensor(ArrayRef<NamedTensor> tensors,
                                     StringRef name) {
  for (const NamedTensor &tensor : tensors)
    if (tensor.name == name)
      return &tensor;
  return nullptr;
}

namespace {
class StageVerifier {
public:
  /// `data` and `target` are the functions that run in cells of the stage, or
  /// null.
  StageVerifier(Stage &stage, const StageFunction *data,
                const StageFunction *target, int64_t numSlices)
      : stage(stage), data(data), target(target), numSlices(numSlices) {}

  LogicalResult run();

private:
  InFlightDiagnostic emitError(const StageFunction &function) {
    InFlightDiagnostic diagnostic = emitTableError(function.op);
    diagnostic << "is the " << enumName(function.kind) << " of stage "
               << stage.number << ", but ";
    return diagnostic;
  }
  LogicalResult collect(const StageFunction &function);
  LogicalResult collect(const StageFunction &function, const RoleValue &value);
  LogicalResult collectParams(const StageFunction *function);
  LogicalResult unify(const StageFunction &function, const RoleValue &value,
                      RankedTensorType &known);
  LogicalResult unifyTies(const StageFunction &function, const RoleValue &value,
                          std::string &known);
  SmallVector<NamedTensor> *tensorsOf(Role role);
  RankedTensorType *tensorOf(Role role);
  LogicalResult verifyGradients();
  LogicalResult verifyShape(RankedTensorType gradient, RankedTensorType of,
                            StringRef what);
  LogicalResult verifyResiduals();
  LogicalResult verifyResidualUses(const StageFunction &function,
                                   ArrayRef<Kind> definers);
  LogicalResult verifyUpdate(const StageFunction &update);
  LogicalResult verifyInit(const StageFunction &init);

  Stage &stage;
  const StageFunction *data, *target;
  int64_t numSlices;
};
} // namespace

SmallVector<NamedTensor> *StageVerifier::tensorsOf(Role role) {
  switch (role) {
  case Role::Param:
    return &stage.params;
  case Role::Gradient:
    return &stage.gradients;
  case Role::State:
    return &stage.states;
  case Role::Residual:
    return &stage.residuals;
  case Role::Earlier:
    return &stage.earlier;
  case Role::EarlierGradient:
    return &stage.earlierGradients;
  default:
    return nullptr;
  }
}

RankedTensorType *StageVerifier::tensorOf(Role role) {
  switch (role) {
  case Role::Input:
    return &stage.input;
  case Role::Output:
    return &stage.output;
  case Role::OutputGradient:
    return &stage.outputGradient;
  case Role::InputGradient:
    return &stage.inputGradient;
  default:
    return nullptr;
  }
}

LogicalResult StageVerifier::unify(const StageFunction &function,
                                   const RoleValue &value,
                                   RankedTensorType &known) {
  if (!known)
    known = value.getTensorType();
  if (known == value.type)
    return success();
  InFlightDiagnostic diagnostic = emitError(function);
  diagnostic << "its pipe." << enumName(value.role);
  if (isNamedRole(value.role))
    diagnostic << " \"" << value.name << "\"";
  diagnostic << " is " << value.type
             << ", and in an earlier function of the stage " << known;
  diagnostic.attachNote(stage.op.getLoc()) << "the stage";
  return diagnostic;
}

LogicalResult StageVerifier::collect(const StageFunction &function,
                                     const RoleValue &value) {
  if (RankedTensorType *known = tensorOf(value.role))
    return unify(function, value, *known);
  SmallVector<NamedTensor> *tensors = tensorsOf(value.role);
  if (!tensors)
    return success();
  for (NamedTensor &tensor : *tensors)
    if (tensor.name == value.name)
      return failure(failed(unify(function, value, tensor.type)) ||
                     failed(unifyTies(function, value, tensor.tied)));
  tensors->push_back({value.name, value.getTensorType(), value.tied});
  return success();
}

/// Only one function must state that a parameter is tied.
LogicalResult StageVerifier::unifyTies(const StageFunction &function,
                                       const RoleValue &value,
                                       std::string &known) {
  if (known.empty())
    known = value.tied;
  if (value.tied.empty() || known == value.tied)
    return success();
  return emitError(function)
         << "its pipe.param \"" << value.name << "\" is tied as \""
         << value.tied << "\", and in an earlier function of the stage as \""
         << known << "\"";
}

LogicalResult StageVerifier::collect(const StageFunction &function) {
  for (const RoleValue &value : function.arguments)
    if (failed(collect(function, value)))
      return failure();
  for (const RoleValue &value : function.results)
    if (failed(collect(function, value)))
      return failure();
  return success();
}

/// Collects the samples that `data` and `target` read. They are parameters of
/// their stage without a gradient.
LogicalResult StageVerifier::collectParams(const StageFunction *function) {
  if (!function)
    return success();
  for (const RoleValue &value : function->arguments)
    if (value.role == Role::Param && failed(collect(*function, value)))
      return failure();
  return success();
}

LogicalResult StageVerifier::verifyShape(RankedTensorType gradient,
                                         RankedTensorType of, StringRef what) {
  if (!gradient || gradient.getShape() == of.getShape())
    return success();
  return emitTableError(stage.op)
         << "has " << gradient << " as the gradient of its " << what
         << ", which is " << of << "; expected the same shape";
}

LogicalResult StageVerifier::verifyGradients() {
  for (const NamedTensor &gradient : stage.gradients) {
    const NamedTensor *param = findTensor(stage.params, gradient.name);
    if (!param)
      return emitTableError(stage.op) << "has a gradient \"" << gradient.name
                                      << "\" and no parameter of that name";
    if (failed(verifyShape(gradient.type, param->type,
                           "parameter \"" + gradient.name + "\"")))
      return failure();
  }
  return failure(
      failed(verifyShape(stage.outputGradient, stage.output, "output")) ||
      failed(verifyShape(stage.inputGradient, stage.input, "input")));
}

/// Verifies that every residual that a function takes comes from one of
/// `definers`.
LogicalResult StageVerifier::verifyResidualUses(const StageFunction &function,
                                                ArrayRef<Kind> definers) {
  auto isDefined = [&](const RoleValue &value) {
    return llvm::any_of(definers, [&](Kind kind) {
      const StageFunction *definer = stage.get(kind);
      return definer && definer->findResult(Role::Residual, value.name);
    });
  };
  for (const RoleValue &value : function.arguments)
    if (value.role == Role::Residual && !isDefined(value))
      return emitError(function)
             << "takes a pipe.residual \"" << value.name << "\" that "
             << (definers.size() == 1
                     ? (enumName(definers.front()) + " does not give").str()
                     : "neither forward nor input_gradient gives");
  return success();
}

LogicalResult StageVerifier::verifyResiduals() {
  const StageFunction &forward = *stage.get(Kind::Forward);
  for (Kind kind : {Kind::Recompute, Kind::Backward, Kind::InputGradient})
    if (const StageFunction *function = stage.get(kind))
      if (failed(verifyResidualUses(*function, {Kind::Forward})))
        return failure();
  if (const StageFunction *weight = stage.get(Kind::WeightGradient))
    if (failed(
            verifyResidualUses(*weight, {Kind::Forward, Kind::InputGradient})))
      return failure();
  if (const StageFunction *shard = stage.get(Kind::ShardBackward))
    if (failed(verifyResidualUses(*shard, {Kind::Shard})))
      return failure();
  for (Kind kind : {Kind::Recompute, Kind::InputGradient, Kind::Shard}) {
    const StageFunction *function = stage.get(kind);
    if (!function)
      continue;
    bool mustBeForwards = kind == Kind::Recompute;
    for (const RoleValue &value : function->results)
      if (value.role == Role::Residual &&
          (forward.findResult(Role::Residual, value.name) != nullptr) !=
              mustBeForwards)
        return emitError(*function)
               << "gives a pipe.residual \"" << value.name << "\" that forward "
               << (mustBeForwards ? "does not give" : "gives as well");
  }
  return success();
}

LogicalResult StageVerifier::verifyUpdate(const StageFunction &update) {
  for (const RoleValue &value : update.arguments) {
    if (value.role == Role::State &&
        !update.findResult(Role::State, value.name))
      return emitError(update) << "takes a pipe.state \"" << value.name
                               << "\" and does not give its next value";
    if (value.role != Role::Gradient)
      continue;
    bool isGiven = llvm::any_of(
        ArrayRef{Kind::Backward, Kind::WeightGradient, Kind::ShardBackward},
        [&](Kind kind) {
          const StageFunction *function = stage.get(kind);
          return function && function->findResult(Role::Gradient, value.name);
        });
    if (!isGiven)
      return emitError(update) << "takes a pipe.gradient \"" << value.name
                               << "\" that no function of the stage gives";
  }
  for (const RoleValue &value : update.results)
    if (value.role == Role::State &&
        !update.findArgument(Role::State, value.name))
      return emitError(update) << "gives a pipe.state \"" << value.name
                               << "\" that it does not take";
  return success();
}

LogicalResult StageVerifier::verifyInit(const StageFunction &init) {
  for (const NamedTensor &param : stage.params)
    if (!init.findResult(Role::Param, param.name))
      return emitError(init)
             << "does not give the pipe.param \"" << param.name << "\"";
  return success();
}

LogicalResult StageVerifier::run() {
  const StageFunction &forward = *stage.get(Kind::Forward);
  if (!forward.findArgument(Role::Input))
    return emitError(forward) << "has no argument with pipe.input";
  if (failed(collect(forward)))
    return failure();
  for (const EnumName<Kind> &entry : enumValues<Kind>())
    if (const StageFunction *function = stage.get(entry.value))
      if (failed(collect(*function)))
        return failure();
  if (failed(collectParams(data)) || failed(collectParams(target)))
    return failure();
  if (failed(verifyGradients()) || failed(verifyResiduals()) ||
      failed(verifyEarlier(stage, numSlices)))
    return failure();
  if (const StageFunction *update = stage.get(Kind::Update))
    if (failed(verifyUpdate(*update)))
      return failure();
  const StageFunction *init = stage.get(Kind::Init);
  return init ? verifyInit(*init) : success();
}

//===----------------------------------------------------------------------===//
// Stages together
//===----------------------------------------------------------------------===//

static LogicalResult verifyNeighbours(const Stage &stage, const Stage &next) {
  if (stage.output != next.input)
    return emitTableError(next.op)
           << "has the input " << next.input << ", and stage " << stage.number
           << " the output " << stage.output;
  if (!stage.outputGradient)
    return success();
  if (!next.inputGradient)
    return emitTableError(next.op)
           << "gives no pipe.input_gradient, which stage " << stage.number
           << " takes as its pipe.output_gradient";
  if (stage.outputGradient != next.inputGradient)
    return emitTableError(next.op)
           << "gives the input gradient " << next.inputGradient
           << ", and stage " << stage.number << " takes "
           << stage.outputGradient;
  return success();
}

/// Sets the type of a gradient that a message carries and that one or both
/// stages do not define. If no earlier stage trains, the type is a single
/// number.
static void completeGradient(Stage &stage, Stage &next) {
  if (!next.inputGradient)
    next.inputGradient =
        RankedTensorType::get({1}, next.input.getElementType());
  if (!stage.outputGradient)
    stage.outputGradient = next.inputGradient;
}

static LogicalResult verifySame(const StageFunction &function, Role role,
                                RankedTensorType found, int64_t stage,
                                Role stageRole, RankedTensorType wanted) {
  if (found == wanted)
    return success();
  return emitTableError(function.op)
         << "is the " << enumName(function.kind) << ", but its pipe."
         << enumName(role) << " is " << found << ", and the pipe."
         << enumName(stageRole) << " of stage " << stage << " is " << wanted;
}

/// The loss may return a gradient that the backward of the last stage does not
/// take. This gradient needs a place, too.
static LogicalResult verifyLoss(StageFunctions &functions) {
  Stage &last = functions.stages.back();
  if (!functions.loss)
    return success();
  const StageFunction &loss = *functions.loss;
  if (const RoleValue *output = loss.findArgument(Role::Output))
    if (failed(verifySame(loss, Role::Output, output->getTensorType(),
                          last.number, Role::Output, last.output)))
      return failure();
  if (const RoleValue *target = loss.findArgument(Role::Target)) {
    if (!functions.target)
      return emitTableError(loss.op)
             << ("is the loss and takes a pipe.target, but no clause 'target "
                 "@..' names the function that makes it");
    RankedTensorType made =
        functions.target->findResult(Role::Target)->getTensorType();
    if (made != target->type)
      return emitTableError(loss.op)
             << "is the loss, but its pipe.target is " << target->type
             << ", and target makes " << made;
  }
  const RoleValue *gradient = loss.findResult(Role::OutputGradient);
  RankedTensorType given =
      gradient ? gradient->getTensorType() : functions.lastOutputGradient;
  if (!last.outputGradient) {
    last.outputGradient = given;
    return success();
  }
  if (!gradient && given) {
    const Stage &first = functions.stages[functions.shards.front()];
    return verifySame(*first.get(Kind::ShardBackward), Role::LastOutputGradient,
                      given, last.number, Role::OutputGradient,
                      last.outputGradient);
  }
  if (!gradient)
    return emitTableError(loss.op)
           << "is the loss, but has no result with pipe.output_gradient, which "
              "stage "
           << last.number << " takes";
  return verifySame(loss, Role::OutputGradient, gradient->getTensorType(),
                    last.number, Role::OutputGradient, last.outputGradient);
}

//===----------------------------------------------------------------------===//
// Ties
//===----------------------------------------------------------------------===//

static bool updates(const Stage &stage, StringRef param) {
  const StageFunction *update = stage.get(Kind::Update);
  return update && update->findResult(Role::Param, param);
}

/// Adds a tied parameter to its tie, of which `first` is a member.
static LogicalResult addToTie(Tie &tie, ArrayRef<Stage> stages,
                              const Stage &stage, const NamedTensor &param) {
  auto fail = [&]() -> InFlightDiagnostic {
    return emitTableError(stage.op) << "ties its pipe.param \"" << param.name
                                    << "\" as \"" << tie.name << "\", but ";
  };
  const NamedTensor *gradient = findTensor(stage.gradients, param.name);
  if (!gradient)
    return fail() << "none of its functions gives a gradient of it";
  if (!tie.gradients.empty()) {
    auto [number, index] = tie.gradients.front();
    const Stage &first = stages[number];
    const NamedTensor &other = first.gradients[index];
    if (other.type != gradient->type)
      return fail() << "its gradient is " << gradient->type << ", and that of "
                    << "stage " << number << " " << other.type;
    if (updates(first, other.name) != updates(stage, param.name))
      return fail() << "of the stages " << number << " and " << stage.number
                    << " only one updates it";
  }
  tie.gradients.push_back(
      {stage.number,
       static_cast<unsigned>(gradient - stage.gradients.begin())});
  return success();
}

static LogicalResult collectTies(StageFunctions &functions) {
  for (const Stage &stage : functions.stages)
    for (const NamedTensor &param : stage.params) {
      if (param.tied.empty())
        continue;
      auto found = llvm::find_if(functions.ties, [&](const Tie &tie) {
        return tie.name == param.tied;
      });
      if (found == functions.ties.end())
        found = functions.ties.insert(found, Tie{param.tied, {}});
      if (failed(addToTie(*found, functions.stages, stage, param)))
        return failure();
    }
  return success();
}

//===----------------------------------------------------------------------===//
// All stages
//===----------------------------------------------------------------------===//

/// Every tensor is laid out once, so offsets in the persistent blocks fit if
/// the sum over all stages fits.
static LogicalResult verifyBytes(ArrayRef<Stage> stages) {
  int64_t total = 0;
  auto add = [&](RankedTensorType type) {
    if (type && total <= kMaxStageBytes)
      total += alignToSlot(bytesOf(type));
  };
  for (const Stage &stage : stages) {
    for (const auto *tensors :
         {&stage.params, &stage.gradients, &stage.states, &stage.residuals,
          &stage.earlier, &stage.earlierGradients})
      for (const NamedTensor &tensor : *tensors)
        add(tensor.type);
    for (RankedTensorType type :
         {stage.input, stage.output, stage.outputGradient, stage.inputGradient})
      add(type);
    if (total > kMaxStageBytes)
      return emitTableError(stage.op)
             << "makes the tensors of stages 0 to " << stage.number
             << " take over " << kMaxStageBytes << " bytes together";
  }
  return success();
}

static bool takesTarget(const Stage &stage) {
  return llvm::any_of(ArrayRef{Kind::Shard, Kind::ShardBackward},
                      [&](Kind kind) {
                        const StageFunction *function = stage.get(kind);
                        return function && function->findArgument(Role::Target);
                      });
}

LogicalResult pipesched::verifyStageFunctions(StageFunctions &functions) {
  auto orNull = [](const std::optional<StageFunction> &function, bool runs) {
    return function && runs ? &*function : nullptr;
  };
  for (Stage &stage : functions.stages) {
    bool isLast = &stage == &functions.stages.back();
    StageVerifier verifier(
        stage, orNull(functions.data, stage.number == 0),
        orNull(functions.target, isLast || takesTarget(stage)),
        functions.numSlices);
    if (failed(verifier.run()))
      return failure();
  }
  ArrayRef<Stage> stages = functions.stages;
  if (failed(verifyBytes(stages)) || failed(collectTies(functions)) ||
      failed(verifyShards(functions)))
    return failure();
  for (auto [stage, next] : llvm::zip(stages, stages.drop_front()))
    if (failed(verifyNeighbours(stage, next)))
      return failure();
  for (size_t next = 1; next < stages.size(); ++next)
    completeGradient(functions.stages[next - 1], functions.stages[next]);
  for (const auto *function : {&functions.data, &functions.target})
    if (*function && failed(verifyTellsSlices(**function, functions.numSlices)))
      return failure();
  if (functions.data) {
    const RoleValue *made = functions.data->findResult(Role::Input);
    if (failed(verifySame(*functions.data, Role::Input, made->getTensorType(),
                          0, Role::Input, stages.front().input)))
      return failure();
  }
  return verifyLoss(functions);
}

//===----------------------------------------------------------------------===//
// Cells
//===----------------------------------------------------------------------===//

static LogicalResult verifyPhases(const Stage &stage, PhaseSet phases) {
  bool isSplit = stage.get(Kind::InputGradient) != nullptr &&
                 stage.get(Kind::WeightGradient) != nullptr;
  auto fail = [&](Phase phase, StringRef wanted) -> LogicalResult {
    return emitTableError(stage.op)
           << "runs " << phaseLetter(phase) << " in this schedule and has no "
           << wanted;
  };
  if (phases.contains(Phase::Backward) && !stage.get(Kind::Backward) &&
      !isSplit)
    return fail(Phase::Backward, "backward");
  if (phases.contains(Phase::InputGrad) && !isSplit)
    return fail(Phase::InputGrad,
                "input_gradient and weight_gradient; give both, or join I and "
                "W to B by pipe-merge-backward");
  if (phases.contains(Phase::Optimizer) && !stage.get(Kind::Update) &&
      !stage.gradients.empty())
    return fail(Phase::Optimizer, "update");
  return success();
}

LogicalResult
pipesched::verifyPhasesHaveFunctions(const StageFunctions &functions,
                                     ArrayRef<PhaseSet> phases) {
  for (auto [stage, ran] : llvm::zip(functions.stages, phases))
    if (failed(verifyPhases(stage, ran)) ||
        failed(verifyShardPhases(functions, stage, ran)))
      return failure();
  return success();
}
