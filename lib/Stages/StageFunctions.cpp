//===- StageFunctions.cpp - Signatures of stage functions -----------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Reads roles and checks each function separately. VerifyStages.cpp checks
// functions against each other.
//
//===----------------------------------------------------------------------===//

#include "PipeSched/Stages/StageFunctions.h"
#include "PipeSched/Stages/ExternFunction.h"
#include "PipeSched/Support/CheckedInt.h"
#include "VerifyStages.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "llvm/ADT/SmallPtrSet.h"

using namespace mlir;
using namespace pipesched;
using namespace pipesched::pipe;

using Kind = StageFunctionKind;
using Role = StageRole;

static const RoleValue *find(ArrayRef<RoleValue> values, Role role,
                             StringRef name) {
  for (const RoleValue &value : values)
    if (value.role == role && (name.empty() || value.name == name))
      return &value;
  return nullptr;
}

const RoleValue *StageFunction::findArgument(Role role, StringRef name) const {
  return find(arguments, role, name);
}

const RoleValue *StageFunction::findResult(Role role, StringRef name) const {
  return find(results, role, name);
}

bool pipesched::hasStageFunctions(PlacementOwnerOpInterface owner) {
  return !owner->getRegion(0).front().getOps<StageOp>().empty();
}

//===----------------------------------------------------------------------===//
// Side effects
//===----------------------------------------------------------------------===//

namespace {
/// Follows the calls of a function; each function is visited once.
class EffectVerifier {
public:
  LogicalResult verify(FunctionOpInterface function);

private:
  LogicalResult verifyOp(Operation *op);
  LogicalResult verifyCall(CallOpInterface call);

  SymbolTableCollection symbols;
  llvm::SmallPtrSet<Operation *, 8> done, active;
};
} // namespace

LogicalResult EffectVerifier::verifyCall(CallOpInterface call) {
  auto callee = dyn_cast_or_null<FunctionOpInterface>(
      call.resolveCallableInTable(&symbols));
  if (!callee)
    return call->emitError(
        "calls a callee that is not a function of the module; functions of "
        "stages may only call functions of their module by name");
  if (active.contains(callee))
    return call->emitError("calls a function that is already running; "
                           "functions of stages do not call themselves");
  return verify(callee);
}

LogicalResult EffectVerifier::verifyOp(Operation *op) {
  if (auto call = dyn_cast<CallOpInterface>(op))
    return verifyCall(call);
  if (auto effects = dyn_cast<MemoryEffectOpInterface>(op)) {
    if (effects.hasNoEffect())
      return success();
  } else if (op->hasTrait<OpTrait::HasRecursiveMemoryEffects>() ||
             op->hasTrait<OpTrait::IsTerminator>()) {
    return success();
  }
  return op->emitError() << "'" << op->getName()
                         << "' may read or write memory; functions of stages "
                            "compute results only from arguments, on tensors";
}

LogicalResult EffectVerifier::verify(FunctionOpInterface function) {
  if (!done.insert(function).second)
    return success();
  auto declared = dyn_cast<func::FuncOp>(function.getOperation());
  if (declared && isExtern(declared))
    return success(succeeded(readExtern(declared)));
  if (function.isExternal())
    return function->emitError("has no body; a function of a stage, and every "
                               "function that it calls, needs one, or the "
                               "attribute ")
           << kExternName;
  active.insert(function);
  WalkResult result = function.getFunctionBody().walk([&](Operation *op) {
    return failed(verifyOp(op)) ? WalkResult::interrupt()
                                : WalkResult::advance();
  });
  active.erase(function);
  return failure(result.wasInterrupted());
}

//===----------------------------------------------------------------------===//
// Roles
//===----------------------------------------------------------------------===//

namespace {
/// Reads the arguments, or the results, of one function.
class RoleReader {
public:
  RoleReader(StageFunction &function, RolePlace place)
      : function(function), place(place) {}

  LogicalResult read(Type type, DictionaryAttr attributes);

private:
  InFlightDiagnostic emitError();
  FailureOr<Role> readRole(DictionaryAttr attributes, std::string &name);
  FailureOr<std::string> readTied(Role role, DictionaryAttr attributes);
  LogicalResult verifyType(Role role, Type type);
  SmallVector<RoleValue> &values() {
    return place == RolePlace::Argument ? function.arguments : function.results;
  }

  StageFunction &function;
  RolePlace place;
  int64_t counts[kNumEnumValues<Role>] = {};
};
} // namespace

/// Starts an error: "is used as forward of a stage: argument 2 ..".
InFlightDiagnostic RoleReader::emitError() {
  InFlightDiagnostic diagnostic = emitTableError(function.op);
  diagnostic << "is used as " << enumName(function.kind) << ", but its "
             << (place == RolePlace::Argument ? "argument " : "result ")
             << values().size() << " ";
  return diagnostic;
}

/// Returns "pipe.param or pipe.input": the roles that are allowed here.
static std::string describeRoles(Kind kind, RolePlace place) {
  SmallVector<std::string> names;
  for (const EnumName<Role> &entry : enumValues<Role>())
    if (mayHaveRole(kind, entry.value, place))
      names.push_back(("pipe." + entry.name).str());
  return names.empty() ? "none at all" : llvm::join(names, ", ");
}

