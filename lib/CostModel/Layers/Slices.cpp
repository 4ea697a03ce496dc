//===- Slices.cpp - Slices of microbatches --------------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Cuts a sequence, and computes the share of a slice in each number of a model.
// Numbers that grow with tokens are divided such that slices add up to the
// microbatch.
//
//===----------------------------------------------------------------------===//

#include "PipeSched/CostModel/Layers/Slices.h"
#include "PipeSched/CostModel/Kernels/KernelTimes.h"
#include "PipeSched/CostModel/Layers/SliceExchange.h"
#include "PipeSched/Support/Divisors.h"
#include "PipeSched/Support/FormatError.h"
#include "PipeSched/Support/NearestMultiples.h"
#include <cmath>

using namespace pipesched;
using llvm::Error;
using llvm::Expected;

//===----------------------------------------------------------------------===//
// Cuts
//===----------------------------------------------------------------------===//

/// Returns the smaller root s of perToken s + perPair (s end - s^2 / 2) =
/// target.
static double tokensOf(double target, int64_t end, SequenceWork work) {
  double linear = work.perToken + work.perPair * double(end);
  if (work.perPair <= 0)
    return linear > 0 ? target / linear : double(end);
  double square = linear * linear - 2 * work.perPair * target;
  return (linear - std::sqrt(std::max(square, 0.0))) / work.perPair;
}

static Error refuseEmptySlice(int64_t slice, int64_t sequence,
                              int64_t numSlices, int64_t multiple) {
  return formatError("slice {0} of {1} would have no token: sequences have {2} "
                     "tokens, and slices of equal work are rounded down to "
                     "multiples of {3}; take fewer slices",
                     slice, numSlices, sequence, multiple);
}

Expected<std::vector<TokenSpan>> pipesched::cutByWork(int64_t sequence,
                                                      int64_t numSlices,
                                                      int64_t multiple,
                                                      SequenceWork work) {
  auto all = double(sequence);
  double target =
      (work.perToken * all + work.perPair * all * all / 2) / double(numSlices);
  std::vector<TokenSpan> slices(numSlices);
  int64_t end = sequence;
  for (int64_t slice = numSlices - 1; slice > 0; --slice) {
    auto tokens = static_cast<int64_t>(tokensOf(target, end, work));
    tokens -= tokens % multiple;
    if (tokens < 1 || tokens >= end)
      return refuseEmptySlice(slice, sequence, numSlices, multiple);
    slices[slice] = {end - tokens, end};
    end -= tokens;
  }
  slices.front() = {0, end};
  if (end % multiple != 0)
    return formatError("slice 0 of {0} would have {1} of {2} tokens, but the "
                       "ranks need a multiple of {3}",
                       numSlices, end, sequence, multiple);
  return slices;
}

Expected<std::vector<TokenSpan>>
pipesched::cutBySizes(int64_t sequence, int64_t numSlices, int64_t multiple,
                      llvm::ArrayRef<int64_t> sizes) {
  if (int64_t(sizes.size()) != numSlices)
    return formatError("slice-cut gives the tokens of {0} slices, and "
                       "microbatches have {1}",
                       sizes.size(), numSlices);
  __int128 sum = 0;
  for (int64_t size : sizes)
    sum += size;
  if (sum != sequence)
    return formatError("slice-cut gives {0} slices of together {1} tokens, and "
                       "sequences have {2}",
                       numSlices, int64_t(std::min<__int128>(sum, INT64_MAX)),
                       sequence);
  std::vector<TokenSpan> slices;
  for (int64_t size : sizes) {
    int64_t begin = slices.empty() ? 0 : slices.back().end;
    slices.push_back({begin, begin + size});
  }
  for (auto [slice, span] : llvm::enumerate(slices))
    if (span.size() % multiple != 0)
      return formatError(
          "slice-cut gives slice {0} of {1} {2} tokens, but the ranks need a "
          "multiple of {3}; the nearest multiples are: {4}",
          slice, numSlices, span.size(), multiple,
          nearestMultiples(span.size(), multiple));
  return slices;
}

/// FLOPs of the forward of one sequence.
static SequenceWork workOf(const ModelFacts &model) {
  double core = 0, others = 0;
  for (const BlockFacts &block : model.blocks)
    for (const Kernel &kernel : block.kernels)
      (kernel.seen > 0 ? core : others) += double(block.count) *
                                           double(kernel.count) *
                                           double(kernel.forward.flops);
  auto sequence = double(model.sequence);
  auto sequences = double(model.microbatchSize);
  return {others / sequences / sequence,
          2 * core / sequences / (sequence * sequence)};
}

