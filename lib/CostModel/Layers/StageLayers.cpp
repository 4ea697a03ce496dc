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
#include "llvm/ADT/StringExtras.h"
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

//===----------------------------------------------------------------------===//
// Nodes
//===----------------------------------------------------------------------===//

namespace {
/// The blocks that nodes hold. Several entries of a model may have one name;
/// nodes take their blocks in order.
class HeldByNodes {
public:
  explicit HeldByNodes(const ModelFacts &model) : model(model) {
    for (const BlockFacts &block : model.blocks)
      left.push_back(block.count);
  }

  /// The blocks of a node. Errors: the model has no such blocks, or fewer.
  llvm::Expected<StageBlocks> take(const StageNode &node);
  /// Error: nodes hold only some of the blocks of a name.
  llvm::Error checkAllHeld() const;
  /// The blocks that no node holds, for the paths.
  int64_t countLeft(uint32_t block) const { return left[block]; }

private:
  /// The number of all blocks of a name, and of the ones that nodes hold.
  std::pair<int64_t, int64_t> count(llvm::StringRef name) const {
    int64_t all = 0, rest = 0;
    for (auto [block, number] : llvm::zip_equal(model.blocks, left))
      if (block.name == name) {
        all += block.count;
        rest += number;
      }
    return {all, all - rest};
  }
  std::string listNames() const;

  const ModelFacts &model;
  std::vector<int64_t> left; ///< by block
};
} // namespace

std::string HeldByNodes::listNames() const {
  llvm::SmallVector<llvm::StringRef> names;
  for (const BlockFacts &block : model.blocks)
    if (!llvm::is_contained(names, block.name))
      names.push_back(block.name);
  return llvm::join(names, ", ");
}

llvm::Expected<StageBlocks> HeldByNodes::take(const StageNode &node) {
  StageBlocks blocks;
  if (node.holds.empty())
    return makeError("node " + Twine(node.number) + " does not say which " +
                     "blocks of model '" + model.name +
                     "' it holds: " + listNames());
  for (const HeldBlocks &held : node.holds) {
    auto [all, before] = count(held.name);
    if (all == 0)
      return makeError("node " + Twine(node.number) + " holds blocks '" +
                       held.name + "', and model '" + model.name +
                       "' has: " + listNames());
    int64_t missing = held.count;
    for (auto [index, block] : llvm::enumerate(model.blocks)) {
      int64_t count = std::min(missing, left[index]);
      if (block.name != held.name || count == 0)
        continue;
      blocks.push_back({uint32_t(index), count});
      left[index] -= count;
      missing -= count;
    }
    if (missing != 0)
      return makeError("node " + Twine(node.number) + " holds " +
                       Twine(held.count) + " blocks '" + held.name +
                       "': nodes before it hold " + Twine(before) +
                       ", and the model has " + Twine(all));
  }
  return blocks;
}

llvm::Error HeldByNodes::checkAllHeld() const {
  for (const BlockFacts &block : model.blocks)
    if (auto [all, held] = count(block.name); held != 0 && held != all)
      return makeError("nodes hold " + Twine(held) + " of the model's " +
                       Twine(all) + " blocks '" + block.name +
                       "': expected all of them, or none for the path to hold "
                       "them");
  return llvm::Error::success();
}

/// The blocks of each node, taken from `held`.
static llvm::Expected<std::vector<StageBlocks>>
takeBlocks(const AddedStages &added, HeldByNodes &held) {
  std::vector<StageBlocks> result;
  for (const StageNode &node : added.nodes) {
    llvm::Expected<StageBlocks> blocks = held.take(node);
    if (!blocks)
      return blocks.takeError();
    result.push_back(std::move(*blocks));
  }
  if (llvm::Error error = held.checkAllHeld())
    return std::move(error);
  return result;
}

static bool isLayer(const BlockFacts &block) {
  return block.position == BlockPosition::Layer;
}

static int64_t countLayers(const StageBlocks &blocks, const ModelFacts &model) {
  int64_t layers = 0;
  for (auto [block, count] : blocks)
    layers += isLayer(model.blocks[block]) ? count : 0;
  return layers;
}

llvm::Expected<int64_t> pipesched::countPathLayers(const AddedStages &added,
                                                   const ModelFacts &model) {
  HeldByNodes held(model);
  if (llvm::Error error = takeBlocks(added, held).takeError())
    return std::move(error);
  int64_t layers = 0;
  for (auto [index, block] : llvm::enumerate(model.blocks))
    layers += isLayer(block) ? held.countLeft(index) : 0;
  return layers;
}

//===----------------------------------------------------------------------===//
// All stages
//===----------------------------------------------------------------------===//

