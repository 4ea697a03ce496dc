//===- Problem.cpp - Problems from Python ---------------------------------===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Converts lists and strings to the structs of the C API.
//
//===----------------------------------------------------------------------===//

#include "Problem.h"
#include "Bindings.h"

namespace nb = nanobind;
using namespace pipesched::python;

//===----------------------------------------------------------------------===//
// Problems
//===----------------------------------------------------------------------===//

static std::vector<PipeschedRange> readTakes(const Path &path) {
  std::vector<PipeschedRange> ranges;
  for (auto [begin, end, step] : std::get<1>(path))
    ranges.push_back({begin, end, step});
  return ranges;
}

static const int64_t *dataOrNull(const Lengths &lengths) {
  return lengths ? lengths->data() : nullptr;
}

static std::vector<PipeschedOption> toRefs(const Options &options) {
  std::vector<PipeschedOption> refs;
  for (const auto &[name, value] : options)
    refs.push_back({toRef(name), toRef(value)});
  return refs;
}

Problem::Problem(std::string givenFamily, int64_t workers, int64_t microbatches,
                 Options givenOptions, std::vector<Path> givenPaths,
                 int64_t slices)
    : family(std::move(givenFamily)), options(std::move(givenOptions)),
      paths(std::move(givenPaths)), optionRefs(toRefs(options)) {
  takes.reserve(paths.size());
  for (const Path &path : paths) {
    const auto &stages = std::get<0>(path);
    for (const Lengths *lengths : {&std::get<2>(path), &std::get<3>(path)})
      if (*lengths && (*lengths)->size() != stages.size())
        raise("a path of " + std::to_string(stages.size()) + " stages has " +
              std::to_string((*lengths)->size()) + " blocks or weights");
    takes.push_back(readTakes(path));
    pathRefs.push_back({intptr_t(stages.size()), stages.data(),
                        intptr_t(takes.back().size()), takes.back().data(),
                        dataOrNull(std::get<2>(path)),
                        dataOrNull(std::get<3>(path))});
  }
  problem = {toRef(family),     workers,
             microbatches,      intptr_t(optionRefs.size()),
             optionRefs.data(), intptr_t(pathRefs.size()),
             pathRefs.data(),   slices};
}

//===----------------------------------------------------------------------===//
// Costs
//===----------------------------------------------------------------------===//

static PipeschedSource readSource(const Costs::Source &source) {
  if (!source)
    return {PipeschedSourceNone, toRef("")};
  return {static_cast<PipeschedSourceKind>(source->first),
          toRef(source->second)};
}

Costs::Costs(const Source &model, const Source &system, const Source &profile,
             const Numbers &numbers, const Choices &choices,
             const Options &deployment, const ParameterBytes &parameterBytes) {
  std::vector<PipeschedOption> deploymentRefs = toRefs(deployment);
  PipeschedCostOptions options = {};
  options.model = readSource(model);
  options.system = readSource(system);
  options.profile = readSource(profile);
  options.microbatchSize = numbers[0];
  options.globalBatch = numbers[1];
  options.sequence = numbers[2];
  options.boundaryBytes = numbers[3];
  options.parameterBytes = parameterBytes ? parameterBytes->data() : nullptr;
  options.accelerators = numbers[4];
  options.recompute = static_cast<PipeschedRecompute>(choices[0]);
  options.attention = static_cast<PipeschedAttention>(choices[1]);
  options.precision = static_cast<PipeschedPrecision>(choices[2]);
  options.withoutSequenceParallel = choices[3] != 0;
  options.numDeploymentOptions = deploymentRefs.size();
  options.deploymentOptions = deploymentRefs.data();
  Text error;
  {
    nb::gil_scoped_release release;
    costs = pipeschedCostsCreate(options, Text::append, &error);
  }
  if (pipeschedCostsIsNull(costs))
    raise(error.take());
}

static std::string writeModel(const Costs &costs) {
  Text text, error;
  if (mlirLogicalResultIsFailure(pipeschedCostsWriteModel(
          costs.get(), Text::append, &text, Text::append, &error)))
    raise(error.take());
  return text.take();
}

void pipesched::python::bindProblem(nb::module_ &m) {
  nb::class_<Costs>(m, "Costs", "The costs of schedules.")
      .def(nb::init<const Costs::Source &, const Costs::Source &,
                    const Costs::Source &, const Costs::Numbers &,
                    const Costs::Choices &, const Options &,
                    const Costs::ParameterBytes &>(),
           nb::arg("model").none(), nb::arg("system").none(),
           nb::arg("profile").none(), nb::arg("numbers"), nb::arg("choices"),
           nb::arg("deployment"), nb::arg("parameter_bytes").none())
      .def_prop_ro("peak_flops",
                   [](const Costs &costs) {
                     return pipeschedCostsGetPeakFlops(costs.get());
                   })
      .def("model", writeModel, "The model in a few numbers, one JSON object.");
  nb::class_<Configuration>(m, "Configuration",
                            "A schedule to generate and to evaluate.")
      .def(nb::init<std::string, int64_t, int64_t, Options, std::vector<Path>,
                    const Costs *, Timing, int>(),
           nb::arg("family"), nb::arg("workers"), nb::arg("microbatches"),
           nb::arg("options"), nb::arg("paths"), nb::arg("costs").none(),
           nb::arg("timing"), nb::arg("optimizer_step"),
           nb::keep_alive<1, 7>());
}
