//===- Evaluation.cpp - Schedules under costs -----------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Evaluates schedules of modules, and returns reports, pictures and cells with
// times.
//
//===----------------------------------------------------------------------===//

#include "Bindings.h"
#include "Columns.h"
#include "Diagnostics.h"
#include "Enums.h"
#include "Module.h"
#include "PipeSched/Adapter/Evaluate.h"
#include "PipeSched/Adapter/LoadCosts.h"
#include "PipeSched/Evaluation/MeasuredTimes.h"
#include "PipeSched/Evaluation/Sweep.h"
#include "PipeSched/Evaluation/TimedCells.h"
#include "PipeSched/Target/ChromeTrace.h"
#include "PipeSched/Target/Comparison.h"
#include "PipeSched/Target/DrawingColumns.h"
#include "PipeSched/Target/Report.h"
#include "PipeSched/Target/Svg.h"
#include "PipeSched/Target/TextPicture.h"
#include "Problem.h"
#include "Summaries.h"
#include "llvm/Support/JSON.h"
#include <nanobind/stl/string.h>

namespace nb = nanobind;
using namespace pipesched;
using namespace pipesched::python;

using Evaluations = std::vector<const EvaluatedTable *>;
using Results = llvm::SmallVector<const NamedEvaluation *>;

//===----------------------------------------------------------------------===//
// Evaluating
//===----------------------------------------------------------------------===//

/// The costs of an op, where costs in `given` have priority.
static CostInputs overlayCosts(mlir::Operation *op, const CostSources *given) {
  CostInputs costs = orFail(loadCosts(op));
  if (!given)
    return costs;
  auto owner = llvm::cast<pipe::PlacementOwnerOpInterface>(op);
  CostInputs resolved = orFail(
      op, "has no costs: ", resolveCosts(*given, owner.getNumMicrobatches()));
  if (resolved.model)
    costs.model = std::move(resolved.model);
  if (resolved.system)
    costs.system = std::move(resolved.system);
  if (resolved.profile)
    costs.profile = std::move(resolved.profile);
  return costs;
}

static EvaluatedTable evaluateOp(const Module &module, size_t index,
                                 const CostSources *costs,
                                 const Timing &timing) {
  return module.run([&] {
    mlir::Operation *op = module.getSchedule(index);
    TimingOptions options = orFail(op, "cannot be timed: ", readTiming(timing));
    EvaluatedTable evaluated;
    evaluated.result = orFail(evaluate(op, overlayCosts(op, costs), options));
    evaluated.result.keepRows(); // the module may be deleted
    return evaluated;
  });
}

static EvaluatedTable evaluateGiven(const GivenConfiguration &given) {
  return runFree([&]() -> llvm::Expected<EvaluatedTable> {
    llvm::Expected<Configuration> configuration = given.read();
    if (!configuration)
      return configuration.takeError();
    return evaluateConfiguration(*configuration);
  });
}

using Times = nb::ndarray<nb::numpy, const int64_t, nb::ndim<1>, nb::c_contig>;

static EvaluatedTable measure(const EvaluatedTable &predicted,
                              const std::string &name, const Times &startPs,
                              const Times &endPs, int64_t makespanPs) {
  if (startPs.size() != endPs.size())
    raise("there are other numbers of starts and ends");
  MeasuredTimes times = {{startPs.data(), startPs.size()},
                         {endPs.data(), endPs.size()},
                         makespanPs};
  return runFree([&]() -> llvm::Expected<EvaluatedTable> {
    llvm::Expected<Execution> execution =
        withMeasuredTimes(predicted.result.getExecution(), times);
    if (!execution)
      return execution.takeError();
    EvaluatedTable measured;
    measured.table = predicted.table;
    measured.result = predicted.result;
    measured.result.name = name;
    measured.result.evaluation.set(std::move(*execution));
    return measured;
  });
}

//===----------------------------------------------------------------------===//
// Results
//===----------------------------------------------------------------------===//

static nb::dict summarizeAll(const Evaluations &evaluations) {
  std::vector<Summary> summaries;
  {
    nb::gil_scoped_release release;
    for (const EvaluatedTable *evaluation : evaluations)
      summaries.push_back(summaryOf(evaluation->result));
  }
  return toColumns(summaries);
}

