//===- PipeAttachSystem.cpp - pipe-attach-system --------------------------===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Sets the target system of the module from a description.
//
//===----------------------------------------------------------------------===//

#include "CostOwners.h"
#include "PipeSched/Description/Description.h"
#include "PipeSched/Dialect/Pipe/IR/System.h"
#include "PipeSched/Transforms/Passes.h"
#include "mlir/Dialect/DLTI/DLTI.h"

namespace pipesched::pipe {
#define GEN_PASS_DEF_PIPEATTACHSYSTEMPASS
#include "PipeSched/Transforms/Passes.h.inc"
} // namespace pipesched::pipe

using namespace mlir;
using namespace pipesched;
using namespace pipesched::pipe;

namespace {
struct PipeAttachSystemPass final
    : pipe::impl::PipeAttachSystemPassBase<PipeAttachSystemPass> {
  using Base::Base;

  void runOnOperation() override {
    if (failed(attach()))
      signalPassFailure();
  }

private:
  LogicalResult attach() {
    ModuleOp module = getOperation();
    FailureOr<OneOf> given =
        expectOne(module, getArgument(), "name", name, "file", file);
    if (failed(given))
      return failure();
    llvm::Expected<SystemFacts> system =
        *given == OneOf::First ? findSystem(name) : readSystem(file);
    if (!system)
      return emitError(module.getLoc()) << llvm::toString(system.takeError());
    if (accelerators != 0)
      if (llvm::Error error = setAccelerators(*system, accelerators))
        return emitError(module.getLoc()) << llvm::toString(std::move(error));
    if (llvm::Error error = setDataParallel(*system, dataParallel))
      return emitError(module.getLoc()) << llvm::toString(std::move(error));
    system->sharding = sharding;
    system->rankOrder = rankOrder;
    if (llvm::Error error = setModelSplit(
            *system, {contextParallel, expertParallel, expertBalance,
                      contextExchange, expertDispatch}))
      return emitError(module.getLoc()) << llvm::toString(std::move(error));
    for (const std::string &note : system->notes)
      emitRemark(module.getLoc())
          << "system '" << system->name << "': " << note;
    module->setAttr(DLTIDialect::kTargetSystemDescAttrName,
                    systemToAttribute(&getContext(), *system));
    return success();
  }
};
} // namespace