FailureOr<Role> RoleReader::readRole(DictionaryAttr attributes,
                                     std::string &name) {
  std::optional<Role> role;
  for (NamedAttribute attribute :
       attributes ? attributes.getValue() : ArrayRef<NamedAttribute>()) {
    StringRef text = attribute.getName().strref();
    if (!text.consume_front("pipe.") || attribute.getName() == kTiedAttrName)
      continue;
    if (role)
      return emitError() << "has two roles, pipe." << enumName(*role)
                         << " and pipe." << text << "; expected one";
    role = enumFromName<Role>(text);
    if (auto stated = dyn_cast<StringAttr>(attribute.getValue()))
      name = stated.str();
  }
  if (!role)
    return emitError() << "has no role; expected an attribute out of "
                       << describeRoles(function.kind, place);
  if (!mayHaveRole(function.kind, *role, place))
    return emitError() << "has the role pipe." << enumName(*role)
                       << "; expected one out of "
                       << describeRoles(function.kind, place);
  return *role;
}

FailureOr<std::string> RoleReader::readTied(Role role,
                                            DictionaryAttr attributes) {
  auto tied =
      attributes ? attributes.getAs<StringAttr>(kTiedAttrName) : StringAttr();
  if (tied && role != Role::Param)
    return emitError() << "has " << kTiedAttrName << " beside pipe."
                       << enumName(role) << "; only a pipe.param can be tied";
  return tied ? tied.str() : std::string();
}

/// Whether compiled code stores elements without padding. LLVM stores an i24 in
/// four bytes and an f80 in sixteen.
static bool isStoredAsItsBits(Type element) {
  return element.isIntOrFloat() &&
         llvm::is_contained({8, 16, 32, 64}, element.getIntOrFloatBitWidth());
}

/// Whether the bytes and all strides are at most kMaxStageBytes. A size of 0
/// does not hide other sizes that are too large.
static bool hasFewBytes(RankedTensorType tensor) {
  CheckedInt bytes = tensor.getElementTypeBitWidth() / 8;
  for (int64_t size : tensor.getShape())
    bytes = bytes * std::max<int64_t>(size, 1);
  return bytes.isValid() && bytes.get() <= kMaxStageBytes;
}

LogicalResult RoleReader::verifyType(Role role, Type type) {
  if (role == Role::Microbatch || role == Role::Slice || role == Role::Step ||
      role == Role::Shard) {
    if (type.isInteger(64))
      return success();
    return emitError() << "has type " << type << "; pipe." << enumName(role)
                       << " is an i64";
  }
  auto tensor = dyn_cast<RankedTensorType>(type);
  if (!tensor || !tensor.hasStaticShape())
    return emitError() << "has type " << type
                       << "; expected a tensor whose sizes are all known";
  if (tensor.getEncoding())
    return emitError() << "has type " << type
                       << "; expected a tensor without an encoding";
  Type element = tensor.getElementType();
  if (!isStoredAsItsBits(element))
    return emitError() << "has type " << type
                       << "; expected numbers of 8, 16, 32 or 64 bits";
  if (!hasFewBytes(tensor))
    return emitError() << "has type " << type << "; expected at most "
                       << kMaxStageBytes << " bytes";
  if (role == Role::Loss && (tensor.getRank() != 0 || !isa<FloatType>(element)))
    return emitError() << "has type " << type
                       << "; a loss is one number, such as tensor<f32>";
  return success();
}

LogicalResult RoleReader::read(Type type, DictionaryAttr attributes) {
  std::string name;
  FailureOr<Role> role = readRole(attributes, name);
  if (failed(role) || failed(verifyType(*role, type)))
    return failure();
  FailureOr<std::string> tied = readTied(*role, attributes);
  if (failed(tied))
    return failure();
  int64_t &count = counts[static_cast<unsigned>(*role)];
  if (isNamedRole(*role)) {
    if (name.empty())
      name = std::to_string(count);
    if (find(values(), *role, name))
      return emitError() << "is a second pipe." << enumName(*role)
                         << " of the name \"" << name << "\"";
  } else if (count != 0) {
    return emitError() << "is a second pipe." << enumName(*role)
                       << "; expected at most one";
  }
  ++count;
  values().push_back({*role, std::move(name), type, std::move(*tied)});
  return success();
}

static LogicalResult readRoles(StageFunction &function) {
  func::FuncOp op = function.op;
  RoleReader arguments(function, RolePlace::Argument);
  for (auto [i, type] : llvm::enumerate(op.getArgumentTypes()))
    if (failed(arguments.read(type, op.getArgAttrDict(i))))
      return failure();
  RoleReader results(function, RolePlace::Result);
  for (auto [i, type] : llvm::enumerate(op.getResultTypes()))
    if (failed(results.read(type, op.getResultAttrDict(i))))
      return failure();
  return success();
}

