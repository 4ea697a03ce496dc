//===- Prepare.cpp - The program to run -----------------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Every change is a pass of pipesched-opt; this file only selects the schedule
// and the paths of a family.
//
//===----------------------------------------------------------------------===//

#include "Prepare.h"
#include "PipeSched/Adapter/CreateSchedule.h"
#include "PipeSched/Adapter/Evaluate.h"
#include "PipeSched/Adapter/GuardedIR.h"
#include "PipeSched/Adapter/PrintableDiagnostics.h"
#include "PipeSched/Dialect/Pipe/IR/ScheduleTable.h"
#include "PipeSched/InitAll.h"
#include "PipeSched/Support/InputFile.h"
#include "mlir/Dialect/Affine/Transforms/Passes.h"
#include "mlir/Dialect/Arith/Transforms/Passes.h"
#include "mlir/Dialect/Bufferization/Transforms/Passes.h"
#include "mlir/Dialect/Linalg/Passes.h"
#include "mlir/Dialect/Math/Transforms/Passes.h"
#include "mlir/Dialect/MemRef/Transforms/Passes.h"
#include "mlir/Dialect/SCF/Transforms/Passes.h"
#include "mlir/Dialect/Tensor/Transforms/Passes.h"
#include "mlir/Dialect/Vector/Transforms/Passes.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Pass/PassRegistry.h"
#include "mlir/Target/LLVMIR/Dialect/Builtin/BuiltinToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Dialect/LLVMIR/LLVMToLLVMIRTranslation.h"
#include "mlir/Transforms/Passes.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/SourceMgr.h"

using namespace mlir;
using namespace pipesched;
using namespace pipesched::run;
using pipe::PlacementOwnerOpInterface;
using pipe::ScheduleOp;

void run::registerAll(DialectRegistry &registry) {
  registerAllDialects(registry);
  registerBuiltinDialectTranslation(registry);
  registerLLVMDialectTranslation(registry);
}

void run::registerUpstreamPasses() {
  registerTransformsPasses();
  registerLinalgPasses();
  registerSCFPasses();
  affine::registerAffinePasses();
  arith::registerArithPasses();
  bufferization::registerBufferizationPasses();
  math::registerMathPasses();
  memref::registerMemRefPasses();
  tensor::registerTensorPasses();
  vector::registerVectorPasses();
}

static LogicalResult fail(MLIRContext &context, llvm::Error error) {
  return emitError(UnknownLoc::get(&context))
         << llvm::toString(std::move(error));
}

static LogicalResult runPasses(ModuleOp module, const Twine &pipeline) {
  PassManager manager(module.getContext());
  std::string errors;
  llvm::raw_string_ostream os(errors);
  if (failed(parsePassPipeline(pipeline.str(), manager, os)))
    return emitError(module.getLoc())
           << "--pipeline: " << StringRef(errors).rtrim();
  return manager.run(module);
}

//===----------------------------------------------------------------------===//
// The schedule of the file
//===----------------------------------------------------------------------===//

static FailureOr<OwningOpRef<ModuleOp>> readModule(StringRef file,
                                                   MLIRContext &context) {
  auto buffer = readWholeFile(file);
  if (!buffer)
    return fail(context, buffer.takeError());
  auto guarded =
      guardIR((*buffer)->getMemBufferRef(), context.getDialectRegistry());
  if (!guarded)
    return fail(context, guarded.takeError());
  if (*guarded)
    *buffer = std::move(*guarded);
  if (auto readable = makePrintableIR((*buffer)->getMemBufferRef()))
    *buffer = std::move(readable);
  llvm::SourceMgr sources;
  sources.AddNewSourceBuffer(std::move(*buffer), llvm::SMLoc());
  auto module = parseSourceFile<ModuleOp>(sources, &context);
  if (!module)
    return failure();
  return std::move(module);
}

