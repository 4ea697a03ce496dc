//===- Drawing.cpp - What a drawing shows ---------------------------------===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Columns of timelines as NumPy arrays, which read the memory of C++ and keep
// their owner alive.
//
//===----------------------------------------------------------------------===//

#include "PipeSched-c/Drawing.h"
#include "Bindings.h"
#include "Columns.h"
#include "Evaluation.h"
#include "Module.h"
#include <nanobind/stl/string.h>
#include <nanobind/stl/unique_ptr.h>

namespace nb = nanobind;
using namespace pipesched::python;

namespace {

class Drawing {
public:
  explicit Drawing(PipeschedEvaluation evaluation)
      : drawing(pipeschedDrawingCreate(evaluation)) {}
  Drawing(const Drawing &) = delete;
  ~Drawing() { pipeschedDrawingDestroy(drawing); }

  PipeschedDrawing get() const { return drawing; }

private:
  PipeschedDrawing drawing;
};

} // namespace

static std::unique_ptr<Drawing> draw(const Evaluation &evaluation) {
  nb::gil_scoped_release release;
  return std::make_unique<Drawing>(evaluation.get());
}

static std::string getFacts(const Drawing &drawing) {
  Text text;
  pipeschedDrawingWriteFacts(drawing.get(), Text::append, &text);
  return text.take();
}

static nb::dict getItems(nb::handle self) {
  PipeschedDrawingItems items =
      pipeschedDrawingGetItems(nb::cast<const Drawing &>(self).get());
  size_t size = items.numItems;
  size_t numCells = items.rowBegins[items.numWorkers];
  nb::dict columns;
  auto add = [&](const char *name, auto *column, size_t count) {
    columns[name] = view(column, column ? count : 0, self);
  };
  add("row_begins", items.rowBegins, items.numWorkers + 1);
  add("kind", items.kind, size);
  add("worker", items.worker, size);
  add("peer", items.peer, size);
  add("stage", items.stage, size);
  add("phase", items.phase, size);
  add("microbatch", items.microbatch, size);
  add("second_stage", items.secondStage, numCells);
  add("second_phase", items.secondPhase, numCells);
  add("second_microbatch", items.secondMicrobatch, numCells);
  add("start_ps", items.startPs, size);
  add("release_ps", items.releasePs, size);
  add("end_ps", items.endPs, size);
  add("awaited", items.awaited, size);
  add("critical", items.critical, items.numCritical);
  add("member_begins", items.memberBegins, items.numReductions + 1);
  add("members", items.members, items.memberBegins[items.numReductions]);
  return columns;
}

static nb::dict getIdle(nb::handle self) {
  PipeschedDrawingIdle idle =
      pipeschedDrawingGetIdle(nb::cast<const Drawing &>(self).get());
  size_t size = idle.numSpans;
  nb::dict columns;
  columns["worker"] = view(idle.worker, size, self);
  columns["cause"] = view(idle.cause, size, self);
  columns["before"] = view(idle.before, size, self);
  columns["begin_ps"] = view(idle.beginPs, size, self);
  columns["end_ps"] = view(idle.endPs, size, self);
  return columns;
}

static nb::dict getMemory(nb::handle self) {
  PipeschedDrawingMemory memory =
      pipeschedDrawingGetMemory(nb::cast<const Drawing &>(self).get());
  nb::dict columns;
  columns["row_begins"] = view(memory.rowBegins, memory.numWorkers + 1, self);
  columns["at_ps"] = view(memory.atPs, memory.numSamples, self);
  columns["held"] = view(memory.held, memory.numSamples, self);
  return columns;
}

void pipesched::python::bindDrawing(nb::module_ &m) {
  nb::class_<Drawing>(m, "Drawing", "What a drawing of a timeline can show.")
      .def_prop_ro("facts", getFacts, "What the numbers mean, one JSON object.")
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
