//===- Module.cpp - C API for schedules as IR -----------------------------===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Modules that hold schedules and programs, the information and cells of these,
// and PyTorch's CSV.
//
//===----------------------------------------------------------------------===//

#include "PipeSched-c/Module.h"
#include "Enums.h"
#include "PipeSched/Adapter/CreateSchedule.h"
#include "PipeSched/Adapter/Evaluate.h"
#include "PipeSched/Adapter/GuardedIR.h"
#include "PipeSched/Adapter/LoadCosts.h"
#include "PipeSched/Adapter/LoadProgram.h"
#include "PipeSched/Dialect/Pipe/IR/Editing.h"
#include "PipeSched/Support/Interrupt.h"
#include "PipeSched/Target/MegatronLayout.h"
#include "PipeSched/Target/ShardyRules.h"
#include "PipeSched/Target/Svg.h"
#include "PipeSched/Target/TorchCsv.h"
#include "Wrap.h"
#include "mlir/CAPI/IR.h"
#include "mlir/Interfaces/FunctionInterfaces.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Pass/PassRegistry.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/TypeSwitch.h"
#include "llvm/Support/SourceMgr.h"
#include "llvm/Support/ThreadPool.h"

using namespace mlir;
using namespace pipesched;

//===----------------------------------------------------------------------===//
// Modules
//===----------------------------------------------------------------------===//

/// Parses a copy of `source`: bytecode must be aligned and text must end in a
/// null, and a copy is both. MLIR's parser knows no byte order mark.
static MlirModule parse(MLIRContext *context, MlirStringRef source,
                        MlirStringRef name, bool isTrusted) {
  StringRef text = readText(source);
  text.consume_front("\xEF\xBB\xBF");
  auto buffer = llvm::MemoryBuffer::getMemBufferCopy(text, readText(name));
  if (!isTrusted) {
    auto guarded =
        guardIR(buffer->getMemBufferRef(), context->getDialectRegistry());
    if (!guarded) {
      emitError(UnknownLoc::get(context))
          << llvm::toString(guarded.takeError());
      return wrap(ModuleOp());
    }
    if (*guarded)
      buffer = std::move(*guarded);
  }
  llvm::SourceMgr sources;
  sources.AddNewSourceBuffer(std::move(buffer), llvm::SMLoc());
  return wrap(
      parseSourceFile<ModuleOp>(sources, ParserConfig(context)).release());
}

MlirModule pipeschedModuleParse(MlirContext context, MlirStringRef source,
                                MlirStringRef name) {
  if (!context.ptr)
    return wrap(ModuleOp());
  return parse(unwrap(context), source, name, /*isTrusted=*/false);
}

MlirModule pipeschedModuleParseTrusted(MlirContext context,
                                       MlirStringRef source,
                                       MlirStringRef name) {
  if (!context.ptr)
    return wrap(ModuleOp());
  return parse(unwrap(context), source, name, /*isTrusted=*/true);
}

void pipeschedCellPlacesCopy(MlirContext from, MlirContext to) {
  if (!from.ptr || !to.ptr)
    return;
  auto placesOf = [](MLIRContext *context) {
    return context->getOrLoadDialect<pipe::PipeDialect>()
        ->getRegisteredInterface<pipe::CellPlaces>();
  };
  placesOf(unwrap(from))->copyTo(*placesOf(unwrap(to)));
}

/// Creates an empty module for a schedule `name`. Errors: no context; an empty
/// name.
static OwningOpRef<ModuleOp> createModule(MLIRContext *context,
                                          StringRef name) {
  if (!context)
    return nullptr;
  context->loadDialect<pipe::PipeDialect>();
  Location location = UnknownLoc::get(context);
  if (!name.empty())
    return ModuleOp::create(location);
  emitError(location, "a schedule needs a name");
  return nullptr;
}