/// Checks the results that every function of a kind must have.
static LogicalResult verifyHasResult(const StageFunction &function, Role role) {
  if (function.findResult(role))
    return success();
  return emitTableError(function.op)
         << "is used as " << enumName(function.kind)
         << ", but has no result with pipe." << enumName(role);
}

static LogicalResult verifyResults(const StageFunction &function) {
  switch (function.kind) {
  case Kind::Forward:
    return verifyHasResult(function, Role::Output);
  case Kind::Data:
    return verifyHasResult(function, Role::Input);
  case Kind::Target:
    return verifyHasResult(function, Role::Target);
  case Kind::Loss:
    return verifyHasResult(function, Role::Loss);
  case Kind::Shard:
    return verifyHasResult(function, Role::Partial);
  case Kind::Init:
  case Kind::Recompute:
  case Kind::Backward:
  case Kind::InputGradient:
  case Kind::WeightGradient:
  case Kind::Update:
  case Kind::ShardBackward:
    return success();
  }
  llvm_unreachable("covered switch");
}

//===----------------------------------------------------------------------===//
// Loading
//===----------------------------------------------------------------------===//

namespace {
class StageLoader {
public:
  explicit StageLoader(PlacementOwnerOpInterface owner) : owner(owner) {
    functions.numSlices = owner.getNumSlices();
  }

  FailureOr<StageFunctions> run();

private:
  LogicalResult loadStages();
  LogicalResult loadStage(StageOp op, Stage &stage);
  LogicalResult loadPipelineFunctions();
  FailureOr<StageFunction> loadFunction(Operation *clause, Kind kind,
                                        FlatSymbolRefAttr name);

  PlacementOwnerOpInterface owner;
  StageFunctions functions;
  SymbolTableCollection symbols;
  EffectVerifier effects;
};
} // namespace

FailureOr<StageFunction> StageLoader::loadFunction(Operation *clause, Kind kind,
                                                   FlatSymbolRefAttr name) {
  StageFunction function;
  function.kind = kind;
  function.op = symbols.lookupNearestSymbolFrom<func::FuncOp>(clause, name);
  if (!function.op)
    return emitTableError(clause)
           << "names " << name << " as its " << enumName(kind)
           << ", which is not a func.func";
  if (failed(effects.verify(function.op)) || failed(readRoles(function)) ||
      failed(verifyResults(function))) {
    emitRemark(clause->getLoc()) << "named here";
    return failure();
  }
  return function;
}

LogicalResult StageLoader::loadStage(StageOp op, Stage &stage) {
  stage.number = op.getStage();
  stage.op = op;
  for (const EnumName<Kind> &entry : enumValues<Kind>()) {
    FlatSymbolRefAttr name = op.getFunction(entry.value);
    if (!name)
      continue;
    FailureOr<StageFunction> function = loadFunction(op, entry.value, name);
    if (failed(function))
      return failure();
    stage.functions[static_cast<unsigned>(entry.value)] = std::move(*function);
  }
  return success();
}

/// Checks that each path has this number of stages, and that each stage has a
/// clause.
LogicalResult StageLoader::loadStages() {
  FailureOr<int64_t> numStages = countStages(owner);
  if (failed(numStages))
    return failure();
  functions.stages.resize(*numStages);
  for (StageOp op : owner->getRegion(0).front().getOps<StageOp>()) {
    if (op.getStage() >= *numStages)
      return emitTableError(op)
             << "is stage " << op.getStage() << ", but paths have "
             << *numStages << " stages (0 to " << *numStages - 1 << ")";
    if (failed(loadStage(op, functions.stages[op.getStage()])))
      return failure();
  }
  for (auto [number, stage] : llvm::enumerate(functions.stages))
    if (!stage.op)
      return emitTableError(owner)
             << "has no functions for stage " << number << " of " << *numStages
             << "; expected 'stage " << number << " forward @..'";
  return success();
}

LogicalResult StageLoader::loadPipelineFunctions() {
  auto load = [&](auto clauses, std::optional<StageFunction> &function) {
    for (auto clause : clauses) {
      FailureOr<StageFunction> loaded =
          loadFunction(clause, clause.getKind(), clause.getFunctionAttr());
      if (failed(loaded))
        return failure();
      function = std::move(*loaded);
    }
    return success();
  };
  Block &body = owner->getRegion(0).front();
  return failure(failed(load(body.getOps<DataOp>(), functions.data)) ||
                 failed(load(body.getOps<TargetOp>(), functions.target)) ||
                 failed(load(body.getOps<LossOp>(), functions.loss)));
}

FailureOr<StageFunctions> StageLoader::run() {
  if (!hasStageFunctions(owner)) {
    emitTableError(owner) << "names no functions of stages; expected clauses "
                             "such as 'stage 0 forward @f'";
    return failure();
  }
  if (failed(loadStages()) || failed(loadPipelineFunctions()) ||
      failed(verifyStageFunctions(functions)) ||
      failed(verifyShardPlaces(functions, owner)))
    return failure();
  return std::move(functions);
}

FailureOr<StageFunctions>
pipesched::loadStageFunctions(PlacementOwnerOpInterface owner) {
  return StageLoader(owner).run();
}
