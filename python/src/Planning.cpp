//===- Planning.cpp - Sizes and balanced layers ---------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Sizes of a model and a system, and the best division of its layers.
//
//===----------------------------------------------------------------------===//

#include "Bindings.h"
#include "Diagnostics.h"
#include "PipeSched/CostModel/Layers/BalanceLayers.h"
#include "Problem.h"
#include <numeric>

namespace nb = nanobind;
using namespace pipesched;
using namespace pipesched::python;
using llvm::Expected;

//===----------------------------------------------------------------------===//
// Sizes
//===----------------------------------------------------------------------===//

/// Ranks divide the heads of keys and values, and the heads of a recurrence
/// with their shared parts.
static int64_t countKeyValueHeads(const Architecture &model) {
  int64_t heads = model.latent || model.keyValueHeads == 0
                      ? model.attentionHeads
                      : model.keyValueHeads;
  if (!model.linear)
    return heads;
  Recurrence recurrence = model.linear->recurrence;
  bool sharesKeys =
      recurrence == Recurrence::GatedDelta || recurrence == Recurrence::Mamba2;
  return std::gcd(heads, sharesKeys ? model.linear->keyHeads
                                    : model.linear->valueHeads);
}

/// Whether all nodes have rates of cuDNN's attention.
static bool hasCudnnRates(const HardwareFacts &hardware, int64_t headSize) {
  return findAttentionRates(hardware, FlashKernel::Cudnn, headSize) &&
         llvm::all_of(hardware.groups, [&](const HardwareFacts &group) {
           return hasCudnnRates(group, headSize);
         });
}

/// The sizes of a model and a system; 0 each where there is none.
static nb::dict sizesOf(const CostSources &costs) {
  Architecture none = {};
  const Architecture &model = costs.architecture ? *costs.architecture : none;
  nb::dict named;
  named["layers"] = model.layers;
  named["attention_heads"] = model.attentionHeads;
  named["key_value_heads"] = countKeyValueHeads(model);
  named["experts"] = model.experts ? model.experts->count : 0;
  named["recurrence"] =
      model.linear ? 1 + static_cast<int64_t>(model.linear->recurrence) : 0;
  named["sequence"] = model.sequence;
  named["global_batch"] = model.globalBatch;
  int64_t accelerators = 0, perNode = 0, fp8 = 0, fp4 = 0, memory = 0, host = 0;
  if (const std::optional<SystemFacts> &system = costs.system) {
    accelerators = system->accelerators;
    perNode = system->acceleratorsPerNode != 0 ? system->acceleratorsPerNode
                                               : accelerators;
    auto peakOf = [&](Engine engine) {
      return std::llround(peakFlopsPerSecond(*system, engine) /
                          double(accelerators));
    };
    fp8 = peakOf(Engine::MatrixFp8);
    fp4 = peakOf(Engine::MatrixFp4);
    memory = system->memoryBytes;
    host = system->host.bytesPerSecond;
  }
  named["accelerators"] = accelerators;
  named["accelerators_per_node"] = perNode;
  named["fp8_flops_per_s"] = fp8;
  named["nvfp4_flops_per_s"] = fp4;
  named["memory_bytes"] = memory;
  bool hasGroups = costs.system && !costs.system->groups.empty();
  named["accelerators_of_groups"] =
      hasGroups ? costs.system->groupEnds.back() : 0;
  // Workers have to divide this.
  named["group_unit"] = hasGroups ? costs.system->acceleratorsPerPod : 0;
  named["host_bytes_per_s"] = host;
  named["is_under_load"] =
      costs.system &&
      (costs.system->peakSharePpm < 1000000 || costs.system->launchPs != 0);
  named["has_cudnn"] =
      costs.system &&
      llvm::any_of(costs.system->attention, [](const AttentionRates &rates) {
        return rates.kernel == FlashKernel::Cudnn;
      });
  // Whether the system has rates of cuDNN's attention for fused attention.
  named["has_cudnn_rates"] =
      costs.architecture && model.attention == Attention::Fused &&
      costs.system && hasCudnnRates(*costs.system, headSizeOf(model));
  return named;
}

//===----------------------------------------------------------------------===//
// Balanced layers
//===----------------------------------------------------------------------===//

using Layers = std::vector<int64_t>;

/// The layers of each stage of a path. Errors: no stages; as for balanceLayers.
static Expected<Layers> divide(const std::vector<int32_t> &workers,
                               const LayerLoads &loads,
                               const Layers &weights = {}) {
  if (workers.empty())
    return llvm::createStringError("a path without stages holds no layers");
  return balanceLayers(workers, loads, weights);
}

static Expected<CostInputs> readInputs(const CostSources &sources,
                                       int64_t numMicrobatches) {
  Expected<CostInputs> costs = resolveCosts(sources, numMicrobatches);
  if (costs && (!costs->model || !costs->system))
    return llvm::createStringError(
        "layers are balanced by the costs of a model on a system; give both");
  return costs;
}

static int64_t countWorkers(const std::vector<int32_t> &workers) {
  return workers.empty() ? 0 : *llvm::max_element(workers) + 1;
}

static Layers balanceByCosts(const CostSources &sources,
                             int64_t numMicrobatches,
                             const std::vector<int32_t> &workers) {
  return runFree([&]() -> Expected<Layers> {
    Expected<CostInputs> costs = readInputs(sources, numMicrobatches);
    if (!costs)
      return costs.takeError();
    Expected<LayerLoads> loads = costLayers(*costs->model, *costs->system);
    if (!loads)
      return loads.takeError();
    if (costs->system->groups.empty())
      return divide(workers, *loads);
    Expected<std::vector<double>> factors =
        factorsOfWorkers(*costs->model, *costs->system, countWorkers(workers));
    if (!factors)
      return factors.takeError();
    std::vector<double> ofStages;
    for (int32_t worker : workers)
      ofStages.push_back((*factors)[worker]);
    return divide(workers, *loads, weightsOf(ofStages));
  });
}

static Layers balanceLoads(const std::vector<int32_t> &workers,
                           const Layers &counts, const Layers &each,
                           int64_t first, int64_t last) {
  if (counts.size() != each.size())
    raise("a count for each load");
  LayerLoads loads;
  loads.first = first;
  loads.last = last;
  bool isNegative = first < 0 || last < 0;
  for (auto [count, load] : llvm::zip_equal(counts, each)) {
    loads.runs.push_back({count, load});
    isNegative |= count < 0 || load < 0;
  }
  if (isNegative)
    raise("loads and counts are 0 or more");
  return runFree([&] { return divide(workers, loads); });
}

void pipesched::python::bindPlanning(nb::module_ &m) {
  m.def("sizes", sizesOf, nb::arg("costs"),
        nb::sig("def sizes(costs: Costs) -> dict[str, int]"));
  m.def("balance_layers", balanceByCosts, nb::arg("costs"),
        nb::arg("microbatches"), nb::arg("workers"));
  m.def("balance_loads", balanceLoads, nb::arg("workers"), nb::arg("counts"),
        nb::arg("each"), nb::arg("first"), nb::arg("last"));
}
