//===- Problem.h - Problems from Python -------------------------*- C++ -*-===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Owns the strings and lists that the structs of the C API point to.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_PYTHON_SRC_PROBLEM_H
#define PIPESCHED_PYTHON_SRC_PROBLEM_H

#include "Diagnostics.h"
#include "PipeSched-c/Evaluation.h"
#include <array>
#include <memory>
#include <nanobind/stl/array.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

namespace pipesched::python {

using Options = std::vector<std::pair<std::string, std::string>>;
using Lengths = std::optional<std::vector<int64_t>>;
/// Tuple of workers, takes as (begin, end, step), blocks, weights.
using Path = std::tuple<std::vector<int32_t>,
                        std::vector<std::tuple<int64_t, int64_t, int64_t>>,
                        Lengths, Lengths>;

/// A PipeschedProblem with the data that it points to. It cannot be copied, so
/// the pointers stay valid.
class Problem {
public:
  Problem(std::string family, int64_t workers, int64_t microbatches,
          Options options, std::vector<Path> paths, int64_t slices = 0);
  Problem(const Problem &) = delete;

  const PipeschedProblem &get() const { return problem; }

private:
  std::string family;
  Options options;
  std::vector<Path> paths;
  std::vector<std::vector<PipeschedRange>> takes;
  std::vector<PipeschedOption> optionRefs;
  std::vector<PipeschedPath> pathRefs;
  PipeschedProblem problem;
};

/// Costs, shared by all configurations that are evaluated with them.
class Costs {
public:
  /// A source is (kind, text) or nothing; PipeschedSourceKind has the kinds.
  using Source = std::optional<std::pair<int, std::string>>;
  /// Bytes of a parameter's weight, gradient and optimizer state, or nothing.
  using ParameterBytes = std::optional<std::array<int64_t, 3>>;
  /// Microbatch size, global batch, sequence, boundary bytes, accelerators.
  using Numbers = std::array<int64_t, 5>;
  /// Recompute, attention, precision, whether sequence parallelism is off.
  using Choices = std::array<int, 4>;

  Costs(const Source &model, const Source &system, const Source &profile,
        const Numbers &numbers, const Choices &choices,
        const Options &deployment, const ParameterBytes &parameterBytes);
  Costs(const Costs &) = delete;
  ~Costs() { pipeschedCostsDestroy(costs); }

  PipeschedCosts get() const { return costs; }

private:
  PipeschedCosts costs;
};

/// Returns null costs for a null pointer.
inline PipeschedCosts getOrNull(const Costs *costs) {
  return costs ? costs->get() : PipeschedCosts{nullptr};
}

/// Transport, receive placement, forward sends and runtime, as numbers of the C
/// enums, and the disturbance.
using Timing = std::tuple<int, int, int, int, std::string>;

/// `timing` must outlive the result.
inline PipeschedTiming toTiming(const Timing &timing) {
  const auto &[transport, receivePlacement, forwardSends, runtime,
               disturbance] = timing;
  return {static_cast<PipeschedTransport>(transport),
          static_cast<PipeschedReceivePlacement>(receivePlacement),
          static_cast<PipeschedForwardSends>(forwardSends),
          static_cast<PipeschedRuntime>(runtime), toRef(disturbance)};
}

/// A problem, and the costs, timing and optimizer step that it is evaluated
/// with.
class Configuration {
public:
  Configuration(std::string family, int64_t workers, int64_t microbatches,
                Options options, std::vector<Path> paths, const Costs *costs,
                Timing timing, int optimizerStep)
      : problem(std::move(family), workers, microbatches, std::move(options),
                std::move(paths)),
        costs(getOrNull(costs)), timing(std::move(timing)),
        optimizerStep(static_cast<PipeschedOptimizerStep>(optimizerStep)) {}

  PipeschedConfiguration get() const {
    return {problem.get(), costs, toTiming(timing), optimizerStep};
  }

private:
  Problem problem;
  PipeschedCosts costs; ///< kept alive by the binding
  Timing timing;
  PipeschedOptimizerStep optimizerStep;
};

} // namespace pipesched::python

#endif // PIPESCHED_PYTHON_SRC_PROBLEM_H
