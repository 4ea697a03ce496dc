//===- StageLayers.cpp - Layers of stages ---------------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Divides the layers of a model among the stages of each path.
//
//===----------------------------------------------------------------------===//

#include "PipeSched/CostModel/Layers/StageLayers.h"
#include "PipeSched/Schedule/Table/ParameterSets.h"
#include "PipeSched/Support/Divisors.h"
#include "PipeSched/Support/MakeError.h"
#include "PipeSched/Support/NearestMultiples.h"
#include "llvm/ADT/Twine.h"
#include <numeric>

using namespace pipesched;
using llvm::Twine;

static llvm::Expected<std::vector<int64_t>>
divideEvenly(int64_t path, int64_t stages, int64_t layers) {
  if (layers % stages)
    return makeError(
        "the " + Twine(stages) + " stages of path " + Twine(path) +
        " do not divide the model's " + Twine(layers) +
        " layers; stage counts that do: " + nearestDivisors(layers, stages) +
        "; or let stages differ (pipe-place-blocks{balance=cost})");
  return std::vector<int64_t>(stages, layers / stages);
}

/// Reduce the weights first: 1 : 2 is the same as 2 : 4.
static llvm::Expected<std::vector<int64_t>>
divideByWeights(int64_t path, llvm::ArrayRef<int64_t> weights, int64_t layers) {
  int64_t divisor = 0, parts = 0;
  for (int64_t weight : weights) {
    divisor = std::gcd(divisor, weight);
    parts += weight;
  }
  parts /= divisor;
  if (layers % parts)
    return makeError("the weights of path " + Twine(path) + " make " +
                     Twine(parts) + " parts, which do not divide the model's " +
                     Twine(layers) + " layers; layer counts that they do: " +
                     nearestMultiples(layers, parts));
  std::vector<int64_t> result;
  result.reserve(weights.size());
  for (int64_t weight : weights)
    result.push_back(weight / divisor * (layers / parts));
  return result;
}

static llvm::Expected<std::vector<int64_t>>
checkGiven(int64_t path, const std::vector<int64_t> &blocks, int64_t layers) {
  int64_t left = layers;
  for (int64_t count : blocks) {
    if (count > left)
      return makeError("the blocks of path " + Twine(path) +
                       " are more than the model's " + Twine(layers) +
                       " layers");
    left -= count;
  }
  if (left)
    return makeError("the blocks of path " + Twine(path) + " add up to " +
                     Twine(layers - left) + ", the model has " + Twine(layers) +
                     " layers");
  return blocks;
}

llvm::Expected<std::vector<int64_t>>
pipesched::splitLayers(int64_t number, const Path &path, int64_t layers) {
  if (!path.blocks.empty())
    return checkGiven(number, path.blocks, layers);
  if (!path.weights.empty())
    return divideByWeights(number, path.weights, layers);
  return divideEvenly(number, path.getNumStages(), layers);
}

llvm::Expected<std::vector<int64_t>>
pipesched::splitLayers(const Placement &placement, const ModelFacts &model) {
  if (llvm::Error error = placement.checkChains("a model fills"))
    return std::move(error);
  int64_t layers = model.getNumLayers();
  std::vector<int64_t> result;
  result.reserve(placement.getNumGlobalStages());
  for (int64_t index = 0; index < placement.getNumPaths(); ++index) {
    llvm::Expected<std::vector<int64_t>> split =
        splitLayers(index, placement.getPath(index), layers);
    if (!split)
      return split.takeError();
    llvm::append_range(result, *split);
  }
  return result;
}

llvm::Expected<std::vector<StageBlocks>>
pipesched::blocksOfStages(const Placement &placement, const ModelFacts &model) {
  llvm::Expected<std::vector<int64_t>> layers = splitLayers(placement, model);
  if (!layers)
    return layers.takeError();

  // Layers are assigned in order: all `count` layers of block b, then the
  // layers of block b + 1.
  std::vector<StageBlocks> result(layers->size());
  for (int64_t path = 0; path < placement.getNumPaths(); ++path) {
    int64_t first = placement.stageOffset(path);
    int64_t stages = placement.getPath(path).getNumStages();
    int64_t stage = 0, room = (*layers)[first];
    for (auto [index, block] : llvm::enumerate(model.blocks)) {
      if (block.position == BlockPosition::First)
        result[first].push_back({uint32_t(index), block.count});
      if (block.position == BlockPosition::Last)
        result[first + stages - 1].push_back({uint32_t(index), block.count});
      if (block.position != BlockPosition::Layer)
        continue;
      for (int64_t left = block.count; left > 0;) {
        while (room == 0)
          room = (*layers)[first + ++stage];
        int64_t count = std::min(left, room);
        result[first + stage].push_back({uint32_t(index), count});
        left -= count;
        room -= count;
      }
    }
  }
  return result;
}