/// The number of equal parts into which ranks shard a sequence.
static int64_t partsOf(const SystemFacts *system) {
  if (!system)
    return 1;
  int64_t pieces =
      system->contextParallel > 1 ? 2 * system->contextParallel : 1;
  return system->tensorParallel() * pieces;
}

Expected<std::vector<TokenSpan>>
pipesched::cutSequence(const ModelFacts &model, int64_t numSlices,
                       const SystemFacts *system) {
  int64_t sequence = model.sequence;
  if (numSlices == 1)
    return std::vector<TokenSpan>{{0, sequence}};
  if (sequence == 0)
    return formatError("microbatches have {0} slices, and model '{1}' does not "
                       "say how many tokens a sequence has",
                       numSlices, model.name);
  int64_t parts = partsOf(system);
  if (system && !system->sliceCutSizes.empty())
    return cutBySizes(sequence, numSlices, parts, system->sliceCutSizes);
  if (system && system->sliceCut == SliceCut::Work)
    return cutByWork(sequence, numSlices, parts, workOf(model));
  if (sequence % parts != 0 || sequence / parts % numSlices != 0)
    return formatError(
        "sequences of {0} tokens are not divided into {1} equal slices{2}; the "
        "nearest numbers of slices that do are {3}, or cut them by work "
        "(slice-cut=work)",
        sequence, numSlices,
        parts == 1 ? std::string()
                   : llvm::formatv(" of a multiple of {0} tokens, as their "
                                   "ranks divide them",
                                   parts)
                         .str(),
        nearestDivisors(std::max<int64_t>(sequence / parts, 1), numSlices));
  std::vector<TokenSpan> slices;
  int64_t tokens = sequence / numSlices;
  for (int64_t begin = 0; begin != sequence; begin += tokens)
    slices.push_back({begin, begin + tokens});
  return slices;
}

//===----------------------------------------------------------------------===//
// Shares
//===----------------------------------------------------------------------===//

namespace {
/// The share of a slice in the numbers of a microbatch.
class SliceShare {
public:
  SliceShare(const ModelFacts &model, TokenSpan span, const TokenSpan *other)
      : span(span), other(other ? *other : span), sequence(model.sequence),
        tokens(model.microbatchSize * model.sequence),
        weightBytes(model.weightBytesPerParameter) {}

  /// The share in numbers that grow with tokens; slices add up to `whole`.
  int64_t ofTokens(int64_t whole) const {
    return before(whole, span.end) - before(whole, span.begin);
  }
  /// The part of keys and values that the tokens of the slice attend to, if
  /// each attends to `seen` tokens.
  int64_t ofKeys(int64_t whole, int64_t seen) const {
    return fraction(whole, std::min(span.end, seen + span.size() - 1),
                    sequence);
  }
  /// The scores of the slice with all keys up to its end.
  int64_t ofScores(int64_t whole, int64_t seen) const {
    return fraction(whole, span.size() * std::min(span.end, seen),
                    sequence * seen);
  }
  /// The scores that a causal mask does not hide; slices add up to `whole`,
  /// except for rounding.
  int64_t ofPairs(int64_t whole, int64_t seen) const {
    return fraction(whole, evenPairs(seen), pairsBefore(sequence, seen));
  }
  /// The tokens of a sequence that has as many pairs per token as the slice.
  /// Rates of attention kernels depend on this size.
  int64_t equivalentSequence(int64_t seen) const {
    auto length = static_cast<int64_t>(std::sqrt(2 * double(evenPairs(seen))));
    return std::clamp<int64_t>(length, 1, sequence);
  }

  BlockFacts shareOf(const BlockFacts &block) const;

  /// The bytes that a core moves for the part of the attention that the slice
  /// with more pairs passes on. The part has all queries of that slice, and as
  /// many keys and values as balance the pairs.
  int64_t ofPart(int64_t bytes, int64_t keyBytes, int64_t seen) const {
    __int128 own = pairsOf(span, seen), others = pairsOf(other, seen);
    if (own == others)
      return 0;
    TokenSpan giver = own > others ? span : other;
    __int128 given = (own > others ? own - others : others - own) / 2;
    int64_t keys = std::min(keyBytes, bytes);
    return fraction(bytes - keys, giver.size(), sequence) +
           fraction(keys, given, __int128(giver.size()) * sequence);
  }
  bool gives(int64_t seen) const {
    return pairsOf(span, seen) > pairsOf(other, seen);
  }

private:
  static int64_t fraction(int64_t whole, __int128 part, __int128 all) {
    return static_cast<int64_t>(double(whole) * double(part) / double(all) +
                                0.5);
  }
  int64_t before(int64_t whole, int64_t end) const {
    return static_cast<int64_t>(static_cast<__int128>(whole) * end / sequence);
  }
  /// The number of pairs of one of the first `count` tokens and a token that it
  /// attends to.
  static __int128 pairsBefore(int64_t count, int64_t seen) {
    __int128 ramp = std::min(count, seen);
    return ramp * (ramp + 1) / 2 + (__int128(count) - ramp) * seen;
  }

