//===- Module.cpp - A module with its own context -------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Parses and prints modules, runs passes and searches on them; returns
// schedules and programs as rows of numbers.
//
//===----------------------------------------------------------------------===//

#include "Module.h"
#include "Bindings.h"
#include "Columns.h"
#include "Enums.h"
#include "PipeSched/Adapter/CreateSchedule.h"
#include "PipeSched/Adapter/Evaluate.h"
#include "PipeSched/Adapter/GuardedIR.h"
#include "PipeSched/Adapter/LoadCosts.h"
#include "PipeSched/Adapter/LoadProgram.h"
#include "PipeSched/Dialect/Pipe/IR/Editing.h"
#include "PipeSched/InitAll.h"
#include "PipeSched/Schedule/Table/Slots.h"
#include "PipeSched/Support/Interrupt.h"
#include "PipeSched/Target/MegatronLayout.h"
#include "PipeSched/Target/ShardyRules.h"
#include "PipeSched/Target/Svg.h"
#include "PipeSched/Target/TorchCsv.h"
#include "PipeSched/Transforms/OptimizationLog.h"
#include "Problem.h"
#include "mlir/Bytecode/BytecodeWriter.h"
#include "mlir/Interfaces/FunctionInterfaces.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Pass/PassRegistry.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/Support/SourceMgr.h"
#include "llvm/Support/ThreadPool.h"
#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>

namespace nb = nanobind;
using namespace pipesched;
using namespace pipesched::python;
using ModulePtr = std::shared_ptr<Module>;

//===----------------------------------------------------------------------===//
// Modules
//===----------------------------------------------------------------------===//

static mlir::DialectRegistry makeRegistry() {
  mlir::DialectRegistry registry;
  registerAllDialects(registry);
  return registry;
}

Module::Module()
    : context(makeRegistry(), mlir::MLIRContext::Threading::DISABLED) {}

ModulePtr Module::create(Make make) {
  ModulePtr created(new Module());
  created->run([&] {
    created->module = make(created->context);
    if (!created->module)
      throw Failure();
    return true;
  });
  return created;
}

static mlir::Operation *findSchedule(mlir::ModuleOp module, size_t index) {
  llvm::SmallVector<mlir::Operation *> schedules = findEvaluables(module);
  if (index >= schedules.size())
    throw Failure();
  return schedules[index];
}

mlir::Operation *Module::getSchedule(size_t index) const {
  return findSchedule(get(), index);
}

void Module::copyCellPlaces(mlir::MLIRContext &to) const {
  auto placesOf = [](mlir::MLIRContext &context) {
    return context.getOrLoadDialect<pipe::PipeDialect>()
        ->getRegisteredInterface<pipe::CellPlaces>();
  };
  placesOf(context)->copyTo(*placesOf(to));
}

/// MLIR's reader of bytecode trusts its input, so a child process reads it
/// first unless this program has written it. Makes a copy: bytecode must be
/// aligned and text must end in a null, and a copy is both. MLIR's parser does
/// not accept a byte order mark.
std::unique_ptr<llvm::SourceMgr>
pipesched::python::guardSource(mlir::MLIRContext &context,
                               llvm::StringRef source, llvm::StringRef name,
                               bool isTrusted) {
  source.consume_front("\xEF\xBB\xBF");
  auto buffer = llvm::MemoryBuffer::getMemBufferCopy(source, name);
  if (!isTrusted) {
    auto guarded =
        guardIR(buffer->getMemBufferRef(), context.getDialectRegistry());
    if (!guarded) {
      mlir::emitError(mlir::UnknownLoc::get(&context))
          << llvm::toString(guarded.takeError());
      return nullptr;
    }
    if (*guarded)
      buffer = std::move(*guarded);
  }
  auto sources = std::make_unique<llvm::SourceMgr>();
  sources->AddNewSourceBuffer(std::move(buffer), llvm::SMLoc());
  return sources;
}