std::vector<MessageBytes>
pipesched::messagesOfStages(const ModelFacts &model,
                            llvm::ArrayRef<StageBlocks> blocks) {
  MessageBytes boundary = {model.boundaryBytes, model.boundaryBytes};
  auto messagesOf = [&](BlockCount entry) {
    return model.blocks[entry.block].messages.value_or(boundary);
  };
  std::vector<MessageBytes> result;
  result.reserve(blocks.size());
  for (const StageBlocks &stage : blocks)
    result.push_back(stage.empty()
                         ? boundary
                         : MessageBytes{messagesOf(stage.back()).activation,
                                        messagesOf(stage.front()).gradient});
  return result;
}

llvm::Error pipesched::setMessageBytes(const Placement &placement,
                                       const ModelFacts &model,
                                       StageCosts &stageCosts) {
  llvm::Expected<std::vector<StageBlocks>> blocks =
      blocksOfStages(placement, model);
  if (!blocks)
    return blocks.takeError();
  for (auto [cost, messages] :
       llvm::zip_equal(stageCosts.stages, messagesOfStages(model, *blocks))) {
    cost.activation.bytes = messages.activation / placement.getNumSlices();
    cost.gradient.bytes = messages.gradient / placement.getNumSlices();
  }
  return llvm::Error::success();
}

void StateSums::add(const BlockFacts &block, int64_t count,
                    const ModelFacts &model, int64_t without,
                    Parameters which) {
  if (block.state) {
    if (which == Parameters::Experts)
      return;
    weight += CheckedInt(count) * block.state->weight;
    gradient += CheckedInt(count) * block.state->gradient;
    optimizer += CheckedInt(count) * block.state->optimizer;
    return;
  }
  int64_t experts = block.experts ? block.experts->parameters : 0;
  int64_t each = which == Parameters::Experts ? experts
                 : which == Parameters::Others
                     ? block.parameters - experts - without
                     : block.parameters - without;
  CheckedInt parameters = CheckedInt(count) * each;
  weight += parameters * model.weightBytesPerParameter;
  gradient += parameters * model.gradientBytesPerParameter;
  optimizer += parameters * model.optimizerBytesPerParameter;
}

namespace {
/// Finds the blocks in a part of the model.
class ModelParts {
public:
  explicit ModelParts(const ModelFacts &model) : model(model) {
    for (const BlockFacts &block : model.blocks)
      layerBegins.push_back(
          layerBegins.back() +
          (block.position == BlockPosition::Layer ? block.count : 0));
  }

  void addPinned(BlockPosition position, StageBlocks &blocks) const {
    for (auto [index, block] : llvm::enumerate(model.blocks))
      if (block.position == position)
        blocks.push_back({uint32_t(index), block.count});
  }

  /// Adds the layers from `begin` to `end` - 1:
  ///
  ///   layerBegins   0     3      7      8
  ///   block         |  0  |   1  |   2  |
  ///   2 to 5             |----|             one of 0, two of 1
  void addLayers(int64_t begin, int64_t end, StageBlocks &blocks) const {
    size_t index = llvm::upper_bound(layerBegins, begin) - layerBegins.begin();
    for (index -= 1; index < model.blocks.size() && layerBegins[index] < end;
         ++index) {
      int64_t count = std::min(end, layerBegins[index + 1]) -
                      std::max(begin, layerBegins[index]);
      if (count > 0)
        blocks.push_back({uint32_t(index), count});
    }
  }

private:
  const ModelFacts &model;
  std::vector<int64_t> layerBegins = {0}; ///< by block, and the end
};
} // namespace

llvm::Expected<std::vector<StageBlocks>>
pipesched::ownedBlocksOfStages(const Placement &placement,
                               const ModelFacts &model,
                               std::vector<StageBlocks> held) {
  if (placement.getNumPaths() == 1)
    return held; // the stages of one path have no common blocks
  llvm::Expected<ParameterSets> sets = ParameterSets::create(placement);
  if (!sets)
    return sets.takeError();

  // Set start and end to the bounds of stages, which are between layers.
  int64_t layers = model.getNumLayers();
  int64_t numBlocks = sets->getReplicas().getNumBlocks();
  auto layerAt = [&](int64_t block) {
    return static_cast<int64_t>(static_cast<__int128>(block) * layers /
                                numBlocks);
  };
  ModelParts parts(model);
  for (auto [stage, blocks] : llvm::enumerate(held)) {
    if (sets->ownsAll(stage))
      continue;
    blocks.clear();
    auto pieces = sets->ownedPiecesOf(stage);
    if (pieces.empty())
      continue;
    BlockSpan owned = sets->ownedBlocksOf(stage);
    if (*pieces.begin() == 0)
      parts.addPinned(BlockPosition::First, blocks);
    parts.addLayers(layerAt(owned.begin), layerAt(owned.end), blocks);
    if (*pieces.end() == sets->getReplicas().getNumPieces())
      parts.addPinned(BlockPosition::Last, blocks);
  }
  return held;
}