static size_t countCells(const EvaluatedTable &evaluation) {
  nb::gil_scoped_release release;
  return countTimedCells(evaluation.result.getExecution());
}

static nb::dict readCells(const EvaluatedTable &evaluation) {
  const NamedEvaluation &result = evaluation.result;
  CellColumns columns(result.placement.getNumSlices(), /*isTimed=*/true);
  {
    nb::gil_scoped_release release;
    forEachTimedCell(result.getExecution(), [&](const TimedCell &cell) {
      columns.add(cell.worker, cell.cell, cell.startPs, cell.endPs,
                  cell.message);
    });
  }
  return columns.take();
}

static std::string report(const EvaluatedTable &evaluation) {
  nb::gil_scoped_release release;
  return toValid(collect([&](llvm::raw_ostream &os) {
    llvm::json::OStream json(os, /*IndentSize=*/2);
    writeReport(json, evaluation.result);
  }));
}

static Results resultsOf(const Evaluations &evaluations) {
  return llvm::map_to_vector(evaluations, [](const EvaluatedTable *evaluation) {
    return &evaluation->result;
  });
}

static std::string trace(const Evaluations &evaluations) {
  Results results = resultsOf(evaluations);
  nb::gil_scoped_release release;
  return toValid(
      collect([&](llvm::raw_ostream &os) { writeChromeTrace(os, results); }));
}

static std::vector<ComparisonEntry>
listEntries(const Evaluations &evaluations) {
  std::vector<ComparisonEntry> entries;
  for (const EvaluatedTable *evaluation : evaluations)
    entries.push_back(summarizeForComparison(evaluation->result));
  return entries;
}

static std::string compare(const Evaluations &evaluations) {
  nb::gil_scoped_release release;
  return toValid(collect([&](llvm::raw_ostream &os) {
    writeComparison(os, listEntries(evaluations));
  }));
}

using Findings = std::vector<std::pair<std::string, std::string>>;

/// (kind, text) of each finding.
static Findings listFindings(const Evaluations &evaluations) {
  nb::gil_scoped_release release;
  Findings findings;
  for (const Finding &finding : findFindings(listEntries(evaluations)))
    findings.emplace_back(enumName(finding.kind), toValid(finding.text));
  return findings;
}

/// The text of `write`, which may fail, without the GIL.
template <typename Write>
static std::string draw(Write write) {
  return runFree([&]() -> llvm::Expected<std::string> {
    std::string text;
    llvm::raw_string_ostream os(text);
    if (llvm::Error error = write(os))
      return std::move(error);
    return toValid(text);
  });
}

static std::string drawText(const Evaluations &evaluations, int64_t width,
                            bool hasColours) {
  llvm::SmallVector<const NamedTable *> tables;
  for (const NamedEvaluation *result : resultsOf(evaluations)) {
    if (result->isProgram())
      raise(result->name + " is a program; tables are of schedules");
    tables.push_back(result);
  }
  TextPictureOptions options;
  options.width = width;
  options.hasColours = hasColours;
  return draw([&](llvm::raw_ostream &os) {
    return writeTextPictures(os, tables, options);
  });
}

static std::string drawSvg(const Evaluations &evaluations, int variant) {
  SvgVariant chosen = valueOf(readEnum<SvgVariant>("svg-variant", variant));
  Results results = resultsOf(evaluations);
  return draw(
      [&](llvm::raw_ostream &os) { return writeSvg(os, results, chosen); });
}

//===----------------------------------------------------------------------===//
// Bindings
//===----------------------------------------------------------------------===//

