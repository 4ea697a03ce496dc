//===- Slices.h - Slices of microbatches ------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Cuts sequences along their tokens, and takes the facts of a slice from the
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

/// The work of one sequence, in any unit, for each token and for each pair of a
/// token and a token that it sees; a token with itself counts as half a pair.
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

/// Slices of the given numbers of tokens. Errors: a number of sizes that
/// differs from the number of slices; sizes that do not add up to the sequence;
/// a size that is not a multiple of `multiple`, with the nearest multiples.
llvm::Expected<std::vector<TokenSpan>>
cutBySizes(int64_t sequence, int64_t numSlices, int64_t multiple,
           llvm::ArrayRef<int64_t> sizes);

/// The slices of a sequence, as the system's `slice-cut` says. Their sizes are
/// multiples of the number of pieces that ranks divide: the tensor-parallel
/// degree, times two pieces of each context-parallel rank. `system` may be
/// null. Errors: a model whose sequences or whose tokens that see others are
/// not known; sizes that do not divide, with the nearest numbers of slices that
/// do.
llvm::Expected<std::vector<TokenSpan>> cutSequence(const ModelFacts &model,
                                                   int64_t numSlices,
                                                   const SystemFacts *system);

/// The facts of one slice of each microbatch: all but the attention core in
/// proportion to tokens. In the core, each token of the slice goes over the
/// keys and values of the tokens before it that it sees. Parameters are the
/// model's, and each weight is read again. Under full recomputation keys and
/// values are kept, since later slices need them. `model` describes a whole
/// microbatch, and the span is a part of its sequence. With `sharedWith` the
/// core has half of the pairs of both slices; it must be a fused one.
ModelFacts takeSlice(const ModelFacts &model, TokenSpan span,
                     const TokenSpan *sharedWith = nullptr);

/// The bytes that two workers exchange for one block if slices share their
/// attention this way: the core's reads and writes for the part that one gives
/// to the other. By phase, for F, I and R.
PhaseMap<int64_t> exchangedBytes(const ModelFacts &model,
                                 const BlockFacts &block, TokenSpan one,
                                 TokenSpan other);

/// Whether the attention core writes scores.
bool keepsScores(const BlockFacts &block);

/// The bytes of keys and values of a block that other tokens see, for one
/// microbatch: the block's kernel on Engine::Context sends them to other ranks
/// in its F. 0 without one.
int64_t keyValueBytes(const BlockFacts &block);

} // namespace pipesched

#endif // PIPESCHED_COSTMODEL_LAYERS_SLICES_H