static Module::Made parseIR(mlir::MLIRContext &context, llvm::StringRef source,
                            llvm::StringRef name, bool isTrusted) {
  auto sources = guardSource(context, source, name, isTrusted);
  if (!sources)
    return nullptr;
  return mlir::parseSourceFile<mlir::ModuleOp>(*sources,
                                               mlir::ParserConfig(&context));
}

static ModulePtr parse(std::string_view source, std::string_view name) {
  return Module::create([&](mlir::MLIRContext &context) {
    return parseIR(context, source, name, /*isTrusted=*/false);
  });
}

/// Reads text that this program has written.
static ModulePtr parseOwn(std::string_view code, std::string_view name) {
  return Module::create([&](mlir::MLIRContext &context) {
    return parseIR(context, code, name, /*isTrusted=*/true);
  });
}

static std::string writeBytecode(mlir::Operation *op) {
  return collect([&](llvm::raw_ostream &os) {
    (void)mlir::writeBytecodeToFile(op, os); // fails for old versions only
  });
}

static std::string writeBytecode(const Module &module) {
  return module.run([&] { return writeBytecode(module.get()); });
}

static std::string print(const Module &module) {
  return module.run([&] {
    return toValid(
        collect([&](llvm::raw_ostream &os) { module.get()->print(os); }));
  });
}

ModulePtr
pipesched::python::changeCopy(const Module &module,
                              llvm::function_ref<void(mlir::ModuleOp)> change) {
  std::string copy = writeBytecode(module);
  return Module::create([&](mlir::MLIRContext &context) {
    Module::Made changed = parseIR(context, copy, "", /*isTrusted=*/true);
    module.copyCellPlaces(context);
    if (changed)
      change(*changed);
    return changed;
  });
}

pipe::ScheduleOp pipesched::python::toSchedule(mlir::Operation *op,
                                               llvm::StringRef refusal) {
  if (auto schedule = llvm::dyn_cast<pipe::ScheduleOp>(op))
    return schedule;
  fail(op, refusal);
}

//===----------------------------------------------------------------------===//
// Passes
//===----------------------------------------------------------------------===//

llvm::StringRef pipesched::python::errorOf(llvm::StringRef printed) {
  auto [place, error] = printed.split("error: ");
  return error.empty() ? printed.rtrim() : error.split('\n').first;
}

void pipesched::python::runPasses(mlir::ModuleOp module,
                                  llvm::StringRef pipeline) {
  llvm::StringRef anchored = pipeline.trim();
  if (anchored.consume_front("builtin.module(") && anchored.consume_back(")"))
    pipeline = anchored;
  mlir::PassManager passes(module->getName());
  std::string error;
  llvm::raw_string_ostream stream(error);
  if (failed(mlir::parsePassPipeline(pipeline, passes, stream)))
    orFail(mlir::emitError(module.getLoc()) << errorOf(error));
  orFail(passes.run(module));
}

static ModulePtr runPipeline(const Module &module, std::string_view pipeline) {
  return changeCopy(
      module, [&](mlir::ModuleOp changed) { runPasses(changed, pipeline); });
}

//===----------------------------------------------------------------------===//
// Rows
//===----------------------------------------------------------------------===//

static pipe::ScheduleOp toRowOwner(mlir::Operation *op) {
  return toSchedule(op, "is a program; rows are those of a schedule");
}

/// Numbers of enums: the cell whose gradient goes upstream, and the part that R
/// recomputes.
using Backward = std::optional<std::pair<int, int>>;

static void setBackward(pipe::ScheduleOp op, std::pair<int, int> backward) {
  llvm::StringRef what = "is not changed: ";
  op.setGradientAfter(orFail(
      op, what, readEnum<GradientAfter>("gradient-after", backward.first)));
  Recompute kind =
      orFail(op, what, readEnum<Recompute>("recompute", backward.second));
  op.removeRecomputeAttr();
  if (kind == Recompute::Selective) // all is the default
    op.setRecompute(pipe::RecomputeKind(kind));
}

