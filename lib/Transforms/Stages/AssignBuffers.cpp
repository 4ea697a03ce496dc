//===- AssignBuffers.cpp - exec-assign-buffers ----------------------------===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Gives the tensors of programs their places.
//
//===----------------------------------------------------------------------===//

#include "PipeSched/Stages/AssignBuffers.h"
#include "PipeSched/Transforms/Passes.h"

namespace pipesched::pipe {
#define GEN_PASS_DEF_EXECASSIGNBUFFERSPASS
#include "PipeSched/Transforms/Passes.h.inc"
} // namespace pipesched::pipe

using namespace mlir;
using namespace pipesched;

static void report(exec::ProgramOp program, ArrayRef<ArenaUse> uses) {
  for (exec::WorkerOp worker : program.getWorkerOps()) {
    const ArenaUse &use = uses[worker.getWorker()];
    emitRemark(worker.getLoc())
        << "worker " << worker.getWorker() << ": an arena of " << use.arena
        << " bytes holds at most " << use.activations
        << " of activations and at the same time " << use.messages
        << " of messages and gradients; " << use.padding
        << " are being sent, gaps or alignment; " << use.host
        << " bytes in host memory";
  }
}

namespace {
struct ExecAssignBuffersPass final
    : pipe::impl::ExecAssignBuffersPassBase<ExecAssignBuffersPass> {
  using Base::Base;

  void runOnOperation() override {
    FailureOr<BufferOptions> options = BufferOptions::create(
        getOperation().getLoc(), sends, inFlight, hostMemory);
    if (failed(options))
      return signalPassFailure();
    auto programs = getOperation().getOps<exec::ProgramOp>();
    if (programs.empty()) {
      emitError(
          getOperation().getLoc(),
          "the module has no exec.program; run convert-pipe-to-exec first");
      return signalPassFailure();
    }
    for (exec::ProgramOp program : programs) {
      FailureOr<std::vector<ArenaUse>> uses = assignBuffers(program, *options);
      if (failed(uses))
        return signalPassFailure();
      if (reportUse)
        report(program, *uses);
    }
  }
};
} // namespace
