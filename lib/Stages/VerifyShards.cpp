//===- VerifyShards.cpp - Shards of a vocabulary --------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Verifies the head of a model in shards, one on each worker (arXiv
// 2411.05288):
//
//   S  shard           last output  ->  partials, residuals
//   Y                  partials of all shards, on all workers
//   T  shard_backward  last output, partials, residuals  ->  gradients
//   Z                  the sum of the gradients of the last output (Vocab-1)
//
//===----------------------------------------------------------------------===//

#include "PipeSched/Stages/PersistentLayout.h"
#include "PipeSched/Support/CheckedInt.h"
#include "VerifyStages.h"
#include <map>

using namespace mlir;
using namespace pipesched;
using namespace pipesched::pipe;
using Kind = StageFunctionKind;
using Role = StageRole;

namespace {
class ShardVerifier {
public:
  explicit ShardVerifier(StageFunctions &functions) : functions(functions) {}

  LogicalResult run();

private:
  InFlightDiagnostic emitError(const StageFunction &function,
                               const Stage &stage) {
    InFlightDiagnostic diagnostic = emitTableError(function.op);
    diagnostic << "is the " << enumName(function.kind) << " of stage "
               << stage.number << ", but ";
    return diagnostic;
  }
  LogicalResult collectShards();
  LogicalResult verifyArgument(const StageFunction &function,
                               const Stage &stage, const RoleValue &value);
  LogicalResult collectPartials(const Stage &stage);
  LogicalResult collectGradient(const Stage &stage);
  LogicalResult verifyPartials(const StageFunction &function);
  LogicalResult verifyLoss();

  StageFunctions &functions;
};
} // namespace

/// The stages with both functions.
LogicalResult ShardVerifier::collectShards() {
  for (const Stage &stage : functions.stages) {
    const StageFunction *shard = stage.get(Kind::Shard);
    const StageFunction *backward = stage.get(Kind::ShardBackward);
    if (!shard && !backward)
      continue;
    if (!shard || !backward)
      return emitTableError(stage.op)
             << "has " << (shard ? "a shard" : "a shard_backward") << " and no "
             << (shard ? "shard_backward" : "shard")
             << "; a shard of the logits needs both";
    functions.shards.push_back(stage.number);
  }
  return success();
}

LogicalResult ShardVerifier::verifyArgument(const StageFunction &function,
                                            const Stage &stage,
                                            const RoleValue &value) {
  auto fail = [&](RankedTensorType wanted, const Twine &of) {
    return emitError(function, stage)
           << "its pipe." << enumName(value.role) << " is " << value.type
           << ", and " << of << " is " << wanted;
  };
  if (value.role == Role::LastOutput) {
    const Stage &last = functions.stages.back();
    if (value.type != last.output)
      return fail(last.output, "the output of stage " + Twine(last.number));
  }
  if (value.role == Role::Target) {
    if (!functions.target)
      return emitError(function, stage)
             << "takes a pipe.target, but no clause 'target @..' names the "
                "function that makes it";
    RankedTensorType made =
        functions.target->findResult(Role::Target)->getTensorType();
    if (value.type != made)
      return fail(made, "what target makes");
  }
  return success();
}

LogicalResult ShardVerifier::collectPartials(const Stage &stage) {
  const StageFunction &shard = *stage.get(Kind::Shard);
  bool isFirst = stage.number == functions.shards.front();
  auto numShards = static_cast<int64_t>(functions.shards.size());
  size_t count = 0;
  for (const RoleValue &value : shard.results) {
    if (value.role != Role::Partial)
      continue;
    ++count;
    RankedTensorType one = value.getTensorType();
    SmallVector<int64_t> shape{numShards};
    llvm::append_range(shape, one.getShape());
    auto all = RankedTensorType::get(shape, one.getElementType());
    auto *known =
        llvm::find_if(functions.partials, [&](const NamedTensor &tensor) {
          return tensor.name == value.name;
        });
    if (isFirst) {
      CheckedInt bytes = CheckedInt(bytesOf(one)) * numShards;
      if (!bytes.isValid() || bytes.get() > kMaxStageBytes)
        return emitError(shard, stage)
               << "its pipe.partial \"" << value.name << "\" takes over "
               << kMaxStageBytes << " bytes for " << numShards << " shards";
      functions.partials.push_back({value.name, all, ""});
    } else if (known == functions.partials.end() || known->type != all) {
      return emitError(shard, stage)
             << "gives " << value.type << " as the pipe.partial \""
             << value.name << "\", which stage " << functions.shards.front()
             << " does not; all shards tell the same";
    }
  }
  if (count == functions.partials.size())
    return success();
  return emitError(shard, stage)
         << "gives " << count << " pipe.partial, and stage "
         << functions.shards.front() << " " << functions.partials.size()
         << "; all shards tell the same";
}

