//===- Program.cpp - Programs as data -------------------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Returns the arrays of placements and programs as views, which keep their
// owner alive.
//
//===----------------------------------------------------------------------===//

#include "Bindings.h"
#include "Columns.h"
#include "Enums.h"
#include "Module.h"
#include "PipeSched/Adapter/LoadProgram.h"
#include "PipeSched/Analysis/Graph/WorkerPrograms.h"
#include "PipeSched/Conversion/PipeToExec.h"
#include "PipeSched/Dialect/Pipe/IR/ScheduleTable.h"
#include "PipeSched/Evaluation/MeasuredProfile.h"
#include "PipeSched/Facts/ProfileText.h"
#include <nanobind/stl/array.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

namespace nb = nanobind;
using namespace pipesched;
using namespace pipesched::python;

namespace {
/// A placement and the stages of its workers.
struct ListedPlacement {
  Placement placement;
  WorkerStages stages;
};
} // namespace

/// Raises an error for a worker that does not exist.
static void checkWorker(int64_t worker, int64_t numWorkers) {
  if (worker < 0 || worker >= numWorkers)
    raise("expected a worker below " + std::to_string(numWorkers) + ", found " +
          std::to_string(worker));
}

//===----------------------------------------------------------------------===//
// Placements
//===----------------------------------------------------------------------===//

static Placement loadPlacementOf(mlir::Operation *op) {
  if (auto schedule = llvm::dyn_cast<pipe::ScheduleOp>(op))
    return orFail(pipe::loadPlacement(schedule));
  auto program = llvm::cast<exec::ProgramOp>(op);
  return std::move(orFail(loadProgram(program, ListOps::No)).placement);
}

static ListedPlacement readPlacement(const Module &module, size_t index) {
  return module.run([&] {
    mlir::Operation *op = module.getSchedule(index);
    Placement placement = loadPlacementOf(op);
    WorkerStages stages = orFail(op, "", listWorkerStages(placement));
    return ListedPlacement{std::move(placement), std::move(stages)};
  });
}

/// The path of a microbatch, or -1 if it has none.
static int64_t pathOf(const ListedPlacement &listed, int64_t microbatch) {
  const Placement &paths = listed.placement;
  bool isKnown = paths.isAssigned() && microbatch >= 0 &&
                 microbatch < paths.getNumMicrobatches();
  return isKnown ? paths.pathOf(paths.unitOf(microbatch, 0)) : -1;
}

static nb::dict getStages(nb::handle self, int64_t worker) {
  const auto &[placement, stages] = nb::cast<const ListedPlacement &>(self);
  checkWorker(worker, placement.getNumWorkers());
  uint32_t begin = stages.begins[worker];
  uint32_t size = stages.begins[worker + 1] - begin;
  nb::dict columns;
  auto add = [&](const char *name, const auto &column) {
    columns[name] = view(llvm::ArrayRef(column).slice(begin, size), self);
  };
  add("path", stages.path);
  add("stage", stages.stage);
  add("first_block", stages.firstBlock);
  add("end_block", stages.endBlock);
  add("first_set", stages.firstSet);
  add("end_owned_set", stages.endOwnedSet);
  add("end_set", stages.endSet);
  return columns;
}

/// One tuple per set: its first and end block, its stages and its owner, both
/// as (path, stage).
static nb::list listParameterSets(const ListedPlacement &listed,
                                  int64_t worker) {
  checkWorker(worker, listed.placement.getNumWorkers());
  const WorkerStages &stages = listed.stages;
  const WorkerParameterSets &sets = stages.sets;
  uint32_t firstStage = stages.begins[worker];
  auto nameOf = [&](int32_t stage) {
    return nb::make_tuple(stages.path[firstStage + stage],
                          stages.stage[firstStage + stage]);
  };
  const int32_t *users = sets.stages.data() + sets.rowStages[worker];
  nb::list result;
  for (uint32_t k = sets.begins[worker]; k < sets.begins[worker + 1]; ++k) {
    nb::list names;
    for (uint32_t i = sets.stageBegins[k + worker];
         i < sets.stageBegins[k + worker + 1]; ++i)
      names.append(nameOf(users[i]));
    result.append(nb::make_tuple(sets.firstBlock[k], sets.endBlock[k],
                                 nb::tuple(names), nameOf(sets.owner[k])));
  }
  return result;
}

