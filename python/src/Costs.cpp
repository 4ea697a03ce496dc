//===- Costs.cpp - The costs of schedules ---------------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Reads models, systems and profiles from names, files and texts.
//
//===----------------------------------------------------------------------===//

#include "Bindings.h"
#include "Diagnostics.h"
#include "Enums.h"
#include "PipeSched/CostModel/Pairs/OverlappedLayers.h"
#include "PipeSched/Description/Description.h"
#include "PipeSched/Facts/ProfileText.h"
#include "PipeSched/Support/FormatError.h"
#include "PipeSched/Target/ModelSummaryJson.h"
#include "Problem.h"
#include <cstring>

namespace nb = nanobind;
using namespace pipesched;
using namespace pipesched::python;
using llvm::Error;
using llvm::Expected;

static constexpr llvm::StringLiteral kJsonName = "<json>";

/// A source is (kind, text) or nothing; SourceKind has the kinds.
using Source = std::optional<std::pair<int, std::string>>;
/// Bytes of a parameter's weight, gradient and optimizer state, or nothing.
using ParameterBytes = std::optional<std::array<int64_t, 3>>;
/// Microbatch size, global batch, sequence, boundary bytes, accelerators.
using Numbers = std::array<int64_t, 5>;
/// Recompute, attention, precision, whether sequence parallelism is off, rates.
using Choices = std::array<int, 5>;

namespace {
struct GivenSource {
  SourceKind kind = SourceKind::None;
  llvm::StringRef text;

  explicit operator bool() const { return kind != SourceKind::None; }
};

/// The sources of costs. A number of 0 means that it is not given, as does
/// boundaryBytes of -1.
struct CostOptions {
  GivenSource model, system, profile;
  int64_t microbatchSize, globalBatch, sequence, boundaryBytes, accelerators;
  Recompute recompute = Recompute::None;
  AttentionKernels attention = AttentionKernels::AsDescribed;
  Precision precision = Precision::BF16;
  bool withoutSequenceParallel;
  Rates rates = Rates::Auto;
  Options deployment;
  ParameterBytes parameterBytes;
};
} // namespace

//===----------------------------------------------------------------------===//
// Descriptions
//===----------------------------------------------------------------------===//

/// The error for a source of a kind that `what` cannot be read from.
static Error makeKindError(llvm::StringRef what, const GivenSource &source) {
  return formatError("a {0} is not read from a source of the kind '{1}'", what,
                     enumName(source.kind));
}

static Expected<Architecture> readModel(const GivenSource &source,
                                        int64_t sequence) {
  switch (source.kind) {
  case SourceKind::Name:
    return findArchitecture(source.text, sequence);
  case SourceKind::File:
    return readArchitecture(source.text, sequence);
  case SourceKind::Json:
    return architectureFromJson(source.text, kJsonName, SourceRule::Optional,
                                sequence);
  default:
    return makeKindError("model", source);
  }
}

static Expected<HardwareFacts> readHardware(const GivenSource &source,
                                            Rates rates) {
  switch (source.kind) {
  case SourceKind::Name:
    return findSystem(source.text, rates);
  case SourceKind::File:
    return readSystem(source.text, rates);
  case SourceKind::Json:
    return systemFromJson(source.text, kJsonName, SourceRule::Optional, rates);
  default:
    return makeKindError("system", source);
  }
}

static Expected<Profile> readTimes(const GivenSource &source) {
  switch (source.kind) {
  case SourceKind::File:
    return readProfile(source.text);
  case SourceKind::Json:
    return profileFromJson(source.text, kJsonName);
  case SourceKind::Times:
    return parseProfile(source.text);
  default:
    return makeKindError("profile", source);
  }
}

static Expected<Deployment> readDeployment(const Options &options) {
  Deployment deployment;
  for (const auto &[name, value] : options)
    if (Error error = setOption(deployment, name, value))
      return std::move(error);
  return deployment;
}

