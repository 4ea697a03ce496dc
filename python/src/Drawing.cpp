//===- Drawing.cpp - What a drawing shows ---------------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Columns of timelines as NumPy arrays, which read the memory of C++ and keep
// their owner alive.
//
//===----------------------------------------------------------------------===//

#include "Bindings.h"
#include "Columns.h"
#include "Diagnostics.h"
#include "PipeSched/Evaluation/Sweep.h"
#include "PipeSched/Target/DrawingColumns.h"
#include <nanobind/stl/string.h>

namespace nb = nanobind;
using namespace pipesched;
using namespace pipesched::python;

static DrawingColumns draw(const EvaluatedTable &evaluation) {
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
  m.def("drawing", draw, nb::arg("evaluation"));
}
