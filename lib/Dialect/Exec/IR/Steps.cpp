//===- Steps.cpp - Checks of the O and G of a program ---------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Sweeps over the instructions: an O or an all-reduce marks the stages whose
// parameters it updates or reduces, and no later gradient may be of a marked
// stage.
//
//===----------------------------------------------------------------------===//

#include "Collectives.h"
#include "PipeSched/Schedule/Kinds/PhaseSets.h"

using namespace mlir;
using namespace pipesched;
using namespace pipesched::exec;

namespace {
class StepVerifier {
public:
  StepVerifier(ArrayRef<Operation *> ops, const Placement &placement,
               const ParameterSets &sets)
      : ops(ops), placement(placement), sets(sets),
        lastGradients(placement.getNumGlobalStages()),
        marks(placement.getNumGlobalStages()) {}

  LogicalResult visitCells(ArrayRef<RunCell> cells);
  LogicalResult visitAllReduce(const CollectiveEnd &end);

private:
  LogicalResult verifyOwner(const RunCell &step) const;
  LogicalResult verifyGradient(const RunCell &run) const;
  template <typename Visit>
  void forEachUser(int64_t stage, BlockSpan blocks, Visit &&visit) const;

  ArrayRef<Operation *> ops;
  const Placement &placement;
  const ParameterSets &sets;
  // By global stage: its last B or W so far, and the first O or all-reduce of
  // its blocks.
  std::vector<std::optional<RunCell>> lastGradients;
  std::vector<Operation *> marks;
};
} // namespace

/// program_c13
LogicalResult StepVerifier::verifyOwner(const RunCell &step) const {
  int64_t stage = placement.globalStage(step.cell);
  if (sets.ownsAny(stage))
    return success();
  return pipe::emitTableError(ops[step.instruction])
         << "cell " << step.cell.str() << " has no blocks to step: "
         << sets.describeOwners(stage, Phase::Optimizer);
}

/// program_c14
LogicalResult StepVerifier::verifyGradient(const RunCell &run) const {
  Operation *mark = marks[placement.globalStage(run.cell)];
  if (!mark)
    return success();
  InFlightDiagnostic diagnostic =
      pipe::emitTableError(ops[run.instruction])
      << "runs " << pipe::nameCell(mark, run.cell).str()
      << (mark == ops[run.instruction] ? " beside" : " behind")
      << " the step or the all-reduce of its blocks";
  diagnostic.attachNote(mark->getLoc()) << "which is here";
  return diagnostic;
}

/// Visits the cells of one op: one cell, or two overlapped cells.
LogicalResult StepVerifier::visitCells(ArrayRef<RunCell> cells) {
  for (const RunCell &run : cells) {
    if (!run.cell.is(Phase::Optimizer))
      continue;
    if (failed(verifyOwner(run)))
      return failure();
    sets.forEachUser(placement.globalStage(run.cell), [&](int64_t stage) {
      if (!marks[stage])
        marks[stage] = ops[run.instruction];
    });
  }
  for (const RunCell &run : cells) {
    if (!run.cell.isIn(kGradientPhases))
      continue;
    if (failed(verifyGradient(run)))
      return failure();
    lastGradients[placement.globalStage(run.cell)] = run;
  }
  return success();
}

/// Calls `visit` with the stages that hold some of the blocks, which `stage`
/// owns. A stage that holds several sets of them is visited several times.
template <typename Visit>
void StepVerifier::forEachUser(int64_t stage, BlockSpan blocks,
                               Visit &&visit) const {
  auto pieces = sets.getReplicas().piecesIn(blocks);
  for (int64_t set : sets.ownedSetsOf(stage))
    if (auto held = sets.piecesOf(set);
        *held.begin() < *pieces.end() && *pieces.begin() < *held.end())
      for (int64_t user : sets.stagesOf(set))
        visit(user);
}

/// Whether an instruction waits for a compute of its worker, or for a later
/// compute. Computes run in the order of the worker, so a later compute ends
/// later.
static bool waitsFor(InstructionOpInterface op, Operation *compute) {
  return llvm::any_of(op.getWaits(), [&](Value token) {
    auto other = token.getDefiningOp<InstructionOpInterface>();
    return other && other.getInstructionKind() == InstructionKind::Compute &&
           (other == compute || compute->isBeforeInBlock(other));
  });
}

/// program_c14
LogicalResult StepVerifier::visitAllReduce(const CollectiveEnd &end) {
  auto op = cast<InstructionOpInterface>(ops[end.instruction]);
  Cell cell = *op.getInstructionCell();
  LogicalResult result = success();
  forEachUser(placement.globalStage(cell), end.name.blocks, [&](int64_t stage) {
    if (!marks[stage])
      marks[stage] = op;
    const std::optional<RunCell> &last = lastGradients[stage];
    if (failed(result) || !last || waitsFor(op, ops[last->instruction]))
      return;
    std::string gradient = pipe::nameCell(op, last->cell).str();
    InFlightDiagnostic diagnostic =
        pipe::emitTableError(op)
        << "of cell " << cell.str() << " does not wait for " << gradient
        << ", which adds to its gradients; add the token of 'compute "
        << gradient << "' to 'after'";
    diagnostic.attachNote(ops[last->instruction]->getLoc())
        << gradient << " is here";
    result = diagnostic;
  });
  return result;
}

LogicalResult exec::verifySteps(ArrayRef<RunCell> runs,
                                ArrayRef<CollectiveEnd> ends,
                                ArrayRef<Operation *> ops,
                                const Placement &placement,
                                const ParameterSets &sets) {
  StepVerifier verifier(ops, placement, sets);
  while (!runs.empty() || !ends.empty()) {
    if (runs.empty() || (!ends.empty() &&
                         ends.front().instruction < runs.front().instruction)) {
      if (failed(verifier.visitAllReduce(ends.front())))
        return failure();
      ends = ends.drop_front();
      continue;
    }
    ArrayRef<RunCell> cells = runs.take_while([&](const RunCell &run) {
      return run.instruction == runs.front().instruction;
    });
    if (failed(verifier.visitCells(cells)))
      return failure();
    runs = runs.drop_front(cells.size());
  }
  return success();
}