  __int128 pairsOf(TokenSpan slice, int64_t seen) const {
    return pairsBefore(slice.end, seen) - pairsBefore(slice.begin, seen);
  }
  /// The pairs of the slice, or half of the pairs of both slices that share
  /// them.
  __int128 evenPairs(int64_t seen) const {
    return (pairsOf(span, seen) + pairsOf(other, seen)) / 2;
  }

  Kernel shareOf(const Kernel &kernel, bool keepsScores,
                 int64_t keyBytes) const;
  Work shareOf(const Work &work, const Kernel &kernel) const;
  Work ofCore(const Work &work, const Kernel &kernel, bool keepsScores,
              int64_t keyBytes) const;
  int64_t weightsOf(const Kernel &kernel) const;

  TokenSpan span;
  TokenSpan other; ///< shares the attention; else the slice itself
  int64_t sequence, tokens, weightBytes;
};
} // namespace

/// The bytes of a kernel's weights, which each slice reads again. A kernel on
/// rows of experts states them. For a product whose weights have gradients they
/// follow from its FLOPs, 2 for each token and weight.
int64_t SliceShare::weightsOf(const Kernel &kernel) const {
  if (kernel.routed)
    return kernel.weightBytes;
  if (!isMatrix(kernel.engine) || kernel.weightGrad.flops == 0)
    return 0;
  return kernel.weightGrad.flops / (2 * tokens) * weightBytes;
}

Work SliceShare::shareOf(const Work &work, const Kernel &kernel) const {
  int64_t weights = std::min(weightsOf(kernel), work.bytes);
  return {ofTokens(work.flops), ofTokens(work.bytes - weights) + weights};
}

/// The share of a slice in an attention core. Kernels that keep scores also
/// compute scores that a mask hides, but not scores with keys of later slices.
/// A fused kernel reads queries and writes outputs of the slice, and reads the
/// keys and values of all tokens that it attends to (`keyBytes` in all). Slices
/// add up to a microbatch whether or not the kernel skips masked pairs.
Work SliceShare::ofCore(const Work &work, const Kernel &kernel,
                        bool keepsScores, int64_t keyBytes) const {
  int64_t seen = kernel.seen;
  if (kernel.engine == Engine::Context)
    return {0, ofKeys(work.bytes, seen)};
  if (keepsScores)
    return {ofScores(work.flops, seen), ofScores(work.bytes, seen)};
  int64_t keys = std::min(keyBytes, work.bytes);
  int64_t bytes = ofTokens(work.bytes - keys) + ofKeys(keys, seen);
  // The taker reads and writes the part as well; the giver saves little.
  if (!gives(seen))
    bytes += ofPart(work.bytes, keyBytes, seen);
  return {ofPairs(work.flops, seen), bytes};
}

Kernel SliceShare::shareOf(const Kernel &kernel, bool keepsScores,
                           int64_t keyBytes) const {
  Kernel result = kernel;
  if (kernel.onParameters)
    return result;
  bool isCore = kernel.seen > 0;
  auto take = [&](Work &work, int64_t bytes) {
    if (!work.isZero())
      work = isCore ? ofCore(work, kernel, keepsScores, bytes)
                    : shareOf(work, kernel);
  };
  take(result.forward, keyBytes);
  // The backward reads keys and values and writes their gradients.
  take(result.inputGrad, 2 * keyBytes);
  take(result.weightGrad, 2 * keyBytes);
  if (result.backward)
    take(*result.backward, 2 * keyBytes);
  if (result.recompute)
    take(*result.recompute, keyBytes);
  if (!isCore)
    return result;
  result.seen = std::min(kernel.seen, span.end);
  if (!kernel.attention)
    return result;
  result.attention->sequence = equivalentSequence(kernel.seen);
  result.attention->maskedFlops =
      ofPairs(kernel.attention->maskedFlops, kernel.seen);
  return result;
}

