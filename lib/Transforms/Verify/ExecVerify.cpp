//===- ExecVerify.cpp - exec-verify ---------------------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Proves that programs have no deadlock; loading them proves that instructions
// wait for their inputs. It is not part of pipe-verify, because a program
// already states where its receives are, and need not be a complete schedule.
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
