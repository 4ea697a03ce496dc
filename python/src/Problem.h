//===- Problem.h - Problems from Python -------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Problems, timings and configurations as Python gives them, which are read
// where an error has its place.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_PYTHON_SRC_PROBLEM_H
#define PIPESCHED_PYTHON_SRC_PROBLEM_H

#include "PipeSched/Evaluation/Sweep.h"
#include <nanobind/nanobind.h>
#include <nanobind/stl/array.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

namespace pipesched::python {

using Options = std::vector<std::pair<std::string, std::string>>;
using Lengths = std::optional<std::vector<int64_t>>;
/// Tuple of workers, takes as (`begin`, `end`, `step`), blocks, weights, frozen
/// stages, and whether the path is forward only.
using PathTuple = std::tuple<std::vector<int32_t>,
                             std::vector<std::tuple<int64_t, int64_t, int64_t>>,
                             Lengths, Lengths, std::vector<int64_t>, bool>;
/// Transport, receive placement, forward sends and runtime, as numbers of their
/// enums, and the disturbance.
using Timing = std::tuple<int, int, int, int, std::string>;

/// Raises an error for a path with blocks or weights of another number than
/// stages.
std::vector<Path> readPaths(std::vector<PathTuple> paths);

/// Errors: unknown families and options; invalid values of options.
llvm::Expected<Problem> readProblem(llvm::StringRef family, int64_t workers,
                                    int64_t microbatches,
                                    const Options &options,
                                    std::vector<Path> paths);

/// Errors: numbers that are not values of their enum; as for parseDisturbance.
llvm::Expected<TimingOptions> readTiming(const Timing &timing);

/// A problem, and the costs, timing and optimizer step that it is evaluated
/// with.
class GivenConfiguration {
public:
  GivenConfiguration(std::string family, int64_t workers, int64_t microbatches,
                     Options options, std::vector<PathTuple> paths,
                     const CostSources *costs, Timing timing, int optimizerStep)
      : family(std::move(family)), workers(workers), microbatches(microbatches),
        options(std::move(options)), paths(readPaths(std::move(paths))),
        costs(costs), timing(std::move(timing)), optimizerStep(optimizerStep) {}

  llvm::Expected<Configuration> read() const;

private:
  std::string family;
  int64_t workers, microbatches;
  Options options;
  std::vector<Path> paths;
  const CostSources *costs; ///< kept alive by the binding; may be null
  Timing timing;
  int optimizerStep;
};

} // namespace pipesched::python

#endif // PIPESCHED_PYTHON_SRC_PROBLEM_H
