//===- Overlap.cpp - C API for overlapped layers --------------------------===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Pairs of cells whose layers overlap, and the parts of a model's layers.
//
//===----------------------------------------------------------------------===//

#include "PipeSched-c/Overlap.h"
#include "Enums.h"
#include "PipeSched/CostModel/Pairs/OverlappedLayers.h"
#include "Wrap.h"

using namespace pipesched;
using llvm::Error;
using llvm::Expected;

static_assert(isSame(PipeschedLayerPartAttention, LayerPart::Attention) &&
              isSame(PipeschedLayerPartDispatch, LayerPart::Dispatch) &&
              isSame(PipeschedLayerPartMlp, LayerPart::Mlp) &&
              isSame(PipeschedLayerPartCombine, LayerPart::Combine));
static_assert(isSame(PipeschedPairOrderInTurn, PairOrder::InTurn) &&
              isSame(PipeschedPairOrderDeepSeek, PairOrder::DeepSeek) &&
              isSame(PipeschedPairOrderMegatron, PairOrder::Megatron) &&
              isSame(PipeschedPairOrderBest, PairOrder::Best) &&
              isSame(PipeschedPairOrderFluid, PairOrder::Fluid));
static_assert(sizeof(PipeschedLayerTimes) == sizeof(LayerTimes::ps));

static Expected<std::vector<LayerTimes>>
readLayers(llvm::StringRef what, const PipeschedLayerTimes *layers,
           intptr_t numLayers) {
  auto given = readArray(what, layers, numLayers);
  if (!given)
    return given.takeError();
  std::vector<LayerTimes> read(given->size());
  for (auto [from, to] : llvm::zip_equal(*given, read))
    std::memcpy(&to.ps, &from, sizeof(from));
  return read;
}

static Expected<PairOptions> readOptions(const PipeschedPairOptions *given) {
  if (Error error = checkGiven("options of a pair", given))
    return std::move(error);
  Expected<PairOrder> order = readEnum<PairOrder>("order", given->order);
  if (!order)
    return order.takeError();
  PairOptions options;
  options.order = *order;
  options.delaysWeights = given->delaysWeights;
  options.computePercent = given->computePercent;
  options.exchangePercent = given->exchangePercent;
  if (llvm::StringRef text = readText(given->pattern); !text.empty()) {
    Expected<PairPattern> pattern =
        parsePairPattern(text, options.delaysWeights);
    if (!pattern)
      return pattern.takeError();
    options.pattern = std::move(*pattern);
  }
  return options;
}

static Expected<PairSchedule> schedule(intptr_t numForward,
                                       const PipeschedLayerTimes *forward,
                                       intptr_t numBackward,
                                       const PipeschedLayerTimes *backward,
                                       const PipeschedPairOptions *given) {
  auto first = readLayers("layers of the forward", forward, numForward);
  if (!first)
    return first.takeError();
  auto second = readLayers("layers of the backward", backward, numBackward);
  if (!second)
    return second.takeError();
  Expected<PairOptions> options = readOptions(given);
  if (!options)
    return options.takeError();
  return schedulePair(*first, *second, *options);
}

static void passPattern(const PairSchedule &schedule,
                        MlirStringCallback onPattern, void *userData) {
  std::string text;
  for (PartPhase what : schedule.pattern)
    text += (text.empty() ? "" : ",") + nameOf(what);
  passText(onPattern, userData, text);
}

MlirLogicalResult
pipeschedSchedulePair(intptr_t numForward, const PipeschedLayerTimes *forward,
                      intptr_t numBackward, const PipeschedLayerTimes *backward,
                      const PipeschedPairOptions *options,
                      PipeschedPairTimes *times, MlirStringCallback onPattern,
                      void (*onRun)(PipeschedPartRun run, void *userData),
                      MlirStringCallback onError, void *userData) {
  auto fail = [&](Error error) {
    passError(onError, userData, std::move(error));
    return mlirLogicalResultFailure();
  };
  if (Error error = checkGiven("the times of a pair", times))
    return fail(std::move(error));
  Expected<PairSchedule> found =
      schedule(numForward, forward, numBackward, backward, options);
  if (!found)
    return fail(found.takeError());
  *times = {found->endPs,     found->forwardPs,  found->gradientPs,
            found->computePs, found->exchangePs, found->exposedPs,
            found->boundPs,   found->isOptimal,  found->numTimed,
            found->numCut};
  passPattern(*found, onPattern, userData);
  if (onRun)
    for (const PartRun &run : found->runs)
      onRun({static_cast<PipeschedLayerPart>(run.what.part),
             static_cast<PipeschedPhase>(run.what.phase), run.layer,
             run.startPs, run.endPs},
            userData);
  return mlirLogicalResultSuccess();
}

static Expected<std::vector<LayerKind>> layerParts(PipeschedCosts costs,
                                                   int64_t numMicrobatches) {
  if (Error error = checkGiven("costs", costs.ptr))
    return std::move(error);
  Expected<CostInputs> inputs = resolveCosts(*unwrap(costs), numMicrobatches);
  if (!inputs)
    return inputs.takeError();
  if (!inputs->model || !inputs->system)
    return llvm::createStringError(
        "parts of layers have the costs of a model on a system; give both");
  return costLayerParts(*inputs->model, *inputs->system);
}

MlirLogicalResult pipeschedCostsGetLayerParts(
    PipeschedCosts costs, int64_t numMicrobatches,
    void (*onKind)(MlirStringRef name, int64_t count, PipeschedLayerTimes times,
                   void *userData),
    MlirStringCallback onError, void *userData) {
  Expected<std::vector<LayerKind>> kinds = layerParts(costs, numMicrobatches);
  if (!kinds) {
    passError(onError, userData, kinds.takeError());
    return mlirLogicalResultFailure();
  }
  for (const LayerKind &kind : *kinds) {
    PipeschedLayerTimes times;
    std::memcpy(&times, &kind.times.ps, sizeof(times));
    if (onKind)
      onKind(wrap(llvm::StringRef(kind.name)), kind.count, times, userData);
  }
  return mlirLogicalResultSuccess();
}
