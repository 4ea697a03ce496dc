//===- PipeCreate.cpp - pipe-create ---------------------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Adds a problem with one linear path.
//
//===----------------------------------------------------------------------===//

#include "../SchedulePass.h"
#include "PipeSched/Transforms/Passes.h"

namespace pipesched::pipe {
#define GEN_PASS_DEF_PIPECREATEPASS
#include "PipeSched/Transforms/Passes.h.inc"
} // namespace pipesched::pipe

using namespace mlir;
using namespace pipesched;
using namespace pipesched::pipe;

namespace {
struct PipeCreatePass final : pipe::impl::PipeCreatePassBase<PipeCreatePass> {
  using Base::Base;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    if (failed(check(module)))
      return signalPassFailure();
    auto builder = OpBuilder::atBlockEnd(module.getBody());
    auto schedule = ScheduleOp::create(builder, module.getLoc(), name, workers,
                                       microbatches);
    schedule.setSlices(slices);
    storePaths(schedule, placeLinear(workers));
  }

private:
  LogicalResult checkRange(StringRef option, int64_t value, int64_t most) {
    if (value >= 1 && value <= most)
      return success();
    return emitError(getOperation().getLoc())
           << "pipe-create needs " << option << " from 1 to " << most
           << ", got " << value;
  }

  LogicalResult check(ModuleOp module) {
    if (failed(checkRange("workers", workers, kMaxWorkers)) ||
        failed(
            checkRange("microbatches", microbatches, Cell::kMaxMicrobatches)) ||
        failed(checkRange("slices", slices,
                          Cell::kMaxMicrobatches / microbatches)))
      return failure();
    if (name.empty())
      return emitError(module.getLoc(), "pipe-create needs a name");
    if (Operation *other = SymbolTable::lookupSymbolIn(module, name)) {
      InFlightDiagnostic diagnostic = emitError(module.getLoc())
                                      << "pipe-create: the name @" << name
                                      << " is taken; give another name=";
      diagnostic.attachNote(other->getLoc()) << "here";
      return diagnostic;
    }
    return success();
  }
};
} // namespace
