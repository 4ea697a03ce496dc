//===- LoadCosts.cpp - What a schedule or program is priced by ------------===//
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
#include "PipeSched/Dialect/Pipe/IR/Pipe.h"
#include "PipeSched/Dialect/Pipe/IR/System.h"
#include "mlir/IR/BuiltinOps.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace pipesched;

/// The innermost module around `op` that describes a system, or null.
static ModuleOp findSystem(Operation *op) {
  auto module = op->getParentOfType<ModuleOp>();
  while (module && !module.getTargetSystemSpec())
    module = module->getParentOfType<ModuleOp>();
  return module;
}

template <typename OpTy>
static FailureOr<CostInputs> loadCostsOf(OpTy op) {
  CostInputs costs;
  if (FlatSymbolRefAttr name = op.getModelAttr()) {
    auto model = SymbolTable::lookupNearestSymbolFrom<pipe::ModelOp>(op, name);
    if (!model)
      return op.emitOpError() << "names " << name << ", which is no pipe.model";
    costs.model = model.toFacts();
  }
  if (pipe::ProfileAttr profile = op.getProfileAttr())
    costs.profile = profile.toFacts();
  if (ModuleOp module = findSystem(op)) {
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
