//===- ExecOrderMessages.cpp - exec-order-messages ------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Moves the sends and receives of programs, and proves the new order.
//
//===----------------------------------------------------------------------===//

#include "PipeSched/Adapter/LoadProgram.h"
#include "PipeSched/Analysis/Proof/OrderMessages.h"
#include "PipeSched/Transforms/Passes.h"
#include "PipeSched/Transforms/SelectSchedules.h"

namespace pipesched::pipe {
#define GEN_PASS_DEF_EXECORDERMESSAGESPASS
#include "PipeSched/Transforms/Passes.h.inc"
} // namespace pipesched::pipe

using namespace mlir;
using namespace pipesched;

/// Places belong to an order of instructions.
static LogicalResult verifyNoBuffers(exec::ProgramOp program) {
  for (exec::WorkerOp worker : program.getWorkerOps())
    if (worker.getArena())
      return pipe::emitTableError(worker)
             << "has buffers for the order of its instructions; run "
                "exec-order-messages before exec-assign-buffers";
  return success();
}

static LogicalResult orderProgram(exec::ProgramOp program) {
  if (failed(verifyNoBuffers(program)))
    return failure();
  FailureOr<LoadedProgram> loaded = loadProgram(program);
  if (failed(loaded))
    return failure();
  llvm::Expected<std::vector<uint32_t>> order = orderMessages(loaded->program);
  if (!order)
    return emitAnalysisError(program, *loaded, order.takeError(),
                             "messages in any order");
  for (uint32_t instruction : *order) {
    Operation *op = loaded->ops[instruction];
    op->moveBefore(op->getBlock(), op->getBlock()->end());
  }
  return verifyMessages(program, MessageSemantics::Rendezvous);
}

namespace {
struct ExecOrderMessagesPass final
    : pipe::impl::ExecOrderMessagesPassBase<ExecOrderMessagesPass> {
  using Base::Base;

  void runOnOperation() override {
    if (failed(pipe::forEachProgram(getOperation(), orderProgram)))
      signalPassFailure();
  }
};
} // namespace
