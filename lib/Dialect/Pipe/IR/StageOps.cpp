//===- StageOps.cpp - Functions of stages ---------------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Verifiers of the clauses that name functions, and of the attributes with the
// roles of arguments and results. pipe-verify-stages (lib/Stages) checks
// functions against each other, because this needs all of them.
//
//===----------------------------------------------------------------------===//

#include "PipeSched/Dialect/Pipe/IR/Pipe.h"
#include "mlir/Interfaces/FunctionInterfaces.h"
#include "llvm/ADT/DenseMap.h"
#include <map>

using namespace mlir;
using namespace pipesched;
using namespace pipesched::pipe;

//===----------------------------------------------------------------------===//
// Roles
//===----------------------------------------------------------------------===//

static constexpr RolePlace operator|(RolePlace a, RolePlace b) {
  return static_cast<RolePlace>(static_cast<uint8_t>(a) |
                                static_cast<uint8_t>(b));
}

/// By role: whether it may be an argument or a result in functions of each
/// kind, in the order of StageFunctionKind.
static constexpr RolePlace N = RolePlace::Nowhere, A = RolePlace::Argument,
                           R = RolePlace::Result, AR = A | R;
static constexpr RolePlace
    kPlaces[kNumEnumValues<StageRole>][kNumEnumValues<StageFunctionKind>] = {
        // init fwd rec bwd igr wgr upd shd shb data targ loss
        {R, A, A, A, A, A, AR, A, A, A, A, N},   // param
        {N, A, A, A, A, A, N, N, N, R, N, N},    // input
        {N, R, R, A, A, A, N, N, N, N, N, A},    // output
        {N, R, AR, A, AR, A, N, R, A, N, N, N},  // residual
        {N, N, N, A, A, A, N, N, N, N, N, R},    // output_gradient
        {N, N, N, R, R, N, N, N, N, N, N, N},    // input_gradient
        {N, N, N, AR, N, AR, A, N, AR, N, N, N}, // gradient
        {N, N, N, N, N, N, AR, N, N, N, N, N},   // state
        {N, N, N, N, N, N, N, A, A, N, R, A},    // target
        {N, N, N, N, N, N, N, N, N, N, N, R},    // loss
        {N, A, A, A, A, A, N, A, A, A, A, A},    // microbatch
        {N, A, A, A, A, A, N, A, A, A, A, A},    // slice
        {N, A, A, A, A, A, A, A, A, A, A, A},    // step
        {N, A, A, A, A, A, N, N, N, N, N, N},    // earlier
        {N, N, N, AR, AR, N, N, N, N, N, N, N},  // earlier_gradient
        {N, N, N, N, N, N, N, A, A, N, N, N},    // shard
        {N, N, N, N, N, N, N, A, A, N, N, N},    // last_output
        {N, N, N, N, N, N, N, N, R, N, N, N},    // last_output_gradient
        {N, N, N, N, N, N, N, R, N, N, N, N},    // partial
        {N, N, N, N, N, N, N, N, A, N, N, A}};   // partials

bool pipe::mayHaveRole(StageFunctionKind kind, StageRole role,
                       RolePlace place) {
  RolePlace places =
      kPlaces[static_cast<unsigned>(role)][static_cast<unsigned>(kind)];
  return (static_cast<uint8_t>(places) & static_cast<uint8_t>(place)) != 0;
}

bool pipe::isNamedRole(StageRole role) {
  return role == StageRole::Param || role == StageRole::Residual ||
         role == StageRole::Gradient || role == StageRole::State ||
         role == StageRole::Earlier || role == StageRole::EarlierGradient ||
         role == StageRole::Partial || role == StageRole::Partials;
}

static LogicalResult verifyRole(Operation *function, NamedAttribute attribute) {
  StringRef name = attribute.getName().strref();
  if (!name.consume_front("pipe."))
    return success();
  if (attribute.getName() == kTiedAttrName) {
    auto text = dyn_cast<StringAttr>(attribute.getValue());
    if (text && !text.empty())
      return success();
    return function->emitError()
           << "gives " << attribute.getName() << " the value "
           << attribute.getValue()
           << ", expected the name of what is tied, in quotes";
  }
  std::optional<StageRole> role = enumFromName<StageRole>(name);
  if (!role)
    return function->emitError()
           << "has an argument or result with the attribute "
           << attribute.getName() << ", expected pipe. and one of "
           << describeEnumNames<StageRole>();
  bool isText = isa<StringAttr>(attribute.getValue());
  if (isText && isNamedRole(*role) &&
      !cast<StringAttr>(attribute.getValue()).empty())
    return success();
  if (isa<UnitAttr>(attribute.getValue()))
    return success();
  return function->emitError()
         << "gives " << attribute.getName() << " the value "
         << attribute.getValue() << ", expected none"
         << (isNamedRole(*role) ? " or a name in quotes" : "");
}

LogicalResult PipeDialect::verifyRegionArgAttribute(Operation *op, unsigned,
                                                    unsigned,
                                                    NamedAttribute attribute) {
  return verifyRole(op, attribute);
}

LogicalResult
PipeDialect::verifyRegionResultAttribute(Operation *op, unsigned, unsigned,
                                         NamedAttribute attribute) {
  return verifyRole(op, attribute);
}

/// The kinds of functions into which an op can be outlined.
static constexpr StageFunctionKind kOutlinedKinds[] = {
    StageFunctionKind::Forward,       StageFunctionKind::Backward,
    StageFunctionKind::InputGradient, StageFunctionKind::WeightGradient,
    StageFunctionKind::Update,        StageFunctionKind::Loss};

