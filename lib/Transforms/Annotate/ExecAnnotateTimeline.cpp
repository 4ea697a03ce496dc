//===- ExecAnnotateTimeline.cpp - Times as attributes ---------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The pass exec-annotate-timeline. It is for tests and users; no other code
// reads the attributes that it writes.
//
//===----------------------------------------------------------------------===//

#include "PipeSched/Adapter/LoadCosts.h"
#include "PipeSched/Adapter/LoadProgram.h"
#include "PipeSched/Evaluation/Disturbance.h"
#include "PipeSched/Transforms/Passes.h"
#include "PipeSched/Transforms/SelectSchedules.h"

namespace pipesched::pipe {
#define GEN_PASS_DEF_EXECANNOTATETIMELINEPASS
#include "PipeSched/Transforms/Passes.h.inc"
} // namespace pipesched::pipe

using namespace mlir;
using namespace pipesched;

static void clearTimes(exec::ProgramOp program, StringAttr startName,
                       StringAttr endName) {
  for (exec::WorkerOp worker : program.getWorkerOps())
    for (Operation &op : *worker.getBody()) {
      op.removeDiscardableAttr(startName);
      op.removeDiscardableAttr(endName);
    }
}

/// Writes the times of all instructions. Send and receive of a message start
/// together. The send ends when the queue of the sender is free again, the
/// receive when the message has arrived.
static void writeTimes(const LoadedProgram &loaded, const Execution &execution,
                       StringAttr startName, StringAttr endName) {
  Builder builder(startName.getContext());
  const TaskGraph &graph = execution.graph;
  const TaskTimes &times = execution.times;
  for (auto [instruction, op] : llvm::enumerate(loaded.ops)) {
    uint32_t task = graph.taskOfInstruction[instruction];
    if (task == TaskGraph::kNone)
      continue;
    int64_t startPs = execution.timeline.startPs[task];
    int64_t endPs = startPs + times.occupancyPs[task];
    auto kind = cast<exec::InstructionOpInterface>(op).getInstructionKind();
    if (kind != InstructionKind::Send)
      endPs += times.latencyPs[task];
    op->setDiscardableAttr(startName, builder.getI64IntegerAttr(startPs));
    op->setDiscardableAttr(endName, builder.getI64IntegerAttr(endPs));
  }
}

static LogicalResult annotate(exec::ProgramOp program, Transport transport,
                              ForwardSends forwardSends, Runtime runtime,
                              const Disturbance &disturbance) {
  FailureOr<LoadedProgram> loaded = loadProgram(program);
  if (failed(loaded))
    return failure();
  FailureOr<CostInputs> costs = loadCosts(program);
  if (failed(costs))
    return failure();
  if (forwardSends == ForwardSends::Sync)
    synchronizeForwards(loaded->program);
  llvm::Expected<Execution> execution =
      executeProgram(loaded->program, loaded->placement, *costs, transport,
                     loaded->work, runtime, disturbance);
  if (!execution)
    return emitAnalysisError(program, *loaded, execution.takeError());
  auto startName = StringAttr::get(program.getContext(), "exec.start_ps");
  auto endName = StringAttr::get(program.getContext(), "exec.end_ps");
  clearTimes(program, startName, endName);
  writeTimes(*loaded, *execution, startName, endName);
  return success();
}

namespace {
struct ExecAnnotateTimelinePass final
    : pipe::impl::ExecAnnotateTimelinePassBase<ExecAnnotateTimelinePass> {
  using Base::Base;

  void runOnOperation() override {
    FailureOr<SmallVector<exec::ProgramOp>> programs =
        pipe::selectPrograms(getOperation());
    if (failed(programs))
      return signalPassFailure();
    llvm::Expected<Disturbance> read = parseDisturbance(disturbance);
    if (!read) {
      emitError(getOperation().getLoc(),
                "disturbance: " + llvm::toString(read.takeError()));
      return signalPassFailure();
    }
    for (exec::ProgramOp program : *programs)
      if (failed(annotate(program, transport, forwardSends, runtime, *read)))
        return signalPassFailure();
  }
};
} // namespace