MlirModule pipeschedModuleCreateFromTable(MlirContext context,
                                          MlirStringRef name,
                                          PipeschedTable table) {
  OwningOpRef<ModuleOp> module = createModule(unwrap(context), readText(name));
  if (!module)
    return wrap(ModuleOp());
  if (pipeschedTableGetNumWorkers(table) == 0) {
    emitError(module->getLoc(), "expected a table with rows");
    return wrap(ModuleOp());
  }
  GeneratedTable &generated = *unwrap(table);
  auto builder = OpBuilder::atBlockEnd(module->getBody());
  const Problem &problem = generated.problem;
  pipe::ScheduleOp schedule = createSchedule(
      builder, module->getLoc(), readText(name), std::move(generated.table));
  generated.table.rows.clear(); // a second module is then an error
  schedule.setFamily(problem.family->name,
                     describeFamily(builder, *problem.family, problem.options));
  return wrap(module.release());
}

static llvm::Expected<Placement>
readPlacement(const PipeschedProblem &problem) {
  llvm::Expected<std::vector<Path>> paths = readPaths(problem);
  if (!paths)
    return paths.takeError();
  if (paths->empty())
    paths->push_back(placeLinear(problem.numWorkers));
  return Placement::create(problem.numWorkers, problem.numMicrobatches,
                           std::move(*paths),
                           problem.numSlices != 0 ? problem.numSlices : 1);
}

MlirModule pipeschedModuleCreateProblem(MlirContext context, MlirStringRef name,
                                        PipeschedProblem problem) {
  OwningOpRef<ModuleOp> module = createModule(unwrap(context), readText(name));
  if (!module)
    return wrap(ModuleOp());
  llvm::Expected<Placement> placement = readPlacement(problem);
  if (!placement) {
    emitError(module->getLoc()) << llvm::toString(placement.takeError());
    return wrap(ModuleOp());
  }
  auto builder = OpBuilder::atBlockEnd(module->getBody());
  createProblem(builder, module->getLoc(), readText(name), *placement);
  return wrap(module.release());
}

/// Extracts the error message from the output of MLIR's pipeline parser, which
/// reports errors only as text and repeats the pipeline below the message.
static StringRef errorOf(StringRef printed) {
  auto [place, error] = printed.split("error: ");
  return error.empty() ? printed.rtrim() : error.split('\n').first;
}

static LogicalResult parsePipeline(ModuleOp module, StringRef pipeline,
                                   OpPassManager &passes) {
  StringRef anchored = pipeline.trim();
  if (anchored.consume_front("builtin.module(") && anchored.consume_back(")"))
    pipeline = anchored;
  std::string error;
  llvm::raw_string_ostream stream(error);
  if (succeeded(parsePassPipeline(pipeline, passes, stream)))
    return success();
  return emitError(module.getLoc()) << errorOf(error);
}

MlirLogicalResult pipeschedModuleRunPipeline(MlirModule module,
                                             MlirStringRef pipeline) {
  if (mlirModuleIsNull(module))
    return wrap(failure());
  PassManager passes(unwrap(module)->getName());
  if (failed(parsePipeline(unwrap(module), readText(pipeline), passes)))
    return wrap(failure());
  return wrap(passes.run(unwrap(module)));
}

MlirLogicalResult pipeschedModuleRunSearchPipeline(MlirModule module,
                                                   MlirStringRef pipeline) {
  if (mlirModuleIsNull(module))
    return wrap(failure());
  MLIRContext *context = unwrap(module)->getContext();
  InterruptWatch watch;
  if (context->isMultithreadingEnabled())
    return pipeschedModuleRunPipeline(module, pipeline);
  llvm::DefaultThreadPool pool;
  context->setThreadPool(pool);
  MlirLogicalResult result = pipeschedModuleRunPipeline(module, pipeline);
  context->disableMultithreading();
  return result;
}

//===----------------------------------------------------------------------===//
// Schedules and programs
//===----------------------------------------------------------------------===//

Operation *pipesched::readEvaluable(MlirOperation handle) {
  Operation *op = unwrap(handle);
  if (!op || isa<pipe::ScheduleOp, exec::ProgramOp>(op))
    return op;
  pipe::emitTableError(op) << "is neither a schedule nor a program";
  return nullptr;
}

