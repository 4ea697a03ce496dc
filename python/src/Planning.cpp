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
  named["sequence"] = sizes.sequence;
  named["global_batch"] = sizes.globalBatch;
  named["accelerators"] = sizes.accelerators;
  named["accelerators_per_node"] = sizes.acceleratorsPerNode;
  named["fp8_flops_per_s"] = sizes.fp8FlopsPerSecond;
  named["memory_bytes"] = sizes.memoryBytes;
  named["host_bytes_per_s"] = sizes.hostBytesPerSecond;
  return named;
}

static std::vector<int64_t> balanceLayers(const Costs &costs,
                                          int64_t numMicrobatches,
                                          const std::vector<int32_t> &workers) {
  std::vector<int64_t> layers(workers.size());
  Text error;
  bool failed;
  {
    nb::gil_scoped_release release;
    failed = mlirLogicalResultIsFailure(pipeschedCostsBalanceLayers(
        costs.get(), numMicrobatches, workers.size(), workers.data(),
        layers.data(), Text::append, &error));
  }
  if (failed)
    raise(error.take());
  return layers;
}

void pipesched::python::bindPlanning(nb::module_ &m) {
  m.def("sizes", sizesOf, nb::arg("costs"),
        nb::sig("def sizes(costs: Costs) -> dict[str, int]"));
  m.def("balance_layers", balanceLayers, nb::arg("costs"),
        nb::arg("microbatches"), nb::arg("workers"));
}
