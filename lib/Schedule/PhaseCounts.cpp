//===- PhaseCounts.cpp - How often each phase runs ------------------------===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Counts the cells of all rows in one sweep.
//
//===----------------------------------------------------------------------===//

#include "PipeSched/Schedule/PhaseCounts.h"

using namespace pipesched;

PhaseCounts pipesched::countPhases(const TableView &table) {
  const Placement &placement = *table.placement;
  PhaseCounts counts;
  counts.counts.assign(placement.getNumGlobalStages() * kNumPhases, 0);
  for (llvm::ArrayRef<Cell> row : table.rows)
    for (Cell cell : row) {
      auto phase = static_cast<unsigned>(cell.getPhase());
      counts.phases |= 1u << phase;
      if (phase < kNumPhases)
        ++counts.counts[placement.globalStage(cell) * kNumPhases + phase];
    }
  return counts;
}

bool pipesched::isComplete(const Placement &placement,
                           const PhaseCounts &counts) {
  for (int64_t stage = 0; stage < placement.getNumGlobalStages(); ++stage) {
    int64_t wanted = placement.countOnPath(placement.pathOfStage(stage));
    int64_t inputGrads = counts.of(stage, Phase::InputGrad);
    if (counts.of(stage, Phase::Forward) != wanted ||
        counts.of(stage, Phase::Backward) + inputGrads != wanted ||
        counts.of(stage, Phase::WeightGrad) != inputGrads ||
        counts.of(stage, Phase::Offload) != counts.of(stage, Phase::Reload))
      return false;
  }
  return true;
}