std::vector<std::vector<CellNumbers>>
pipesched::python::toNumbers(const RawRows &rows) {
  std::vector<std::vector<CellNumbers>> numbers;
  for (const std::vector<RawCell> &row : rows) {
    std::vector<CellNumbers> &cells = numbers.emplace_back();
    cells.reserve(row.size());
    for (auto [stage, phase, number, overlapsNext, slice] : row)
      cells.push_back({uint32_t(phase), stage, number, slice, overlapsNext});
  }
  return numbers;
}

/// The schedule with these rows.
static ModulePtr storeRows(const Module &module, const RawRows &rows,
                           const Backward &backward) {
  std::vector<std::vector<CellNumbers>> numbers = toNumbers(rows);
  return changeCopy(module, [&](mlir::ModuleOp changed) {
    pipe::ScheduleOp op = toRowOwner(findSchedule(changed, 0));
    if (backward)
      setBackward(op, *backward);
    orFail(replaceRows(op, orFail(op, "cannot have these rows: ",
                                  makeRows(numbers, op.getSlices()))));
  });
}

using Words = std::vector<std::string>;

Words pipesched::python::wordsOf(llvm::ArrayRef<Cell> row, int64_t numSlices) {
  Words words;
  bool isSecond = false;
  for (Cell cell : row) {
    std::string word = CellName{cell, numSlices}.str();
    if (isSecond)
      words.back() += "+" + word;
    else
      words.push_back(std::move(word));
    isSecond = cell.overlapsNext();
  }
  return words;
}

static std::vector<Words> readRows(const Module &module, size_t index) {
  return module.run([&] {
    pipe::ScheduleOp op = toRowOwner(module.getSchedule(index));
    std::vector<Words> rows(op.isProblem() ? 0 : op.getWorkers());
    for (pipe::WorkerOp row : op.getRows())
      rows[row.getWorker()] = wordsOf(row.getCells(), op.getSlices());
    return rows;
  });
}

/// The cells that wait for each other, as worker and index in its row; and the
/// slot in which each entry of the rows starts, or -1.
using FoundDeadlock =
    std::pair<std::vector<std::pair<int32_t, int32_t>>, std::vector<int64_t>>;

/// The deadlock of complete rows; none if they have none.
static std::optional<FoundDeadlock> findDeadlock(const Module &module,
                                                 size_t index) {
  return module.run([&]() -> std::optional<FoundDeadlock> {
    pipe::ScheduleOp op = toRowOwner(module.getSchedule(index));
    if (op.isProblem())
      return std::nullopt;
    pipe::ScheduleTable loaded(op);
    TableView table = loaded.view();
    std::optional<Violation> violation = verifyTable(table);
    if (!violation || violation->cycle.empty())
      return std::nullopt;
    llvm::Expected<CellIndex> cells = CellIndex::create(table);
    if (!cells)
      orFail(pipe::emitTableError(op, cells.takeError()));
    FoundDeadlock found;
    for (CellRef cell : violation->cycle)
      found.first.emplace_back(cell.row, cell.index);
    found.second = alignUntilDeadlock(table, *cells).start;
    return found;
  });
}

//===----------------------------------------------------------------------===//
// Making schedules
//===----------------------------------------------------------------------===//

/// Creates a module with a schedule that `add` adds to it.
static ModulePtr
createWith(std::string_view name,
           llvm::function_ref<void(mlir::OpBuilder &, mlir::Location)> add) {
  return Module::create([&](mlir::MLIRContext &context) -> Module::Made {
    context.loadDialect<pipe::PipeDialect>();
    mlir::Location location = mlir::UnknownLoc::get(&context);
    if (name.empty()) {
      mlir::emitError(location, "a schedule needs a name");
      return nullptr;
    }
    Module::Made module = mlir::ModuleOp::create(location);
    auto builder = mlir::OpBuilder::atBlockEnd(module->getBody());
    add(builder, location);
    return module;
  });
}

