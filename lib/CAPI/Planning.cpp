//===- Planning.cpp - C API for planning ----------------------------------===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Sizes of descriptions, and layers divided by their costs.
//
//===----------------------------------------------------------------------===//

#include "PipeSched-c/Planning.h"
#include "PipeSched/CostModel/Layers/BalanceLayers.h"
#include "Wrap.h"
#include <numeric>

using namespace pipesched;

static void addModel(PipeschedSizes &sizes, const Architecture &model) {
  sizes.layers = model.layers;
  sizes.attentionHeads = model.attentionHeads;
  sizes.keyValueHeads = model.latent || model.keyValueHeads == 0
                            ? model.attentionHeads
                            : model.keyValueHeads;
  // Ranks divide the heads of a recurrence, too, with what they share.
  if (const std::optional<LinearAttention> &linear = model.linear) {
    sizes.recurrence = 1 + static_cast<int64_t>(linear->recurrence);
    bool sharesKeys = linear->recurrence == Recurrence::GatedDelta ||
                      linear->recurrence == Recurrence::Mamba2;
    sizes.keyValueHeads =
        std::gcd(sizes.keyValueHeads,
                 sharesKeys ? linear->keyHeads : linear->valueHeads);
  }
  sizes.experts = model.experts ? model.experts->count : 0;
  sizes.sequence = model.sequence;
  sizes.globalBatch = model.globalBatch;
}

PipeschedSizes pipeschedCostsGetSizes(PipeschedCosts costs) {
  PipeschedSizes sizes = {};
  if (!costs.ptr)
    return sizes;
  const CostSources &sources = *unwrap(costs);
  if (sources.architecture)
    addModel(sizes, *sources.architecture);
  if (sources.system) {
    const SystemFacts &system = *sources.system;
    sizes.accelerators = system.accelerators;
    sizes.acceleratorsPerNode = system.acceleratorsPerNode != 0
                                    ? system.acceleratorsPerNode
                                    : system.accelerators;
    sizes.fp8FlopsPerSecond =
        std::llround(peakFlopsPerSecond(system, /*isFp8=*/true) /
                     double(system.accelerators));
    sizes.memoryBytes = system.memoryBytes;
    sizes.hostBytesPerSecond = system.host.bytesPerSecond;
  }
  return sizes;
}

/// The worker of each stage of a path. Errors: none; nowhere to write layers.
static llvm::Expected<llvm::ArrayRef<int32_t>>
readStages(const int32_t *workers, intptr_t numStages, const int64_t *layers) {
  auto stages = readArray("workers of stages", workers, numStages);
  if (!stages)
    return stages.takeError();
  if (stages->empty())
    return llvm::createStringError("a path without stages holds no layers");
  if (llvm::Error error = checkGiven("an array for the layers", layers))
    return error;
  return *stages;
}

static llvm::Expected<std::vector<int64_t>>
balance(const CostSources &sources, int64_t numMicrobatches,
        llvm::ArrayRef<int32_t> workers) {
  llvm::Expected<CostInputs> costs = resolveCosts(sources, numMicrobatches);
  if (!costs)
    return costs.takeError();
  if (!costs->model || !costs->system)
    return llvm::createStringError(
        "layers are balanced by the costs of a model on a system; give both");
  llvm::Expected<LayerLoads> loads = costLayers(*costs->model, *costs->system);
  if (!loads)
    return loads.takeError();
  return balanceLayers(workers, *loads);
}

/// Writes the layers of each stage, or passes on the error.
static MlirLogicalResult
writeLayers(llvm::Expected<std::vector<int64_t>> balanced, int64_t *layers,
            MlirStringCallback onError, void *userData) {
  if (!balanced) {
    passError(onError, userData, balanced.takeError());
    return mlirLogicalResultFailure();
  }
  llvm::copy(*balanced, layers);
  return mlirLogicalResultSuccess();
}

MlirLogicalResult
pipeschedCostsBalanceLayers(PipeschedCosts costs, int64_t numMicrobatches,
                            intptr_t numStages, const int32_t *workers,
                            int64_t *layers, MlirStringCallback onError,
                            void *userData) {
  auto stages = readStages(workers, numStages, layers);
  if (!stages)
    return writeLayers(stages.takeError(), layers, onError, userData);
  if (llvm::Error error = checkGiven("costs", costs.ptr))
    return writeLayers(std::move(error), layers, onError, userData);
  return writeLayers(balance(*unwrap(costs), numMicrobatches, *stages), layers,
                     onError, userData);
}

/// Reads runs of layers. Errors: those of readArray.
static llvm::Error readRuns(LayerLoads &loads, intptr_t numRuns,
                            const int64_t *counts, const int64_t *each) {
  auto layers = readArray("counts of runs", counts, numRuns);
  if (!layers)
    return layers.takeError();
  auto ofEach = readArray("loads of runs", each, numRuns);
  if (!ofEach)
    return ofEach.takeError();
  for (auto [count, load] : llvm::zip_equal(*layers, *ofEach))
    loads.runs.push_back({count, load});
  return llvm::Error::success();
}

static llvm::Expected<std::vector<int64_t>>
balanceLoads(llvm::ArrayRef<int32_t> workers, const LayerLoads &loads) {
  bool isNegative = loads.first < 0 || loads.last < 0;
  for (LayerLoads::Run run : loads.runs)
    isNegative |= run.count < 0 || run.each < 0;
  if (isNegative)
    return llvm::createStringError("loads and counts are 0 or more");
  return balanceLayers(workers, loads);
}

MlirLogicalResult pipeschedBalanceLoads(
    intptr_t numStages, const int32_t *workers, intptr_t numRuns,
    const int64_t *counts, const int64_t *each, int64_t first, int64_t last,
    int64_t *layers, MlirStringCallback onError, void *userData) {
  LayerLoads loads;
  loads.first = first;
  loads.last = last;
  auto stages = readStages(workers, numStages, layers);
  if (!stages)
    return writeLayers(stages.takeError(), layers, onError, userData);
  if (llvm::Error error = readRuns(loads, numRuns, counts, each))
    return writeLayers(std::move(error), layers, onError, userData);
  return writeLayers(balanceLoads(*stages, loads), layers, onError, userData);
}
