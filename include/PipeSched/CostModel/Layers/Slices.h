//===- Slices.h - Slices of microbatches ------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Cuts sequences along their tokens, and derives the facts of a slice from the
// facts of a microbatch (docs/CostModel.md, "Slices").
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_COSTMODEL_LAYERS_SLICES_H
#define PIPESCHED_COSTMODEL_LAYERS_SLICES_H

#include "PipeSched/Facts/System.h"
#include "PipeSched/Schedule/Kinds/Phase.h"

namespace pipesched {

/// The tokens from `begin` to `end` - 1 of every sequence of a microbatch.
struct TokenSpan {
  int64_t begin = 0, end = 0;

  int64_t size() const { return end - begin; }
  friend bool operator==(TokenSpan a, TokenSpan b) {
    return a.begin == b.begin && a.end == b.end;
  }
};

/// The work of one sequence in any unit: `perToken` for each token, `perPair`
/// for each pair of a token and a token that it attends to. A token with itself
/// counts as half a pair.
struct SequenceWork {
  double perToken = 0, perPair = 0;
};

/// Slices of equal work: s tokens that end at token E have the work perToken s
/// + perPair (s E - s^2 / 2). Solved from the last slice to the first and
/// rounded down to a multiple of `multiple`; the first slice takes the rest
/// (arXiv 2406.03488, section 3.4). Errors: a slice without a token.
llvm::Expected<std::vector<TokenSpan>> cutByWork(int64_t sequence,
                                                 int64_t numSlices,
                                                 int64_t multiple,
                                                 SequenceWork work);

/// Returns slices with the given numbers of tokens. Errors: a number of sizes
/// that differs from the number of slices; sizes that do not add up to the
/// sequence; a size that is not a multiple of `multiple`, with the nearest
/// multiples.
llvm::Expected<std::vector<TokenSpan>>
cutBySizes(int64_t sequence, int64_t numSlices, int64_t multiple,
           llvm::ArrayRef<int64_t> sizes);

/// Returns the slices of a sequence by the system's `slice-cut`. Their sizes
/// are multiples of the number of pieces into which ranks shard the sequence:
/// the tensor-parallel degree, times two pieces for each context-parallel rank.
/// `system` may be null. Errors: a model with unknown sequences, or whose
/// tokens attend to an unknown number of tokens; sizes that do not divide, with
/// the nearest numbers of slices that do.
llvm::Expected<std::vector<TokenSpan>> cutSequence(const ModelFacts &model,
                                                   int64_t numSlices,
                                                   const SystemFacts *system);

/// Returns the facts of one slice of each microbatch. All but the attention
/// core is proportional to tokens. In the core, each token of the slice reads
/// the keys and values of the earlier tokens that it attends to. Parameters are
/// the model's, and each slice reads the weights again. Under full
/// recomputation keys and values are kept, because later slices need them.
/// `model` describes a whole microbatch, and the span is a part of its
/// sequence. With `sharedWith`, the core has half of the pairs of both slices;
/// it must be a fused core.
ModelFacts takeSlice(const ModelFacts &model, TokenSpan span,
                     const TokenSpan *sharedWith = nullptr);

/// Returns the bytes that two workers exchange for one block if their slices
/// balance their attention: what the core reads and writes for the part that
/// one passes to the other. By phase, for F, I and R.
PhaseMap<int64_t> exchangedBytes(const ModelFacts &model,
                                 const BlockFacts &block, TokenSpan one,
                                 TokenSpan other);

/// Whether the attention core writes scores.
bool keepsScores(const BlockFacts &block);

/// Returns the bytes of keys and values of a block that other tokens read, for
/// one microbatch: the block's kernel on Engine::Context sends them to other
/// ranks in its F. 0 without such a kernel.
int64_t keyValueBytes(const BlockFacts &block);

} // namespace pipesched

#endif // PIPESCHED_COSTMODEL_LAYERS_SLICES_H