/// Returns the schedule or program of the file that has stages; if `name` is
/// not empty, the one with that name. All others are erased, so that no pass
/// processes them.
static FailureOr<PlacementOwnerOpInterface> selectOwner(ModuleOp module,
                                                        StringRef name) {
  SmallVector<PlacementOwnerOpInterface> all, found;
  module.walk([&](PlacementOwnerOpInterface op) { all.push_back(op); });
  auto nameOf = [](Operation *op) {
    return SymbolTable::getSymbolName(op).getValue();
  };
  for (PlacementOwnerOpInterface op : all)
    if (hasStageFunctions(op) && (name.empty() || nameOf(op) == name))
      found.push_back(op);
  if (found.empty() && !name.empty())
    return emitError(module.getLoc())
           << "--select: there is no schedule @" << name << " with stages";
  if (found.empty())
    return emitError(module.getLoc())
           << "there is no schedule with stages to run; name the functions of "
              "a model in 'stage' clauses of a pipe.schedule";
  if (found.size() > 1) {
    InFlightDiagnostic diagnostic =
        emitError(module.getLoc())
        << "there are " << found.size()
        << " schedules with stages; choose one by --select=<name>";
    for (PlacementOwnerOpInterface op : found)
      diagnostic.attachNote(op.getLoc()) << "@" << nameOf(op);
    return diagnostic;
  }
  for (PlacementOwnerOpInterface op : all)
    if (op != found.front())
      op.erase();
  if (found.front()->getParentOp() != module)
    return found.front().emitError("must stand in the outermost module");
  return found.front();
}

/// Checks the requirements of a run that pipe-verify-stages does not check.
static LogicalResult verifyRunnable(PlacementOwnerOpInterface owner) {
  mlir::Block &body = owner->getRegion(0).front();
  if (body.getOps<pipe::DataOp>().empty())
    return owner.emitError(
        "has no data; name the function that makes the input of stage 0 in a "
        "clause 'data @..'");
  if (body.getOps<pipe::LossOp>().empty())
    return owner.emitError(
        "has no loss; name the function that gives the gradient of the last "
        "output in a clause 'loss @..'");
  return success();
}

//===----------------------------------------------------------------------===//
// Rows of a family
//===----------------------------------------------------------------------===//

static LogicalResult verifyStageCount(PlacementOwnerOpInterface owner,
                                      const Family &family,
                                      const Placement &placement) {
  int64_t found =
      llvm::range_size(owner->getRegion(0).front().getOps<pipe::StageOp>());
  int64_t wanted = placement.getMaxStages();
  if (found == wanted)
    return success();
  return owner.emitError()
         << llvm::formatv("has functions of {0} stages, but {1} with {2} "
                          "workers needs {3}; take another number of workers "
                          "or other options of the family, or divide the "
                          "model into {3} stages",
                          found, family.name, placement.getNumWorkers(), wanted)
                .str();
}

/// Moves the clauses that name functions.
static void moveClauses(Operation *from, ScheduleOp to) {
  mlir::Block &target = to->getRegion(0).front();
  for (Operation &op : llvm::make_early_inc_range(from->getRegion(0).front()))
    if (isa<pipe::StageOp, pipe::DataOp, pipe::TargetOp, pipe::LossOp>(op))
      op.moveBefore(&target, target.end());
}

static FailureOr<PlacementOwnerOpInterface>
fillFamily(PlacementOwnerOpInterface owner, const Options &options) {
  auto fail = [&](llvm::Error error) {
    return owner.emitError() << llvm::toString(std::move(error));
  };
  llvm::Expected<const Family *> family = lookUpFamily(options.schedule);
  if (!family)
    return fail(family.takeError());
  llvm::Expected<FamilyOptions> familyOptions =
      options.familyOptionsFor(**family);
  if (!familyOptions)
    return fail(familyOptions.takeError());
  // The functions of the stages are written for this number of slices.
  if (!familyOptions->slices && (*family)->takes(FamilyOption::Slices) &&
      owner.getNumSlices() > 1)
    familyOptions->slices = owner.getNumSlices();
  int64_t workers = options.workers, microbatches = options.microbatches;
  llvm::Expected<Table> table =
      generate(**family, workers > 0 ? workers : owner.getNumWorkers(),
               microbatches > 0 ? microbatches : owner.getNumMicrobatches(),
               *familyOptions);
  if (!table)
    return fail(table.takeError());
  if (failed(verifyStageCount(owner, **family, table->placement)))
    return failure();
  OpBuilder builder(owner);
  StringAttr name = SymbolTable::getSymbolName(owner);
  SmallVector<NamedAttribute> written =
      describeFamily(builder, **family, *familyOptions);
  ScheduleOp schedule =
      createSchedule(builder, owner.getLoc(), name, std::move(*table));
  schedule.setFamily((*family)->name, written);
  if (Attribute profile = owner->getAttr("profile"))
    schedule->setAttr("profile", profile);
  moveClauses(owner, schedule);
  owner.erase();
  return cast<PlacementOwnerOpInterface>(*schedule);
}

//===----------------------------------------------------------------------===//
// G and O
//===----------------------------------------------------------------------===//

