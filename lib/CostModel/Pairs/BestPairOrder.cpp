//===- BestPairOrder.cpp - The best order of parts of layers --------------===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Branch and bound over the orders of both streams. The compute stream has 45
// orders of its six parts (6 of four, if weights are not delayed), the exchange
// stream six of its four:
//
//   compute   attention.F < mlp.F,  mlp.I < attention.I < attention.W,
//             mlp.I < mlp.W
//   exchange  dispatch.F < combine.F,  combine.I < dispatch.I
//
// Any other order would wait for itself. Each order of the compute stream is
// first run with any number of exchanges at once, which no order of the
// exchange stream can beat.
//
//===----------------------------------------------------------------------===//

#include "PairStreams.h"
#include "llvm/ADT/STLExtras.h"

using namespace pipesched;
using llvm::ArrayRef;
using llvm::Expected;

namespace {
constexpr Phase F = Phase::Forward, I = Phase::InputGrad, W = Phase::WeightGrad;

/// One part before another one of the same stream.
struct Before {
  PartPhase first, second;
};
constexpr Before kChains[] = {
    {{LayerPart::Attention, F}, {LayerPart::Mlp, F}},
    {{LayerPart::Mlp, I}, {LayerPart::Attention, I}},
    {{LayerPart::Attention, I}, {LayerPart::Attention, W}},
    {{LayerPart::Mlp, I}, {LayerPart::Mlp, W}},
    {{LayerPart::Dispatch, F}, {LayerPart::Combine, F}},
    {{LayerPart::Combine, I}, {LayerPart::Dispatch, I}}};
} // namespace

static bool canFollow(ArrayRef<PartPhase> order, PartPhase next) {
  return llvm::none_of(kChains, [&](const Before &chain) {
    return chain.second == next && !llvm::is_contained(order, chain.first);
  });
}

/// Adds all orders of `left` behind `order` that keep the chains.
static void extend(PairPattern &order, ArrayRef<PartPhase> left,
                   std::vector<PairPattern> &found) {
  if (order.size() == left.size()) {
    found.push_back(order);
    return;
  }
  for (PartPhase next : left) {
    if (llvm::is_contained(order, next) || !canFollow(order, next))
      continue;
    order.push_back(next);
    extend(order, left, found);
    order.pop_back();
  }
}

static std::vector<PairPattern> ordersOn(Stream stream, bool delaysWeights) {
  PairPattern parts = patternOf(PairOrder::DeepSeek, delaysWeights);
  llvm::erase_if(parts,
                 [&](PartPhase what) { return streamOf(what.part) != stream; });
  std::vector<PairPattern> found;
  PairPattern order;
  extend(order, parts, found);
  return found;
}

/// The order of issue of both streams is that of either; how they interleave
/// changes nothing.
static PairPattern join(const PairPattern &compute,
                        const PairPattern &exchange) {
  PairPattern both = compute;
  llvm::append_range(both, exchange);
  return both;
}

/// Whether a pair of cells is one of single layers, of which all orders are the
/// same for all layers.
static bool isOnePair(const PairLayers &layers) {
  return layers.forward.size() <= 1 && layers.backward.size() <= 1;
}

Expected<PairSchedule> pipesched::findBestPair(const PairLayers &layers,
                                               const PairOptions &options) {
  auto run = [&](const PairPattern &pattern, Exchanges exchanges) {
    return runPair(layers, pattern, options, exchanges);
  };
  Expected<PairSchedule> best =
      run(patternOf(PairOrder::DeepSeek, layers.delaysWeights),
          Exchanges::OneAtATime);
  if (!best)
    return best;
  int64_t numTimed = 1, numCut = 0, boundPs = boundPair(layers);
  std::vector<PairPattern> exchanges =
      ordersOn(Stream::Exchange, layers.delaysWeights);
  for (const PairPattern &compute :
       ordersOn(Stream::Compute, layers.delaysWeights)) {
    if (best->endPs == boundPs)
      break;
    Expected<PairSchedule> free =
        run(join(compute, exchanges.front()), Exchanges::AnyNumber);
    if (!free || free->endPs >= best->endPs) {
      llvm::consumeError(free.takeError());
      numCut += int64_t(exchanges.size());
      continue;
    }
    for (const PairPattern &exchange : exchanges) {
      Expected<PairSchedule> timed =
          run(join(compute, exchange), Exchanges::OneAtATime);
      ++numTimed;
      if (!timed)
        llvm::consumeError(timed.takeError()); // streams wait for each other
      else if (timed->endPs < best->endPs)
        best = std::move(timed);
    }
  }
  best->numTimed = numTimed;
  best->numCut = numCut;
  best->isOptimal = isOnePair(layers);
  return best;
}
