//===- StageModel.h - A model whose layers are stages -----------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Derives the facts of a pipeline from the functions of its stages, so that all
// tools that read a pipe.model can be used (docs/StageCosts.md).
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_STAGES_STAGEMODEL_H
#define PIPESCHED_STAGES_STAGEMODEL_H

#include "PipeSched/Facts/Facts.h"
#include "PipeSched/Stages/StageFunctions.h"
#include "PipeSched/Stages/StageFusion.h"

namespace pipesched {

/// A model with one layer per stage: kernels of F, I, W, B, R and O, bytes of
/// parameters, activations, checkpoints and messages. The function of data
/// belongs to F of the first stage; the functions of target and loss belong to
/// B and I of the last. If microbatches have slices, functions run once per
/// slice, and the model covers all slices; its sequence length only states
/// their number. Errors, emitted: as for FunctionWorkAnalysis; sums over int64.
mlir::FailureOr<ModelFacts> makeStageModel(const StageFunctions &functions,
                                           StageFusion fusion,
                                           int64_t microbatchSize = 1);

} // namespace pipesched

#endif // PIPESCHED_STAGES_STAGEMODEL_H
