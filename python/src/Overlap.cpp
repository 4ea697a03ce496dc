//===- Overlap.cpp - Overlapped layers ------------------------------------===//
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
#include "Bindings.h"
#include "Problem.h"
#include <algorithm>

namespace nb = nanobind;
using namespace pipesched::python;

/// By part, then F, I and W.
using Layer = std::array<int64_t, 12>;

static std::vector<PipeschedLayerTimes>
readLayers(const std::vector<Layer> &layers) {
  std::vector<PipeschedLayerTimes> read(layers.size());
  for (size_t i = 0; i < layers.size(); ++i) {
    const int64_t *from = layers[i].data();
    PipeschedLayerTimes &to = read[i];
    for (int64_t *part : {to.attention, to.dispatch, to.mlp, to.combine}) {
      std::copy_n(from, 3, part);
      from += 3;
    }
  }
  return read;
}

namespace {
struct Found {
  Text text; ///< the pattern, or the error
  std::vector<std::tuple<int, int, int64_t, int64_t, int64_t>> runs;
};
} // namespace

static nb::dict schedulePair(const std::vector<Layer> &forward,
                             const std::vector<Layer> &backward, int order,
                             const std::string &pattern, bool delaysWeights,
                             int64_t computePercent, int64_t exchangePercent) {
  std::vector<PipeschedLayerTimes> first = readLayers(forward),
                                   second = readLayers(backward);
  PipeschedPairOptions options = {static_cast<PipeschedPairOrder>(order),
                                  toRef(pattern), delaysWeights, computePercent,
                                  exchangePercent};
  PipeschedPairTimes times;
  Found found;
  auto onRun = [](PipeschedPartRun run, void *data) {
    static_cast<Found *>(data)->runs.emplace_back(
        run.part, run.phase, run.layer, run.startPs, run.endPs);
  };
  auto onText = [](MlirStringRef text, void *data) {
    Text::append(text, &static_cast<Found *>(data)->text);
  };
  bool failed;
  {
    nb::gil_scoped_release release;
    failed = mlirLogicalResultIsFailure(pipeschedSchedulePair(
        first.size(), first.data(), second.size(), second.data(), &options,
        &times, onText, onRun, onText, &found));
  }
  if (failed)
    raise(found.text.take());
  nb::dict named;
  named["end_ps"] = times.endPs;
  named["forward_ps"] = times.forwardPs;
  named["gradient_ps"] = times.gradientPs;
  named["compute_ps"] = times.computePs;
  named["exchange_ps"] = times.exchangePs;
  named["exposed_ps"] = times.exposedPs;
  named["bound_ps"] = times.boundPs;
  named["is_optimal"] = times.isOptimal;
  named["timed"] = times.numTimed;
  named["cut"] = times.numCut;
  named["pattern"] = found.text.take();
  named["runs"] = found.runs;
  return named;
}

namespace {
struct Kinds {
  Text error;
  std::vector<std::tuple<std::string, int64_t, Layer>> found;
};
} // namespace

static std::vector<std::tuple<std::string, int64_t, Layer>>
layerParts(const Costs &costs, int64_t numMicrobatches) {
  Kinds kinds;
  auto onKind = [](MlirStringRef name, int64_t count, PipeschedLayerTimes times,
                   void *data) {
    Layer layer;
    int64_t *to = layer.data();
    for (const int64_t *part :
         {times.attention, times.dispatch, times.mlp, times.combine})
      to = std::copy_n(part, 3, to);
    static_cast<Kinds *>(data)->found.emplace_back(
        std::string(name.data, name.length), count, layer);
  };
  auto onError = [](MlirStringRef text, void *data) {
    Text::append(text, &static_cast<Kinds *>(data)->error);
  };
  if (mlirLogicalResultIsFailure(pipeschedCostsGetLayerParts(
          costs.get(), numMicrobatches, onKind, onError, &kinds)))
    raise(kinds.error.take());
  return kinds.found;
}

void pipesched::python::bindOverlap(nb::module_ &m) {
  m.def("schedule_pair", schedulePair, nb::arg("forward"), nb::arg("backward"),
        nb::arg("order"), nb::arg("pattern"), nb::arg("delays_weights"),
        nb::arg("compute_percent"), nb::arg("exchange_percent"),
        nb::sig("def schedule_pair(forward: "
                "collections.abc.Sequence[collections.abc.Sequence[int]], "
                "backward: "
                "collections.abc.Sequence[collections.abc.Sequence[int]], "
                "order: int, pattern: str, "
                "delays_weights: bool, compute_percent: int, "
                "exchange_percent: int) -> dict[str, typing.Any]"));
  m.def("layer_parts", layerParts, nb::arg("costs"), nb::arg("microbatches"),
        nb::sig("def layer_parts(costs: Costs, microbatches: int) -> "
                "list[tuple[str, int, list[int]]]"));
}
