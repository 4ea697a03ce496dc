//===- ModelSummary.cpp - A model in a few numbers ------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Sums over blocks with checked arithmetic.
//
//===----------------------------------------------------------------------===//

#include "PipeSched/CostModel/Layers/ModelSummary.h"
#include "PipeSched/CostModel/Layers/StageLayers.h"

using namespace pipesched;

/// Forward, input gradient and weight gradient of a GEMM take equally many
/// FLOPs.
static constexpr int64_t kPassesOfTraining = 3;

int64_t pipesched::forwardsOf(Phase phase) {
  if (phase == Phase::Backward)
    return kPassesOfTraining - 1;
  return phase == Phase::Forward || kSplitBackward.contains(phase);
}

namespace {
struct GemmFlops {
  explicit GemmFlops(const BlockFacts &block) {
    for (const Kernel &kernel : block.kernels) {
      if (!isMatrix(kernel.engine) && kernel.engine != Engine::Attention)
        continue;
      CheckedInt once = kernel.forward.flops;
      if (kernel.attention)
        once += kernel.attention->maskedFlops;
      CheckedInt flops = CheckedInt(kernel.count) * once;
      all += flops;
      if (kernel.weightGrad.isZero())
        attention += flops;
      if (kernel.routed)
        experts += flops;
    }
  }

  CheckedInt all, attention, experts;
};

/// Sums over all blocks, for one microbatch.
struct ModelSums {
  void add(const BlockFacts &block, const GemmFlops &flops,
           const ModelFacts &model) {
    CheckedInt count = block.count;
    CheckedInt used = block.activeParameters.value_or(block.parameters);
    state.add(block, block.count, model);
    parameters += count * (block.parameters - block.tiedParameters);
    active += count * (used - block.tiedParameters);
    activations += count * block.activationBytes;
    forward += count * flops.all;
    attention += count * flops.attention;
    experts += count * flops.experts;
    expertState.add(block, block.count, model, 0, Parameters::Experts);
    if (block.experts)
      expertParameters += count * block.experts->parameters;
    hasExperts |= block.experts.has_value();
  }

  StateSums state, expertState;
  bool hasExperts = false;
  CheckedInt experts, expertParameters;
  CheckedInt parameters, active, activations, forward, attention;
};

/// Stores values, and remembers whether all of them fit.
class Store {
public:
  void operator()(int64_t &to, CheckedInt value) {
    to = value.get();
    isValid &= value.isValid();
  }
  bool isValid = true;
};
} // namespace

static CheckedInt trainingFlops(CheckedInt forward) {
  return kPassesOfTraining * forward;
}

double pipesched::forwardFlops(const ModelFacts &model) {
  double flops = 0;
  for (const BlockFacts &block : model.blocks)
    flops += double(block.count) * double(GemmFlops(block).all.get());
  return flops;
}

llvm::Expected<std::vector<double>>
pipesched::forwardFlopsOfStages(const Placement &placement,
                                const ModelFacts &model) {
  llvm::Expected<std::vector<StageBlocks>> blocks =
      blocksOfStages(placement, model);
  if (!blocks)
    return blocks.takeError();
  std::vector<double> ofBlock, ofStage;
  for (const BlockFacts &block : model.blocks)
    ofBlock.push_back(double(GemmFlops(block).all.get()));
  for (const StageBlocks &held : *blocks) {
    double &flops = ofStage.emplace_back(0);
    for (BlockCount each : held)
      flops += double(each.count) * ofBlock[each.block];
  }
  return ofStage;
}

static BlockSummary summarizeBlock(const BlockFacts &block,
                                   const GemmFlops &flops, int64_t tokens) {
  BlockSummary summary;
  summary.name = block.name;
  summary.position = block.position;
  summary.count = block.count;
  summary.parameters = block.parameters;
  summary.activeParameters = block.activeParameters.value_or(block.parameters);
  summary.tiedParameters = block.tiedParameters;
  summary.expertParameters = block.experts ? block.experts->parameters : 0;
  if (tokens)
    summary.flopsPerToken = trainingFlops(flops.all).get() / tokens;
  summary.activationBytes = block.activationBytes;
  summary.weightGradBytes = block.weightGradBytes;
  summary.recomputedBytes = block.recomputedBytes;
  return summary;
}

/// Whether blocks are equal except for their count; alternating kinds repeat.
static bool isSameBlock(const BlockFacts &a, const BlockFacts &b) {
  BlockFacts other = b;
  other.count = a.count;
  return a == other;
}

/// Sums block by block; a repeated block is added to its first occurrence.
static ModelSums summarizeBlocks(const ModelFacts &model, int64_t tokens,
                                 ModelSummary &summary) {
  ModelSums sums;
  llvm::SmallVector<const BlockFacts *> seen; // parallel to summary.blocks
  for (const BlockFacts &block : model.blocks) {
    GemmFlops flops(block);
    sums.add(block, flops, model);
    if (block.position == BlockPosition::Layer)
      summary.activationBytesPerBlock =
          std::max(summary.activationBytesPerBlock, block.activationBytes);
    auto known = llvm::find_if(seen, [&](const BlockFacts *other) {
      return isSameBlock(*other, block);
    });
    if (known != seen.end()) {
      summary.blocks[known - seen.begin()].count += block.count;
      continue;
    }
    seen.push_back(&block);
    summary.blocks.push_back(summarizeBlock(block, flops, tokens));
  }
  return sums;
}

llvm::Expected<ModelSummary> pipesched::summarize(const ModelFacts &model) {
  ModelSummary summary;
  summary.name = model.name;
  summary.source = model.source;
  summary.microbatchSize = model.microbatchSize;
  summary.sequence = model.sequence;
  summary.vocabulary = model.vocabulary;
  summary.layers = model.getNumLayers();
  summary.boundaryBytes = model.boundaryBytes;

  Store store;
  int64_t tokens = 0, flops = 0, attentionFlops = 0, expertFlops = 0;
  store(tokens, CheckedInt(model.microbatchSize) * model.sequence);
  ModelSums sums = summarizeBlocks(model, tokens, summary);
  store(flops, trainingFlops(sums.forward));
  store(attentionFlops, trainingFlops(sums.attention));
  store(expertFlops, trainingFlops(sums.experts));
  if (sums.hasExperts) {
    store(summary.expertParameters.emplace(), sums.expertParameters);
    store(summary.expertWeightBytes.emplace(), sums.expertState.weight);
  }
  store(summary.parameters, sums.parameters);
  store(summary.activeParameters, sums.active);
  store(summary.activationBytes, sums.activations);
  store(summary.weightBytes, sums.state.weight);
  store(summary.gradientBytes, sums.state.gradient);
  store(summary.optimizerBytes, sums.state.optimizer);
  if (!store.isValid)
    return llvm::createStringError(llvm::inconvertibleErrorCode(),
                                   "the sums of model '" + model.name +
                                       "' are over 2^63 - 1");
  if (tokens) {
    summary.flopsPerToken = flops / tokens;
    summary.attentionFlopsPerToken = attentionFlops / tokens;
    if (sums.hasExperts)
      summary.expertFlopsPerToken = expertFlops / tokens;
  }
  return summary;
}