static Expected<SystemFacts> readDeployed(const CostOptions &options) {
  Expected<HardwareFacts> hardware =
      readHardware(options.system, options.rates);
  if (!hardware)
    return hardware.takeError();
  if (options.accelerators != 0)
    if (Error error = setAccelerators(*hardware, options.accelerators))
      return std::move(error);
  Expected<Deployment> deployment = readDeployment(options.deployment);
  if (!deployment)
    return errorOfSystem(hardware->name, deployment.takeError());
  return deploy(std::move(*hardware), *deployment);
}

//===----------------------------------------------------------------------===//
// Checks
//===----------------------------------------------------------------------===//

/// Options that change a system are an error without a system.
static Error checkSystemOptions(const CostOptions &options) {
  if (options.system)
    return Error::success();
  if (options.accelerators != 0 || options.rates != Rates::Auto)
    return llvm::createStringError(
        "accelerators and rates are those of a system; none is given");
  Expected<Deployment> deployment = readDeployment(options.deployment);
  if (!deployment)
    return deployment.takeError();
  if (*deployment == Deployment())
    return Error::success();
  return llvm::createStringError(listDeploymentOptions() +
                                 " are about a system; none is given");
}

/// Options that expand a model are an error without a model or out of range.
static Error checkExpansion(const CostOptions &options) {
  if (options.microbatchSize < 0 || options.globalBatch < 0 ||
      options.sequence < 0 || options.boundaryBytes < -1)
    return llvm::createStringError("microbatch-size, global-batch, sequence "
                                   "and boundary-bytes are at least 0");
  if (options.microbatchSize != 0 && options.globalBatch != 0)
    return llvm::createStringError(
        "give one of microbatch-size and global-batch, not both");
  bool isGiven =
      options.microbatchSize != 0 || options.globalBatch != 0 ||
      options.sequence != 0 || options.boundaryBytes >= 0 ||
      options.parameterBytes || options.recompute != Recompute::None ||
      options.attention != AttentionKernels::AsDescribed ||
      options.precision != Precision::BF16 || options.withoutSequenceParallel;
  if (isGiven && !options.model)
    return llvm::createStringError(
        "microbatch-size, global-batch, sequence, boundary-bytes, "
        "parameter-bytes, recompute, attention, precision and "
        "sequence-parallel are about a model; none is given");
  return checkSystemOptions(options);
}

//===----------------------------------------------------------------------===//
// Costs
//===----------------------------------------------------------------------===//

static Error readChoices(const Choices &given, CostOptions &options) {
  if (Error error = readEnum("recompute", given[0], options.recompute))
    return error;
  if (Error error = readEnum("attention", given[1], options.attention))
    return error;
  options.withoutSequenceParallel = given[3] != 0;
  if (Error error = readEnum("rates", given[4], options.rates))
    return error;
  return readEnum("precision", given[2], options.precision);
}

static Error setSource(llvm::StringRef what, const Source &given,
                       GivenSource &source) {
  if (!given)
    return Error::success();
  source.text = given->second;
  return readEnum("the kind of the " + what.str() + "'s source", given->first,
                  source.kind);
}

/// Stores the result of a read, or returns its error.
template <typename T>
static Error store(std::optional<T> &facts, Expected<T> read) {
  if (!read)
    return read.takeError();
  facts = std::move(*read);
  return Error::success();
}

static Error readFacts(const CostOptions &options, CostSources &costs) {
  if (options.model)
    if (Error error = store(costs.architecture,
                            readModel(options.model, options.sequence)))
      return error;
  if (options.system)
    if (Error error = store(costs.system, readDeployed(options)))
      return error;
  if (options.profile)
    return store(costs.profile, readTimes(options.profile));
  return Error::success();
}

static Error readExpansion(const CostOptions &options, CostSources &costs) {
  if (options.microbatchSize != 0)
    costs.microbatchSize = options.microbatchSize;
  costs.expansion.recompute = options.recompute;
  costs.expansion.precision = options.precision;
  costs.expansion.sequenceParallel = !options.withoutSequenceParallel;
  if (options.boundaryBytes >= 0)
    costs.expansion.boundaryBytes = options.boundaryBytes;
  costs.globalBatch = options.globalBatch;
  costs.architecture->attention =
      chooseAttention(options.attention, costs.architecture->attention);
  if (!options.parameterBytes)
    return Error::success();
  return setParameterBytes(*costs.architecture, *options.parameterBytes);
}

