//===- Module.cpp - A module with a context of its own --------------------===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Parses and prints modules and runs passes on them; returns schedules and
// programs as rows of numbers.
//
//===----------------------------------------------------------------------===//

#include "Module.h"
#include "Bindings.h"
#include "Columns.h"
#include "PipeSched-c/Program.h"
#include "PipeSched-c/RegisterEverything.h"
#include "Problem.h"
#include "mlir-c/IR.h"
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string_view.h>

namespace nb = nanobind;
using namespace pipesched::python;
using ModulePtr = std::shared_ptr<Module>;

//===----------------------------------------------------------------------===//
// Modules
//===----------------------------------------------------------------------===//

/// Creates a context with the dialects of PipeSched and without threads.
static MlirContext createContext() {
  MlirDialectRegistry registry = mlirDialectRegistryCreate();
  pipeschedRegisterAllDialects(registry);
  MlirContext context =
      mlirContextCreateWithRegistry(registry, /*threadingEnabled=*/false);
  mlirDialectRegistryDestroy(registry);
  return context;
}

Module::Module() : context(createContext()) {}

Module::~Module() {
  if (!mlirModuleIsNull(module))
    mlirModuleDestroy(module);
  mlirContextDestroy(context);
}

ModulePtr Module::create(const Make &make) {
  ModulePtr created(new Module());
  created->run([&] {
    created->module = make(created->context);
    if (mlirModuleIsNull(created->module))
      throw Failure();
    return true;
  });
  return created;
}

static ModulePtr parse(std::string_view source, std::string_view name) {
  return Module::create([&](MlirContext context) {
    return pipeschedModuleParse(context, toRef(source), toRef(name));
  });
}

/// Reads what writeBytecode has written.
static ModulePtr parseOwn(std::string_view code, std::string_view name) {
  return Module::create([&](MlirContext context) {
    return pipeschedModuleParseTrusted(context, toRef(code), toRef(name));
  });
}

std::string pipesched::python::writeBytecode(const Module &module) {
  return module.run([&] {
    Text text;
    mlirOperationWriteBytecode(module.getOperation(), Text::append, &text);
    return text.takeBytes();
  });
}

static std::string print(const Module &module) {
  return module.run([&] {
    Text text;
    mlirOperationPrint(module.getOperation(), Text::append, &text);
    return text.take();
  });
}

/// Runs passes on a copy of the module.
static ModulePtr runPipeline(const Module &module, std::string_view pipeline) {
  return changeCopy(module, [&](MlirModule changed) {
    return pipeschedModuleRunPipeline(changed, toRef(pipeline));
  });
}

static ModulePtr giveName(const Module &module, std::string_view name) {
  return changeCopy(module, [&](MlirModule changed) {
    return pipeschedScheduleSetName(pipeschedModuleGetSchedule(changed, 0),
                                    toRef(name));
  });
}

//===----------------------------------------------------------------------===//
// Rows
//===----------------------------------------------------------------------===//

/// Stage, phase, number, whether the next one runs overlapped, and slice.
using RawCell = std::tuple<int64_t, int, int64_t, bool, int64_t>;
using RawRows = std::vector<std::vector<RawCell>>;
/// Numbers of the enums of C: which gradient goes upstream, and what R does.
using Backward = std::optional<std::pair<int, int>>;

static MlirLogicalResult setRows(MlirOperation op, const RawRows &rows,
                                 const Backward &backward) {
  if (backward && mlirLogicalResultIsFailure(pipeschedScheduleSetBackward(
                      op, static_cast<PipeschedGradientAfter>(backward->first),
                      static_cast<PipeschedRecompute>(backward->second))))
    return mlirLogicalResultFailure();
  std::vector<std::vector<PipeschedCell>> cells;
  std::vector<PipeschedRow> given;
  for (const std::vector<RawCell> &row : rows) {
    std::vector<PipeschedCell> &made = cells.emplace_back();
    made.reserve(row.size());
    for (auto [stage, phase, number, overlapsNext, slice] : row)
      made.push_back({static_cast<PipeschedPhase>(phase), stage, number,
                      overlapsNext, slice});
    given.push_back({intptr_t(made.size()), made.data()});
  }
  return pipeschedScheduleSetRows(op, given.size(), given.data());
}