static ModulePtr generateTable(std::string_view name, std::string_view family,
                               int64_t workers, int64_t microbatches,
                               const Options &options,
                               std::vector<PathTuple> paths) {
  Problem problem = valueOf(readProblem(family, workers, microbatches, options,
                                        readPaths(std::move(paths))));
  Table table = runFree([&] { return generate(problem); });
  return createWith(name, [&](mlir::OpBuilder &builder, mlir::Location at) {
    pipe::ScheduleOp schedule =
        createSchedule(builder, at, name, std::move(table));
    schedule.setFamily(
        problem.family->name,
        describeFamily(builder, *problem.family, problem.options));
  });
}

static ModulePtr createEmpty(std::string_view name, int64_t workers,
                             int64_t microbatches, std::vector<PathTuple> paths,
                             int64_t slices) {
  std::vector<Path> read = readPaths(std::move(paths));
  if (read.empty())
    read.push_back(placeLinear(workers));
  return createWith(name, [&](mlir::OpBuilder &builder, mlir::Location at) {
    llvm::Expected<Placement> placement = Placement::create(
        workers, microbatches, std::move(read), slices != 0 ? slices : 1);
    if (!placement)
      orFail(mlir::emitError(at) << llvm::toString(placement.takeError()));
    createProblem(builder, at, name, *placement);
  });
}

static ModulePtr importCsv(std::string_view text, std::string_view file,
                           bool keepColumns, int64_t stagesPerPath) {
  TorchCsvImport options;
  options.keepColumns = keepColumns;
  if (stagesPerPath != 0)
    options.stagesPerPath = stagesPerPath;
  return Module::create([&](mlir::MLIRContext &context) {
    return importTorchCsv(&context, text, file, options);
  });
}

static ModulePtr giveName(const Module &module, std::string_view name) {
  return changeCopy(module, [&](mlir::ModuleOp changed) {
    mlir::Operation *op = findSchedule(changed, 0);
    if (name.empty())
      fail(op, "needs a name");
    mlir::Operation *other = mlir::SymbolTable::lookupSymbolIn(
        mlir::SymbolTable::getNearestSymbolTable(op->getParentOp()), name);
    if (other && other != op)
      fail(op, "cannot be called @" + std::string(name) + ", as another op is");
    mlir::SymbolTable::setSymbolName(op, name);
  });
}

/// The functions that an op names, and the functions that these call.
static llvm::SetVector<mlir::Operation *> functionsOf(mlir::Operation *op) {
  llvm::SetVector<mlir::Operation *> found;
  llvm::SmallVector<mlir::Operation *> users{op};
  while (!users.empty()) {
    auto uses = mlir::SymbolTable::getSymbolUses(users.pop_back_val());
    if (!uses)
      continue;
    for (const mlir::SymbolTable::SymbolUse &use : *uses) {
      mlir::Operation *symbol = mlir::SymbolTable::lookupNearestSymbolFrom(
          use.getUser(), use.getSymbolRef());
      if (llvm::isa_and_nonnull<mlir::FunctionOpInterface>(symbol) &&
          found.insert(symbol))
        users.push_back(symbol);
    }
  }
  return found;
}

/// One schedule or program, with its model, its system and the functions of its
/// stages, as a separate module.
static Module::Made copyAlone(mlir::Operation *op) {
  Module::Made alone = mlir::ModuleOp::create(op->getLoc());
  mlir::ModuleOp source = findSystemModule(op);
  if (!source)
    source = op->getParentOfType<mlir::ModuleOp>();
  if (source && source.getTargetSystemSpec())
    alone.get()->setAttrs(source->getAttrDictionary());
  auto builder = mlir::OpBuilder::atBlockEnd(alone->getBody());
  if (pipe::ModelOp model = findModel(op))
    builder.clone(*model);
  for (mlir::Operation *function : functionsOf(op))
    builder.clone(*function);
  builder.clone(*op);
  return alone;
}

