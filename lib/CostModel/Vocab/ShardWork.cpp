//===- ShardWork.cpp - The work of a shard of a head ----------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A whole head reads its scores once for the loss and once for their gradient.
// Shards know the maximum and the sum of a row only after Y, so they sweep over
// their scores more often.
//
//===----------------------------------------------------------------------===//

#include "ShardWork.h"
#include "PipeSched/CostModel/Kernels/KernelTimes.h"
#include "PipeSched/Support/CheckedInt.h"
#include "PipeSched/Support/FormatError.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/MathExtras.h"
#include <algorithm>
#include <cmath>

using namespace pipesched;

/// Bytes of an element in a model, and of an element that is summed over
/// shards.
static constexpr int64_t kElementBytes = 2, kFloatBytes = 4;
static constexpr int64_t kCastBytes = kElementBytes + kFloatBytes;

//===----------------------------------------------------------------------===//
// Sizes
//===----------------------------------------------------------------------===//

llvm::Expected<ShardSize> ShardSize::get(const ModelFacts &model,
                                         int64_t numShards) {
  int64_t vocabulary = model.vocabulary;
  if (vocabulary == 0)
    return ShardSize(0, 0, numShards);
  if (vocabulary < numShards)
    return formatError("the vocabulary of model '{0}' has {1} entries, fewer "
                       "than the {2} workers of a path, each of which has a "
                       "shard; take fewer workers, or a whole head",
                       model.name, vocabulary, numShards);
  int64_t entries = llvm::divideCeilSigned(vocabulary, numShards);
  return ShardSize(vocabulary, entries + entries % 2, numShards);
}

int64_t ShardSize::of(int64_t whole) const {
  if (vocabulary == 0)
    return llvm::divideCeilSigned(whole, numShards);
  __int128 product = static_cast<__int128>(whole) * entries;
  __int128 part = (product + vocabulary - 1) / vocabulary;
  return int64_t(std::min<__int128>(part, INT64_MAX));
}

BlockFacts pipesched::shardOf(BlockFacts head, const ShardSize &size) {
  auto divide = [&](int64_t &number) { number = size.of(number); };
  for (Kernel &kernel : head.kernels) {
    for (Work *work : {&kernel.forward, &kernel.inputGrad, &kernel.weightGrad,
                       kernel.backward ? &*kernel.backward : nullptr,
                       kernel.recompute ? &*kernel.recompute : nullptr,
                       kernel.optimizer ? &*kernel.optimizer : nullptr})
      if (work) {
        divide(work->flops);
        divide(work->bytes);
      }
    divide(kernel.weightBytes);
  }
  divide(head.parameters);
  return head;
}

//===----------------------------------------------------------------------===//
// The ends of a model
//===----------------------------------------------------------------------===//

bool pipesched::isHead(const BlockFacts &block) {
  return block.position == BlockPosition::Last;
}

ModelFacts pipesched::withoutHead(const ModelFacts &model) {
  ModelFacts rest = model;
  llvm::erase_if(rest.blocks, isHead);
  return rest;
}

static bool isEmbedding(const BlockFacts &block) {
  return block.position == BlockPosition::First;
}

ModelFacts pipesched::withoutShards(const ModelFacts &model, bool spreads) {
  ModelFacts rest = withoutHead(model);
  for (BlockFacts &block : rest.blocks) {
    if (!isEmbedding(block))
      continue;
    llvm::erase_if(block.kernels, isLookup);
    if (spreads) {
      block.parameters = block.tiedParameters = 0;
      block.state.reset();
    }
  }
  if (std::optional<BlockFacts> casts = castsOfLast(model))
    rest.blocks.push_back(std::move(*casts));
  return rest;
}

ModelFacts pipesched::withoutEnds(const ModelFacts &model) {
  ModelFacts rest = withoutHead(model);
  llvm::erase_if(rest.blocks, isEmbedding);
  return rest;
}

static int64_t embeddingParameters(const ModelFacts &model) {
  int64_t sum = 0;
  for (const BlockFacts &block : model.blocks)
    if (isEmbedding(block))
      sum += block.parameters * block.count;
  return sum;
}

double pipesched::untiedPart(const ModelFacts &model) {
  int64_t all = embeddingParameters(model), tied = 0;
  for (const BlockFacts &block : model.blocks)
    if (isHead(block))
      tied += block.tiedParameters;
  return all > 0 ? double(std::max<int64_t>(all - tied, 0)) / double(all) : 0;
}

double pipesched::outputBytes(const ModelFacts &model) {
  return 2.0 * double(model.boundaryBytes) +
         4.0 * double(model.microbatchSize) * double(model.sequence);
}

void pipesched::addEmbedding(const ModelFacts &model, const ShardSize &size,
                             BlockFacts &shard) {
  double own = untiedPart(model) * double(embeddingParameters(model));
  shard.parameters += size.of(std::llround(std::ceil(own)));
}

