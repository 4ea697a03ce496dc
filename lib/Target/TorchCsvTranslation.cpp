//===- TorchCsvTranslation.cpp - PyTorch's CSV for the tool ---------------===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Connects schedule ops to lib/Exchange: options, names, diagnostics.
//
//===----------------------------------------------------------------------===//

#include "PipeSched/Adapter/CreateSchedule.h"
#include "PipeSched/Adapter/PrintableDiagnostics.h"
#include "PipeSched/Dialect/Exec/IR/Exec.h"
#include "PipeSched/Support/EnumOptions.h"
#include "PipeSched/Target/TorchCsv.h"
#include "PipeSched/Target/Translations.h"
#include "RegisterExport.h"
#include "SelectSchedule.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Tools/mlir-translate/Translation.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/SourceMgr.h"

using namespace mlir;
using namespace pipesched;

namespace {

struct TorchCsvOptions {
  llvm::cl::opt<bool> keepColumns{
      "keep-columns",
      llvm::cl::desc("Import empty cells of PyTorch's CSV as idle slots"),
      llvm::cl::init(false)};
  llvm::cl::opt<int64_t> replicas{
      "torch-replicas",
      llvm::cl::desc("Stages S of one path: stage p * S + s of PyTorch's CSV "
                     "is stage s of path p"),
      llvm::cl::value_desc("S")};
  llvm::cl::opt<TorchCsvFormat> format{
      "torch-csv-format", llvm::cl::desc("What --export-torch-csv writes"),
      enumOptionValuesWithDefault<TorchCsvFormat::ComputeOnly>(),
      llvm::cl::init(TorchCsvFormat::ComputeOnly)};
  llvm::cl::opt<std::string> schedule{
      "torch-csv-schedule",
      llvm::cl::desc("The schedule that --export-torch-csv writes, where there "
                     "are several"),
      llvm::cl::value_desc("name")};
};

} // namespace

/// Created at the first registration; LLVM requires options to outlive parsing.
static TorchCsvOptions &torchCsvOptions() {
  static TorchCsvOptions instance;
  return instance;
}

//===----------------------------------------------------------------------===//
// Import
//===----------------------------------------------------------------------===//

/// The file's name without folder and ending; `schedule` for standard input.
static StringRef nameOfSchedule(StringRef file) {
  StringRef stem = llvm::sys::path::stem(file);
  return stem.empty() || file == "-" || file == "<stdin>" ? "schedule" : stem;
}

/// Emits an error at its position in the file.
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
  importOptions.keepColumns = torchCsvOptions().keepColumns;
  if (torchCsvOptions().replicas.getNumOccurrences() > 0)
    importOptions.stagesPerPath = torchCsvOptions().replicas;
  return importTorchCsv(context, buffer->getBuffer(),
                        buffer->getBufferIdentifier(), importOptions)
      .release()
      .getOperation();
}

//===----------------------------------------------------------------------===//
// Export
//===----------------------------------------------------------------------===//

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
      selectSchedule(root, torchCsvOptions().schedule,
                     torchCsvOptions().schedule.ArgStr, "a CSV file");
  if (failed(schedule))
    return failure();
  return exportTorchCsv(*schedule, torchCsvOptions().format, os);
}

void pipesched::registerTorchCsvTranslations() {
  torchCsvOptions();
  TranslateToMLIRRegistration(
      "import-torch-csv", "a schedule file of PyTorch, either format",
      translateFromCsv,
      [](DialectRegistry &registry) { registry.insert<pipe::PipeDialect>(); });
  registerExport("export-torch-csv", "a schedule file for PyTorch",
                 translateToCsv);
}
