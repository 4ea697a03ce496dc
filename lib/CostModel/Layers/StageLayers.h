//===- StageLayers.h - Which blocks a stage holds ---------------*- C++ -*-===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The blocks of each global stage as counts, which costs and memory are summed
// over.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_LIB_COSTMODEL_LAYERS_STAGELAYERS_H
#define PIPESCHED_LIB_COSTMODEL_LAYERS_STAGELAYERS_H

#include "PipeSched/CostModel/CostModel.h"
#include "PipeSched/Support/CheckedInt.h"
#include "llvm/ADT/SmallVector.h"

namespace pipesched {

/// `count` times the block with this index in ModelFacts::blocks.
struct BlockCount {
  uint32_t block;
  int64_t count;
};
using StageBlocks = llvm::SmallVector<BlockCount, 2>;

/// Blocks of each global stage: layers by splitLayers, First blocks on the
/// first stage of each path, Last blocks on its last. Errors: splitLayers'.
llvm::Expected<std::vector<StageBlocks>>
blocksOfStages(const Placement &placement, const ModelFacts &model);

/// Of these blocks, `held`, those that each stage owns (ParameterSets.h): over
/// the stages of a worker, every block that it holds, once. Errors: those of
/// ParameterSets.
llvm::Expected<std::vector<StageBlocks>>
ownedBlocksOfStages(const Placement &placement, const ModelFacts &model,
                    std::vector<StageBlocks> held);

/// What each stage sends: the activation of its last block, the gradient of its
/// first one. A stage without blocks passes on the model's boundary.
std::vector<MessageBytes> messagesOfStages(const ModelFacts &model,
                                           llvm::ArrayRef<StageBlocks> blocks);

/// Whether a system divides experts in another way than other parameters.
inline bool dividesExperts(const SystemFacts &system) {
  return system.expertParallel > 1;
}

/// The parameters of blocks that are counted: all, those of experts, or the
/// others. A block that states its bytes has no parameters of experts here.
enum class Parameters { All, Experts, Others };

/// Bytes of parameters, summed over blocks; each counts once, however many
/// ranks hold it.
struct StateSums {
  CheckedInt weight, gradient, optimizer;

  /// Of `without` parameters of a block that states no bytes there is a copy
  /// elsewhere on the worker.
  void add(const BlockFacts &block, int64_t count, const ModelFacts &model,
           int64_t without = 0, Parameters which = Parameters::All);
};

} // namespace pipesched

#endif // PIPESCHED_LIB_COSTMODEL_LAYERS_STAGELAYERS_H