LogicalResult PipeDialect::verifyOperationAttribute(Operation *op,
                                                    NamedAttribute attribute) {
  Attribute value = attribute.getValue();
  if (attribute.getName() == kStageAttrName) {
    auto number = dyn_cast<IntegerAttr>(value);
    if (number && number.getValue().getActiveBits() < 32)
      return success();
    return op->emitOpError()
           << "has the attribute " << attribute.getName() << " with the value "
           << value << ", expected the number of a stage from 0";
  }
  if (attribute.getName() != kPhaseAttrName)
    return success();
  auto name = dyn_cast<StringAttr>(value);
  SmallVector<StringRef> names;
  for (StageFunctionKind kind : kOutlinedKinds)
    names.push_back(enumName(kind));
  if (name && llvm::is_contained(names, name.getValue()))
    return success();
  return op->emitOpError() << "has the attribute " << attribute.getName()
                           << " with the value " << value
                           << ", expected one of \""
                           << llvm::join(names, "\", \"") << "\"";
}

//===----------------------------------------------------------------------===//
// Clauses
//===----------------------------------------------------------------------===//

/// stage_c1, data_c1, target_c1, loss_c1.
static LogicalResult verifyOwner(Operation *clause) {
  if (isa_and_nonnull<PlacementOwnerOpInterface>(clause->getParentOp()))
    return success();
  return clause->emitOpError(
      "must stand in a pipe.schedule or an exec.program");
}

/// stage_c3, data_c2, target_c2, loss_c2.
static LogicalResult verifyFunction(Operation *clause, StageFunctionKind kind,
                                    FlatSymbolRefAttr name,
                                    SymbolTableCollection &symbols) {
  if (!name ||
      symbols.lookupNearestSymbolFrom<FunctionOpInterface>(clause, name))
    return success();
  return emitTableError(clause)
         << "names " << name << " as its " << enumName(kind)
         << ", which is not a function";
}

FlatSymbolRefAttr StageOp::getFunction(StageFunctionKind kind) {
  switch (kind) {
  case StageFunctionKind::Init:
    return getInitAttr();
  case StageFunctionKind::Forward:
    return getForwardAttr();
  case StageFunctionKind::Recompute:
    return getRecomputeAttr();
  case StageFunctionKind::Backward:
    return getBackwardAttr();
  case StageFunctionKind::InputGradient:
    return getInputGradientAttr();
  case StageFunctionKind::WeightGradient:
    return getWeightGradientAttr();
  case StageFunctionKind::Update:
    return getUpdateAttr();
  case StageFunctionKind::Shard:
    return getShardAttr();
  case StageFunctionKind::ShardBackward:
    return getShardBackwardAttr();
  case StageFunctionKind::Data:
  case StageFunctionKind::Target:
  case StageFunctionKind::Loss:
    return {};
  }
  llvm_unreachable("covered switch");
}

LogicalResult StageOp::verify() {
  if (getStage() < 0) // stage_c2
    return emitTableError(*this)
           << "has number " << getStage() << ", wanted zero or more";
  return verifyOwner(*this);
}

LogicalResult StageOp::verifySymbolUses(SymbolTableCollection &symbols) {
  for (const auto &entry : EnumNames<StageFunctionKind>::values)
    if (failed(verifyFunction(*this, entry.value, getFunction(entry.value),
                              symbols)))
      return failure();
  return success();
}

LogicalResult DataOp::verify() { return verifyOwner(*this); }
LogicalResult TargetOp::verify() { return verifyOwner(*this); }
LogicalResult LossOp::verify() { return verifyOwner(*this); }

LogicalResult DataOp::verifySymbolUses(SymbolTableCollection &symbols) {
  return verifyFunction(*this, getKind(), getFunctionAttr(), symbols);
}
LogicalResult TargetOp::verifySymbolUses(SymbolTableCollection &symbols) {
  return verifyFunction(*this, getKind(), getFunctionAttr(), symbols);
}
LogicalResult LossOp::verifySymbolUses(SymbolTableCollection &symbols) {
  return verifyFunction(*this, getKind(), getFunctionAttr(), symbols);
}

bool pipe::isHeaderOp(Operation &op) {
  return isa<PathOp, NodeOp, EdgeOp, StageOp, DataOp, TargetOp, LossOp>(op);
}

LogicalResult pipe::verifyClauses(PlacementOwnerOpInterface owner) {
  // Any number may be in the text, but a dense map reserves some numbers.
  std::map<int64_t, StageOp> stages;
  llvm::DenseMap<TypeID, Operation *> others;
  for (Operation &op : owner->getRegion(0).front()) {
    Operation *first = nullptr;
    if (auto stage = dyn_cast<StageOp>(op)) {
      auto [entry, isNew] = stages.try_emplace(stage.getStage(), stage);
      first = isNew ? nullptr : entry->second.getOperation();
    } else if (isa<DataOp, TargetOp, LossOp>(op)) {
      auto [entry, isNew] = others.try_emplace(op.getName().getTypeID(), &op);
      first = isNew ? nullptr : entry->second;
    }
    if (!first)
      continue;
    InFlightDiagnostic diagnostic = emitTableError(&op);
    if (auto stage = dyn_cast<StageOp>(op))
      diagnostic << "is a second clause of stage " << stage.getStage();
    else
      diagnostic << "is a second clause of its kind";
    diagnostic.attachNote(first->getLoc()) << "the first one";
    return diagnostic;
  }
  return success();
}