/// The schedule with these rows.
static ModulePtr storeRows(const Module &module, const RawRows &rows,
                           const Backward &backward) {
  return changeCopy(module, [&](MlirModule changed) {
    return setRows(pipeschedModuleGetSchedule(changed, 0), rows, backward);
  });
}

using Words = std::vector<std::string>;

/// The rows of a schedule, and whether its microbatches have slices.
struct WrittenRows {
  std::vector<Words> rows;
  bool hasSlices = false;
};

/// Adds the cells of a row as they are written; of pairs as `2F3+1B0`.
static void appendWords(intptr_t, PipeschedRow row, void *written) {
  auto &[rows, hasSlices] = *static_cast<WrittenRows *>(written);
  Words &words = rows.emplace_back();
  bool isSecond = false;
  for (intptr_t i = 0; i < row.numCells; ++i) {
    const PipeschedCell &cell = row.cells[i];
    bool isIdle = cell.phase == PipeschedPhaseIdle;
    std::string word = isIdle ? "" : std::to_string(cell.stage);
    word += toString(pipeschedPhaseGetLetter(cell.phase));
    if (!isIdle || cell.number != 1)
      word += std::to_string(cell.number);
    if (hasSlices && pipeschedPhaseHasMicrobatch(cell.phase))
      word += "." + std::to_string(cell.slice);
    if (isSecond)
      words.back() += "+" + word;
    else
      words.push_back(std::move(word));
    isSecond = cell.overlapsNext;
  }
}

static std::vector<Words> readRows(const Module &module, intptr_t index) {
  return module.run([&] {
    MlirOperation op = module.getSchedule(index);
    WrittenRows written;
    written.hasSlices = pipeschedScheduleGetInfo(op).numSlices > 1;
    if (mlirLogicalResultIsFailure(
            pipeschedScheduleForEachRow(op, appendWords, &written)))
      throw Failure();
    return std::move(written.rows);
  });
}

/// The cells that wait for each other, as worker and index in its row; and the
/// slot in which each entry of the rows starts, or -1.
using Deadlock =
    std::pair<std::vector<std::pair<int32_t, int32_t>>, std::vector<int64_t>>;

/// The deadlock of complete rows; none if they have none.
static std::optional<Deadlock> findDeadlock(const Module &module,
                                            intptr_t index) {
  auto note = [](PipeschedDeadlock found, void *result) {
    auto &[cycle, slots] =
        static_cast<std::optional<Deadlock> *>(result)->emplace();
    for (intptr_t i = 0; i < found.numWaiting; ++i)
      cycle.emplace_back(found.worker[i], found.index[i]);
    slots.assign(found.slot, found.slot + found.numEntries);
  };
  return module.run([&] {
    std::optional<Deadlock> result;
    if (mlirLogicalResultIsFailure(pipeschedScheduleFindDeadlock(
            module.getSchedule(index), note, &result)))
      throw Failure();
    return result;
  });
}

//===----------------------------------------------------------------------===//
// Making schedules
//===----------------------------------------------------------------------===//

static ModulePtr generate(std::string_view name, std::string family,
                          int64_t workers, int64_t microbatches,
                          Options options, std::vector<Path> paths) {
  Problem problem(std::move(family), workers, microbatches, std::move(options),
                  std::move(paths));
  Text error;
  PipeschedTable table;
  {
    nb::gil_scoped_release release;
    table = pipeschedTableGenerate(problem.get(), Text::append, &error);
  }
  if (pipeschedTableIsNull(table))
    raise(error.take());
  return Module::create([&](MlirContext context) {
    MlirModule module =
        pipeschedModuleCreateFromTable(context, toRef(name), table);
    pipeschedTableDestroy(table);
    return module;
  });
}

static ModulePtr createProblem(std::string_view name, int64_t workers,
                               int64_t microbatches, std::vector<Path> paths,
                               int64_t slices) {
  Problem problem("", workers, microbatches, {}, std::move(paths), slices);
  return Module::create([&](MlirContext context) {
    return pipeschedModuleCreateProblem(context, toRef(name), problem.get());
  });
}

