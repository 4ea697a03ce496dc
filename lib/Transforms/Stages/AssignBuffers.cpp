//===- AssignBuffers.cpp - exec-assign-buffers ----------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Assigns places to the tensors of programs.
//
//===----------------------------------------------------------------------===//

#include "PipeSched/Stages/AssignBuffers.h"
#include "PipeSched/Stages/CompareArenas.h"
#include "PipeSched/Transforms/Passes.h"
#include "PipeSched/Transforms/SelectSchedules.h"

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

/// Reports the predicted peak next to the size of the arena, and explains the
/// difference.
static void report(const ArenaComparison &result, StringRef at,
                   int64_t numSlices, InFlightDiagnostic remark) {
  remark << "the memory analysis predicts " << result.predicted << " bytes";
  if (result.peakCell)
    remark << " at " << CellName{*result.peakCell, numSlices}.str();
  remark << ", the arena has " << result.arena << " at " << at;
  const std::pair<int64_t, StringRef> terms[] = {
      {-result.elsewhere, "the peak is not here"},
      {-result.unknown, "counted by the costs, kept by no function"},
      {-result.handedOver, "one tensor of two stages"},
      {-result.missing, "of the second half of a pair"},
      {result.ahead, "inputs received ahead"},
      {result.outputs, "outputs to be sent"},
      {result.gradients, "gradients and targets"},
      {result.passing, "used by this instruction alone"},
      {result.slices, "passed on by slices"},
      {result.alignment, "alignment"},
      {result.inFlight, "being sent or copied"},
      {result.gaps, "gaps"}};
  char before = ':';
  for (auto [bytes, what] : terms) {
    if (bytes == 0)
      continue;
    remark << std::string(1, before) << (bytes < 0 ? " - " : " + ")
           << (bytes < 0 ? -bytes : bytes) << " " << what;
    before = ',';
  }
}

static LogicalResult reportPeaks(exec::ProgramOp program) {
  FailureOr<CostInputs> costs = loadCosts(program);
  if (failed(costs) || !costs->model)
    return LogicalResult(costs);
  FailureOr<std::vector<ArenaComparison>> results =
      compareArenas(program, *costs);
  if (failed(results))
    return failure();
  FailureOr<LoadedProgram> loaded = loadProgram(program);
  if (failed(loaded))
    return failure();
  for (exec::WorkerOp worker : program.getWorkerOps()) {
    const ArenaComparison &result = (*results)[worker.getWorker()];
    if (result.arena == 0)
      continue;
    const Instruction &at = loaded->program.instructions[result.instruction];
    std::string where =
        at.is(InstructionKind::Compute) ? "" : (enumName(at.kind) + " ").str();
    report(result, where + loaded->program.nameOf(at.cell).str(),
           program.getNumSlices(), emitRemark(worker.getLoc()));
  }
  return success();
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
    FailureOr<SmallVector<exec::ProgramOp>> programs =
        pipe::selectPrograms(getOperation());
    if (failed(programs))
      return signalPassFailure();
    for (exec::ProgramOp program : *programs) {
      FailureOr<std::vector<ArenaUse>> uses = assignBuffers(program, *options);
      if (failed(uses))
        return signalPassFailure();
      if (!reportUse)
        continue;
      report(program, *uses);
      if (failed(reportPeaks(program)))
        return signalPassFailure();
    }
  }
};
} // namespace
