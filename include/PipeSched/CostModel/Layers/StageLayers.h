//===- StageLayers.h - Blocks of stages -------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The blocks of each global stage as counts. Costs and memory are sums over
// them.
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
/// in proportion to the path's `weights`, else an even split. Nodes have the
/// layers that they hold, and the path all others. Errors: blocks that do not
/// add up; a number of layers that is not a multiple of the stages, with the
/// nearest stage counts that work, or of the weights, with the nearest numbers
/// of layers that work; nodes that hold no blocks or blocks which the model
/// does not have, or only some of the blocks of a name.
llvm::Expected<std::vector<int64_t>> splitLayers(const Placement &placement,
                                                 const ModelFacts &model);

/// The layers of a path next to these nodes. Errors: as for splitLayers.
llvm::Expected<int64_t> countPathLayers(const AddedStages &added,
                                        const ModelFacts &model);

/// The same for one path, the `number`-th, of a model with `layers` layers.
llvm::Expected<std::vector<int64_t>>
splitLayers(int64_t number, const Path &path, int64_t layers);

/// Sets the bytes of the messages of stages; slices divide them equally. Times
/// stay unchanged. Errors: as for splitLayers.
llvm::Error setMessageBytes(const Placement &placement, const ModelFacts &model,
                            StageCosts &stageCosts);

/// Blocks of each global stage: layers by splitLayers, First blocks on the
/// first stage of each path, Last blocks on its last, unless a node holds them.
/// Errors: splitLayers'.
llvm::Expected<std::vector<StageBlocks>>
blocksOfStages(const Placement &placement, const ModelFacts &model);

/// Returns the blocks of `held` that each stage owns (ParameterSets.h). Over
/// all stages of a worker, each block that it holds occurs once. Errors: as for
/// ParameterSets.
llvm::Expected<std::vector<StageBlocks>>
ownedBlocksOfStages(const Placement &placement, const ModelFacts &model,
                    std::vector<StageBlocks> held);

/// Returns the messages of each stage: the activation of its last block, and
/// the gradient of its first block. A stage without blocks passes on the
/// model's boundary.
std::vector<MessageBytes> messagesOfStages(const ModelFacts &model,
                                           llvm::ArrayRef<StageBlocks> blocks);

/// The bytes of the tensor and gradient of an edge between two global stages.
struct EdgeBytes : MessageBytes {
  int32_t from, to;
  bool isAdded; ///< not on a chain
};

/// All edges by source and target. Added edges have the output of their source,
/// unless they say other bytes, and a gradient of the same size; chains have
/// the messages of their stages.
std::vector<EdgeBytes> bytesOfEdges(const Placement &placement,
                                    llvm::ArrayRef<MessageBytes> messages);

/// All edges by source and target, with the messages of their stages: the
/// tensor is the output of the source, and the target sends its gradient.
std::vector<EdgeCost> edgesOfStages(const Placement &placement,
                                    llvm::ArrayRef<StageCost> stages);

/// Whether a system divides experts in another way than other parameters.
inline bool dividesExperts(const SystemFacts &system) {
  return system.expertParallel > 1;
}

/// Which parameters to count: all, only of experts, or all others. A block that
/// states its bytes has no parameters of experts here.
enum class Parameters { All, Experts, Others };

/// Bytes of parameters, summed over blocks. Each parameter counts once, even if
/// several ranks hold it.
struct StateSums {
  CheckedInt weight, gradient, optimizer;

  /// Leaves out `without` parameters of a block that states no bytes, because
  /// another copy of them is on the worker.
  void add(const BlockFacts &block, int64_t count, const ModelFacts &model,
           int64_t without = 0, Parameters which = Parameters::All);
};

} // namespace pipesched

#endif // PIPESCHED_COSTMODEL_LAYERS_STAGELAYERS_H
