//===- LoadCosts.cpp - Costs of a schedule or program ---------------------===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Looks up the model, the system and the profile.
//
//===----------------------------------------------------------------------===//

#include "PipeSched/Adapter/LoadCosts.h"
#include "PipeSched/Dialect/Exec/IR/Exec.h"
#include "PipeSched/Dialect/Pipe/IR/ScheduleTable.h"
#include "PipeSched/Dialect/Pipe/IR/System.h"
#include "mlir/IR/BuiltinOps.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace pipesched;

ModuleOp pipesched::findSystemModule(Operation *op) {
  auto module = op->getParentOfType<ModuleOp>();
  while (module && !module.getTargetSystemSpec())
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

template <typename OpTy>
static FailureOr<CostInputs> loadCostsOf(OpTy op) {
  CostInputs costs;
  if (std::optional<pipe::RecomputeKind> kind = op.getRecompute())
    costs.recompute = Recompute(*kind);
  if (FlatSymbolRefAttr name = op.getModelAttr()) {
    pipe::ModelOp model = findModelOf(op);
    if (!model)
      return op.emitOpError() << "names " << name << ", which is no pipe.model";
    costs.model = model.toFacts();
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
