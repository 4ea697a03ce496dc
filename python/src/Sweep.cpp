//===- Sweep.cpp - Sweeps on threads --------------------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Sweeps on threads, which Ctrl-C can interrupt, and their results as columns.
//
//===----------------------------------------------------------------------===//

#include "Bindings.h"
#include "Columns.h"
#include "Diagnostics.h"
#include "PipeSched/Evaluation/Summary.h"
#include "Problem.h"
#include "Summaries.h"
#include <exception>

namespace nb = nanobind;
using namespace pipesched;
using namespace pipesched::python;

//===----------------------------------------------------------------------===//
// Summaries
//===----------------------------------------------------------------------===//

namespace {
template <typename T>
struct Field {
  const char *name;
  T Summary::*member;
};
} // namespace

static constexpr Field<int64_t> kIntegers[] = {
    {"workers", &Summary::workers},
    {"stages", &Summary::stages},
    {"microbatches", &Summary::microbatches},
    {"microbatch_size", &Summary::microbatchSize},
    {"slices", &Summary::slices},
    {"slots", &Summary::slots},
    {"peak_activations", &Summary::peakActivations},
    {"makespan_ps", &Summary::makespanPs},
    {"span_ps", &Summary::spanPs},
    {"exposed_communication_ps", &Summary::exposedCommunicationPs},
    {"messages", &Summary::messages},
    {"bottleneck_worker", &Summary::bottleneckWorker},
    {"persistent_bytes", &Summary::persistentBytes},
    {"peak_activation_bytes", &Summary::peakActivationBytes},
    {"peak_bytes", &Summary::peakBytes},
    {"capacity_bytes", &Summary::capacityBytes},
};

static constexpr Field<double> kRatios[] = {
    {"formula_bubble_ratio", &Summary::formulaBubbleRatio},
    {"formula_bubble_ratio_general", &Summary::formulaBubbleRatioGeneral},
    {"table_bubble_ratio", &Summary::tableBubbleRatio},
    {"idle_ratio", &Summary::idleRatio},
    {"span_bubble_ratio", &Summary::spanBubbleRatio},
    {"mfu", &Summary::mfu},
};

template <typename T>
static nb::object toColumn(const std::vector<Summary> &summaries,
                           T Summary::*member) {
  std::vector<T> column;
  column.reserve(summaries.size());
  for (const Summary &summary : summaries)
    column.push_back(summary.*member);
  return toArray(std::move(column));
}

nb::dict pipesched::python::toColumns(const std::vector<Summary> &summaries) {
  nb::dict columns;
  for (const auto &field : kIntegers)
    columns[field.name] = toColumn(summaries, field.member);
  for (const auto &field : kRatios)
    columns[field.name] = toColumn(summaries, field.member);
  for (auto [index, cause] : llvm::enumerate(kIdleCauses)) {
    std::vector<double> column;
    for (const Summary &summary : summaries)
      column.push_back(summary.idleByCause ? (*summary.idleByCause)[index]
                                           : kUnknownRatio);
    columns[(cause.key + "_ratio").str().c_str()] = toArray(std::move(column));
  }
  return columns;
}

static void addTotals(Summary &summary, const ExecutionTotals &totals) {
  ExecutionSummary numbers = summarize(totals);
  summary.makespanPs = totals.makespanPs;
  summary.messages = totals.traffic.messages;
  summary.spanPs = numbers.spanPs;
  summary.exposedCommunicationPs = numbers.exposedCommunicationPs;
  summary.idleRatio = numbers.idleRatio;
  summary.spanBubbleRatio = numbers.spanBubbleRatio;
  summary.idleByCause = numbers.idleByCause;
  if (!totals.memory)
    return;
  const MemoryUsage &memory = *totals.memory;
  const WorkerMemory &worker = memory.workers[memory.bottleneckWorker];
  summary.bottleneckWorker = memory.bottleneckWorker;
  summary.persistentBytes = worker.persistentBytes();
  summary.peakActivationBytes = worker.peakActivationBytes;
  summary.peakBytes = worker.peakBytes();
  if (memory.capacityBytes != 0)
    summary.capacityBytes = memory.capacityBytes;
}