LogicalResult ShardVerifier::collectGradient(const Stage &stage) {
  const StageFunction &backward = *stage.get(Kind::ShardBackward);
  const RoleValue *value = backward.findResult(Role::LastOutputGradient);
  RankedTensorType given = value ? value->getTensorType() : RankedTensorType();
  if (stage.number == functions.shards.front()) {
    functions.lastOutputGradient = given;
    RankedTensorType output = functions.stages.back().output;
    if (given && given.getShape() != output.getShape())
      return emitError(backward, stage)
             << "its pipe.last_output_gradient is " << given
             << ", and the last output " << output
             << "; expected the same shape";
    return success();
  }
  if (given == functions.lastOutputGradient)
    return success();
  InFlightDiagnostic diagnostic = emitError(backward, stage);
  auto put = [&](RankedTensorType type) {
    if (type)
      diagnostic << type;
    else
      diagnostic << "nothing";
  };
  diagnostic << "gives ";
  put(given);
  diagnostic << " as pipe.last_output_gradient, and stage "
             << functions.shards.front() << " gives ";
  put(functions.lastOutputGradient);
  return diagnostic << "; all shards give a part of the sum, or none does";
}

LogicalResult ShardVerifier::verifyPartials(const StageFunction &function) {
  for (const RoleValue &value : function.arguments) {
    if (value.role != Role::Partials)
      continue;
    auto fail = [&]() -> InFlightDiagnostic {
      return emitTableError(function.op)
             << "is the " << enumName(function.kind) << " and takes "
             << value.type << " as the pipe.partials \"" << value.name
             << "\", ";
    };
    auto *given =
        llvm::find_if(functions.partials, [&](const NamedTensor &tensor) {
          return tensor.name == value.name;
        });
    if (given == functions.partials.end())
      return fail() << "but no shard gives a pipe.partial of that name";
    if (given->type != value.type)
      return fail() << "and those of " << functions.shards.size()
                    << (functions.shards.size() == 1 ? " shard" : " shards")
                    << " are " << given->type;
  }
  return success();
}

LogicalResult ShardVerifier::verifyLoss() {
  if (!functions.loss)
    return emitTableError(functions.stages.front().op->getParentOp())
           << "has shards of the logits, but no clause 'loss @..' names the "
              "function that makes the loss of their results";
  const StageFunction &loss = *functions.loss;
  if (functions.lastOutputGradient && loss.findResult(Role::OutputGradient))
    return emitTableError(loss.op)
           << "is the loss and gives a pipe.output_gradient, and so do the "
              "shards (pipe.last_output_gradient); expected one of them";
  return verifyPartials(loss);
}

LogicalResult ShardVerifier::run() {
  if (failed(collectShards()))
    return failure();
  if (functions.shards.empty())
    return functions.loss ? verifyPartials(*functions.loss) : success();
  for (int64_t number : functions.shards) {
    const Stage &stage = functions.stages[number];
    for (Kind kind : {Kind::Shard, Kind::ShardBackward})
      for (const RoleValue &value : stage.get(kind)->arguments)
        if (failed(verifyArgument(*stage.get(kind), stage, value)))
          return failure();
    if (failed(collectPartials(stage)) || failed(collectGradient(stage)))
      return failure();
  }
  for (int64_t number : functions.shards)
    if (failed(
            verifyPartials(*functions.stages[number].get(Kind::ShardBackward))))
      return failure();
  return verifyLoss();
}

LogicalResult pipesched::verifyShards(StageFunctions &functions) {
  return ShardVerifier(functions).run();
}

LogicalResult pipesched::verifyShardPlaces(const StageFunctions &functions,
                                           PlacementOwnerOpInterface owner) {
  if (functions.shards.empty())
    return success();
  for (PathOp op : owner->getRegion(0).front().getOps<PathOp>()) {
    Path path = op.toPath();
    std::map<int64_t, int64_t> counts; // number of shards by worker
    for (auto [stage, worker] : llvm::enumerate(path.workers))
      counts[worker] += functions.shardOf(stage).has_value();
    for (auto [worker, count] : counts)
      if (count != 1)
        return emitTableError(op)
               << "has " << count << " shards of the logits on worker "
               << worker << "; expected one on each worker of the path";
  }
  return success();
}

