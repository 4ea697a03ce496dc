//===- ExecVerify.cpp - exec-verify ---------------------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Proves programs free of deadlock; loading them proves that instructions wait
// for their inputs. This is a separate pass and not part of pipe-verify: a
// program already says where its receives are, and it need not be a complete
// schedule.
//
//===----------------------------------------------------------------------===//

#include "PipeSched/Adapter/LoadProgram.h"
#include "PipeSched/Transforms/Passes.h"
#include "PipeSched/Transforms/SelectSchedules.h"

namespace pipesched::pipe {
#define GEN_PASS_DEF_EXECVERIFYPASS
#include "PipeSched/Transforms/Passes.h.inc"
} // namespace pipesched::pipe

using namespace mlir;
using namespace pipesched;

namespace {
struct ExecVerifyPass final : pipe::impl::ExecVerifyPassBase<ExecVerifyPass> {
  using Base::Base;

  void runOnOperation() override {
    auto verify = [&](exec::ProgramOp program) {
      return verifyMessages(program, messages);
    };
    if (failed(pipe::forEachProgram(getOperation(), verify)))
      signalPassFailure();
    markAllAnalysesPreserved();
  }
};
} // namespace
