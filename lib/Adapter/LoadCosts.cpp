//===- LoadCosts.cpp - Costs of a schedule or program ---------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Looks up the model, the system and the profile, and the ties of functions.
//
//===----------------------------------------------------------------------===//

#include "PipeSched/Adapter/LoadCosts.h"
#include "PipeSched/Dialect/Exec/IR/Exec.h"
#include "PipeSched/Dialect/Pipe/IR/ScheduleTable.h"
#include "PipeSched/Dialect/Pipe/IR/StageRoles.h"
#include "PipeSched/Dialect/Pipe/IR/System.h"
#include "PipeSched/Support/CheckedInt.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Interfaces/FunctionInterfaces.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace pipesched;

ModuleOp pipesched::findSystemModule(Operation *op) {
  auto module = op->getParentOfType<ModuleOp>();
  auto hasSystem = [](ModuleOp module) {
    TargetSystemSpecInterface target = module.getTargetSystemSpec();
    return target && pipe::describesWorkers(target);
  };
  while (module && !hasSystem(module))
    module = module->getParentOfType<ModuleOp>();
  return module;
}

template <typename OpTy>
static pipe::ModelOp findModelOf(OpTy op) {
  FlatSymbolRefAttr name = op.getModelAttr();
  return name ? SymbolTable::lookupNearestSymbolFrom<pipe::ModelOp>(op, name)
              : nullptr;
}

pipe::ModelOp pipesched::findModel(Operation *scheduleOrProgram) {
  return llvm::TypeSwitch<Operation *, pipe::ModelOp>(scheduleOrProgram)
      .Case<pipe::ScheduleOp, exec::ProgramOp>(
          [](auto op) { return findModelOf(op); });
}

//===----------------------------------------------------------------------===//
// Ties
//===----------------------------------------------------------------------===//

namespace {
/// Reads ties from functions of stages. pipe-verify-stages checks them; this
/// class ignores ties of tensors whose size is unknown.
class TieReader {
public:
  std::vector<TiedGradients> read(Operation *owner);

private:
  void readStage(pipe::StageOp stage);
  void readFunction(FunctionOpInterface function, int64_t stage,
                    llvm::StringSet<> &known);

  SymbolTableCollection symbols;
  std::vector<TiedGradients> ties;
};
} // namespace

static std::optional<int64_t> bytesOf(Type type) {
  auto tensor = dyn_cast<RankedTensorType>(type);
  if (!tensor || !tensor.hasStaticShape() ||
      !tensor.getElementType().isIntOrFloat())
    return std::nullopt;
  CheckedInt bytes = tensor.getElementTypeBitWidth() / 8;
  for (int64_t size : tensor.getShape())
    bytes = bytes * size;
  if (!bytes.isValid())
    return std::nullopt;
  return bytes.get();
}

/// `known` are the parameters of the stage whose tie another function has
/// already stated. A parameter without a name is named by its position, as in
/// StageFunctions.
void TieReader::readFunction(FunctionOpInterface function, int64_t stage,
                             llvm::StringSet<> &known) {
  int64_t position = -1;
  for (auto [i, type] : llvm::enumerate(function.getArgumentTypes())) {
    Attribute param = function.getArgAttr(i, "pipe.param");
    if (!param)
      continue;
    ++position;
    auto tied = function.getArgAttrOfType<StringAttr>(i, pipe::kTiedAttrName);
    std::optional<int64_t> bytes = bytesOf(type);
    auto name = dyn_cast<StringAttr>(param);
    if (!tied || !bytes ||
        !known.insert(name ? name.str() : std::to_string(position)).second)
      continue;
    auto tie = llvm::find_if(ties, [&](const TiedGradients &other) {
      return other.name == tied.getValue();
    });
    if (tie == ties.end())
      tie = ties.insert(tie, TiedGradients{tied.str(), *bytes, {}});
    tie->stages.insert(llvm::upper_bound(tie->stages, stage), stage);
  }
}

void TieReader::readStage(pipe::StageOp stage) {
  llvm::StringSet<> known;
  for (const EnumName<pipe::StageFunctionKind> &kind :
       enumValues<pipe::StageFunctionKind>())
    if (FlatSymbolRefAttr name = stage.getFunction(kind.value))
      if (auto function =
              symbols.lookupNearestSymbolFrom<FunctionOpInterface>(stage, name))
        readFunction(function, stage.getStage(), known);
}

std::vector<TiedGradients> TieReader::read(Operation *owner) {
  for (auto stage : owner->getRegion(0).front().getOps<pipe::StageOp>())
    readStage(stage);
  return std::move(ties);
}

//===----------------------------------------------------------------------===//
// All costs
//===----------------------------------------------------------------------===//

template <typename OpTy>
static FailureOr<CostInputs> loadCostsOf(OpTy op) {
  CostInputs costs;
  if (std::optional<pipe::RecomputeKind> kind = op.getRecompute())
    costs.recompute = Recompute(*kind);
  if (FlatSymbolRefAttr name = op.getModelAttr()) {
    pipe::ModelOp model = findModelOf(op);
    if (!model)
      return op.emitOpError()
             << "names " << name << ", which is not a pipe.model";
    costs.model = model.toFacts();
    costs.ties = TieReader().read(op);
  }
  if (pipe::ProfileAttr profile = op.getProfileAttr())
    costs.profile = profile.toFacts();
  if (ModuleOp module = findSystemModule(op)) {
    FailureOr<SystemFacts> system =
        pipe::systemFromAttribute(module.getTargetSystemSpec(),
                                  [&] { return emitError(module.getLoc()); });
    if (failed(system))
      return failure();
    costs.system = std::move(*system);
  }
  return costs;
}

FailureOr<CostInputs> pipesched::loadCosts(Operation *scheduleOrProgram) {
  return llvm::TypeSwitch<Operation *, FailureOr<CostInputs>>(scheduleOrProgram)
      .Case<pipe::ScheduleOp, exec::ProgramOp>(
          [](auto op) { return loadCostsOf(op); });
}
