//===- PipeAttachSystem.cpp - pipe-attach-system --------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
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
    llvm::Expected<HardwareFacts> hardware = *given == OneOf::First
                                                 ? findSystem(name, rates)
                                                 : readSystem(file, rates);
    if (!hardware)
      return emitError(module.getLoc()) << llvm::toString(hardware.takeError());
    if (!hardware->groups.empty())
      return emitError(module.getLoc())
             << "system '" << hardware->name
             << "' has groups of nodes, which IR has no form for; the command "
                "and Python take them";
    llvm::Expected<SystemFacts> system = deployOn(std::move(*hardware));
    if (!system)
      return emitError(module.getLoc()) << llvm::toString(system.takeError());
    for (const std::string &note : system->notes)
      emitRemark(module.getLoc())
          << "system '" << system->name << "': " << note;
    FailureOr<TargetSystemSpecInterface> target =
        addSystem(module.getTargetSystemSpec(), &getContext(), *system,
                  [&] { return emitError(module.getLoc()); });
    if (failed(target))
      return failure();
    module->setAttr(DLTIDialect::kTargetSystemDescAttrName, *target);
    return success();
  }

  llvm::Expected<SystemFacts> deployOn(HardwareFacts hardware) const {
    if (accelerators != 0)
      if (llvm::Error error = setAccelerators(hardware, accelerators))
        return std::move(error);
    llvm::Expected<Deployment> deployment = readDeployment();
    if (!deployment)
      return errorOfSystem(hardware.name, deployment.takeError());
    return deploy(std::move(hardware), *deployment);
  }

  llvm::Expected<Deployment> readDeployment() const {
    Deployment deployment;
    const DeploymentOption *option = deploymentOptions().begin();
#define DEPLOYMENT_SET(value)                                                  \
  if (llvm::Error error = setOption(deployment, *option++, value))             \
    return std::move(error);
#define DEPLOYMENT_COUNT(member, ...) DEPLOYMENT_SET(member.getValue())
#define DEPLOYMENT_RATIO(member, ...) DEPLOYMENT_SET(member.getValue())
#define DEPLOYMENT_CHOICE(Enum, member, ...)                                   \
  DEPLOYMENT_SET(static_cast<int64_t>(member.getValue()))
#define DEPLOYMENT_SIZES(Enum, member, ...)                                    \
  DEPLOYMENT_SET(llvm::StringRef(member.getValue()))
#include "PipeSched/Facts/Deployment.def"
#undef DEPLOYMENT_SET
    return deployment;
  }
};
} // namespace