//===----------------------------------------------------------------------===//
// Backwards
//===----------------------------------------------------------------------===//

static bool hasRecompute(pipe::ScheduleOp schedule) {
  return llvm::any_of(schedule.getRows(), [](pipe::WorkerOp row) {
    return llvm::any_of(row.getCells(),
                        [](Cell cell) { return cell.is(Phase::Recompute); });
  });
}

static bool hasRecompute(exec::ProgramOp program) {
  for (exec::WorkerOp worker : program.getWorkerOps())
    for (auto op : worker.getBody()->getOps<exec::InstructionOpInterface>()) {
      std::optional<Cell> cell = op.getInstructionCell();
      std::optional<Cell> second = op.getOverlappedCell();
      if ((cell && cell->is(Phase::Recompute)) ||
          (second && second->is(Phase::Recompute)))
        return true;
    }
  return false;
}

/// The numbers of the cell whose gradient goes upstream, and of the part that R
/// cells recompute.
static std::pair<int, int> describeBackward(const Module &module,
                                            size_t index) {
  auto describe = [](auto op) {
    pipe::RecomputeKind kind = pipe::RecomputeKind::None;
    if (hasRecompute(op))
      kind = op.getRecompute().value_or(pipe::RecomputeKind::Full);
    return std::pair(int(op.getGradientAfter()), int(kind));
  };
  return module.run([&] {
    mlir::Operation *op = module.getSchedule(index);
    if (auto schedule = llvm::dyn_cast<pipe::ScheduleOp>(op))
      return describe(schedule);
    return describe(llvm::cast<exec::ProgramOp>(op));
  });
}

//===----------------------------------------------------------------------===//
// Programs
//===----------------------------------------------------------------------===//

static WorkerPrograms listInstructions(mlir::Operation *op,
                                       const Program &program,
                                       const Placement &placement) {
  return orFail(op, "", listWorkerPrograms(program, placement));
}

/// Lowers a schedule with this placement of receives, or reads a program, whose
/// receives are where they are.
static WorkerPrograms readProgram(const Module &module, size_t index,
                                  int receives) {
  return module.run([&] {
    mlir::Operation *op = module.getSchedule(index);
    auto owner = llvm::cast<pipe::PlacementOwnerOpInterface>(op);
    orFail(pipe::verifyUnsliced(owner, "what a runtime reads"));
    if (auto given = llvm::dyn_cast<exec::ProgramOp>(op)) {
      LoadedProgram loaded = orFail(loadProgram(given, ListOps::No));
      if (auto error = loaded.placement.checkChains("a runtime takes"))
        fail(op, "", std::move(error));
      return listInstructions(op, loaded.program, loaded.placement);
    }
    orFail(pipe::verifyChains(owner, "a runtime takes"));
    auto schedule = llvm::cast<pipe::ScheduleOp>(op);
    ReceivePlacement chosen =
        orFail(op, "cannot be lowered: ",
               readEnum<ReceivePlacement>("receives", receives));
    Program program = orFail(lowerSchedule(schedule, chosen));
    return listInstructions(op, program,
                            pipe::ScheduleTable(schedule).getPlacement());
  });
}