static Expected<CostSources> readCosts(const CostOptions &options) {
  CostSources costs;
  if (Error error = checkExpansion(options))
    return std::move(error);
  if (Error error = readFacts(options, costs))
    return std::move(error);
  if (costs.architecture)
    if (Error error = readExpansion(options, costs))
      return std::move(error);
  return costs;
}

static CostSources makeCosts(const Source &model, const Source &system,
                             const Source &profile, const Numbers &numbers,
                             const Choices &choices, const Options &deployment,
                             const ParameterBytes &parameterBytes) {
  CostOptions options = {};
  options.microbatchSize = numbers[0];
  options.globalBatch = numbers[1];
  options.sequence = numbers[2];
  options.boundaryBytes = numbers[3];
  options.accelerators = numbers[4];
  options.deployment = deployment;
  options.parameterBytes = parameterBytes;
  check(setSource("model", model, options.model));
  check(setSource("system", system, options.system));
  check(setSource("profile", profile, options.profile));
  check(readChoices(choices, options));
  return runFree([&] { return readCosts(options); });
}

//===----------------------------------------------------------------------===//
// Results
//===----------------------------------------------------------------------===//

static double getPeakFlops(const CostSources &costs) {
  return costs.system ? peakFlopsPerSecond(*costs.system,
                                           engineOf(costs.expansion.precision))
                      : 0;
}

static Expected<ModelSummary> summarizeModel(const CostSources &costs) {
  if (!costs.architecture)
    return llvm::createStringError("expected a model, found none");
  ExpansionOptions options = costs.expansion;
  options.microbatchSize = costs.microbatchSize.value_or(1);
  Expected<ModelFacts> facts = expandArchitecture(*costs.architecture, options);
  if (!facts)
    return facts.takeError();
  return summarize(*facts);
}

static std::string writeModel(const CostSources &costs) {
  ModelSummary summary = valueOf(summarizeModel(costs));
  const Architecture &model = *costs.architecture;
  return toValid(collect([&](llvm::raw_ostream &os) {
    llvm::json::OStream json(os, /*IndentSize=*/2);
    writeModelSummary(json, summary, model.notes, model.attention);
  }));
}

void pipesched::python::bindCosts(nb::module_ &m) {
  nb::class_<CostSources>(m, "Costs", "The costs of schedules.")
      .def(
          "__init__",
          [](CostSources *self, const Source &model, const Source &system,
             const Source &profile, const Numbers &numbers,
             const Choices &choices, const Options &deployment,
             const ParameterBytes &parameterBytes) {
            new (self)
                CostSources(makeCosts(model, system, profile, numbers, choices,
                                      deployment, parameterBytes));
          },
          nb::arg("model").none(), nb::arg("system").none(),
          nb::arg("profile").none(), nb::arg("numbers"), nb::arg("choices"),
          nb::arg("deployment"), nb::arg("parameter_bytes").none())
      .def_prop_ro("peak_flops", getPeakFlops)
      .def("model", writeModel, "The model in a few numbers, one JSON object.");
}

//===----------------------------------------------------------------------===//
// Overlapped layers
//===----------------------------------------------------------------------===//

/// By part, then F, I and W.
using LayerPs = std::array<int64_t, 12>;
static_assert(sizeof(LayerPs) == sizeof(LayerTimes::ps));

static std::vector<LayerTimes> readLayers(const std::vector<LayerPs> &layers) {
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

static nb::dict overlap(const std::vector<LayerPs> &forward,
                        const std::vector<LayerPs> &backward, int order,
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

static std::vector<std::tuple<std::string, int64_t, LayerPs>>
layerParts(const CostSources &costs, int64_t numMicrobatches) {
  std::vector<std::tuple<std::string, int64_t, LayerPs>> parts;
  for (const LayerKind &kind : valueOf(costParts(costs, numMicrobatches))) {
    LayerPs layer;
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
