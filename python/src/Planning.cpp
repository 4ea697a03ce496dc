//===- Planning.cpp - Sizes and balanced layers ---------------------------===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Sizes of a model and a system, and the best division of its layers.
//
//===----------------------------------------------------------------------===//

#include "PipeSched-c/Planning.h"
#include "Bindings.h"
#include "Problem.h"

namespace nb = nanobind;
using namespace pipesched::python;

static nb::dict sizesOf(const Costs &costs) {
  PipeschedSizes sizes = pipeschedCostsGetSizes(costs.get());
  nb::dict named;
  named["layers"] = sizes.layers;
  named["attention_heads"] = sizes.attentionHeads;
  named["key_value_heads"] = sizes.keyValueHeads;
  named["experts"] = sizes.experts;
  named["recurrence"] = sizes.recurrence;
  named["sequence"] = sizes.sequence;
  named["global_batch"] = sizes.globalBatch;
  named["accelerators"] = sizes.accelerators;
  named["accelerators_per_node"] = sizes.acceleratorsPerNode;
  named["fp8_flops_per_s"] = sizes.fp8FlopsPerSecond;
  named["memory_bytes"] = sizes.memoryBytes;
  named["host_bytes_per_s"] = sizes.hostBytesPerSecond;
  return named;
}

/// The layers of stages that `balance` writes, without the lock of Python.
template <typename Balance>
static std::vector<int64_t> layersOf(size_t numStages, Balance balance) {
  std::vector<int64_t> layers(numStages);
  Text error;
  bool failed;
  {
    nb::gil_scoped_release release;
    failed = mlirLogicalResultIsFailure(balance(layers.data(), error));
  }
  if (failed)
    raise(error.take());
  return layers;
}

static std::vector<int64_t> balanceLayers(const Costs &costs,
                                          int64_t numMicrobatches,
                                          const std::vector<int32_t> &workers) {
  return layersOf(workers.size(), [&](int64_t *layers, Text &error) {
    return pipeschedCostsBalanceLayers(costs.get(), numMicrobatches,
                                       workers.size(), workers.data(), layers,
                                       Text::append, &error);
  });
}

static std::vector<int64_t> balanceLoads(const std::vector<int32_t> &workers,
                                         const std::vector<int64_t> &counts,
                                         const std::vector<int64_t> &each,
                                         int64_t first, int64_t last) {
  if (counts.size() != each.size())
    raise("a count for each load");
  return layersOf(workers.size(), [&](int64_t *layers, Text &error) {
    return pipeschedBalanceLoads(workers.size(), workers.data(), counts.size(),
                                 counts.data(), each.data(), first, last,
                                 layers, Text::append, &error);
  });
}

void pipesched::python::bindPlanning(nb::module_ &m) {
  m.def("sizes", sizesOf, nb::arg("costs"),
        nb::sig("def sizes(costs: Costs) -> dict[str, int]"));
  m.def("balance_layers", balanceLayers, nb::arg("costs"),
        nb::arg("microbatches"), nb::arg("workers"));
  m.def("balance_loads", balanceLoads, nb::arg("workers"), nb::arg("counts"),
        nb::arg("each"), nb::arg("first"), nb::arg("last"));
}
