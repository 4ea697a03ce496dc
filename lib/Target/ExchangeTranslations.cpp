//===- ExchangeTranslations.cpp - Files of other tools --------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Connects schedule ops to lib/Exchange: options, names, diagnostics.
//
//===----------------------------------------------------------------------===//

#include "PipeSched/Adapter/CreateSchedule.h"
#include "PipeSched/Adapter/LoadCosts.h"
#include "PipeSched/Adapter/PrintableDiagnostics.h"
#include "PipeSched/Dialect/Exec/IR/Exec.h"
#include "PipeSched/Dialect/Pipe/IR/ScheduleTable.h"
#include "PipeSched/Exchange/MegatronLayout.h"
#include "PipeSched/Support/EnumOptions.h"
#include "PipeSched/Target/MegatronLayout.h"
#include "PipeSched/Target/ShardyRules.h"
#include "PipeSched/Target/TorchCsv.h"
#include "PipeSched/Target/Translations.h"
#include "RegisterExport.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Tools/mlir-translate/Translation.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/SourceMgr.h"

using namespace mlir;
using namespace pipesched;

namespace {
struct ExchangeOptions {
  llvm::cl::opt<bool> keepColumns{
      "keep-columns",
      llvm::cl::desc("Import empty cells of PyTorch's CSV as idle slots"),
      llvm::cl::init(false)};
  llvm::cl::opt<int64_t> torchReplicas{
      "torch-replicas",
      llvm::cl::desc("Stages S of one path: stage p * S + s of PyTorch's CSV "
                     "is stage s of path p"),
      llvm::cl::value_desc("S")};
  llvm::cl::opt<TorchCsvFormat> torchFormat{
      "torch-csv-format", llvm::cl::desc("What --export-torch-csv writes"),
      enumOptionValuesWithDefault<TorchCsvFormat::ComputeOnly>(),
      llvm::cl::init(TorchCsvFormat::ComputeOnly)};
  llvm::cl::opt<std::string> torchSchedule{
      "torch-csv-schedule",
      llvm::cl::desc("The schedule that --export-torch-csv writes, where there "
                     "are several"),
      llvm::cl::value_desc("name")};

  llvm::cl::opt<std::string> shardyStagePrefix{
      "shardy-stage-prefix",
      llvm::cl::desc("Before the number of a stage: the name of its "
                     "computation (default: s)"),
      llvm::cl::value_desc("text"), llvm::cl::init("s")};
  llvm::cl::opt<std::string> shardyMeshPrefix{
      "shardy-mesh-prefix",
      llvm::cl::desc("Before the number of a worker: the name of its mesh "
                     "(default: m)"),
      llvm::cl::value_desc("text"), llvm::cl::init("m")};
  llvm::cl::opt<bool> shardyStageIds{
      "shardy-stage-ids",
      llvm::cl::desc("Write stage ids too, for programs whose fragments have "
                     "them"),
      llvm::cl::init(false)};
  llvm::cl::opt<ShardyBackward> shardyBackward{
      "shardy-backward",
      llvm::cl::desc("Which fragments --export-shardy-rules writes"),
      enumOptionValuesWithDefault<ShardyBackward::Cells>(),
      llvm::cl::init(ShardyBackward::Cells)};
  llvm::cl::opt<std::string> shardySchedule{
      "shardy-schedule",
      llvm::cl::desc("The schedule that --export-shardy-rules writes, where "
                     "there are several"),
      llvm::cl::value_desc("name")};

  llvm::cl::opt<std::string> megatronSchedule{
      "megatron-schedule",
      llvm::cl::desc("The schedule that --export-megatron-layout writes, where "
                     "there are several"),
      llvm::cl::value_desc("name")};
};
} // namespace

/// Created at the first registration, because LLVM requires options to outlive
/// parsing.
static ExchangeOptions &exchangeOptions() {
  static ExchangeOptions instance;
  return instance;
}

/// Returns the schedule that `option` names, or the only one if the option is
/// empty. Errors, emitted: no schedule; several, with notes at each and the
/// option that selects one. `holder` is the name of a format that holds only
/// one schedule: "a CSV file".
static FailureOr<pipe::ScheduleOp>
selectSchedule(Operation *root, const llvm::cl::opt<std::string> &option,
               StringRef holder) {
  StringRef name = option.getValue();
  SmallVector<pipe::ScheduleOp> schedules;
  root->walk([&](pipe::ScheduleOp schedule) {
    if (name.empty() || schedule.getSymName() == name)
      schedules.push_back(schedule);
  });
  if (schedules.size() == 1)
    return schedules.front();
  if (!name.empty())
    return emitError(root->getLoc()) << "found no schedule @" << name;
  if (schedules.empty())
    return emitError(root->getLoc())
           << "found no schedule to export; pipe-create makes one, "
              "pipe-schedule-* fills it";
  InFlightDiagnostic diagnostic =
      emitError(root->getLoc())
      << "found " << schedules.size() << " schedules, but " << holder
      << " holds one; name it with --" << option.ArgStr;
  for (pipe::ScheduleOp schedule : schedules)
    diagnostic.attachNote(schedule.getLoc())
        << "@" << schedule.getSymName() << " is here";
  return diagnostic;
}