double pipesched::statisticBytes(const ModelFacts &model) {
  return 8.0 * double(model.microbatchSize) * double(model.sequence);
}

double pipesched::embeddedBytes(const ModelFacts &model) {
  bool looksUp = llvm::any_of(model.blocks, [](const BlockFacts &block) {
    return isEmbedding(block) && llvm::any_of(block.kernels, isLookup);
  });
  return looksUp ? double(model.boundaryBytes) : 0;
}

//===----------------------------------------------------------------------===//
// Sweeps over scores and outputs
//===----------------------------------------------------------------------===//

namespace {
class ShardKernels {
public:
  explicit ShardKernels(BlockFacts &shard)
      : shard(shard), isStated(anyStates(shard, &Kernel::backward)) {}

  void add(llvm::StringRef name, Work inS, Work inT) {
    Kernel &kernel = shard.kernels.emplace_back();
    kernel.name = name.str();
    kernel.engine = Engine::Vector;
    kernel.forward = inS;
    kernel.weightGrad = inT;
    if (isStated)
      kernel.backward = inT;
  }

private:
  BlockFacts &shard;
  bool isStated;
};
} // namespace

// Adds the kernels of a shard, with these bytes for each score n of the shard
// and each element x of the last output:
//
//                                          S      T
//   input from 32 to 16 bits               6x
//   maximum of the scores                  2n
//   softmax times its correction                  8n
//   gradient of the output in 32 bits             6x    Vocab-1, before Z
//   softmax for its product                       6n    Vocab-2; S has the
//                                                       softmax of I
//   rows of the targets                    4x           Vocab-2
//   both parts of the gradient, 32 bits    12x    12x   Vocab-2, around Y
llvm::Error pipesched::addPasses(const ModelFacts &model, const ShardSize &size,
                                 bool reduces, BlockFacts &shard) {
  if (size.getEntries() == 0 || model.sequence == 0)
    return llvm::Error::success();
  CheckedInt count = CheckedInt(model.microbatchSize) * model.sequence;
  count = count * size.getEntries();
  if (!(count * (2 * kFloatBytes)).isValid() ||
      !(CheckedInt(model.boundaryBytes) * (2 * kCastBytes)).isValid())
    return formatError("the scores of a shard of '{0}' are over 2^63 - 1 bytes",
                       model.name);
  int64_t scores = count.get(), outputs = model.boundaryBytes / kElementBytes;
  ShardKernels kernels(shard);
  kernels.add("input_cast", {outputs, kCastBytes * outputs}, {});
  kernels.add("local_maximum", {scores, kElementBytes * scores}, {});
  kernels.add("softmax_correction", {}, {scores, 2 * kFloatBytes * scores});
  if (reduces) {
    kernels.add("gradient_cast", {}, {outputs, kCastBytes * outputs});
    return llvm::Error::success();
  }
  kernels.add("softmax_cast", {}, {scores, kCastBytes * scores});
  kernels.add("target_rows", {0, 2 * kElementBytes * outputs}, {});
  kernels.add("gradient_parts", {2 * outputs, 2 * kCastBytes * outputs},
              {2 * outputs, 3 * kFloatBytes * outputs});
  return llvm::Error::success();
}

std::optional<BlockFacts> pipesched::castsOfLast(const ModelFacts &model) {
  if (model.vocabulary == 0 || model.sequence == 0 ||
      !(CheckedInt(model.boundaryBytes) * kCastBytes).isValid())
    return std::nullopt;
  int64_t outputs = model.boundaryBytes / kElementBytes;
  BlockFacts block;
  block.name = "output_casts";
  block.position = BlockPosition::Last;
  Kernel &kernel = block.kernels.emplace_back();
  kernel.name = "output_cast";
  kernel.engine = Engine::Vector;
  kernel.forward = kernel.inputGrad = {outputs, kCastBytes * outputs};
  return block;
}

//===----------------------------------------------------------------------===//
// Embedding
//===----------------------------------------------------------------------===//

bool pipesched::isLookup(const Kernel &kernel) {
  return kernel.engine == Engine::Vector && kernel.forward.flops == 0 &&
         kernel.forward.bytes > 0;
}

void pipesched::addLookups(const ModelFacts &model, const ShardSize &size,
                           BlockFacts &shard) {
  ShardKernels kernels(shard);
  for (const BlockFacts &block : model.blocks) {
    if (block.position != BlockPosition::First)
      continue;
    for (const Kernel &kernel : block.kernels) {
      if (!isLookup(kernel))
        continue;
      // F reads a row for each token, or the shard's part of these rows, and
      // writes the row, or zeros.
      auto partOf = [&](int64_t number) {
        return llvm::divideCeilSigned(number, size.getNumShards());
      };
      int64_t rows = std::min(model.boundaryBytes, kernel.forward.bytes);
      const Work &sum = kernel.weightGrad;
      kernels.add(kernel.name, {0, kernel.forward.bytes - rows + partOf(rows)},
                  {partOf(sum.flops), partOf(sum.bytes)});
    }
  }
}
