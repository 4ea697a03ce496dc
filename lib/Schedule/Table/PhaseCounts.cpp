//===- PhaseCounts.cpp - Counts the cells of each phase -------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Counts the cells of all rows in one sweep.
//
//===----------------------------------------------------------------------===//

#include "PipeSched/Schedule/Table/PhaseCounts.h"

using namespace pipesched;

template <typename GlobalStage>
static PhaseSet countInto(std::vector<PhaseMap<int64_t>> &counts,
                          const TableView &table, GlobalStage &&globalStage) {
  PhaseSet phases;
  PhaseMap<int64_t> *ofStages = counts.data();
  for (llvm::ArrayRef<Cell> row : table.rows)
    for (Cell cell : row) {
      Phase phase = cell.getPhase();
      phases |= phase;
      if (kCostedPhases.contains(phase))
        ++ofStages[globalStage(cell)][phase];
    }
  return phases;
}

PhaseCounts pipesched::countPhases(const TableView &table) {
  const Placement &placement = *table.placement;
  PhaseCounts counts;
  counts.counts.resize(placement.getNumGlobalStages());
  counts.phases = placement.getNumPaths() == 1
                      ? countInto(counts.counts, table,
                                  [](Cell cell) { return cell.getStage(); })
                      : countInto(counts.counts, table, [&](Cell cell) {
                          return placement.globalStage(cell);
                        });
  return counts;
}

static bool isStageComplete(const PhaseMap<int64_t> &counts, int64_t wanted,
                            StageBackward backward) {
  int64_t numAlternatives = 0;
  PhaseSet starts = backwardStarts(backward);
  bool isComplete = true;
  kIndexedPhases.forEach([&](Phase phase) {
    const PhaseOrder &order = traitsOf(phase).order;
    if (order.occurrence == Occurrence::Once)
      isComplete &= counts[phase] == wanted;
    if (starts.contains(phase))
      numAlternatives += counts[phase];
    if (std::optional<Phase> next = followerOf(phase, backward))
      isComplete &= counts[*next] == counts[phase];
  });
  return isComplete && (starts.isEmpty() || numAlternatives == wanted);
}

bool pipesched::isComplete(const Placement &placement,
                           const PhaseCounts &counts) {
  for (int64_t stage = 0; stage < placement.getNumGlobalStages(); ++stage) {
    int64_t wanted = placement.countOnStage(stage);
    if (!isStageComplete(counts.counts[stage], wanted,
                         placement.backwardOf(stage)))
      return false;
  }
  return true;
}
