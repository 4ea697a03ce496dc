//===- Evaluation.cpp - Schedules under costs -----------------------------===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Evaluates schedules of modules, and returns reports, pictures and cells with
// times.
//
//===----------------------------------------------------------------------===//

#include "Evaluation.h"
#include "Bindings.h"
#include "Columns.h"
#include "Module.h"
#include "Problem.h"
#include "Summaries.h"
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/unique_ptr.h>

namespace nb = nanobind;
using namespace pipesched::python;

using Evaluations = std::vector<const Evaluation *>;

//===----------------------------------------------------------------------===//
// Evaluating
//===----------------------------------------------------------------------===//

static std::unique_ptr<Evaluation> evaluate(std::shared_ptr<Module> module,
                                            intptr_t index, const Costs *costs,
                                            const Timing &timing) {
  PipeschedEvaluation evaluation = module->run([&] {
    PipeschedEvaluation result = pipeschedScheduleEvaluate(
        module->getSchedule(index), getOrNull(costs), toTiming(timing));
    if (pipeschedEvaluationIsNull(result))
      throw Failure();
    return result;
  });
  return std::make_unique<Evaluation>(std::move(module), evaluation);
}

static std::unique_ptr<Evaluation>
evaluateConfiguration(const Configuration &configuration) {
  PipeschedConfiguration given = configuration.get();
  Text error;
  PipeschedEvaluation evaluation;
  {
    nb::gil_scoped_release release;
    evaluation = pipeschedConfigurationEvaluate(&given, Text::append, &error);
  }
  if (pipeschedEvaluationIsNull(evaluation))
    raise(error.take());
  return std::make_unique<Evaluation>(nullptr, evaluation);
}

using Times = nb::ndarray<nb::numpy, const int64_t, nb::ndim<1>, nb::c_contig>;

static std::unique_ptr<Evaluation>
measure(const Evaluation &predicted, const std::string &name,
        const Times &startPs, const Times &endPs, int64_t makespanPs) {
  if (startPs.size() != endPs.size())
    raise("there are other numbers of starts and ends");
  Text error;
  PipeschedEvaluation evaluation;
  {
    nb::gil_scoped_release release;
    evaluation = pipeschedEvaluationCreateMeasured(
        predicted.get(), toRef(name), startPs.size(), startPs.data(),
        endPs.data(), makespanPs, Text::append, &error);
  }
  if (pipeschedEvaluationIsNull(evaluation))
    raise(error.take());
  return std::make_unique<Evaluation>(nullptr, evaluation);
}

//===----------------------------------------------------------------------===//
// Results
//===----------------------------------------------------------------------===//

static nb::dict summarize(const Evaluations &evaluations) {
  std::vector<PipeschedSummary> summaries;
  {
    nb::gil_scoped_release release;
    for (const Evaluation *evaluation : evaluations)
      summaries.push_back(pipeschedEvaluationGetSummary(evaluation->get()));
  }
  return toColumns(summaries);
}

static intptr_t countCells(const Evaluation &evaluation) {
  nb::gil_scoped_release release;
  return pipeschedEvaluationGetNumCells(evaluation.get());
}

static nb::dict readCells(const Evaluation &evaluation) {
  std::optional<CellColumns> columns;
  {
    nb::gil_scoped_release release;
    columns.emplace(pipeschedEvaluationGetNumCells(evaluation.get()),
                    /*withTimes=*/true);
    pipeschedEvaluationGetCells(evaluation.get(), columns->get());
  }
  return columns->take();
}

static std::string writeReport(const Evaluation &evaluation) {
  nb::gil_scoped_release release;
  Text text;
  pipeschedEvaluationWriteReport(evaluation.get(), Text::append, &text);
  return text.take();
}

static std::vector<PipeschedEvaluation>
getHandles(const Evaluations &evaluations) {
  std::vector<PipeschedEvaluation> handles;
  for (const Evaluation *evaluation : evaluations)
    handles.push_back(evaluation->get());
  return handles;
}

