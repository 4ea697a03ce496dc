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

#include "PipeSched/Schedule/Table/Dependences.h"

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
  const PhaseTraits &traits = traitsOf(cell.getPhase());
  if (traits.number != CellNumber::Unit)
    return 0;
  int64_t own = index.entryOf(cell);
  Collector preds{out};
  traits.order.needs.forEach(
      [&](Phase phase) { preds.push(index.at(own, phase)); });
  if (traits.flows.takes)
    preds.push(producerOf(cell).flat);
  traits.order.uses.forEach(
      [&](Phase phase) { preds.push(index.at(own, phase)); });
  return preds.count;
}

/// By Flow: the phases that wait for it.
static constexpr PhaseSet kTakers[] = {
    phasesWith([](const PhaseTraits &traits) {
      return traits.flows.takes && *traits.flows.takes == Flow::Activation;
    }),
    kBackwardStarts};

int64_t Dependences::messageDestination(Cell cell) const {
  std::optional<Flow> flow = flowMadeBy(cell.getPhase(), gradientAfter);
  if (!flow)
    return -1;
  int64_t path = placement.pathOf(cell.getUnit());
  int64_t stage = targetOf(*flow, cell.getStage());
  if (stage < 0 || stage == placement.getNumStages(path))
    return -1;
  int64_t global = placement.stageOffset(path) + stage;
  int64_t worker = placement.workerOf(global);
  if (worker == placement.workerOf(placement.globalStage(cell)))
    return -1;
  int64_t entry = index.entryOf(stage, cell.getUnit());
  bool isNeeded = false;
  kTakers[static_cast<unsigned>(*flow)].forEach([&](Phase phase) {
    isNeeded |= index.at(entry, phase) != CellIndex::kNone;
  });
  return isNeeded ? worker : -1;
}