static ModulePtr extract(const Module &module, size_t index) {
  std::string copy = module.run([&] {
    return writeBytecode(copyAlone(module.getSchedule(index)).get());
  });
  ModulePtr made = parseOwn(copy, "");
  module.copyCellPlaces(*made);
  return made;
}

//===----------------------------------------------------------------------===//
// Reading schedules
//===----------------------------------------------------------------------===//

namespace {
/// The attributes of schedules and programs.
struct ScheduleInfo {
  std::string name, family, times;
  bool isProgram, isProblem, hasEdges, hasModel, hasSystem;
  int64_t workers, microbatches, slices;
};
} // namespace

template <typename Op>
static void addInfo(Op op, ScheduleInfo &info) {
  info.family = toValid(op.getFamily().value_or(""));
  if (pipe::ProfileAttr profile = op.getProfileAttr())
    info.times = toValid(profile.getTimes());
}

static ScheduleInfo readInfo(mlir::Operation *op) {
  ScheduleInfo info;
  auto schedule = llvm::dyn_cast<pipe::ScheduleOp>(op);
  if (schedule)
    addInfo(schedule, info);
  else
    addInfo(llvm::cast<exec::ProgramOp>(op), info);
  auto owner = llvm::cast<pipe::PlacementOwnerOpInterface>(op);
  info.name = toValid(mlir::SymbolTable::getSymbolName(op).getValue());
  info.isProgram = !schedule;
  info.isProblem = schedule && schedule.isProblem();
  info.workers = owner.getNumWorkers();
  info.microbatches = owner.getNumMicrobatches();
  info.slices = owner.getNumSlices();
  info.hasEdges = !op->getRegion(0).front().getOps<pipe::EdgeOp>().empty();
  info.hasModel = findModel(op) != nullptr;
  info.hasSystem = findSystemModule(op) != nullptr;
  return info;
}

static nb::dict describeOne(const Module &module, size_t index) {
  ScheduleInfo info =
      module.run([&] { return readInfo(module.getSchedule(index)); });
  nb::dict described;
  described["name"] = toPython(info.name);
  described["family"] = toPython(info.family);
  described["is_program"] = info.isProgram;
  described["is_problem"] = info.isProblem;
  described["workers"] = info.workers;
  described["microbatches"] = info.microbatches;
  described["slices"] = info.slices;
  described["has_edges"] = info.hasEdges;
  described["has_model"] = info.hasModel;
  described["has_system"] = info.hasSystem;
  described["times"] = toPython(info.times);
  return described;
}

static Lengths toLengths(std::optional<llvm::ArrayRef<int64_t>> lengths) {
  if (!lengths)
    return std::nullopt;
  return lengths->vec();
}

static PathTuple toTuple(pipe::PathOp op) {
  PathTuple path;
  auto &[workers, takes, blocks, weights, frozen, isForwardOnly] = path;
  workers = op.getWorkers().vec();
  llvm::ArrayRef<int64_t> ranges =
      op.getTakes().value_or(llvm::ArrayRef<int64_t>());
  for (size_t i = 0; i < ranges.size(); i += 3)
    takes.emplace_back(ranges[i], ranges[i + 1], ranges[i + 2]);
  blocks = toLengths(op.getBlocks());
  weights = toLengths(op.getWeights());
  frozen = op.getBackward().frozen;
  isForwardOnly = op.getBackward().isNone;
  return path;
}

/// Returns the paths as in the text.
static std::vector<PathTuple> listPaths(const Module &module, size_t index) {
  return module.run([&] {
    std::vector<PathTuple> paths;
    mlir::Operation *op = module.getSchedule(index);
    orFail(pipe::verifyChains(llvm::cast<pipe::PlacementOwnerOpInterface>(op),
                              "a list of paths has"));
    for (pipe::PathOp path : op->getRegion(0).getOps<pipe::PathOp>())
      paths.push_back(toTuple(path));
    return paths;
  });
}

//===----------------------------------------------------------------------===//
// Cells
//===----------------------------------------------------------------------===//

using CellHandler = llvm::function_ref<void(int64_t worker, Cell cell)>;

