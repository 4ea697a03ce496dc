//===- Program.cpp - Programs as data -------------------------------------===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Returns the arrays of placements and programs as views, which keep their
// owner alive.
//
//===----------------------------------------------------------------------===//

#include "PipeSched-c/Program.h"
#include "Bindings.h"
#include "Columns.h"
#include "Module.h"
#include <nanobind/stl/array.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

namespace nb = nanobind;
using namespace pipesched::python;

namespace {

/// Where the stages of a schedule are.
class PlacementHandle {
public:
  explicit PlacementHandle(PipeschedPlacement placement)
      : placement(placement) {}
  PlacementHandle(const PlacementHandle &) = delete;
  ~PlacementHandle() { pipeschedPlacementDestroy(placement); }

  PipeschedPlacement get() const { return placement; }

private:
  PipeschedPlacement placement;
};

/// The instructions of a schedule or program.
class ProgramHandle {
public:
  explicit ProgramHandle(PipeschedProgram program) : program(program) {}
  ProgramHandle(const ProgramHandle &) = delete;
  ~ProgramHandle() { pipeschedProgramDestroy(program); }

  PipeschedProgram get() const { return program; }

private:
  PipeschedProgram program;
};

} // namespace

//===----------------------------------------------------------------------===//
// Placements
//===----------------------------------------------------------------------===//

static std::unique_ptr<PlacementHandle> readPlacement(const Module &module,
                                                      intptr_t index) {
  return std::make_unique<PlacementHandle>(module.run([&] {
    PipeschedPlacement placement =
        pipeschedPlacementCreate(module.getSchedule(index));
    if (pipeschedPlacementIsNull(placement))
      throw Failure();
    return placement;
  }));
}

static nb::dict getStages(nb::handle self, intptr_t worker) {
  PipeschedStages stages = pipeschedPlacementGetStages(
      nb::cast<const PlacementHandle &>(self).get(), worker);
  size_t size = stages.numStages;
  nb::dict columns;
  columns["path"] = view(stages.path, size, self);
  columns["stage"] = view(stages.stage, size, self);
  columns["first_block"] = view(stages.firstBlock, size, self);
  columns["end_block"] = view(stages.endBlock, size, self);
  columns["first_set"] = view(stages.firstSet, size, self);
  columns["end_owned_set"] = view(stages.endOwnedSet, size, self);
  columns["end_set"] = view(stages.endSet, size, self);
  return columns;
}

/// One tuple per set: its first and end block, its stages and its owner, both
/// as (path, stage).
static nb::list listParameterSets(const PlacementHandle &placement,
                                  intptr_t worker) {
  PipeschedStages stages = pipeschedPlacementGetStages(placement.get(), worker);
  PipeschedParameterSets sets =
      pipeschedPlacementGetParameterSets(placement.get(), worker);
  auto nameOf = [&](int32_t stage) {
    return nb::make_tuple(stages.path[stage], stages.stage[stage]);
  };
  nb::list result;
  for (intptr_t k = 0; k < sets.numSets; ++k) {
    nb::list users;
    for (uint32_t i = sets.stageBegins[k]; i < sets.stageBegins[k + 1]; ++i)
      users.append(nameOf(sets.stages[i]));
    result.append(nb::make_tuple(sets.firstBlock[k], sets.endBlock[k],
                                 nb::tuple(users), nameOf(sets.owner[k])));
  }
  return result;
}

/// The number of the rule by which a split backward sends its gradient, and of
/// what R cells compute again.
static std::pair<int, int> describeBackward(const Module &module,
                                            intptr_t index) {
  return module.run([&] {
    MlirOperation op = module.getSchedule(index);
    return std::pair<int, int>(pipeschedScheduleGetGradientAfter(op),
                               pipeschedScheduleGetRecompute(op));
  });
}

//===----------------------------------------------------------------------===//
// Programs
//===----------------------------------------------------------------------===//

static std::unique_ptr<ProgramHandle>
readProgram(const Module &module, intptr_t index, int receives) {
  return std::make_unique<ProgramHandle>(module.run([&] {
    PipeschedProgram program = pipeschedProgramCreate(
        module.getSchedule(index),
        static_cast<PipeschedReceivePlacement>(receives));
    if (pipeschedProgramIsNull(program))
      throw Failure();
    return program;
  }));
}

static void addCells(nb::dict &columns, const std::string &prefix,
                     const PipeschedInstructionCells &cells, size_t size,
                     nb::handle owner) {
  auto add = [&](const char *name, auto *column) {
    columns[(prefix + name).c_str()] = view(column, size, owner);
  };
  add("path", cells.path);
  add("stage", cells.stage);
  add("microbatch", cells.microbatch);
  add("phase", cells.phase);
  add("activation", cells.activation);
}