/// Checks that a schedule can be exported. Errors, emitted: no rows; violations
/// of verifyTable.
static LogicalResult verifyForExport(pipe::ScheduleOp schedule,
                                     const TableView &table) {
  if (schedule.isProblem())
    return pipe::emitTableError(schedule)
           << "has no rows to export; fill it with a pipe-schedule-* pass";
  if (failed(pipe::verifyUnsliced(schedule, "an export")) ||
      failed(pipe::verifyTrainsAll(schedule, "an export takes")))
    return failure();
  if (std::optional<Violation> violation = verifyTable(table))
    return pipe::emitViolation(schedule, *violation);
  return success();
}

//===----------------------------------------------------------------------===//
// PyTorch
//===----------------------------------------------------------------------===//

/// Returns the file's name without folder and extension; `schedule` for
/// standard input.
static StringRef nameOfSchedule(StringRef file) {
  StringRef stem = llvm::sys::path::stem(file);
  return stem.empty() || file == "-" || file == "<stdin>" ? "schedule" : stem;
}

static void emitImportError(MLIRContext *context, StringRef file,
                            llvm::Error error) {
  llvm::handleAllErrors(std::move(error), [&](const TorchCsvError &csvError) {
    Location location = FileLineColLoc::get(
        context, file, std::max<int64_t>(csvError.getLine(), 1),
        std::max<int64_t>(csvError.getColumn(), 1));
    InFlightDiagnostic diagnostic = emitError(location) << csvError.getText();
    for (const std::string &note : csvError.getNotes())
      diagnostic.attachNote() << note;
  });
}

OwningOpRef<ModuleOp> pipesched::importTorchCsv(MLIRContext *context,
                                                StringRef text, StringRef file,
                                                const TorchCsvImport &options) {
  std::vector<TorchCsvWarning> warnings;
  llvm::Expected<Table> table = parseTorchCsv(text, options, &warnings);
  if (!table) {
    emitImportError(context, file, table.takeError());
    return nullptr;
  }
  for (const TorchCsvWarning &warning : warnings)
    emitWarning(
        FileLineColLoc::get(context, file, warning.line, warning.column))
        << warning.text;
  context->getOrLoadDialect<pipe::PipeDialect>();
  Location location = FileLineColLoc::get(context, file, 1, 1);
  OwningOpRef<ModuleOp> module = ModuleOp::create(location);
  auto builder = OpBuilder::atBlockEnd(module->getBody());
  createSchedule(builder, location, nameOfSchedule(file), std::move(*table));
  return module;
}

static OwningOpRef<Operation *> translateFromCsv(llvm::SourceMgr &sources,
                                                 MLIRContext *context) {
  const llvm::MemoryBuffer *buffer =
      sources.getMemoryBuffer(sources.getMainFileID());
  makeLinesPrintable(sources);
  makeDiagnosticsPrintable(*context);
  TorchCsvImport importOptions;
  importOptions.keepColumns = exchangeOptions().keepColumns;
  if (exchangeOptions().torchReplicas.getNumOccurrences() > 0)
    importOptions.stagesPerPath = exchangeOptions().torchReplicas;
  return importTorchCsv(context, buffer->getBuffer(),
                        buffer->getBufferIdentifier(), importOptions)
      .release()
      .getOperation();
}

LogicalResult pipesched::exportTorchCsv(pipe::ScheduleOp schedule,
                                        TorchCsvFormat format,
                                        raw_ostream &os) {
  pipe::ScheduleTable loaded(schedule);
  TableView table = loaded.view();
  if (failed(verifyForExport(schedule, table)))
    return failure();
  if (std::optional<Violation> violation = writeTorchCsv(os, table, format))
    return pipe::emitViolation(schedule, *violation);
  return success();
}

static LogicalResult translateToCsv(Operation *root, raw_ostream &os) {
  FailureOr<pipe::ScheduleOp> schedule =
      selectSchedule(root, exchangeOptions().torchSchedule, "a CSV file");
  if (failed(schedule))
    return failure();
  return exportTorchCsv(*schedule, exchangeOptions().torchFormat, os);
}

//===----------------------------------------------------------------------===//
// Shardy
//===----------------------------------------------------------------------===//