BlockFacts SliceShare::shareOf(const BlockFacts &block) const {
  BlockFacts result = block;
  int64_t keyBytes = keyValueBytes(block), seen = 0;
  bool keepsScores = false;
  for (const Kernel &kernel : block.kernels)
    if (kernel.seen > 0) {
      seen = std::max(seen, kernel.seen);
      keepsScores |= kernel.engine == Engine::Vector;
    }
  for (Kernel &kernel : result.kernels)
    kernel = shareOf(kernel, keepsScores, keyBytes);
  result.coreBytes =
      keepsScores ? ofScores(block.coreBytes, seen) : ofTokens(block.coreBytes);
  result.activationBytes =
      ofTokens(block.activationBytes - block.coreBytes) + result.coreBytes;
  for (auto bytes :
       {&BlockFacts::weightGradBytes, &BlockFacts::recomputedBytes})
    result.*bytes = ofTokens(block.*bytes);
  result.recomputedBytes =
      std::min(result.recomputedBytes + ofTokens(keyBytes),
               std::max(result.recomputedBytes, result.activationBytes));
  for (auto bytes : {&WholeBytes::activation, &WholeBytes::weightGrad,
                     &WholeBytes::recomputed})
    result.whole.*bytes = ofTokens(block.whole.*bytes);
  if (result.messages)
    result.messages = {ofTokens(result.messages->activation),
                       ofTokens(result.messages->gradient)};
  if (ExpertFacts *experts = result.experts ? &*result.experts : nullptr) {
    for (auto number : {&ExpertFacts::rows, &ExpertFacts::activationBytes,
                        &ExpertFacts::weightGradBytes})
      experts->*number = ofTokens(experts->*number);
    experts->wide = {ofTokens(experts->wide.activation),
                     ofTokens(experts->wide.weightGrad)};
  }
  return result;
}

ModelFacts pipesched::takeSlice(const ModelFacts &model, TokenSpan span,
                                const TokenSpan *sharedWith) {
  SliceShare share(model, span, sharedWith);
  ModelFacts slice = model;
  slice.sequence = span.size();
  slice.boundaryBytes = share.ofTokens(model.boundaryBytes);
  for (BlockFacts &block : slice.blocks)
    block = share.shareOf(block);
  return slice;
}

PhaseMap<int64_t> pipesched::exchangedBytes(const ModelFacts &model,
                                            const BlockFacts &block,
                                            TokenSpan one, TokenSpan other) {
  SliceShare share(model, one, &other);
  int64_t keyBytes = keyValueBytes(block);
  PhaseMap<int64_t> bytes = {};
  for (const Kernel &kernel : block.kernels) {
    if (kernel.seen == 0 || kernel.engine == Engine::Context)
      continue;
    auto add = [&](Phase phase, const Work &work, int64_t keys) {
      if (!work.isZero())
        bytes[phase] +=
            kernel.count * share.ofPart(work.bytes, keys, kernel.seen);
    };
    add(Phase::Forward, kernel.forward, keyBytes);
    add(Phase::InputGrad, kernel.inputGrad, 2 * keyBytes);
    if (model.recompute == Recompute::Selective ? kernel.core
                                                : kernel.recomputed)
      add(Phase::Recompute, kernel.forward, keyBytes);
  }
  return bytes;
}

bool pipesched::keepsScores(const BlockFacts &block) {
  return llvm::any_of(block.kernels, [](const Kernel &kernel) {
    return kernel.seen > 0 && kernel.engine == Engine::Vector;
  });
}

int64_t pipesched::keyValueBytes(const BlockFacts &block) {
  int64_t bytes = 0;
  for (const Kernel &kernel : block.kernels)
    if (kernel.engine == Engine::Context && passesKeys(kernel))
      bytes += kernel.count * kernel.forward.bytes;
  return bytes;
}

//===----------------------------------------------------------------------===//
// Exchanges of slices
//===----------------------------------------------------------------------===//

/// Returns the workers of a path that goes around them, in the order of stages.
static Expected<std::vector<int64_t>> ringOfSlices(const Placement &placement) {
  if (placement.getNumPaths() != 1)
    return formatError("slice-exchange=pairs needs microbatches that go one "
                       "way, and the placement has {0} paths",
                       placement.getNumPaths());
  std::vector<int64_t> ring;
  for (int64_t stage = 0; stage < placement.getNumGlobalStages(); ++stage) {
    int64_t worker = placement.workerOf(stage);
    if (!llvm::is_contained(ring, worker) && stage == int64_t(ring.size()))
      ring.push_back(worker);
    else if (worker != ring[stage % ring.size()])
      return formatError("slice-exchange=pairs needs stages that go around the "
                         "workers, and stage {0} is on worker {1} instead of "
                         "{2}",
                         stage, worker, ring[stage % ring.size()]);
  }
  if (placement.getNumGlobalStages() % ring.size() != 0)
    return formatError("slice-exchange=pairs needs equally many stages on each "
                       "worker, and there are {0} on {1}",
                       placement.getNumGlobalStages(), ring.size());
  return ring;
}

