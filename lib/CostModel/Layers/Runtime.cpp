//===- Runtime.cpp - Runtimes of schedules --------------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Adds the time of I to W, as in PyTorch.
//
//===----------------------------------------------------------------------===//

#include "PipeSched/CostModel/Layers/Runtime.h"
#include "PipeSched/Support/MakeError.h"
#include "llvm/ADT/Twine.h"

using namespace pipesched;
using llvm::Twine;

llvm::Error pipesched::applyRuntime(Runtime runtime, const Placement &placement,
                                    StageCosts &stageCosts) {
  if (runtime == Runtime::Table)
    return llvm::Error::success();
  for (StageCost &stage : stageCosts.stages)
    stage.overlappedPs.reset();
  stageCosts.pairRule = PairRule::InTurn;
  stageCosts.pairTimes.reset();
  for (int64_t path = 0; path < placement.getNumPaths(); ++path) {
    CellCosts &cells = stageCosts.stages[placement.stageOffset(path)].cells;
    for (int64_t slice = 0; slice < cells.getNumSlices(); ++slice) {
      llvm::SmallVector<Segment, 8> both(
          cells.segmentsOf(Phase::InputGrad, slice));
      llvm::append_range(both, cells.segmentsOf(Phase::WeightGrad, slice));
      if (auto error = cells.setSegments(Phase::WeightGrad, both, slice))
        return makeError("I + W of the first stage of path " + Twine(path) +
                         ": " + llvm::toString(std::move(error)));
      cells.set(Phase::InputGrad, 0, slice);
    }
  }
  return llvm::Error::success();
}

void pipesched::applyRuntime(Runtime runtime, const Placement &placement,
                             MemoryFacts &memory) {
  if (runtime == Runtime::Table)
    return;
  int64_t numSlices = memory.slices.empty() ? 0 : memory.numSlices;
  for (int64_t path = 0; path < placement.getNumPaths(); ++path) {
    int64_t stage = placement.stageOffset(path);
    memory.stages[stage].inputGradFreedBytes = 0;
    for (int64_t slice = 0; slice < numSlices; ++slice)
      memory.slices[stage * numSlices + slice].inputGradFreedBytes = 0;
  }
}
