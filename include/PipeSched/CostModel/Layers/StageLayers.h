//===- StageLayers.h - Which blocks a stage holds ---------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The blocks of each global stage as counts, which costs and memory are summed
// over.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_COSTMODEL_LAYERS_STAGELAYERS_H
#define PIPESCHED_COSTMODEL_LAYERS_STAGELAYERS_H

#include "PipeSched/Facts/StageCosts.h"
#include "PipeSched/Facts/System.h"
#include "PipeSched/Support/CheckedInt.h"
#include "llvm/ADT/SmallVector.h"

namespace pipesched {

/// `count` times the block with this index in ModelFacts::blocks.
struct BlockCount {
  uint32_t block;
  int64_t count;
};
using StageBlocks = llvm::SmallVector<BlockCount, 2>;

/// The layers of each global stage: a path's `blocks`, else the model's layers
/// in proportion to the path's `weights`, else an even split. Errors: blocks
/// that do not add up; a number of layers that is not a multiple of the stages,
/// with the nearest stage counts that work, or of the weights, with the nearest
/// numbers of layers that work.
llvm::Expected<std::vector<int64_t>> splitLayers(const Placement &placement,
                                                 const ModelFacts &model);

/// The same for one path, the `number`-th, of a model with `layers` layers.
llvm::Expected<std::vector<int64_t>>
splitLayers(int64_t number, const Path &path, int64_t layers);

/// Sets the bytes of the messages of stages, which slices share equally. Their
/// times stay unchanged. Errors: as for splitLayers.
llvm::Error setMessageBytes(const Placement &placement, const ModelFacts &model,
                            StageCosts &stageCosts);

/// Blocks of each global stage: layers by splitLayers, First blocks on the
/// first stage of each path, Last blocks on its last. Errors: splitLayers'.
llvm::Expected<std::vector<StageBlocks>>
blocksOfStages(const Placement &placement, const ModelFacts &model);

/// The blocks among `held` that each stage owns (ParameterSets.h): over the
/// stages of a worker, every block that it holds, once. Errors: as for
/// ParameterSets.
llvm::Expected<std::vector<StageBlocks>>
ownedBlocksOfStages(const Placement &placement, const ModelFacts &model,
                    std::vector<StageBlocks> held);

/// The messages of each stage: the activation of its last block, the gradient
/// of its first one. A stage without blocks passes on the model's boundary.
std::vector<MessageBytes> messagesOfStages(const ModelFacts &model,
                                           llvm::ArrayRef<StageBlocks> blocks);

/// Whether a system divides experts in another way than other parameters.
inline bool dividesExperts(const SystemFacts &system) {
  return system.expertParallel > 1;
}

/// The blocks' parameters to count: all, only of experts, or the others. A
/// block that states its bytes has no parameters of experts here.
enum class Parameters { All, Experts, Others };

/// Bytes of parameters, summed over blocks; each counts once, however many
/// ranks hold it.
struct StateSums {
  CheckedInt weight, gradient, optimizer;

  /// Leaves out `without` parameters of a block that states no bytes: their
  /// copy is elsewhere on the worker.
  void add(const BlockFacts &block, int64_t count, const ModelFacts &model,
           int64_t without = 0, Parameters which = Parameters::All);
};

} // namespace pipesched

#endif // PIPESCHED_COSTMODEL_LAYERS_STAGELAYERS_H