static nb::dict getInstructions(nb::handle self, intptr_t worker) {
  PipeschedInstructions row = pipeschedProgramGetInstructions(
      nb::cast<const ProgramHandle &>(self).get(), worker);
  size_t size = row.numInstructions;
  nb::dict columns;
  columns["kind"] = view(row.kind, size, self);
  addCells(columns, "", row.first, size, self);
  addCells(columns, "second_", row.second, size, self);
  columns["peer"] = view(row.peer, size, self);
  columns["message"] = view(row.message, size, self);
  columns["sequence"] = view(row.sequence, size, self);
  columns["group"] = view(row.group, size, self);
  columns["holds"] = view(row.holds, size, self);
  columns["wait_begins"] =
      view(row.waitBegins, row.waitBegins ? size + 1 : 0, self);
  columns["waits"] = view(row.waits, row.numWaits, self);
  return columns;
}

/// One tuple per group: its kind, its first and end block, its microbatch, its
/// members, and its stages as (path, stage).
static nb::list listGroups(const ProgramHandle &program) {
  PipeschedGroups groups = pipeschedProgramGetGroups(program.get());
  nb::list result;
  for (intptr_t g = 0; g < groups.numGroups; ++g) {
    nb::list members, stages;
    for (uint32_t i = groups.memberBegins[g]; i < groups.memberBegins[g + 1];
         ++i)
      members.append(groups.members[i]);
    for (uint32_t i = groups.stageBegins[g]; i < groups.stageBegins[g + 1]; ++i)
      stages.append(nb::make_tuple(groups.path[i], groups.stage[i]));
    result.append(nb::make_tuple(int(groups.kind[g]), groups.firstBlock[g],
                                 groups.endBlock[g], groups.microbatch[g],
                                 nb::tuple(members), nb::tuple(stages)));
  }
  return result;
}

//===----------------------------------------------------------------------===//
// Measured programs
//===----------------------------------------------------------------------===//

/// By step and instruction.
using Times = nb::ndarray<nb::numpy, const int64_t, nb::ndim<2>, nb::c_contig>;
/// Ready, start, end, done and arrived.
using Stamps = std::array<Times, 5>;

static std::string
writeProfile(const ProgramHandle &program, const PlacementHandle &placement,
             intptr_t steps, const std::vector<Stamps> &workers, bool issue) {
  std::vector<PipeschedStamps> stamps;
  for (const Stamps &worker : workers) {
    for (const Times &times : worker)
      if (intptr_t(times.shape(0)) != steps ||
          intptr_t(times.shape(1)) !=
              pipeschedProgramGetInstructions(program.get(), stamps.size())
                  .numInstructions)
        raise("there are other numbers of times than of instructions");
    stamps.push_back({worker[0].data(), worker[1].data(), worker[2].data(),
                      worker[3].data(), worker[4].data()});
  }
  Text text, error;
  if (mlirLogicalResultIsFailure(pipeschedProgramWriteProfile(
          program.get(), placement.get(), steps, stamps.size(), stamps.data(),
          issue, Text::append, &text, Text::append, &error)))
    raise(error.take());
  return text.take();
}

//===----------------------------------------------------------------------===//
// Bindings
//===----------------------------------------------------------------------===//

void pipesched::python::bindProgram(nb::module_ &m) {
  nb::class_<PlacementHandle>(m, "Placement", "Where stages are.")
      .def_prop_ro("num_blocks",
                   [](const PlacementHandle &placement) {
                     return pipeschedPlacementGetNumBlocks(placement.get());
                   })
      .def(
          "path_of",
          [](const PlacementHandle &placement, int64_t microbatch) {
            return pipeschedPlacementGetPathOf(placement.get(), microbatch);
          },
          nb::arg("microbatch"))
      .def("stages", getStages, nb::arg("worker"),
           nb::sig("def stages(self, worker: int) -> "
                   "dict[str, numpy.typing.NDArray[typing.Any]]"))
      .def("parameter_sets", listParameterSets, nb::arg("worker"),
           nb::sig("def parameter_sets(self, worker: int) -> list[tuple[int, "
                   "int, tuple[tuple[int, int], ...], tuple[int, int]]]"));
  nb::class_<ProgramHandle>(m, "Program", "What each worker runs.")
      .def("instructions", getInstructions, nb::arg("worker"),
           nb::sig("def instructions(self, worker: int) -> "
                   "dict[str, numpy.typing.NDArray[typing.Any]]"))
      .def("groups", listGroups,
           nb::sig("def groups(self) -> list[tuple[int, int, int, int, "
                   "tuple[int, ...], "
                   "tuple[tuple[int, int], ...]]]"));
  m.def("profile", writeProfile, nb::arg("program"), nb::arg("placement"),
        nb::arg("steps"), nb::arg("workers"), nb::arg("issue"),
        nb::sig("def profile(program: Program, placement: Placement, "
                "steps: int, workers: collections.abc.Sequence[tuple["
                "numpy.typing.NDArray[typing.Any], ...]], issue: bool) -> "
                "str"));
  m.def("placement", readPlacement, nb::arg("module"), nb::arg("index"));
  m.def("program", readProgram, nb::arg("module"), nb::arg("index"),
        nb::arg("receives"));
  m.def("backward", describeBackward, nb::arg("module"), nb::arg("index"));
}