static void forEachCell(pipe::ScheduleOp schedule, CellHandler handle) {
  if (schedule.isProblem())
    return;
  pipe::ScheduleTable table(schedule);
  for (auto [worker, row] : llvm::enumerate(table.view().rows))
    for (Cell cell : row)
      if (!cell.isIdle() && !cell.isJoin())
        handle(worker, cell);
}

static bool isCell(InstructionKind kind) {
  InstructionRole role = traitsOf(kind).role;
  return role == InstructionRole::Compute ||
         role == InstructionRole::Collective || role == InstructionRole::Copy;
}

/// A cell of a worker that is in several groups is one cell.
static void forEachCell(exec::ProgramOp op, CellHandler handle) {
  LoadedProgram loaded = orFail(loadProgram(op, ListOps::No));
  const Program &program = loaded.program;
  for (int64_t worker = 0; worker < program.getNumWorkers(); ++worker) {
    uint32_t begin = program.rowBegins[worker];
    uint32_t size = program.rowBegins[worker + 1] - begin;
    llvm::SmallVector<Cell> met;
    for (const Instruction &instruction :
         llvm::ArrayRef(program.instructions).slice(begin, size)) {
      if (!isCell(instruction.kind))
        continue;
      if (traitsOf(instruction.kind).grouping == Grouping::Blocks) {
        if (llvm::is_contained(met, instruction.cell))
          continue;
        met.push_back(instruction.cell);
      }
      handle(worker, instruction.cell);
    }
  }
}

static void forEachCell(mlir::Operation *op, CellHandler handle) {
  if (auto program = llvm::dyn_cast<exec::ProgramOp>(op))
    forEachCell(program, handle);
  else
    forEachCell(llvm::cast<pipe::ScheduleOp>(op), handle);
}

static int64_t countCells(const Module &module, size_t index) {
  return module.run([&] {
    int64_t count = 0;
    forEachCell(module.getSchedule(index), [&](int64_t, Cell) { ++count; });
    return count;
  });
}

static nb::dict readCells(const Module &module, size_t index) {
  CellColumns columns = module.run([&] {
    mlir::Operation *op = module.getSchedule(index);
    auto owner = llvm::cast<pipe::PlacementOwnerOpInterface>(op);
    CellColumns cells(owner.getNumSlices(), /*isTimed=*/false);
    forEachCell(op,
                [&](int64_t worker, Cell cell) { cells.add(worker, cell); });
    return cells;
  });
  return columns.take();
}

//===----------------------------------------------------------------------===//
// Exchange
//===----------------------------------------------------------------------===//

static std::string exportSlotSvg(const Module &module, size_t index) {
  return module.run([&] {
    mlir::Operation *op = module.getSchedule(index);
    NamedTable table = orFail(loadTable(op));
    return toValid(collect([&](llvm::raw_ostream &os) {
      if (llvm::Error error = writeSlotSvg(os, &table))
        fail(op, "", std::move(error));
    }));
  });
}

static std::string exportCsv(const Module &module, size_t index, int format) {
  return module.run([&] {
    pipe::ScheduleOp op =
        toSchedule(module.getSchedule(index),
                   "is a program; PyTorch's CSV holds schedules");
    TorchCsvFormat chosen =
        orFail(op, "cannot be written: ",
               readEnum<TorchCsvFormat>("torch-csv-format", format));
    return toValid(collect([&](llvm::raw_ostream &os) {
      orFail(exportTorchCsv(op, chosen, os));
    }));
  });
}

static std::string exportLayout(const Module &module, size_t index) {
  return module.run([&] {
    return toValid(orFail(exportMegatronLayout(
        toSchedule(module.getSchedule(index),
                   "is a program; a layout of Megatron-Core is that of a "
                   "schedule"))));
  });
}