static bool hasUpdates(Operation *owner) {
  return llvm::any_of(
      owner->getRegion(0).front().getOps<pipe::StageOp>(),
      [](pipe::StageOp op) { return bool(op.getUpdateAttr()); });
}

/// Adds the optimizer steps, and before them the sums over replicas.
static LogicalResult addOptimizer(ScheduleOp schedule, const Options &options) {
  if (schedule.isProblem())
    return schedule.emitError(
        "has no rows; give it those of a family by --schedule=<family>, or by "
        "passes in --pipeline");
  FailureOr<NamedTable> table = loadTable(schedule);
  if (failed(table))
    return failure();
  bool hasThem = phasesInUse(table->tableView()).contains(Phase::Optimizer);
  if (hasThem || options.noUpdate || !hasUpdates(schedule))
    return success();
  return runPasses(schedule->getParentOfType<ModuleOp>(), "pipe-add-optimizer");
}

//===----------------------------------------------------------------------===//
// All
//===----------------------------------------------------------------------===//

static LogicalResult load(PreparedProgram &program) {
  auto owner = cast<PlacementOwnerOpInterface>(*program.op);
  FailureOr<StageFunctions> functions = loadStageFunctions(owner);
  FailureOr<LoadedProgram> loaded = loadProgram(program.op);
  if (failed(functions) || failed(loaded))
    return failure();
  program.functions = std::move(*functions);
  program.loaded = std::move(*loaded);
  program.layouts =
      layOutPersistent(program.functions, program.loaded.placement);
  program.updates =
      phasesInUse(program.loaded.program).contains(Phase::Optimizer);
  return success();
}

/// Takes the schedule unchanged, to make code from it. The start of an
/// executable is known without a program.
static FailureOr<PreparedProgram> takeSchedule(PreparedProgram program,
                                               const Options &options) {
  if (options.emit != Emit::Executable)
    return program;
  auto schedule = cast<ScheduleOp>(*program.getOwner());
  FailureOr<StageFunctions> functions = loadStageFunctions(schedule);
  if (failed(functions))
    return failure();
  program.functions = std::move(*functions);
  program.layouts = layOutPersistent(
      program.functions, pipe::ScheduleTable(schedule).getPlacement());
  return program;
}

/// Makes the program of the module and assigns its buffers.
static LogicalResult makeProgram(PreparedProgram &program, bool isSchedule) {
  ModuleOp module = *program.module;
  if (failed(runPasses(module, isSchedule
                                   ? "convert-pipe-to-exec,exec-assign-buffers"
                                   : "exec-assign-buffers")))
    return failure();
  program.op = module.lookupSymbol<exec::ProgramOp>(program.name);
  if (!program.op)
    return emitError(module.getLoc())
           << "--pipeline: the schedule @" << program.name
           << " is gone after these passes";
  return load(program);
}

FailureOr<PreparedProgram> run::prepare(const Options &options,
                                        MLIRContext &context) {
  auto module = readModule(options.input, context);
  if (failed(module))
    return failure();
  FailureOr<PlacementOwnerOpInterface> owner =
      selectOwner(**module, options.select);
  if (failed(owner) || failed(verifyRunnable(*owner)))
    return failure();
  if (!options.schedule.empty())
    owner = fillFamily(*owner, options);
  if (failed(owner))
    return failure();
  StringAttr name = SymbolTable::getSymbolName(*owner);
  if (!options.pipeline.empty() &&
      failed(runPasses(**module, options.pipeline.getValue())))
    return failure();
  auto schedule = (**module).lookupSymbol<ScheduleOp>(name);
  if (schedule && failed(addOptimizer(schedule, options)))
    return failure();
  StringRef proof = schedule ? "pipe-verify-stages,pipe-verify"
                             : "pipe-verify-stages,exec-verify";
  if (failed(runPasses(**module, proof)))
    return failure();
  PreparedProgram program;
  program.name = name.getValue().str();
  bool isLinkedByUser =
      options.emit == Emit::Llvm || options.emit == Emit::Object;
  if (!isLinkedByUser) {
    auto libraries = findExternLibraries(
        **module, llvm::sys::path::parent_path(options.input));
    if (failed(libraries))
      return failure();
    program.libraries = std::move(*libraries);
  }
  if (schedule && options.emit != Emit::Nothing && !options.pace) {
    program.source = std::move(*module);
    return takeSchedule(std::move(program), options);
  }
  if (schedule)
    program.source = OwningOpRef<ModuleOp>((**module).clone());
  program.module = std::move(*module);
  if (failed(makeProgram(program, bool(schedule))))
    return failure();
  return program;
}
