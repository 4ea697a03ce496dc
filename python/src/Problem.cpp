//===- Problem.cpp - Problems from Python ---------------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Converts lists, strings and numbers to the structs of the libraries.
//
//===----------------------------------------------------------------------===//

#include "Problem.h"
#include "Bindings.h"
#include "Diagnostics.h"
#include "Enums.h"

namespace nb = nanobind;
using namespace pipesched;
using namespace pipesched::python;

//===----------------------------------------------------------------------===//
// Problems
//===----------------------------------------------------------------------===//

static Path readPath(PathTuple &&given) {
  auto &[workers, takes, blocks, weights, frozen, isForwardOnly] = given;
  for (const Lengths *lengths : {&blocks, &weights})
    if (*lengths && (*lengths)->size() != workers.size())
      raise("a path of " + std::to_string(workers.size()) + " stages has " +
            std::to_string((*lengths)->size()) + " blocks or weights");
  Path path;
  for (auto [begin, end, step] : takes)
    path.takes.push_back({begin, end, step});
  path.blocks = std::move(blocks).value_or(std::vector<int64_t>());
  path.weights = std::move(weights).value_or(std::vector<int64_t>());
  path.backward = {isForwardOnly, std::move(frozen)};
  path.workers = std::move(workers);
  return path;
}

std::vector<Path> pipesched::python::readPaths(std::vector<PathTuple> paths) {
  std::vector<Path> read;
  for (PathTuple &path : paths)
    read.push_back(readPath(std::move(path)));
  return read;
}

llvm::Expected<Problem>
pipesched::python::readProblem(llvm::StringRef family, int64_t workers,
                               int64_t microbatches, const Options &options,
                               std::vector<Path> paths) {
  llvm::Expected<const Family *> found = lookUpFamily(family);
  if (!found)
    return found.takeError();
  Problem problem;
  problem.family = *found;
  problem.workers = workers;
  problem.microbatches = microbatches;
  for (const auto &[name, value] : options)
    if (llvm::Error error = setOption(problem.options, name, value))
      return std::move(error);
  problem.paths = std::move(paths);
  return problem;
}

//===----------------------------------------------------------------------===//
// Configurations
//===----------------------------------------------------------------------===//

static llvm::Error readChoices(const Timing &given, TimingOptions &options) {
  auto [transport, receivePlacement, forwardSends, runtime, _] = given;
  if (llvm::Error error = readEnum("transport", transport, options.transport))
    return error;
  if (llvm::Error error = readEnum("receive-placement", receivePlacement,
                                   options.receivePlacement))
    return error;
  if (llvm::Error error =
          readEnum("forward-sends", forwardSends, options.forwardSends))
    return error;
  return readEnum("runtime", runtime, options.runtime);
}

llvm::Expected<TimingOptions>
pipesched::python::readTiming(const Timing &given) {
  TimingOptions options;
  if (llvm::Error error = readChoices(given, options))
    return std::move(error);
  llvm::Expected<Disturbance> disturbance =
      parseDisturbance(std::get<4>(given));
  if (!disturbance)
    return disturbance.takeError();
  options.disturbance = std::move(*disturbance);
  return options;
}

/// The place of all-reduces; nothing if a step ends with its last backward.
static std::optional<ReductionPlace> placeOf(OptimizerStep step) {
  switch (step) {
  case OptimizerStep::None:
    return std::nullopt;
  case OptimizerStep::Overlapped:
    return ReductionPlace::Eager;
  case OptimizerStep::Exposed:
    return ReductionPlace::End;
  }
  llvm_unreachable("covered switch");
}

llvm::Expected<Configuration> GivenConfiguration::read() const {
  llvm::Expected<Problem> problem =
      readProblem(family, workers, microbatches, options, paths);
  if (!problem)
    return problem.takeError();
  llvm::Expected<TimingOptions> timingOptions = readTiming(timing);
  if (!timingOptions)
    return timingOptions.takeError();
  OptimizerStep step = OptimizerStep::None;
  if (llvm::Error error = readEnum("optimizer-step", optimizerStep, step))
    return std::move(error);
  Configuration configuration;
  configuration.problem = std::move(*problem);
  configuration.costs = costs;
  configuration.timing = std::move(*timingOptions);
  configuration.optimizerStep = placeOf(step);
  return configuration;
}

void pipesched::python::bindProblem(nb::module_ &m) {
  nb::class_<GivenConfiguration>(m, "Configuration",
                                 "A schedule to generate and to evaluate.")
      .def(nb::init<std::string, int64_t, int64_t, Options,
                    std::vector<PathTuple>, const CostSources *, Timing, int>(),
           nb::arg("family"), nb::arg("workers"), nb::arg("microbatches"),
           nb::arg("options"), nb::arg("paths"), nb::arg("costs").none(),
           nb::arg("timing"), nb::arg("optimizer_step"),
           nb::keep_alive<1, 7>());
}