static std::string writeChromeTrace(const Evaluations &evaluations) {
  std::vector<PipeschedEvaluation> handles = getHandles(evaluations);
  nb::gil_scoped_release release;
  Text text;
  pipeschedWriteChromeTrace(handles.size(), handles.data(), Text::append,
                            &text);
  return text.take();
}

static std::string writeComparison(const Evaluations &evaluations) {
  std::vector<PipeschedEvaluation> handles = getHandles(evaluations);
  nb::gil_scoped_release release;
  Text text;
  pipeschedWriteComparison(handles.size(), handles.data(), Text::append, &text);
  return text.take();
}

using Findings = std::vector<std::pair<std::string, std::string>>;

/// (kind, text) of each finding.
static Findings listFindings(const Evaluations &evaluations) {
  std::vector<PipeschedEvaluation> handles = getHandles(evaluations);
  nb::gil_scoped_release release;
  Findings findings;
  pipeschedListFindings(
      handles.size(), handles.data(),
      [](MlirStringRef kind, MlirStringRef text, void *list) {
        static_cast<Findings *>(list)->emplace_back(toString(kind),
                                                    toString(text));
      },
      &findings);
  return findings;
}

static std::string writeText(const Evaluations &evaluations, int64_t width,
                             bool hasColours) {
  std::vector<PipeschedEvaluation> handles = getHandles(evaluations);
  Text text, error;
  bool isWritten;
  {
    nb::gil_scoped_release release;
    isWritten = mlirLogicalResultIsSuccess(
        pipeschedWriteText(handles.size(), handles.data(), width, hasColours,
                           Text::append, &text, Text::append, &error));
  }
  if (!isWritten)
    raise(error.take());
  return text.take();
}

static std::string writeSvg(const Evaluations &evaluations, int variant) {
  std::vector<PipeschedEvaluation> handles = getHandles(evaluations);
  Text text, error;
  bool isWritten;
  {
    nb::gil_scoped_release release;
    isWritten = mlirLogicalResultIsSuccess(
        pipeschedWriteSvg(handles.size(), handles.data(),
                          static_cast<PipeschedSvgVariant>(variant),
                          Text::append, &text, Text::append, &error));
  }
  if (!isWritten)
    raise(error.take());
  return text.take();
}

//===----------------------------------------------------------------------===//
// Bindings
//===----------------------------------------------------------------------===//

void pipesched::python::bindEvaluation(nb::module_ &m) {
  nb::class_<Evaluation>(m, "Evaluation",
                         "All that is known of a schedule under costs.")
      .def("report", writeReport, "The report, one JSON object.")
      .def_prop_ro("num_cells", countCells)
      .def("cells", readCells,
           nb::sig("def cells(self) -> "
                   "dict[str, numpy.typing.NDArray[typing.Any]]"));
  m.def("evaluate", evaluate, nb::arg("module"), nb::arg("index"),
        nb::arg("costs").none(), nb::arg("timing"));
  m.def("evaluate_configuration", evaluateConfiguration,
        nb::arg("configuration"));
  m.def("measured", measure, nb::arg("predicted"), nb::arg("name"),
        nb::arg("start_ps"), nb::arg("end_ps"), nb::arg("makespan_ps"),
        nb::keep_alive<0, 1>(),
        nb::sig("def measured(predicted: Evaluation, name: str, "
                "start_ps: numpy.typing.NDArray[typing.Any], "
                "end_ps: numpy.typing.NDArray[typing.Any], "
                "makespan_ps: int) -> Evaluation"));
  m.def("summaries", summarize, nb::arg("evaluations"),
        nb::sig("def summaries(evaluations: "
                "collections.abc.Sequence[Evaluation]) -> "
                "dict[str, numpy.typing.NDArray[typing.Any]]"));
  m.def("chrome_trace", writeChromeTrace, nb::arg("evaluations"));
  m.def("comparison", writeComparison, nb::arg("evaluations"));
  m.def("findings", listFindings, nb::arg("evaluations"));
  m.def("text", writeText, nb::arg("evaluations"), nb::arg("width"),
        nb::arg("has_colours"));
  m.def("svg", writeSvg, nb::arg("evaluations"), nb::arg("variant"));
}
