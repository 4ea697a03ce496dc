//===- Dependences.cpp - What a cell waits for ----------------------------===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The rule in Dependences.h, for one cell at a time.
//
//===----------------------------------------------------------------------===//

#include "PipeSched/Schedule/Table/Dependences.h"
#include "llvm/ADT/STLExtras.h"

using namespace pipesched;

Dependences::Dependences(const TableView &table, const CellIndex &index)
    : placement(*table.placement), index(index),
      gradientAfter(table.gradientAfter), makers() {
  kAllPhases.forEach([&](Phase phase) {
    std::optional<Flow> flow = flowMadeBy(phase, gradientAfter);
    if (!flow)
      return;
    Makers &some = makers[static_cast<unsigned>(*flow)];
    assert(some.count < Makers::kMost && "more phases make a flow");
    some.phases[some.count++] = phase;
  });
}

/// Whether a stage has a cell that waits for a flow.
bool Dependences::isTaken(int64_t stage, int64_t unit, Flow flow) const {
  int64_t entry = index.entryOf(stage, unit);
  bool isNeeded = false;
  kTakers[static_cast<unsigned>(flow)].forEach([&](Phase phase) {
    isNeeded |= index.at(entry, phase) != CellIndex::kNone;
  });
  return isNeeded;
}

int64_t Dependences::messageDestination(Cell cell) const {
  std::optional<Flow> flow = flowMadeBy(cell.getPhase(), gradientAfter);
  if (!flow)
    return -1;
  int64_t path = placement.pathOf(cell.getUnit());
  int64_t numStages = placement.getNumStages(path);
  int64_t stage = 0;
  switch (traitsOf(*flow).reach) {
  case Reach::Next:
  case Reach::Previous:
    stage = targetOf(*flow, cell.getStage());
    if (stage < 0 || stage == numStages)
      return -1;
    break;
  case Reach::FromLast:
    return cell.getStage() == numStages - 1 ? kSeveral : -1;
  case Reach::ToLast:
    stage = numStages - 1;
    break;
  }
  int64_t worker = placement.workerOf(placement.stageOffset(path) + stage);
  if (worker == placement.workerOf(placement.globalStage(cell)) ||
      !isTaken(stage, cell.getUnit(), *flow))
    return -1;
  return worker;
}

void Dependences::forEachDestination(
    Cell cell, llvm::function_ref<void(int64_t)> visit) const {
  int64_t destination = messageDestination(cell);
  if (destination != kSeveral) {
    if (destination >= 0)
      visit(destination);
    return;
  }
  Flow flow = *flowMadeBy(cell.getPhase(), gradientAfter);
  int64_t path = placement.pathOf(cell.getUnit());
  int64_t own = placement.workerOf(placement.globalStage(cell));
  llvm::SmallVector<int64_t> workers;
  for (int64_t stage = 0; stage != placement.getNumStages(path); ++stage) {
    int64_t worker = placement.workerOf(placement.stageOffset(path) + stage);
    if (worker != own && isTaken(stage, cell.getUnit(), flow))
      workers.push_back(worker);
  }
  llvm::sort(workers);
  workers.erase(llvm::unique(workers), workers.end());
  llvm::for_each(workers, visit);
}
