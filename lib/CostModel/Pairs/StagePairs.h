//===- StagePairs.h - Overlapped pairs of stages, part by part --*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Times of a forward and a backward of two stages whose layers overlap on a
// worker part by part (docs/CostModel.md, "Overlapped pairs").
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_LIB_COSTMODEL_PAIRS_STAGEPAIRS_H
#define PIPESCHED_LIB_COSTMODEL_PAIRS_STAGEPAIRS_H

#include "PipeSched/CostModel/Layers/StageLayers.h"

namespace pipesched {

/// Sets StageCosts::pairTimes by `system.pairOrder`, with W after I, if layers
/// exchange rows of experts and pairs can hide the exchange. A pair takes the
/// time of its layers by schedulePair, plus the time of the rest of its cells
/// (embedding, head). It takes at least the time by PairRule::Fluid and at most
/// the sum of both cells. Slices, `pair-order=fluid`, and blocks that state
/// work only for a whole B keep the rule. `blocks` are the blocks of each
/// global stage. Errors: times over int64.
llvm::Error addPairTimes(const ModelFacts &model, const SystemFacts &system,
                         PhaseSet phases, llvm::ArrayRef<StageBlocks> blocks,
                         StageCosts &stageCosts);

} // namespace pipesched

#endif // PIPESCHED_LIB_COSTMODEL_PAIRS_STAGEPAIRS_H