static ModulePtr importTorchCsv(std::string_view text, std::string_view file,
                                bool keepColumns, int64_t stagesPerPath) {
  return Module::create([&](MlirContext context) {
    return pipeschedModuleImportTorchCsv(context, toRef(text), toRef(file),
                                         keepColumns, stagesPerPath);
  });
}

/// Returns each schedule or program as a module of its own.
static ModulePtr extract(const Module &module, intptr_t index) {
  std::string copy = module.run([&] {
    MlirModule alone =
        pipeschedModuleCreateFromSchedule(module.getSchedule(index));
    if (mlirModuleIsNull(alone))
      throw Failure();
    Text text;
    mlirOperationWriteBytecode(mlirModuleGetOperation(alone), Text::append,
                               &text);
    mlirModuleDestroy(alone);
    return text.takeBytes();
  });
  ModulePtr made = parseOwn(copy, "");
  module.copyCellPlaces(*made);
  return made;
}

//===----------------------------------------------------------------------===//
// Reading schedules
//===----------------------------------------------------------------------===//

/// What is known of a schedule, where the library knows it.
static PipeschedScheduleInfo readInfo(MlirOperation op) {
  PipeschedScheduleInfo info = pipeschedScheduleGetInfo(op);
  if (!info.name.data)
    throw Failure();
  return info;
}

static nb::dict describe(const Module &module, intptr_t index) {
  PipeschedScheduleInfo info =
      module.run([&] { return readInfo(module.getSchedule(index)); });
  nb::dict described;
  described["name"] = toString(info.name);
  described["family"] = toString(info.family);
  described["is_program"] = info.isProgram;
  described["is_problem"] = info.isProblem;
  described["workers"] = info.numWorkers;
  described["microbatches"] = info.numMicrobatches;
  described["slices"] = info.numSlices;
  described["has_model"] = info.hasModel;
  described["has_system"] = info.hasSystem;
  described["times"] = toString(info.times);
  return described;
}

static Lengths readLengths(const int64_t *lengths, intptr_t size) {
  if (!lengths)
    return std::nullopt;
  return std::vector<int64_t>(lengths, lengths + size);
}

static Path readPath(const PipeschedPath &given) {
  Path path;
  auto &[workers, takes, blocks, weights] = path;
  workers.assign(given.workers, given.workers + given.numStages);
  for (intptr_t i = 0; i < given.numTakes; ++i)
    takes.emplace_back(given.takes[i].begin, given.takes[i].end,
                       given.takes[i].step);
  blocks = readLengths(given.blocks, given.numStages);
  weights = readLengths(given.weights, given.numStages);
  return path;
}

/// Returns the paths as they are written.
static std::vector<Path> readPaths(const Module &module, intptr_t index) {
  return module.run([&] {
    MlirOperation op = module.getSchedule(index);
    std::vector<Path> paths(readInfo(op).numPaths);
    for (size_t path = 0; path < paths.size(); ++path)
      paths[path] = readPath(pipeschedScheduleGetPath(op, path));
    return paths;
  });
}

static intptr_t countCells(const Module &module, intptr_t index) {
  return module.run([&] {
    intptr_t count = pipeschedScheduleGetNumCells(module.getSchedule(index));
    if (count < 0)
      throw Failure();
    return count;
  });
}

static nb::dict readCells(const Module &module, intptr_t index) {
  CellColumns columns = module.run([&] {
    MlirOperation op = module.getSchedule(index);
    intptr_t count = pipeschedScheduleGetNumCells(op);
    if (count < 0)
      throw Failure();
    CellColumns cells(count, /*withTimes=*/false);
    pipeschedScheduleGetCells(op, cells.get());
    return cells;
  });
  return columns.take();
}

static std::string exportSlotSvg(const Module &module, intptr_t index) {
  return module.run([&] {
    Text text;
    if (mlirLogicalResultIsFailure(pipeschedScheduleExportSlotSvg(
            module.getSchedule(index), Text::append, &text)))
      throw Failure();
    return text.take();
  });
}