namespace {
/// The order of the chunks and slices of a microbatch on a worker: slices run
/// in groups, each group through all chunks (SlimPipe).
class PlaceOrder {
public:
  PlaceOrder(int64_t numWorkers, int64_t numSlices, int64_t numChunks)
      : group(numSlices), chunks(numChunks), length(numSlices * numChunks) {
    if (numChunks == 1)
      return;
    group = numWorkers;
    while (numSlices % group != 0)
      ++group;
  }
  int64_t placeOf(int64_t chunk, int64_t slice) const {
    return (slice / group * chunks + chunk) * group + slice % group;
  }
  /// Places after the last one belong to the next microbatch.
  int64_t sliceAt(int64_t place) const {
    int64_t inside = ((place % length) + length) % length;
    return inside / (group * chunks) * group + inside % group;
  }

private:
  int64_t group, chunks, length;
};
} // namespace

Expected<std::vector<SlicePartner>>
pipesched::pairSlices(const Placement &placement,
                      llvm::ArrayRef<TokenSpan> slices) {
  Expected<std::vector<int64_t>> ring = ringOfSlices(placement);
  if (!ring)
    return ring.takeError();
  int64_t numWorkers = ring->size(), numSlices = slices.size();
  int64_t numStages = placement.getNumGlobalStages();
  int64_t numChunks = numStages / numWorkers;
  if (numChunks > 1 && numSlices < numWorkers)
    return formatError("slice-exchange=pairs needs at least as many slices as "
                       "workers where these have several stages, and there "
                       "are {0} slices on {1} workers",
                       numSlices, numWorkers);
  PlaceOrder order(numWorkers, numSlices, numChunks);
  std::vector<SlicePartner> partners;
  // By worker: the slices that are computed at the same time as one cell,
  // sorted by prefix.
  std::vector<int64_t> sliceOf(numWorkers), byPrefix(numWorkers);
  for (int64_t stage = 0; stage < numStages; ++stage)
    for (int64_t slice = 0; slice < numSlices; ++slice) {
      int64_t own = stage % numWorkers;
      int64_t place = order.placeOf(stage / numWorkers, slice) + own;
      for (int64_t other = 0; other < numWorkers; ++other) {
        sliceOf[other] = order.sliceAt(place - other);
        byPrefix[other] = other;
      }
      llvm::sort(byPrefix, [&](int64_t a, int64_t b) {
        return std::pair(slices[sliceOf[a]].end, a) <
               std::pair(slices[sliceOf[b]].end, b);
      });
      int64_t rank = llvm::find(byPrefix, own) - byPrefix.begin();
      int64_t partner = byPrefix[numWorkers - 1 - rank];
      bool isAlone = slices[sliceOf[partner]] == slices[slice];
      partners.push_back(
          isAlone ? SlicePartner()
                  : SlicePartner{(*ring)[partner], sliceOf[partner]});
    }
  return partners;
}

namespace {
/// The start of a row.
struct Lead {
  int64_t forwards = 0, all = 0; ///< before the first backward, and in total
  bool isOver = false;

  explicit Lead(llvm::ArrayRef<Cell> row) {
    for (Cell cell : row) {
      isOver |= cell.isIn(kBackwardStarts);
      forwards += !isOver && cell.is(Phase::Forward);
      all += cell.is(Phase::Forward);
    }
  }
};
} // namespace

Error pipesched::checkSliceExchange(const Placement &placement,
                                    llvm::ArrayRef<llvm::ArrayRef<Cell>> rows) {
  Expected<std::vector<int64_t>> ring = ringOfSlices(placement);
  if (!ring)
    return ring.takeError();
  for (size_t i = 1; i < ring->size(); ++i) {
    Lead before(rows[(*ring)[i - 1]]), own(rows[(*ring)[i]]);
    int64_t wanted = std::min(own.forwards + 2, own.all);
    if (before.forwards == wanted)
      continue;
    return formatError(
        "slice-exchange=pairs needs workers that compute successive slices at "
        "the same time, as in slimpipe: worker {0} would run {1} forwards "
        "before its first backward, as worker {2} runs {3}, and it runs {4}",
        (*ring)[i - 1], wanted, (*ring)[i], own.forwards, before.forwards);
  }
  return Error::success();
}