LogicalResult pipesched::verifyShardPhases(const StageFunctions &functions,
                                           const Stage &stage,
                                           PhaseSet phases) {
  bool runsShard = phases.contains(Phase::Logits);
  bool hasShard = stage.get(Kind::Shard) != nullptr;
  if (runsShard && !hasShard)
    return emitTableError(stage.op)
           << "runs S in this schedule and has no shard and shard_backward";
  if (!runsShard && hasShard && phases.contains(Phase::Forward))
    return emitTableError(stage.op)
           << "has a shard of the logits, and this schedule runs no S of it; "
              "expected a family that spreads the vocabulary over this stage, "
              "such as vocab-1f1b, or pipe-spread-vocabulary";
  bool sums = functions.lastOutputGradient != nullptr;
  if (!runsShard || sums == phases.contains(Phase::Reduce))
    return success();
  return emitTableError(stage.op)
         << (sums ? "gives a pipe.last_output_gradient, but this schedule has "
                    "no Z to sum it; expected vocabulary=vocab-1"
                  : "gives no pipe.last_output_gradient for Z to sum; expected "
                    "vocabulary=vocab-2, in which the loss gives the gradient");
}

//===----------------------------------------------------------------------===//
// Slices
//
// A slice reads residuals of earlier slices, such as keys and values, and its
// backward adds to their gradients. Without these gradients a model would
// silently train differently, so a stage must return them.
//===----------------------------------------------------------------------===//

/// The type must be slices x the shape of the residual of forward.
static LogicalResult verifyType(const Stage &stage, const NamedTensor &earlier,
                                int64_t numSlices) {
  const RoleValue *residual =
      stage.get(Kind::Forward)->findResult(Role::Residual, earlier.name);
  if (!residual)
    return emitTableError(stage.op)
           << "takes a pipe.earlier \"" << earlier.name
           << "\", and forward gives no pipe.residual of that name";
  RankedTensorType one = residual->getTensorType();
  SmallVector<int64_t> shape{numSlices};
  llvm::append_range(shape, one.getShape());
  auto wanted = RankedTensorType::get(shape, one.getElementType());
  if (earlier.type == wanted)
    return success();
  return emitTableError(stage.op)
         << "has " << earlier.type << " as its pipe.earlier \"" << earlier.name
         << "\"; expected " << wanted << ", its pipe.residual for each of "
         << numSlices << (numSlices == 1 ? " slice" : " slices");
}

static LogicalResult verifyGiven(const Stage &stage, const NamedTensor &earlier,
                                 const StageFunction &backward) {
  if (backward.findResult(Role::EarlierGradient, earlier.name))
    return success();
  return emitTableError(backward.op)
         << "is the " << enumName(backward.kind) << " of stage " << stage.number
         << ", which takes a pipe.earlier \"" << earlier.name
         << "\", but gives no pipe.earlier_gradient of that name: the "
            "gradients "
            "of earlier slices would be lost";
}

LogicalResult pipesched::verifyEarlier(const Stage &stage, int64_t numSlices) {
  for (const NamedTensor &earlier : stage.earlier) {
    if (failed(verifyType(stage, earlier, numSlices)))
      return failure();
    if (!isa<FloatType>(earlier.type.getElementType()))
      continue;
    for (Kind kind : {Kind::Backward, Kind::InputGradient})
      if (const StageFunction *function = stage.get(kind))
        if (failed(verifyGiven(stage, earlier, *function)))
          return failure();
  }
  for (const NamedTensor &gradient : stage.earlierGradients) {
    const auto *earlier =
        llvm::find_if(stage.earlier, [&](const NamedTensor &tensor) {
          return tensor.name == gradient.name;
        });
    if (earlier == stage.earlier.end())
      return emitTableError(stage.op)
             << "has a pipe.earlier_gradient \"" << gradient.name
             << "\" and takes no pipe.earlier of that name";
    if (gradient.type.getShape() != earlier->type.getShape())
      return emitTableError(stage.op)
             << "has " << gradient.type << " as its pipe.earlier_gradient \""
             << gradient.name << "\", and its pipe.earlier is " << earlier->type
             << "; expected the same shape";
  }
  return success();
}

LogicalResult pipesched::verifyTellsSlices(const StageFunction &function,
                                           int64_t numSlices) {
  if (numSlices == 1 || function.findArgument(Role::Slice))
    return success();
  return emitTableError(function.op)
         << "is the " << enumName(function.kind) << " of " << numSlices
         << " slices a microbatch and takes no pipe.slice, so that all slices "
            "would have the same; functions of whole microbatches need a "
            "schedule without slices";
}
