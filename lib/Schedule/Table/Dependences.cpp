//===- Dependences.cpp - The dependences of cells -------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The rule in Dependences.h, for one cell at a time.
//
//===----------------------------------------------------------------------===//

#include "PipeSched/Schedule/Table/Dependences.h"
#include "llvm/ADT/STLExtras.h"

using namespace pipesched;

Dependences::Dependences(const TableView &table, const CellIndex &index)
    : placement(*table.placement), index(index),
      gradientAfter(table.gradientAfter) {
  kIndexedPhases.forEach([&](Phase phase) {
    if (std::optional<Flow> flow = flowNeededBy(phase)) {
      auto number = static_cast<unsigned>(*flow);
      takings[phase] = {&makers[number], traitsOf(*flow).reach};
      if (index.has(phase))
        takers[number].add(index.columnOf(phase));
    }
    if (std::optional<Flow> flow =
            flowMadeBy(phase, gradientAfter, StageBackward::Whole)) {
      auto number = static_cast<unsigned>(*flow);
      makings[phase] = {&takers[number], traitsOf(*flow).reach};
      if (index.has(phase))
        makers[number].add(index.columnOf(phase));
    }
  });
  auto gradient = static_cast<unsigned>(Flow::Gradient);
  inputMaking = {&takers[gradient], traitsOf(Flow::Gradient).reach};
  if (gradientAfter == GradientAfter::WeightGrad && !placement.trainsAll() &&
      index.has(Phase::InputGrad))
    makers[gradient].add(index.columnOf(Phase::InputGrad));
}

int64_t Dependences::messageDestination(Cell cell) const {
  const End &making = makingOf(cell);
  if (!making.others)
    return -1;
  int64_t path = placement.pathOf(cell.getUnit());
  int64_t numStages = placement.getNumStages(path);
  int64_t offset = placement.stageOffset(path), stage = 0;
  switch (making.reach) {
  case Reach::Next:
    stage = cell.getStage() + 1;
    if (stage == numStages)
      return -1;
    break;
  case Reach::Previous:
    stage = cell.getStage() - 1;
    if (stage < 0)
      return -1;
    break;
  case Reach::FromLast:
    return cell.getStage() == numStages - 1 ? kSeveral : -1;
  case Reach::ToLast:
    stage = numStages - 1;
    break;
  }
  int64_t worker = placement.workerOf(offset + stage);
  if (worker == placement.workerOf(offset + cell.getStage()))
    return -1;
  int64_t entry = placement.pairOf(offset + stage, cell.getUnit());
  return makerIn(entry, *making.others) == CellIndex::kNone ? -1 : worker;
}

void Dependences::forEachDestination(
    Cell cell, llvm::function_ref<void(int64_t)> visit) const {
  int64_t destination = messageDestination(cell);
  if (destination != kSeveral) {
    if (destination >= 0)
      visit(destination);
    return;
  }
  const Columns &takers = *makings[cell.getPhase()].others;
  int64_t path = placement.pathOf(cell.getUnit());
  int64_t own = placement.workerOf(placement.globalStage(cell));
  llvm::SmallVector<int64_t> workers;
  for (int64_t stage = 0; stage != placement.getNumStages(path); ++stage) {
    int64_t worker = placement.workerOf(placement.stageOffset(path) + stage);
    if (worker != own && isTaken(stage, cell.getUnit(), takers))
      workers.push_back(worker);
  }
  llvm::sort(workers);
  workers.erase(llvm::unique(workers), workers.end());
  llvm::for_each(workers, visit);
}