static std::string exportRules(const Module &module, size_t index) {
  return module.run([&] {
    pipe::ScheduleOp op =
        toSchedule(module.getSchedule(index),
                   "is a program; Shardy's rules are those of a schedule");
    return toValid(collect([&](llvm::raw_ostream &os) {
      orFail(exportShardyRules(op, ShardyRulesOptions(), os));
    }));
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
      .def_static("generate", generateTable, nb::arg("name"), nb::arg("family"),
                  nb::arg("workers"), nb::arg("microbatches"),
                  nb::arg("options"), nb::arg("paths"))
      .def_static("problem", createEmpty, nb::arg("name"), nb::arg("workers"),
                  nb::arg("microbatches"), nb::arg("paths"), nb::arg("slices"))
      .def_static("import_torch_csv", importCsv, nb::arg("text"),
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
                     return module.run(
                         [&] { return findEvaluables(module.get()).size(); });
                   })
      .def("describe", describeOne, nb::arg("index"),
           nb::sig("def describe(self, index: int) -> dict[str, typing.Any]"))
      .def("paths", listPaths, nb::arg("index"))
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
      .def("export_torch_csv", exportCsv, nb::arg("index"), nb::arg("format"))
      .def("export_megatron_layout", exportLayout, nb::arg("index"))
      .def("export_shardy_rules", exportRules, nb::arg("index"));
}

//===----------------------------------------------------------------------===//
// Searches
//===----------------------------------------------------------------------===//

using Summaries = std::vector<OptimizationSummary>;

/// Runs passes on all cores until Ctrl-C.
static Summaries searchIn(mlir::ModuleOp module, llvm::StringRef pipeline) {
  mlir::MLIRContext *context = module.getContext();
  pipe::OptimizationLog log(context);
  InterruptWatch watch;
  llvm::DefaultThreadPool pool;
  context->setThreadPool(pool);
  try {
    runPasses(module, pipeline);
  } catch (Failure) {
    context->disableMultithreading();
    throw;
  }
  context->disableMultithreading();
  return log.take();
}

/// Placement as a number of the enum, and microbatch size; None each where
/// there was no choice.
static void addChoice(nb::dict &described, const CandidateChoice &choice) {
  described["placement"] =
      choice.placement ? nb::cast(int(*choice.placement)) : nb::none();
  described["microbatch_size"] =
      choice.microbatchSize ? nb::cast(*choice.microbatchSize) : nb::none();
}

static nb::list listAlternatives(const std::vector<Alternative> &alternatives) {
  nb::list listed;
  for (const Alternative &found : alternatives) {
    nb::dict described;
    described["name"] = toValid(found.name);
    addChoice(described, found.choice);
    described["objective_ps"] =
        found.objective ? nb::cast(*found.objective) : nb::none();
    described["is_bound"] = found.isBound;
    described["reason"] = toValid(found.reason);
    listed.append(described);
  }
  return listed;
}

static nb::dict toDict(const OptimizationSummary &found) {
  nb::dict described;
  described["objective"] = int(found.objective);
  described["objective_ps"] = found.objectivePs;
  described["lower_bound_ps"] = found.lowerBoundPs;
  described["bound"] = toValid(found.bound);
  described["status"] = int(found.status);
  described["origin"] = toValid(found.origin);
  addChoice(described, found.choice);
  described["others"] = listAlternatives(found.others);
  described["without"] = listAlternatives(found.without);
  return described;
}

static std::pair<ModulePtr, nb::list> search(const Module &module,
                                             std::string_view pipeline) {
  Summaries found;
  ModulePtr changed = changeCopy(
      module, [&](mlir::ModuleOp copy) { found = searchIn(copy, pipeline); });
  nb::list listed;
  for (const OptimizationSummary &summary : found)
    listed.append(toDict(summary));
  return {std::move(changed), std::move(listed)};
}

void pipesched::python::bindOptimize(nb::module_ &m) {
  m.def("search", search, nb::arg("module"), nb::arg("pipeline"),
        nb::sig("def search(module: Module, pipeline: str) -> "
                "tuple[Module, list[dict[str, typing.Any]]]"));
}