/// Warns about differences between Shardy and the schedule.
static void warn(pipe::ScheduleOp schedule, const TableView &table,
                 const ShardyRulesOptions &rules) {
  if (std::optional<Violation> violation = findUnsplitBackward(table, rules))
    emitWarning(schedule->getLoc())
        << "worker " << violation->at->row << ": " << violation->message
        << "; --shardy-backward=fragments writes it whole";
  if (sendsAfterWeightGrad(table))
    emitWarning(schedule->getLoc())
        << "Shardy sends gradients after I, the schedule after W; the order "
           "of fragments is the same";
}

LogicalResult pipesched::exportShardyRules(pipe::ScheduleOp schedule,
                                           const ShardyRulesOptions &rules,
                                           raw_ostream &os) {
  pipe::ScheduleTable loaded(schedule);
  TableView table = loaded.view();
  if (failed(verifyForExport(schedule, table)))
    return failure();
  if (std::optional<Violation> violation = writeShardyRules(os, table, rules))
    return pipe::emitViolation(schedule, *violation);
  warn(schedule, table, rules);
  return success();
}

static LogicalResult exportRules(Operation *root, raw_ostream &os) {
  FailureOr<pipe::ScheduleOp> schedule =
      selectSchedule(root, exchangeOptions().shardySchedule, "a set of rules");
  if (failed(schedule))
    return failure();
  const ExchangeOptions &options = exchangeOptions();
  return exportShardyRules(*schedule,
                           {options.shardyStagePrefix, options.shardyMeshPrefix,
                            options.shardyStageIds, options.shardyBackward},
                           os);
}

//===----------------------------------------------------------------------===//
// Megatron-Core
//===----------------------------------------------------------------------===//

/// Checks that stage s is on rank s mod D.
static LogicalResult checkStages(pipe::ScheduleOp schedule,
                                 const Placement &placement) {
  if (placement.getNumPaths() != 1)
    return pipe::emitTableError(schedule)
           << "has " << placement.getNumPaths()
           << " paths; a layout of Megatron-Core has one";
  if (llvm::Error error = placement.checkChains("an export takes"))
    return pipe::emitTableError(schedule) << llvm::toString(std::move(error));
  int64_t numStages = placement.getMaxStages();
  int64_t numWorkers = placement.getNumWorkers();
  for (int64_t stage = 0; stage < numStages; ++stage)
    if (placement.workerOf(stage) != stage % numWorkers)
      return pipe::emitTableError(schedule)
             << "has stage " << stage << " on worker "
             << placement.workerOf(stage)
             << "; a layout of Megatron-Core has it on worker "
             << stage % numWorkers;
  if (numStages % numWorkers != 0)
    return pipe::emitTableError(schedule)
           << "has " << numStages << " stages; a layout of Megatron-Core for "
           << numWorkers << " workers has a multiple of them";
  return success();
}

static FailureOr<std::vector<int64_t>> layersOf(pipe::ScheduleOp schedule,
                                                const Placement &placement) {
  FailureOr<CostInputs> costs = loadCosts(schedule);
  if (failed(costs))
    return failure();
  const Path &path = placement.getPath(0);
  if (!costs->model && !path.blocks.empty())
    return path.blocks;
  if (!costs->model)
    return pipe::emitTableError(schedule)
           << "does not say how many layers its stages hold: give its path "
              "blocks, or attach a model";
  llvm::Expected<std::vector<int64_t>> layers =
      splitLayers(placement, *costs->model);
  if (!layers)
    return pipe::emitTableError(schedule) << llvm::toString(layers.takeError());
  return std::move(*layers);
}

FailureOr<std::string>
pipesched::exportMegatronLayout(pipe::ScheduleOp schedule) {
  FailureOr<Placement> placement = pipe::loadPlacement(schedule);
  if (failed(placement) || failed(checkStages(schedule, *placement)))
    return failure();
  FailureOr<std::vector<int64_t>> layers = layersOf(schedule, *placement);
  if (failed(layers))
    return failure();
  return writeMegatronLayout(*layers);
}

static LogicalResult exportLayout(Operation *root, raw_ostream &os) {
  FailureOr<pipe::ScheduleOp> schedule =
      selectSchedule(root, exchangeOptions().megatronSchedule, "a layout");
  if (failed(schedule))
    return failure();
  FailureOr<std::string> layout = exportMegatronLayout(*schedule);
  if (failed(layout))
    return failure();
  os << *layout << '\n';
  return success();
}

void pipesched::registerExchangeTranslations() {
  exchangeOptions();
  TranslateToMLIRRegistration(
      "import-torch-csv", "a schedule file of PyTorch, either format",
      translateFromCsv,
      [](DialectRegistry &registry) { registry.insert<pipe::PipeDialect>(); });
  registerExport("export-torch-csv", "a schedule file for PyTorch",
                 translateToCsv);
  registerExport("export-shardy-rules",
                 "fragment schedule rules for Shardy MPMD", exportRules);
  registerExport("export-megatron-layout",
                 "a pipeline layout for Megatron-Core", exportLayout);
}
