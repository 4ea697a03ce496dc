//===- ShardWork.h - The work of a shard of a head --------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Sizes and kernels of a shard of a head and of its embedding (Yeung et al.
// 2024, arXiv 2411.05288; docs/CostModel.md, "Shards of a vocabulary").
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_LIB_COSTMODEL_VOCAB_SHARDWORK_H
#define PIPESCHED_LIB_COSTMODEL_VOCAB_SHARDWORK_H

#include "PipeSched/Facts/Facts.h"

namespace pipesched {

/// The part of a vocabulary that each of some workers has.
class ShardSize {
public:
  /// A vocabulary is padded to a multiple of twice the shards, so that all have
  /// equally many entries, an even number, as Megatron-LM pads it. One that is
  /// not known (0) is divided evenly. Error: fewer entries than shards.
  static llvm::Expected<ShardSize> get(const ModelFacts &model,
                                       int64_t numShards);

  int64_t getNumShards() const { return numShards; }
  /// 0: not known.
  int64_t getEntries() const { return entries; }
  /// The share in a number, not below 0, that grows with the entries, rounded
  /// up.
  int64_t of(int64_t whole) const;

private:
  ShardSize(int64_t vocabulary, int64_t entries, int64_t numShards)
      : vocabulary(vocabulary), entries(entries), numShards(numShards) {}

  int64_t vocabulary, entries, numShards;
};

/// Whether a block comes after the layers.
bool isHead(const BlockFacts &block);

/// The model without its head; without its head and embedding; and without the
/// shards' work on both: the layers, and the first stage's own work in front of
/// them. The shards have its lookups and parameters; `spreads` says whether the
/// parameters are counted with them.
ModelFacts withoutHead(const ModelFacts &model);
ModelFacts withoutEnds(const ModelFacts &model);
ModelFacts withoutShards(const ModelFacts &model, bool spreads);

/// The part of the embedding's parameters that are not the head's too: with a
/// tied table each worker has its rows once, in the shard of the head.
double untiedPart(const ModelFacts &model);
/// Adds a shard's part of the embedding's own parameters.
void addEmbedding(const ModelFacts &model, const ShardSize &size,
                  BlockFacts &shard);

/// The last output in 32 bits, with one more column (the paper's X). The model
/// has 16 bits an element.
double outputBytes(const ModelFacts &model);
/// Maximum and sum of each token, in 32 bits.
double statisticBytes(const ModelFacts &model);
/// The output of the embedding, 0 if no kernel looks it up.
double embeddedBytes(const ModelFacts &model);

/// The shard's part of a head: of the FLOPs and bytes of every kernel and of
/// the parameters, so that the efficiency is that of the smaller kernel.
BlockFacts shardOf(BlockFacts head, const ShardSize &size);

/// Adds the work of a shard beyond its part of a whole head, if the entries are
/// known: in F the work of S, in W the work of T. `reduces`: Vocab-1, else
/// Vocab-2. Error: more than 2^63 - 1 bytes.
llvm::Error addPasses(const ModelFacts &model, const ShardSize &size,
                      bool reduces, BlockFacts &shard);

/// The block that the last stage has in place of the head, if the entries are
/// known: F casts the output to 32 bits for X, and the backward its gradient
/// back.
std::optional<BlockFacts> castsOfLast(const ModelFacts &model);

/// Whether a kernel of a block in front of the layers looks up rows of the
/// embedding: F computes nothing.
bool isLookup(const Kernel &kernel);

/// Adds the lookups of the embedding to S, and the sums of their gradients to
/// T. Each worker has a part of the rows, and fills the output of all tokens.
void addLookups(const ModelFacts &model, const ShardSize &size,
                BlockFacts &shard);

} // namespace pipesched

#endif // PIPESCHED_LIB_COSTMODEL_VOCAB_SHARDWORK_H
