//===- ShardWork.h - The work of a shard of a head --------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Sizes and kernels of a shard of the head and of its embedding (Yeung et al.
// 2024, arXiv 2411.05288; docs/CostModel.md, "Shards of a vocabulary").
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_LIB_COSTMODEL_VOCAB_SHARDWORK_H
#define PIPESCHED_LIB_COSTMODEL_VOCAB_SHARDWORK_H

#include "PipeSched/Facts/Facts.h"

namespace pipesched {

/// The part of a vocabulary on each worker that has a shard.
class ShardSize {
public:
  /// Returns the size of a shard. A vocabulary is padded to a multiple of twice
  /// the shards, so that all have the same, even number of entries, as in
  /// Megatron-LM. An unknown vocabulary (0) is divided evenly. Error: fewer
  /// entries than shards.
  static llvm::Expected<ShardSize> get(const ModelFacts &model,
                                       int64_t numShards);

  int64_t getNumShards() const { return numShards; }
  /// 0: unknown.
  int64_t getEntries() const { return entries; }
  /// The shard's part of a number that grows with the entries, rounded up. The
  /// number must not be negative.
  int64_t of(int64_t whole) const;

private:
  ShardSize(int64_t vocabulary, int64_t entries, int64_t numShards)
      : vocabulary(vocabulary), entries(entries), numShards(numShards) {}

  int64_t vocabulary, entries, numShards;
};

/// Whether a block comes after the layers.
bool isHead(const BlockFacts &block);

/// Returns the model without its head. The next two functions return it without
/// head and embedding, and without the shards' work on both; the last one keeps
/// the layers and the first stage's own work before them. The shards have its
/// lookups and parameters; `spreads` states whether the parameters are counted
/// with the shards.
ModelFacts withoutHead(const ModelFacts &model);
ModelFacts withoutEnds(const ModelFacts &model);
ModelFacts withoutShards(const ModelFacts &model, bool spreads);

/// The fraction of the embedding's parameters that the head does not share.
/// With a tied table, each worker has its rows once, in the shard of the head.
double untiedPart(const ModelFacts &model);
/// Adds a shard's part of the embedding's own parameters.
void addEmbedding(const ModelFacts &model, const ShardSize &size,
                  BlockFacts &shard);

/// Bytes of the last output in 32 bits, with one more column (the paper's X).
/// The model has 16 bits per element.
double outputBytes(const ModelFacts &model);
/// Bytes of the maximum and sum of each token, in 32 bits.
double statisticBytes(const ModelFacts &model);
/// Bytes of the embedding's output; 0 if no kernel looks it up.
double embeddedBytes(const ModelFacts &model);

/// Returns the shard's part of a head: of the FLOPs and bytes of every kernel,
/// so that these have the efficiency of the smaller kernel, and of the
/// parameters.
BlockFacts shardOf(BlockFacts head, const ShardSize &size);

/// Adds the work of a shard beyond its part of a whole head, if the number of
/// entries is known: the work of S to F, the work of T to W. `reduces` is true
/// for Vocab-1 and false for Vocab-2. Error: more than 2^63 - 1 bytes.
llvm::Error addPasses(const ModelFacts &model, const ShardSize &size,
                      bool reduces, BlockFacts &shard);

/// Returns the block that replaces the head on the last stage, if the number of
/// entries is known: F casts the output to 32 bits for X, and the backward
/// casts its gradient back.
std::optional<BlockFacts> castsOfLast(const ModelFacts &model);

/// Whether a kernel of a block before the layers looks up rows of the
/// embedding. Its F computes nothing.
bool isLookup(const Kernel &kernel);

/// Adds the lookups of the embedding to S, and the sums of their gradients to
/// T. Each worker has a part of the rows, and fills the output of all tokens.
void addLookups(const ModelFacts &model, const ShardSize &size,
                BlockFacts &shard);

} // namespace pipesched

#endif // PIPESCHED_LIB_COSTMODEL_VOCAB_SHARDWORK_H