void pipesched::python::bindEvaluation(nb::module_ &m) {
  nb::class_<EvaluatedTable>(m, "Evaluation",
                             "All that is known of a schedule under costs.")
      .def("report", report, "The report, one JSON object.")
      .def_prop_ro("num_cells", countCells)
      .def("cells", readCells,
           nb::sig("def cells(self) -> "
                   "dict[str, numpy.typing.NDArray[typing.Any]]"));
  m.def("evaluate", evaluateOp, nb::arg("module"), nb::arg("index"),
        nb::arg("costs").none(), nb::arg("timing"));
  m.def("evaluate_configuration", evaluateGiven, nb::arg("configuration"));
  m.def("measured", measure, nb::arg("predicted"), nb::arg("name"),
        nb::arg("start_ps"), nb::arg("end_ps"), nb::arg("makespan_ps"),
        nb::sig("def measured(predicted: Evaluation, name: str, "
                "start_ps: numpy.typing.NDArray[typing.Any], "
                "end_ps: numpy.typing.NDArray[typing.Any], "
                "makespan_ps: int) -> Evaluation"));
  m.def("summaries", summarizeAll, nb::arg("evaluations"),
        nb::sig("def summaries(evaluations: "
                "collections.abc.Sequence[Evaluation]) -> "
                "dict[str, numpy.typing.NDArray[typing.Any]]"));
  m.def("chrome_trace", trace, nb::arg("evaluations"));
  m.def("comparison", compare, nb::arg("evaluations"));
  m.def("findings", listFindings, nb::arg("evaluations"));
  m.def("text", drawText, nb::arg("evaluations"), nb::arg("width"),
        nb::arg("has_colours"));
  m.def("svg", drawSvg, nb::arg("evaluations"), nb::arg("variant"));
}

//===----------------------------------------------------------------------===//
// Columns of drawings, which read the memory of C++ and keep their owner alive
//===----------------------------------------------------------------------===//

static DrawingColumns drawColumns(const EvaluatedTable &evaluation) {
  nb::gil_scoped_release release;
  return drawingColumnsOf(evaluation.result);
}

static nb::dict getItems(nb::handle self) {
  const auto &items = nb::cast<const DrawingColumns &>(self);
  nb::dict columns;
  auto add = [&](const char *name, const auto &column) {
    columns[name] = view(column, self);
  };
  add("row_begins", items.rowBegins);
  add("kind", items.kind);
  add("worker", items.worker);
  add("peer", items.peer);
  add("stage", items.stage);
  add("phase", items.phase);
  add("microbatch", items.microbatch);
  add("second_stage", items.secondStage);
  add("second_phase", items.secondPhase);
  add("second_microbatch", items.secondMicrobatch);
  add("start_ps", items.startPs);
  add("release_ps", items.releasePs);
  add("end_ps", items.endPs);
  add("bytes", items.bytes);
  add("awaited", items.awaited);
  add("critical", items.criticalPath);
  add("member_begins", items.memberBegins);
  add("members", items.members);
  return columns;
}

static nb::dict getIdle(nb::handle self) {
  const auto &idle = nb::cast<const DrawingColumns &>(self);
  nb::dict columns;
  columns["worker"] = view(idle.idleWorker, self);
  columns["cause"] = view(idle.idleCause, self);
  columns["before"] = view(idle.idleBefore, self);
  columns["begin_ps"] = view(idle.idleBeginPs, self);
  columns["end_ps"] = view(idle.idleEndPs, self);
  return columns;
}

static nb::dict getMemory(nb::handle self) {
  const auto &memory = nb::cast<const DrawingColumns &>(self);
  nb::dict columns;
  columns["row_begins"] = view(memory.memoryBegins, self);
  columns["at_ps"] = view(memory.memoryPs, self);
  columns["held"] = view(memory.memoryHeld, self);
  return columns;
}

void pipesched::python::bindDrawing(nb::module_ &m) {
  nb::class_<DrawingColumns>(m, "Drawing",
                             "What a drawing of a timeline can show.")
      .def_prop_ro(
          "facts",
          [](const DrawingColumns &drawing) { return toValid(drawing.facts); },
          "What the numbers mean, one JSON object.")
      .def("items", getItems,
           nb::sig("def items(self) -> "
                   "dict[str, numpy.typing.NDArray[typing.Any]]"))
      .def("idle", getIdle,
           nb::sig("def idle(self) -> "
                   "dict[str, numpy.typing.NDArray[typing.Any]]"))
      .def("memory", getMemory,
           nb::sig("def memory(self) -> "
                   "dict[str, numpy.typing.NDArray[typing.Any]]"));
  m.def("drawing", drawColumns, nb::arg("evaluation"));
}
