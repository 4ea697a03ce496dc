//===- VerifyStages.cpp - pipe-verify-stages ------------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Verifies the functions of stages: their roles, their types, and that the
// cells of the rows have functions.
//
//===----------------------------------------------------------------------===//

#include "PipeSched/Dialect/Exec/IR/Exec.h"
#include "PipeSched/Stages/StageFunctions.h"
#include "PipeSched/Transforms/Passes.h"

namespace pipesched::pipe {
#define GEN_PASS_DEF_PIPEVERIFYSTAGESPASS
#include "PipeSched/Transforms/Passes.h.inc"
} // namespace pipesched::pipe

using namespace mlir;
using namespace pipesched;
using namespace pipesched::pipe;

namespace {
/// The phases that each stage runs.
class PhasesOfStages {
public:
  explicit PhasesOfStages(int64_t numStages) : sets(numStages) {}

  void add(Cell cell) {
    if (!cell.is(Phase::Idle) &&
        cell.getStage() < static_cast<int64_t>(sets.size()))
      sets[cell.getStage()] |= cell.getPhase();
  }
  ArrayRef<PhaseSet> get() const { return sets; }

private:
  std::vector<PhaseSet> sets;
};
} // namespace

static void collectPhases(PlacementOwnerOpInterface owner,
                          PhasesOfStages &phases) {
  owner->walk([&](Operation *op) {
    if (auto row = dyn_cast<pipe::WorkerOp>(op))
      for (Cell cell : row.getCells())
        phases.add(cell);
    if (auto instruction = dyn_cast<exec::InstructionOpInterface>(op)) {
      if (std::optional<Cell> cell = instruction.getInstructionCell())
        phases.add(*cell);
      if (std::optional<Cell> cell = instruction.getOverlappedCell())
        phases.add(*cell);
    }
  });
}

static LogicalResult verifyOwner(PlacementOwnerOpInterface owner) {
  FailureOr<StageFunctions> functions = loadStageFunctions(owner);
  if (failed(functions))
    return failure();
  PhasesOfStages phases(functions->stages.size());
  collectPhases(owner, phases);
  return verifyPhasesHaveFunctions(*functions, phases.get());
}

namespace {
struct PipeVerifyStagesPass final
    : pipe::impl::PipeVerifyStagesPassBase<PipeVerifyStagesPass> {
  using Base::Base;

  void runOnOperation() override {
    auto owners = getOperation().getOps<PlacementOwnerOpInterface>();
    if (owners.empty()) {
      emitError(getOperation().getLoc(),
                "the module has no pipe.schedule and no exec.program");
      return signalPassFailure();
    }
    for (PlacementOwnerOpInterface owner : owners)
      if (failed(verifyOwner(owner)))
        signalPassFailure();
    markAllAnalysesPreserved();
  }
};
} // namespace