static SmallVector<Operation *> listSchedules(MlirModule module) {
  if (mlirModuleIsNull(module))
    return {};
  return findEvaluables(unwrap(module));
}

intptr_t pipeschedModuleGetNumSchedules(MlirModule module) {
  return listSchedules(module).size();
}

MlirOperation pipeschedModuleGetSchedule(MlirModule module, intptr_t index) {
  SmallVector<Operation *> schedules = listSchedules(module);
  bool isThere = index >= 0 && index < intptr_t(schedules.size());
  return wrap(isThere ? schedules[index] : nullptr);
}

/// The functions that an op names, and those that these call.
static llvm::SetVector<Operation *> functionsOf(Operation *op) {
  llvm::SetVector<Operation *> found;
  SmallVector<Operation *> users{op};
  while (!users.empty()) {
    auto uses = SymbolTable::getSymbolUses(users.pop_back_val());
    if (!uses)
      continue;
    for (const SymbolTable::SymbolUse &use : *uses) {
      Operation *symbol = SymbolTable::lookupNearestSymbolFrom(
          use.getUser(), use.getSymbolRef());
      if (isa_and_nonnull<FunctionOpInterface>(symbol) && found.insert(symbol))
        users.push_back(symbol);
    }
  }
  return found;
}

MlirModule pipeschedModuleCreateFromSchedule(MlirOperation scheduleOrProgram) {
  Operation *op = readEvaluable(scheduleOrProgram);
  if (!op)
    return wrap(ModuleOp());
  OwningOpRef<ModuleOp> module = ModuleOp::create(op->getLoc());
  ModuleOp source = findSystemModule(op);
  if (!source)
    source = op->getParentOfType<ModuleOp>();
  if (source && source.getTargetSystemSpec())
    module.get()->setAttrs(source->getAttrDictionary());
  auto builder = OpBuilder::atBlockEnd(module->getBody());
  if (pipe::ModelOp model = findModel(op))
    builder.clone(*model);
  for (Operation *function : functionsOf(op))
    builder.clone(*function);
  builder.clone(*op);
  return wrap(module.release());
}

static MlirStringRef textOf(pipe::ProfileAttr profile) {
  return wrap(profile ? profile.getTimes() : StringRef());
}

PipeschedScheduleInfo
pipeschedScheduleGetInfo(MlirOperation scheduleOrProgram) {
  PipeschedScheduleInfo info = {};
  Operation *op = readEvaluable(scheduleOrProgram);
  if (!op)
    return info;
  auto owner = cast<pipe::PlacementOwnerOpInterface>(op);
  info.name = wrap(SymbolTable::getSymbolName(op).getValue());
  info.numWorkers = owner.getNumWorkers();
  info.numMicrobatches = owner.getNumMicrobatches();
  info.numSlices = owner.getNumSlices();
  llvm::TypeSwitch<Operation *>(op)
      .Case([&](pipe::ScheduleOp schedule) {
        info.family = wrap(schedule.getFamily().value_or(""));
        info.isProblem = schedule.isProblem();
        info.times = textOf(schedule.getProfileAttr());
      })
      .Case([&](exec::ProgramOp program) {
        info.family = wrap(program.getFamily().value_or(""));
        info.isProgram = true;
        info.times = textOf(program.getProfileAttr());
      });
  info.hasModel = findModel(op) != nullptr;
  info.hasSystem = findSystemModule(op) != nullptr;
  info.numPaths = llvm::range_size(op->getRegion(0).getOps<pipe::PathOp>());
  return info;
}

MlirLogicalResult pipeschedScheduleSetName(MlirOperation scheduleOrProgram,
                                           MlirStringRef name) {
  Operation *op = readEvaluable(scheduleOrProgram);
  if (!op)
    return wrap(failure());
  StringRef wanted = readText(name);
  if (wanted.empty())
    return wrap(pipe::emitTableError(op) << "needs a name");
  Operation *module = SymbolTable::getNearestSymbolTable(op->getParentOp());
  Operation *other =
      module ? SymbolTable::lookupSymbolIn(module, wanted) : nullptr;
  if (other && other != op)
    return wrap(pipe::emitTableError(op)
                << "cannot be called @" << wanted << ", as another op is");
  SymbolTable::setSymbolName(op, wanted);
  return wrap(success());
}