llvm::Expected<std::vector<int64_t>>
pipesched::splitLayers(const Placement &placement, const ModelFacts &model) {
  llvm::Expected<int64_t> numLayers =
      countPathLayers(placement.getAdded(), model);
  if (!numLayers)
    return numLayers.takeError();
  int64_t layers = *numLayers;
  std::vector<int64_t> result;
  result.reserve(placement.getNumGlobalStages());
  for (int64_t index = 0; index < placement.getNumPaths(); ++index) {
    llvm::Expected<std::vector<int64_t>> split =
        splitLayers(index, placement.getPath(index), layers);
    if (!split)
      return split.takeError();
    llvm::append_range(result, *split);
  }
  HeldByNodes held(model);
  for (const StageBlocks &blocks :
       llvm::cantFail(takeBlocks(placement.getAdded(), held)))
    result.push_back(countLayers(blocks, model));
  return result;
}

llvm::Expected<std::vector<StageBlocks>>
pipesched::blocksOfStages(const Placement &placement, const ModelFacts &model) {
  llvm::Expected<std::vector<int64_t>> layers = splitLayers(placement, model);
  if (!layers)
    return layers.takeError();

  // Layers are dealt in order: block b has `count` layers, then follows block b
  // + 1.
  HeldByNodes held(model);
  std::vector<StageBlocks> ofNodes =
      llvm::cantFail(takeBlocks(placement.getAdded(), held));
  std::vector<StageBlocks> result(layers->size());
  for (int64_t path = 0; path < placement.getNumPaths(); ++path) {
    int64_t first = placement.stageOffset(path);
    int64_t stages = placement.getPath(path).getNumStages();
    int64_t stage = 0, room = (*layers)[first];
    for (auto [index, block] : llvm::enumerate(model.blocks)) {
      if (held.countLeft(index) == 0)
        continue;
      if (block.position == BlockPosition::First)
        result[first].push_back({uint32_t(index), block.count});
      if (block.position == BlockPosition::Last)
        result[first + stages - 1].push_back({uint32_t(index), block.count});
      if (!isLayer(block))
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
  llvm::move(ofNodes, result.end() - ofNodes.size());
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

std::vector<EdgeCost>
pipesched::edgesOfStages(const Placement &placement,
                         llvm::ArrayRef<StageCost> stages) {
  std::vector<EdgeCost> edges;
  for (int32_t from = 0; from != placement.getNumGlobalStages(); ++from)
    for (int32_t to : placement.getEdges().targetsOf(Flow::Activation, from))
      edges.push_back(
          {{{stages[from].activation, stages[to].gradient}, {}}, from, to});
  return edges;
}

std::vector<EdgeBytes>
pipesched::bytesOfEdges(const Placement &placement,
                        llvm::ArrayRef<MessageBytes> messages) {
  std::vector<EdgeBytes> result;
  for (int32_t from = 0; from != placement.getNumGlobalStages(); ++from)
    for (int32_t to : placement.getEdges().targetsOf(Flow::Activation, from)) {
      llvm::ArrayRef<AddedEdge> edges = placement.getAdded().edges;
      const auto *added = llvm::find_if(edges, [&](const AddedEdge &edge) {
        return edge.from == from && edge.to == to;
      });
      bool isAdded = added != edges.end();
      int64_t bytes = messages[from].activation;
      if (isAdded && added->bytes)
        bytes = *added->bytes;
      result.push_back({{bytes, isAdded ? bytes : messages[to].gradient},
                        from,
                        to,
                        isAdded});
    }
  return result;
}

llvm::Error pipesched::setMessageBytes(const Placement &placement,
                                       const ModelFacts &model,
                                       StageCosts &stageCosts) {
  llvm::Expected<std::vector<StageBlocks>> blocks =
      blocksOfStages(placement, model);
  if (!blocks)
    return blocks.takeError();
  std::vector<MessageBytes> all = messagesOfStages(model, *blocks);
  for (auto [cost, messages] : llvm::zip_equal(stageCosts.stages, all)) {
    cost.activation.bytes = messages.activation / placement.getNumSlices();
    cost.gradient.bytes = messages.gradient / placement.getNumSlices();
  }
  if (placement.getAdded().isEmpty())
    return llvm::Error::success();
  if (stageCosts.edges.empty())
    stageCosts.edges = edgesOfStages(placement, stageCosts.stages);
  for (auto [edge, bytes] :
       llvm::zip_equal(stageCosts.edges, bytesOfEdges(placement, all))) {
    edge.activation.bytes = bytes.activation;
    edge.gradient.bytes = bytes.gradient;
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