static nb::dict getInstructions(nb::handle self, int64_t worker) {
  const auto &listed = nb::cast<const WorkerPrograms &>(self);
  checkWorker(worker, listed.getNumWorkers());
  uint32_t begin = listed.rowBegins[worker];
  uint32_t size = listed.rowBegins[worker + 1] - begin;
  nb::dict columns;
  auto add = [&](const std::string &name, const auto &column) {
    columns[name.c_str()] =
        view(llvm::ArrayRef(column).slice(begin, size), self);
  };
  auto addCells = [&](const std::string &prefix,
                      const InstructionCells &cells) {
    add(prefix + "path", cells.path);
    add(prefix + "stage", cells.stage);
    add(prefix + "microbatch", cells.microbatch);
    add(prefix + "phase", cells.phase);
    add(prefix + "activation", cells.activation);
  };
  add("kind", listed.kind);
  addCells("", listed.first);
  addCells("second_", listed.second);
  add("peer", listed.peer);
  add("message", listed.message);
  add("sequence", listed.sequence);
  add("group", listed.group);
  add("holds", listed.holds);
  uint32_t firstWait = listed.rowWaits[worker];
  columns["wait_begins"] = view(
      llvm::ArrayRef(listed.waitBegins).slice(begin + worker, size + 1), self);
  columns["waits"] =
      view(llvm::ArrayRef(listed.waits)
               .slice(firstWait, listed.rowWaits[worker + 1] - firstWait),
           self);
  return columns;
}

/// One tuple per group: its kind, its first and end block, its microbatch, its
/// members, and its stages as (path, stage).
static nb::list listGroups(const WorkerPrograms &groups) {
  nb::list result;
  for (int64_t g = 0; g < groups.getNumGroups(); ++g) {
    nb::list members, stages;
    for (uint32_t i = groups.memberBegins[g]; i < groups.memberBegins[g + 1];
         ++i)
      members.append(groups.members[i]);
    for (uint32_t i = groups.groupStageBegins[g];
         i < groups.groupStageBegins[g + 1]; ++i)
      stages.append(
          nb::make_tuple(groups.groupPaths[i], groups.groupStages[i]));
    result.append(nb::make_tuple(int(groups.groupKind[g]), groups.firstBlock[g],
                                 groups.endBlock[g], groups.groupMicrobatch[g],
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

static std::string writeProfile(const WorkerPrograms &program,
                                const ListedPlacement &placement, int64_t steps,
                                const std::vector<Stamps> &workers,
                                bool issue) {
  std::vector<WorkerStamps> stamps;
  for (const Stamps &worker : workers) {
    size_t row = stamps.size();
    int64_t size = int64_t(row) < program.getNumWorkers()
                       ? program.rowBegins[row + 1] - program.rowBegins[row]
                       : 0;
    for (const Times &times : worker)
      if (int64_t(times.shape(0)) != steps || int64_t(times.shape(1)) != size)
        raise("there are other numbers of times than of instructions");
    auto column = [&](size_t i) {
      return llvm::ArrayRef(worker[i].data(), worker[i].size());
    };
    stamps.push_back({column(0), column(1), column(2), column(3), column(4)});
  }
  return printProfile(
      valueOf(makeProfile(program, placement.stages, {steps, stamps}, issue)));
}

//===----------------------------------------------------------------------===//
// Bindings
//===----------------------------------------------------------------------===//

void pipesched::python::bindProgram(nb::module_ &m) {
  nb::class_<ListedPlacement>(m, "Placement", "Where stages are.")
      .def_prop_ro(
          "num_blocks",
          [](const ListedPlacement &listed) { return listed.stages.numBlocks; })
      .def("path_of", pathOf, nb::arg("microbatch"))
      .def("stages", getStages, nb::arg("worker"),
           nb::sig("def stages(self, worker: int) -> "
                   "dict[str, numpy.typing.NDArray[typing.Any]]"))
      .def("parameter_sets", listParameterSets, nb::arg("worker"),
           nb::sig("def parameter_sets(self, worker: int) -> list[tuple[int, "
                   "int, tuple[tuple[int, int], ...], tuple[int, int]]]"));
  nb::class_<WorkerPrograms>(m, "Program", "What each worker runs.")
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
