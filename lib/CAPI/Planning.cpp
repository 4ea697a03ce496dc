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
#include "PipeSched/CostModel/BalanceLayers.h"
#include "Wrap.h"

using namespace pipesched;

static void addModel(PipeschedSizes &sizes, const Architecture &model) {
  sizes.layers = model.layers;
  sizes.attentionHeads = model.attentionHeads;
  sizes.keyValueHeads = model.latent || model.keyValueHeads == 0
                            ? model.attentionHeads
                            : model.keyValueHeads;
  sizes.experts = model.experts ? model.experts->count : 0;
  sizes.sequence = model.sequence;
  sizes.globalBatch = model.globalBatch;
}

PipeschedSizes pipeschedCostsGetSizes(PipeschedCosts costs) {
  const CostSources &sources = *unwrap(costs);
  PipeschedSizes sizes = {};
  if (sources.architecture)
    addModel(sizes, *sources.architecture);
  if (sources.system) {
    const SystemFacts &system = *sources.system;
    sizes.accelerators = system.accelerators;
    sizes.acceleratorsPerNode = system.acceleratorsPerNode != 0
                                    ? system.acceleratorsPerNode
                                    : system.accelerators;
    sizes.fp8FlopsPerSecond = system.matrix.fp8FlopsPerSecond;
    sizes.memoryBytes = system.memoryBytes;
    sizes.hostBytesPerSecond = system.host.bytesPerSecond;
  }
  return sizes;
}

static llvm::Expected<std::vector<int64_t>>
balance(const CostSources &sources, int64_t numMicrobatches,
        llvm::ArrayRef<int32_t> workers) {
  if (workers.empty())
    return llvm::createStringError("a path without stages holds no layers");
  llvm::Expected<CostInputs> costs = resolveCosts(sources, numMicrobatches);
  if (!costs)
    return costs.takeError();
  if (!costs->model || !costs->system)
    return llvm::createStringError(
        "layers are balanced by the prices of a model on a system; give both");
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
  return writeLayers(
      balance(*unwrap(costs), numMicrobatches, {workers, size_t(numStages)}),
      layers, onError, userData);
}

static llvm::Expected<std::vector<int64_t>>
balanceLoads(llvm::ArrayRef<int32_t> workers, const LayerLoads &loads) {
  if (workers.empty())
    return llvm::createStringError("a path without stages holds no layers");
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
  for (intptr_t run = 0; run < numRuns; ++run)
    loads.runs.push_back({counts[run], each[run]});
  return writeLayers(balanceLoads({workers, size_t(numStages)}, loads), layers,
                     onError, userData);
}
