//===- Sweep.cpp - Sweeps on threads --------------------------------------===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Sweeps on threads, which Ctrl-C can interrupt, and their results as columns.
//
//===----------------------------------------------------------------------===//

#include "Bindings.h"
#include "Columns.h"
#include "Problem.h"
#include "Summaries.h"
#include <exception>

namespace nb = nanobind;
using namespace pipesched::python;

//===----------------------------------------------------------------------===//
// Summaries
//===----------------------------------------------------------------------===//

namespace {
template <typename T>
struct Field {
  const char *name;
  T PipeschedSummary::*member;
};
} // namespace

static constexpr Field<int64_t> kIntegers[] = {
    {"workers", &PipeschedSummary::workers},
    {"stages", &PipeschedSummary::stages},
    {"microbatches", &PipeschedSummary::microbatches},
    {"microbatch_size", &PipeschedSummary::microbatchSize},
    {"slices", &PipeschedSummary::slices},
    {"slots", &PipeschedSummary::slots},
    {"peak_activations", &PipeschedSummary::peakActivations},
    {"makespan_ps", &PipeschedSummary::makespanPs},
    {"span_ps", &PipeschedSummary::spanPs},
    {"exposed_communication_ps", &PipeschedSummary::exposedCommunicationPs},
    {"messages", &PipeschedSummary::messages},
    {"bottleneck_worker", &PipeschedSummary::bottleneckWorker},
    {"persistent_bytes", &PipeschedSummary::persistentBytes},
    {"peak_activation_bytes", &PipeschedSummary::peakActivationBytes},
    {"peak_bytes", &PipeschedSummary::peakBytes},
    {"capacity_bytes", &PipeschedSummary::capacityBytes},
};

static constexpr Field<double> kRatios[] = {
    {"formula_bubble_ratio", &PipeschedSummary::formulaBubbleRatio},
    {"formula_bubble_ratio_general",
     &PipeschedSummary::formulaBubbleRatioGeneral},
    {"table_bubble_ratio", &PipeschedSummary::tableBubbleRatio},
    {"idle_ratio", &PipeschedSummary::idleRatio},
    {"span_bubble_ratio", &PipeschedSummary::spanBubbleRatio},
    {"fill_ratio", &PipeschedSummary::fill},
    {"drain_ratio", &PipeschedSummary::drain},
    {"dependency_ratio", &PipeschedSummary::dependency},
    {"queue_order_ratio", &PipeschedSummary::queueOrder},
    {"communication_ratio", &PipeschedSummary::communication},
    {"mfu", &PipeschedSummary::mfu},
};

template <typename T>
static nb::object toColumn(const std::vector<PipeschedSummary> &summaries,
                           T PipeschedSummary::*member) {
  std::unique_ptr<T[]> column(new T[summaries.size()]);
  for (size_t i = 0; i < summaries.size(); ++i)
    column[i] = summaries[i].*member;
  return toArray(std::move(column), summaries.size());
}

nb::dict
pipesched::python::toColumns(const std::vector<PipeschedSummary> &summaries) {
  nb::dict columns;
  for (const auto &field : kIntegers)
    columns[field.name] = toColumn(summaries, field.member);
  for (const auto &field : kRatios)
    columns[field.name] = toColumn(summaries, field.member);
  return columns;
}

//===----------------------------------------------------------------------===//
// Sweeps
//===----------------------------------------------------------------------===//

namespace {

/// The results of a sweep and its progress callback. Each thread writes only
/// the entries of its own configurations; the calling thread reports progress
/// and keeps an exception of the callback.
struct SweepState {
  explicit SweepState(size_t size, nb::object progress)
      : summaries(size), errors(size), progress(std::move(progress)) {}

  std::vector<PipeschedSummary> summaries;
  std::vector<std::string> errors;
  nb::object progress;
  std::exception_ptr raised;
};

} // namespace

/// The summary of a failed configuration: every number is unknown.
static PipeschedSummary unknownSummary() {
  PipeschedSummary summary;
  for (const auto &field : kIntegers)
    summary.*field.member = -1;
  for (const auto &field : kRatios)
    summary.*field.member = std::numeric_limits<double>::quiet_NaN();
  return summary;
}

static void consume(intptr_t index, PipeschedEvaluation evaluation,
                    MlirStringRef error, void *userData) {
  auto &state = *static_cast<SweepState *>(userData);
  bool isKnown = !pipeschedEvaluationIsNull(evaluation);
  state.summaries[index] =
      isKnown ? pipeschedEvaluationGetSummary(evaluation) : unknownSummary();
  if (!isKnown)
    state.errors[index] = toString(error);
}

/// Runs Python's signal handlers and reports progress. An exception from either
/// ends the sweep.
static bool keepGoing(intptr_t done, void *userData) {
  auto &state = *static_cast<SweepState *>(userData);
  if (state.raised)
    return false;
  nb::gil_scoped_acquire acquire;
  try {
    if (PyErr_CheckSignals() != 0)
      throw nb::python_error();
    if (!state.progress.is_none())
      state.progress(done);
    return true;
  } catch (...) {
    state.raised = std::current_exception();
    return false;
  }
}

static nb::list toPython(const std::vector<std::string> &errors) {
  nb::list list;
  for (const std::string &error : errors)
    if (error.empty())
      list.append(nb::none());
    else
      list.append(nb::str(error.data(), error.size()));
  return list;
}

static nb::tuple sweep(const std::vector<const Configuration *> &given,
                       unsigned threads, nb::object progress) {
  std::vector<PipeschedConfiguration> configurations;
  for (const Configuration *configuration : given)
    configurations.push_back(configuration->get());
  SweepState state(configurations.size(), std::move(progress));
  {
    nb::gil_scoped_release release;
    pipeschedSweep(configurations.size(), configurations.data(), threads,
                   {consume, keepGoing, &state});
  }
  if (state.raised)
    std::rethrow_exception(state.raised);
  return nb::make_tuple(toColumns(state.summaries), toPython(state.errors));
}

void pipesched::python::bindSweep(nb::module_ &m) {
  m.def("sweep", sweep, nb::arg("configurations"), nb::arg("threads"),
        nb::arg("progress").none(),
        nb::sig("def sweep(configurations: "
                "collections.abc.Sequence[Configuration], threads: int, "
                "progress: collections.abc.Callable[[int], object] | None) -> "
                "tuple[dict[str, numpy.typing.NDArray[typing.Any]], "
                "list[str | None]]"));
}