static std::string exportTorchCsv(const Module &module, intptr_t index,
                                  int format) {
  return module.run([&] {
    Text text;
    if (mlirLogicalResultIsFailure(pipeschedScheduleExportTorchCsv(
            module.getSchedule(index),
            static_cast<PipeschedTorchCsvFormat>(format), Text::append, &text)))
      throw Failure();
    return text.take();
  });
}

static std::string exportMegatronLayout(const Module &module, intptr_t index) {
  return module.run([&] {
    Text text;
    if (mlirLogicalResultIsFailure(pipeschedScheduleExportMegatronLayout(
            module.getSchedule(index), Text::append, &text)))
      throw Failure();
    return text.take();
  });
}

static std::string exportShardyRules(const Module &module, intptr_t index) {
  return module.run([&] {
    Text text;
    if (mlirLogicalResultIsFailure(pipeschedScheduleExportShardyRules(
            module.getSchedule(index), Text::append, &text)))
      throw Failure();
    return text.take();
  });
}

//===----------------------------------------------------------------------===//
// Bindings
//===----------------------------------------------------------------------===//

void pipesched::python::bindModule(nb::module_ &m) {
  nb::class_<Module>(m, "Module",
                     "An immutable module of schedules and programs.")
      .def_static("parse", parse, nb::arg("source"), nb::arg("name"))
      .def_static(
          "parse",
          [](nb::bytes source, std::string_view name) {
            return parse({source.c_str(), source.size()}, name);
          },
          nb::arg("source"), nb::arg("name"))
      .def_static(
          "parse_trusted",
          [](nb::bytes code) {
            return parseOwn({code.c_str(), code.size()}, "<bytecode>");
          },
          nb::arg("code"), "Reads bytecode without guarding the process.")
      .def_static("generate", generate, nb::arg("name"), nb::arg("family"),
                  nb::arg("workers"), nb::arg("microbatches"),
                  nb::arg("options"), nb::arg("paths"))
      .def_static("problem", createProblem, nb::arg("name"), nb::arg("workers"),
                  nb::arg("microbatches"), nb::arg("paths"), nb::arg("slices"))
      .def_static("import_torch_csv", importTorchCsv, nb::arg("text"),
                  nb::arg("file"), nb::arg("keep_columns"),
                  nb::arg("stages_per_path"))
      .def("run", runPipeline, nb::arg("pipeline"),
           "What a pass pipeline makes of a copy.")
      .def("extract", extract, nb::arg("index"),
           "One schedule or program, with its model and system.")
      .def("text", print)
      .def("bytecode",
           [](const Module &module) {
             std::string code = writeBytecode(module);
             return nb::bytes(code.data(), code.size());
           })
      .def_prop_ro("num_schedules",
                   [](const Module &module) {
                     return module.run([&] {
                       return pipeschedModuleGetNumSchedules(module.get());
                     });
                   })
      .def("describe", describe, nb::arg("index"),
           nb::sig("def describe(self, index: int) -> dict[str, typing.Any]"))
      .def("paths", readPaths, nb::arg("index"))
      .def("rename", giveName, nb::arg("name"))
      .def("rows", readRows, nb::arg("index"))
      .def("deadlock", findDeadlock, nb::arg("index"),
           "The cells of a deadlock, and the slot of each entry or -1.")
      .def("with_rows", storeRows, nb::arg("rows"), nb::arg("backward").none())
      .def("num_cells", countCells, nb::arg("index"))
      .def("cells", readCells, nb::arg("index"),
           nb::sig("def cells(self, index: int) -> "
                   "dict[str, numpy.typing.NDArray[typing.Any]]"))
      .def("slot_svg", exportSlotSvg, nb::arg("index"))
      .def("export_torch_csv", exportTorchCsv, nb::arg("index"),
           nb::arg("format"))
      .def("export_megatron_layout", exportMegatronLayout, nb::arg("index"))
      .def("export_shardy_rules", exportShardyRules, nb::arg("index"));
}
