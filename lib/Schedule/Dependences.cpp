//===- Dependences.cpp - What a cell waits for ----------------------------===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The rule in Dependences.h, for one cell at a time. Look-ups share the entry
// of the cell's own stage and microbatch.
//
//===----------------------------------------------------------------------===//

#include "PipeSched/Schedule/Dependences.h"

using namespace pipesched;

namespace {
/// Collects the flat indices of cells that exist.
struct Collector {
  uint32_t (&out)[Dependences::kMaxPredecessors];
  unsigned count = 0;

  void push(uint32_t flat) {
    if (flat != CellIndex::kNone)
      out[count++] = flat;
  }
};
} // namespace

unsigned Dependences::predecessors(Cell cell,
                                   uint32_t (&out)[kMaxPredecessors]) const {
  if (cell.isIdle() || cell.isPerPath())
    return 0;
  int64_t own = index.entryOf(cell.getStage(), cell.getMicrobatch());
  Collector preds{out};
  switch (cell.getPhase()) {
  case Phase::Forward:
    preds.push(producerOf(cell).flat);
    break;
  case Phase::Backward:
  case Phase::InputGrad:
    preds.push(index.at(own, Phase::Forward));
    preds.push(producerOf(cell).flat);
    preds.push(index.at(own, Phase::Recompute));
    preds.push(index.at(own, Phase::Reload));
    break;
  case Phase::WeightGrad:
    preds.push(index.at(own, Phase::InputGrad));
    break;
  case Phase::Recompute:
    preds.push(index.at(own, Phase::Forward));
    preds.push(index.at(own, Phase::Reload));
    break;
  case Phase::Offload:
    preds.push(index.at(own, Phase::Forward));
    break;
  case Phase::Reload:
  case Phase::OffloadJoin:
    preds.push(index.at(own, Phase::Offload));
    break;
  case Phase::ReloadJoin:
    preds.push(index.at(own, Phase::Reload));
    break;
  case Phase::Optimizer:
  case Phase::AllReduce:
  case Phase::Idle:
    break;
  }
  return preds.count;
}

int64_t Dependences::messageDestination(Cell cell) const {
  std::optional<Flow> flow = flowMadeBy(cell.getPhase(), gradientAfter);
  if (!flow)
    return -1;
  bool isGradient = *flow == Flow::Gradient;
  int64_t path = placement.pathOf(cell.getMicrobatch());
  int64_t stage = cell.getStage() + (isGradient ? -1 : 1);
  if (stage < 0 || stage == placement.getNumStages(path))
    return -1;
  int64_t global = placement.stageOffset(path) + stage;
  int64_t worker = placement.workerOf(global);
  if (worker == placement.workerOf(placement.globalStage(cell)))
    return -1;
  int64_t entry = index.entryOf(stage, cell.getMicrobatch());
  bool isNeeded =
      isGradient ? index.at(entry, Phase::Backward) != CellIndex::kNone ||
                       index.at(entry, Phase::InputGrad) != CellIndex::kNone
                 : index.at(entry, Phase::Forward) != CellIndex::kNone;
  return isNeeded ? worker : -1;
}
