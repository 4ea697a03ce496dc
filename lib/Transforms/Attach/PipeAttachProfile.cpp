//===- PipeAttachProfile.cpp - pipe-attach-profile ------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Sets measured times on schedules and programs.
//
//===----------------------------------------------------------------------===//

#include "CostOwners.h"
#include "PipeSched/Description/Description.h"
#include "PipeSched/Facts/ProfileText.h"
#include "PipeSched/Transforms/Passes.h"

namespace pipesched::pipe {
#define GEN_PASS_DEF_PIPEATTACHPROFILEPASS
#include "PipeSched/Transforms/Passes.h.inc"
} // namespace pipesched::pipe

using namespace mlir;
using namespace pipesched;
using namespace pipesched::pipe;

namespace {
struct PipeAttachProfilePass final
    : pipe::impl::PipeAttachProfilePassBase<PipeAttachProfilePass> {
  using Base::Base;

  void runOnOperation() override {
    if (failed(attach()))
      signalPassFailure();
  }

private:
  LogicalResult attach() {
    ModuleOp module = getOperation();
    FailureOr<SmallVector<PlacementOwnerOpInterface>> owners =
        selectCostOwners(module, schedule);
    FailureOr<OneOf> given =
        expectOne(module, getArgument(), "times", times, "file", file);
    if (failed(owners) || failed(given))
      return failure();
    llvm::Expected<Profile> profile =
        *given == OneOf::First ? parseProfile(times) : readProfile(file);
    if (!profile)
      return emitError(module.getLoc())
             << getArgument() << ": " << llvm::toString(profile.takeError());
    auto attribute = ProfileAttr::get(&getContext(), *profile);
    for (PlacementOwnerOpInterface owner : *owners)
      setProfile(owner, attribute);
    return success();
  }
};
} // namespace