PipeschedPath pipeschedScheduleGetPath(MlirOperation scheduleOrProgram,
                                       intptr_t path) {
  static_assert(sizeof(PipeschedRange) == 3 * sizeof(int64_t),
                "ranges are passed as they are stored");
  Operation *evaluable = readEvaluable(scheduleOrProgram);
  if (!evaluable)
    return {};
  auto paths = evaluable->getRegion(0).getOps<pipe::PathOp>();
  if (path < 0 || path >= intptr_t(llvm::range_size(paths)))
    return {};
  pipe::PathOp op = *std::next(paths.begin(), path);
  PipeschedPath found = {};
  found.numStages = op.getWorkers().size();
  found.workers = op.getWorkers().data();
  if (std::optional<ArrayRef<int64_t>> takes = op.getTakes()) {
    found.numTakes = takes->size() / 3;
    found.takes = reinterpret_cast<const PipeschedRange *>(takes->data());
  }
  if (std::optional<ArrayRef<int64_t>> blocks = op.getBlocks())
    found.blocks = blocks->data();
  if (std::optional<ArrayRef<int64_t>> weights = op.getWeights())
    found.weights = weights->data();
  return found;
}

//===----------------------------------------------------------------------===//
// Cells
//===----------------------------------------------------------------------===//

static void forEachCell(pipe::ScheduleOp schedule,
                        llvm::function_ref<void(int64_t, Cell)> handle) {
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

/// Calls `handle` for each cell of a row. A cell that is in several groups is
/// one cell.
static void forEachCellOfRow(ArrayRef<Instruction> row,
                             llvm::function_ref<void(Cell)> handle) {
  SmallVector<Cell> met;
  for (const Instruction &instruction : row) {
    if (!isCell(instruction.kind))
      continue;
    if (traitsOf(instruction.kind).grouping == Grouping::Blocks) {
      if (llvm::is_contained(met, instruction.cell))
        continue;
      met.push_back(instruction.cell);
    }
    handle(instruction.cell);
  }
}

static LogicalResult
forEachCell(exec::ProgramOp op,
            llvm::function_ref<void(int64_t, Cell)> handle) {
  FailureOr<LoadedProgram> loaded = loadProgram(op, ListOps::No);
  if (failed(loaded))
    return failure();
  const Program &program = loaded->program;
  ArrayRef<Instruction> instructions = program.instructions;
  for (int64_t worker = 0; worker < program.getNumWorkers(); ++worker) {
    uint32_t begin = program.rowBegins[worker];
    uint32_t size = program.rowBegins[worker + 1] - begin;
    forEachCellOfRow(instructions.slice(begin, size),
                     [&](Cell cell) { handle(worker, cell); });
  }
  return success();
}

static LogicalResult
forEachCell(MlirOperation scheduleOrProgram,
            llvm::function_ref<void(int64_t, Cell)> handle) {
  Operation *op = readEvaluable(scheduleOrProgram);
  if (!op)
    return failure();
  if (auto program = dyn_cast<exec::ProgramOp>(op))
    return forEachCell(program, handle);
  forEachCell(cast<pipe::ScheduleOp>(op), handle);
  return success();
}

static int64_t numSlicesOf(MlirOperation scheduleOrProgram) {
  Operation *op = unwrap(scheduleOrProgram);
  auto owner = dyn_cast_or_null<pipe::PlacementOwnerOpInterface>(op);
  return owner ? owner.getNumSlices() : 1;
}

intptr_t pipeschedScheduleGetNumCells(MlirOperation scheduleOrProgram) {
  intptr_t count = 0;
  LogicalResult result =
      forEachCell(scheduleOrProgram, [&](int64_t, Cell) { ++count; });
  return succeeded(result) ? count : -1;
}

void pipeschedScheduleGetCells(MlirOperation scheduleOrProgram,
                               PipeschedCellColumns columns) {
  columns.startPs = columns.endPs = nullptr;
  columns.message = nullptr;
  CellWriter writer(columns, numSlicesOf(scheduleOrProgram));
  (void)forEachCell(scheduleOrProgram, [&](int64_t worker, Cell cell) {
    writer.write(worker, cell);
  });
}

//===----------------------------------------------------------------------===//
// Exchange
//===----------------------------------------------------------------------===//

pipe::ScheduleOp pipesched::readSchedule(MlirOperation handle,
                                         StringRef refusal) {
  Operation *op = readEvaluable(handle);
  if (isa_and_nonnull<exec::ProgramOp>(op))
    pipe::emitTableError(op) << refusal;
  return dyn_cast_or_null<pipe::ScheduleOp>(op);
}

MlirLogicalResult pipeschedScheduleExportSlotSvg(MlirOperation schedule,
                                                 MlirStringCallback callback,
                                                 void *userData) {
  Operation *op = readEvaluable(schedule);
  if (!op)
    return wrap(failure());
  FailureOr<NamedTable> table = loadTable(op);
  if (failed(table))
    return wrap(failure());
  std::string text;
  llvm::raw_string_ostream os(text);
  if (llvm::Error error = writeSlotSvg(os, &*table))
    return wrap(pipe::emitTableError(op) << llvm::toString(std::move(error)));
  passText(callback, userData, text);
  return wrap(success());
}

MlirModule pipeschedModuleImportTorchCsv(MlirContext context,
                                         MlirStringRef text, MlirStringRef file,
                                         bool keepColumns,
                                         int64_t stagesPerPath) {
  if (!context.ptr)
    return wrap(ModuleOp());
  TorchCsvImport options;
  options.keepColumns = keepColumns;
  if (stagesPerPath != 0)
    options.stagesPerPath = stagesPerPath;
  return wrap(
      importTorchCsv(unwrap(context), readText(text), readText(file), options)
          .release());
}

MlirLogicalResult
pipeschedScheduleExportTorchCsv(MlirOperation schedule,
                                PipeschedTorchCsvFormat format,
                                MlirStringCallback callback, void *userData) {
  pipe::ScheduleOp op =
      readSchedule(schedule, "is a program; PyTorch's CSV holds schedules");
  if (!op)
    return wrap(failure());
  llvm::Expected<TorchCsvFormat> chosen =
      readEnum<TorchCsvFormat>("torch-csv-format", format);
  if (!chosen)
    return wrap(pipe::emitTableError(op)
                << "cannot be written: " << llvm::toString(chosen.takeError()));
  std::string text;
  llvm::raw_string_ostream os(text);
  if (failed(exportTorchCsv(op, *chosen, os)))
    return wrap(failure());
  passText(callback, userData, text);
  return wrap(success());
}

MlirLogicalResult pipeschedScheduleExportMegatronLayout(
    MlirOperation schedule, MlirStringCallback callback, void *userData) {
  pipe::ScheduleOp op = readSchedule(
      schedule,
      "is a program; a layout of Megatron-Core is that of a schedule");
  if (!op)
    return wrap(failure());
  FailureOr<std::string> layout = exportMegatronLayout(op);
  if (failed(layout))
    return wrap(failure());
  passText(callback, userData, *layout);
  return wrap(success());
}

MlirLogicalResult pipeschedScheduleExportShardyRules(
    MlirOperation schedule, MlirStringCallback callback, void *userData) {
  pipe::ScheduleOp op = readSchedule(
      schedule, "is a program; Shardy's rules are those of a schedule");
  if (!op)
    return wrap(failure());
  std::string text;
  llvm::raw_string_ostream os(text);
  if (failed(exportShardyRules(op, ShardyRulesOptions(), os)))
    return wrap(failure());
  passText(callback, userData, text);
  return wrap(success());
}
