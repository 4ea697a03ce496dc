//===- Overlap.cpp - Overlapped layers ------------------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Pairs of cells whose layers overlap, and the parts of a model's layers.
//
//===----------------------------------------------------------------------===//

#include "Bindings.h"
#include "Diagnostics.h"
#include "Enums.h"
#include "PipeSched/CostModel/Pairs/OverlappedLayers.h"
#include "Problem.h"
#include <cstring>

namespace nb = nanobind;
using namespace pipesched;
using namespace pipesched::python;
using llvm::Error;
using llvm::Expected;

/// By part, then F, I and W.
using Layer = std::array<int64_t, 12>;
static_assert(sizeof(Layer) == sizeof(LayerTimes::ps));

static std::vector<LayerTimes> readLayers(const std::vector<Layer> &layers) {
  std::vector<LayerTimes> read(layers.size());
  for (auto [from, to] : llvm::zip_equal(layers, read))
    std::memcpy(&to.ps, &from, sizeof(from));
  return read;
}

static Error readPattern(const std::string &text, PairOptions &options) {
  if (text.empty())
    return Error::success();
  Expected<PairPattern> pattern = parsePairPattern(text, options.delaysWeights);
  if (pattern)
    options.pattern = std::move(*pattern);
  return pattern.takeError();
}

static std::string patternText(const PairSchedule &schedule) {
  std::string text;
  for (PartPhase what : schedule.pattern)
    text += (text.empty() ? "" : ",") + nameOf(what);
  return text;
}

static nb::dict overlap(const std::vector<Layer> &forward,
                        const std::vector<Layer> &backward, int order,
                        const std::string &pattern, bool delaysWeights,
                        int64_t computePercent, int64_t exchangePercent) {
  PairOptions options;
  options.delaysWeights = delaysWeights;
  options.computePercent = computePercent;
  options.exchangePercent = exchangePercent;
  check(readEnum("order", order, options.order));
  check(readPattern(pattern, options));
  PairSchedule times = runFree([&] {
    return schedulePair(readLayers(forward), readLayers(backward), options);
  });
  nb::list runs;
  for (const PartRun &run : times.runs)
    runs.append(nb::make_tuple(int(run.what.part), int(run.what.phase),
                               run.layer, run.startPs, run.endPs));
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
  named["pattern"] = patternText(times);
  named["runs"] = runs;
  return named;
}

static Expected<std::vector<LayerKind>> costParts(const CostSources &costs,
                                                  int64_t numMicrobatches) {
  Expected<CostInputs> inputs = resolveCosts(costs, numMicrobatches);
  if (!inputs)
    return inputs.takeError();
  if (!inputs->model || !inputs->system)
    return llvm::createStringError(
        "parts of layers have the costs of a model on a system; give both");
  return costLayerParts(*inputs->model, *inputs->system);
}

static std::vector<std::tuple<std::string, int64_t, Layer>>
layerParts(const CostSources &costs, int64_t numMicrobatches) {
  std::vector<std::tuple<std::string, int64_t, Layer>> parts;
  for (const LayerKind &kind : valueOf(costParts(costs, numMicrobatches))) {
    Layer layer;
    std::memcpy(&layer, &kind.times.ps, sizeof(layer));
    parts.emplace_back(kind.name, kind.count, layer);
  }
  return parts;
}

void pipesched::python::bindOverlap(nb::module_ &m) {
  m.def("schedule_pair", overlap, nb::arg("forward"), nb::arg("backward"),
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
