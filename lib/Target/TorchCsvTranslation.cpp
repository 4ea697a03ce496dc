//===- TorchCsvTranslation.cpp - PyTorch's CSV for the tool ---------------===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Between schedule ops and lib/Exchange: options, names, diagnostics.
//
//===----------------------------------------------------------------------===//

#include "PipeSched/Dialect/Exec/IR/Exec.h"
#include "PipeSched/Dialect/Pipe/IR/ScheduleTable.h"
#include "PipeSched/Exchange/TorchCsv.h"
#include "PipeSched/Target/Translations.h"
#include "mlir/Dialect/DLTI/DLTI.h"
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
      llvm::cl::values(
          clEnumValN(TorchCsvFormat::ComputeOnly, "compute_only",
                     "cells and idle slots (default)"),
          clEnumValN(TorchCsvFormat::ComputeComms, "compute_comms",
                     "cells, sends and receives in PyTorch's own order")),
      llvm::cl::init(TorchCsvFormat::ComputeOnly)};
  llvm::cl::opt<std::string> schedule{
      "torch-csv-schedule",
      llvm::cl::desc("The schedule that --export-torch-csv writes, where there "
                     "are several"),
      llvm::cl::value_desc("name")};
};

} // namespace

/// Exists from the first registration on; LLVM's options must outlive parsing.
static TorchCsvOptions &options() {
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

/// Emits at the position in the file. The first line of the text is the error,
/// further lines are notes.
static void emitImportError(MLIRContext *context, StringRef file,
                            llvm::Error error) {
  llvm::handleAllErrors(std::move(error), [&](const TorchCsvError &csvError) {
    Location location = FileLineColLoc::get(
        context, file, std::max<int64_t>(csvError.getLine(), 1),
        std::max<int64_t>(csvError.getColumn(), 1));
    SmallVector<StringRef> lines;
    csvError.getText().split(lines, '\n');
    InFlightDiagnostic diagnostic = emitError(location) << lines.front();
    for (StringRef line : llvm::drop_begin(lines)) {
      line.consume_front("note: ");
      diagnostic.attachNote() << line;
    }
  });
}

static OwningOpRef<Operation *> importTorchCsv(llvm::SourceMgr &sources,
                                               MLIRContext *context) {
  const llvm::MemoryBuffer *buffer =
      sources.getMemoryBuffer(sources.getMainFileID());
  StringRef file = buffer->getBufferIdentifier();
  TorchCsvImport importOptions;
  importOptions.keepColumns = options().keepColumns;
  if (options().replicas.getNumOccurrences() > 0)
    importOptions.stagesPerPath = options().replicas;
  llvm::Expected<Table> table =
      parseTorchCsv(buffer->getBuffer(), importOptions);
  if (!table) {
    emitImportError(context, file, table.takeError());
    return nullptr;
  }
  context->getOrLoadDialect<pipe::PipeDialect>();
  Location location = FileLineColLoc::get(context, file, 1, 1);
  OwningOpRef<ModuleOp> module = ModuleOp::create(location);
  auto builder = OpBuilder::atBlockEnd(module->getBody());
  auto schedule = pipe::ScheduleOp::create(
      builder, location, nameOfSchedule(file), table->placement.getNumWorkers(),
      table->placement.getNumMicrobatches());
  pipe::storePaths(schedule, table->placement.getPaths());
  pipe::storeRows(schedule, std::move(table->rows));
  return OwningOpRef<Operation *>(module.release());
}

//===----------------------------------------------------------------------===//
// Export
//===----------------------------------------------------------------------===//

/// The schedule to write: the one that is named, or the only one.
static FailureOr<pipe::ScheduleOp> selectSchedule(Operation *root) {
  SmallVector<pipe::ScheduleOp> schedules;
  root->walk([&](pipe::ScheduleOp schedule) {
    if (options().schedule.empty() ||
        schedule.getSymName() == StringRef(options().schedule))
      schedules.push_back(schedule);
  });
  if (schedules.size() == 1)
    return schedules.front();
  if (!options().schedule.empty())
    return emitError(root->getLoc())
           << "found no schedule @" << options().schedule;
  if (schedules.empty())
    return emitError(root->getLoc())
           << "found no schedule to export; pipe-create makes one, "
              "pipe-schedule-* fills it";
  InFlightDiagnostic diagnostic =
      emitError(root->getLoc())
      << "found " << schedules.size()
      << " schedules, but a CSV file holds one; name it with "
         "--torch-csv-schedule";
  for (pipe::ScheduleOp schedule : schedules)
    diagnostic.attachNote(schedule.getLoc())
        << "@" << schedule.getSymName() << " is here";
  return diagnostic;
}

static LogicalResult exportTorchCsv(Operation *root, raw_ostream &os) {
  FailureOr<pipe::ScheduleOp> schedule = selectSchedule(root);
  if (failed(schedule))
    return failure();
  if (schedule->isProblem())
    return pipe::emitTableError(*schedule)
           << "has no rows to export; fill it with a pipe-schedule-* pass";
  pipe::ScheduleTable loaded(*schedule);
  TableView table = loaded.view();
  if (std::optional<Violation> violation = verifyTable(table))
    return pipe::emitViolation(*schedule, *violation);
  if (std::optional<Violation> violation =
          writeTorchCsv(os, table, options().format))
    return pipe::emitViolation(*schedule, *violation);
  if (std::optional<Violation> violation = findUnorderedForward(table))
    emitWarning(schedule->getLoc())
        << "worker " << violation->at->row << ": " << violation->message;
  return success();
}

void pipesched::registerTorchCsvTranslations() {
  options();
  TranslateToMLIRRegistration(
      "import-torch-csv", "a schedule file of PyTorch, either format",
      importTorchCsv,
      [](DialectRegistry &registry) { registry.insert<pipe::PipeDialect>(); });
  TranslateFromMLIRRegistration(
      "export-torch-csv", "a schedule file for PyTorch", exportTorchCsv,
      [](DialectRegistry &registry) {
        registry.insert<DLTIDialect, exec::ExecDialect, pipe::PipeDialect>();
      });
}