Summary pipesched::python::summaryOf(const NamedEvaluation &result) {
  Summary summary;
  summary.workers = result.placement.getNumWorkers();
  summary.stages = result.placement.getMaxStages();
  summary.microbatches = result.placement.getNumMicrobatches();
  summary.slices = result.placement.getNumSlices();
  if (result.microbatchSize != 0)
    summary.microbatchSize = result.microbatchSize;
  if (const auto &formula = result.evaluation.formula) {
    summary.formulaBubbleRatio = formula->bubbleRatio;
    summary.formulaBubbleRatioGeneral =
        formula->bubbleRatioGeneral.value_or(kUnknownRatio);
  }
  if (const auto &table = result.evaluation.table) {
    summary.tableBubbleRatio = table->bubbleRatio;
    summary.slots = table->slots;
    summary.peakActivations = *llvm::max_element(table->peakActivations);
  }
  addTotals(summary, result.evaluation.totals);
  summary.mfu = result.getMfu().value_or(kUnknownRatio);
  return summary;
}

//===----------------------------------------------------------------------===//
// Sweeps
//===----------------------------------------------------------------------===//

namespace {

/// The results of a sweep and its progress callback. Each thread writes only
/// the entries of its configurations; the calling thread reports progress
/// and keeps an exception of the callback.
struct SweepState {
  explicit SweepState(size_t size, nb::object progress)
      : progress(std::move(progress)) {
    swept.summaries.resize(size);
    swept.errors.resize(size);
  }

  Swept swept;
  nb::object progress;
  std::exception_ptr raised;
};

} // namespace

/// Runs Python's signal handlers and reports progress. An exception from either
/// ends the sweep.
static bool keepGoing(size_t done, SweepState &state) {
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

static nb::list listErrors(const std::vector<std::string> &errors) {
  nb::list list;
  for (const std::string &error : errors)
    if (error.empty())
      list.append(nb::none());
    else
      list.append(toPython(error));
  return list;
}

Swept pipesched::python::sweepNumbers(
    size_t count, unsigned threads,
    llvm::function_ref<llvm::Expected<Configuration>(size_t)> configurationOf,
    nb::object progress) {
  SweepState state(count, std::move(progress));
  {
    nb::gil_scoped_release release;
    sweep(count, threads,
          {[&](size_t index) {
             llvm::Expected<Configuration> read = configurationOf(index);
             if (read)
               read->numbersAlone = true;
             return read;
           },
           [&](size_t index, llvm::Expected<EvaluatedTable> evaluation) {
             if (evaluation)
               state.swept.summaries[index] = summaryOf(evaluation->result);
             else
               state.swept.errors[index] =
                   toValid(llvm::toString(evaluation.takeError()));
           },
           [&](size_t done) { return keepGoing(done, state); }});
  }
  if (state.raised)
    std::rethrow_exception(state.raised);
  return std::move(state.swept);
}

static nb::tuple runSweep(const std::vector<const GivenConfiguration *> &given,
                          unsigned threads, nb::object progress) {
  Swept swept = sweepNumbers(
      given.size(), threads, [&](size_t index) { return given[index]->read(); },
      std::move(progress));
  return nb::make_tuple(toColumns(swept.summaries), listErrors(swept.errors));
}

void pipesched::python::bindSweep(nb::module_ &m) {
  m.def("sweep", runSweep, nb::arg("configurations"), nb::arg("threads"),
        nb::arg("progress").none(),
        nb::sig("def sweep(configurations: "
                "collections.abc.Sequence[Configuration], threads: int, "
                "progress: collections.abc.Callable[[int], object] | None) -> "
                "tuple[dict[str, numpy.typing.NDArray[typing.Any]], "
                "list[str | None]]"));
}
