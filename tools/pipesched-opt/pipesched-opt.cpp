//===- pipesched-opt.cpp - Optimizer driver -------------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// MLIR's optimizer with PipeSched's dialects and passes, and the upstream
// passes that are useful for any IR (canonicalize, cse, transform-interpreter).
// The output file appears only if all passes succeed; it may be the input,
// which MLIR maps into memory. The input may start with a byte order mark, and
// names in it may contain control characters of terminals.
//
//===----------------------------------------------------------------------===//

#include "PipeSched/Adapter/GuardedIR.h"
#include "PipeSched/Adapter/PrintableDiagnostics.h"
#include "PipeSched/InitAll.h"
#include "PipeSched/Support/InputFile.h"
#include "PipeSched/Support/OutputErrors.h"
#include "PipeSched/Support/OutputFile.h"
#include "PipeSched/Support/PrintableErrors.h"
#include "PipeSched/Support/PrintableText.h"
#include "PipeSched/Support/StandardStreams.h"
#include "mlir/Bytecode/Encoding.h"
#include "mlir/Dialect/Transform/Transforms/Passes.h"
#include "mlir/IR/DialectRegistry.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/Support/FileUtilities.h"
#include "mlir/Tools/mlir-opt/MlirOptMain.h"
#include "mlir/Transforms/Passes.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/InitLLVM.h"
#include "llvm/Support/Process.h"
#include "llvm/Support/ToolOutputFile.h"
#include "llvm/Support/WithColor.h"
#include "llvm/Support/raw_ostream.h"

using namespace pipesched;

static mlir::LogicalResult report(llvm::Error error) {
  llvm::WithColor::error() << printableText(llvm::toString(std::move(error)))
                           << "\n";
  return mlir::failure();
}

/// Refuses old versions of bytecode, which MLIR writes without properties such
/// as cells.
static mlir::LogicalResult checkVersion(const mlir::MlirOptMainConfig &config) {
  std::optional<int64_t> version = config.bytecodeVersionToEmit();
  if (!version || *version >= mlir::bytecode::kNativePropertiesEncoding)
    return mlir::success();
  return report(llvm::createStringError(
      "--emit-bytecode-version=" + llvm::Twine(*version) +
      ": expected at least " +
      llvm::Twine(int(mlir::bytecode::kNativePropertiesEncoding)) +
      "; files of older versions lack what schedules and programs have"));
}

/// Runs MLIR's driver on a file. Options that only list passes or dialects need
/// none.
static mlir::LogicalResult run(int argc, char **argv, llvm::StringRef input,
                               llvm::StringRef output,
                               mlir::DialectRegistry &registry) {
  auto config = mlir::MlirOptMainConfig::createFromCLOptions();
  if (config.shouldShowDialects() || config.shouldListPasses())
    return mlir::MlirOptMain(argc, argv, input, output, registry);
  llvm::InitLLVM init(argc, argv);
  if (failed(checkVersion(config)))
    return mlir::failure();
  if (input == "-" && llvm::sys::Process::StandardInIsUserInput())
    llvm::errs() << "(processing input from stdin now, hit ctrl-c/ctrl-d to "
                    "interrupt)\n";
  std::string error;
  auto given = readWholeFile(input);
  if (!given)
    return report(given.takeError());
  std::unique_ptr<llvm::MemoryBuffer> read = std::move(*given);
  auto guarded = guardIR(read->getMemBufferRef(), registry);
  if (!guarded)
    return report(guarded.takeError());
  if (*guarded)
    read = std::move(*guarded);
  auto written = mlir::openOutputFile(output, &error);
  if (!written) {
    llvm::errs() << printableText(error) << "\n";
    return mlir::failure();
  }
  if (auto readable = makePrintableIR(read->getMemBufferRef()))
    read = std::move(readable);
  // Diagnostics of IR without our dialects do not pass through our handler.
  PrintableErrors errors(mayHideText(read->getMemBufferRef()));
  if (failed(
          mlir::MlirOptMain(written->os(), std::move(read), registry, config)))
    return mlir::failure();
  written->keep();
  return mlir::success();
}

/// Makes MLIR print the operation of an error only with
/// --mlir-print-op-on-diagnostic, because a table of a million cells is 20 MB
/// of text.
static void printNoOpsByDefault() {
  mlir::registerMLIRContextCLOptions();
  llvm::cl::Option *option =
      llvm::cl::getRegisteredOptions().lookup(kPrintOpOption);
  if (option)
    static_cast<llvm::cl::opt<bool> *>(option)->setInitialValue(false);
}

/// Returns the first option that requests a plugin, in order to refuse it, and
/// loads nothing. A plugin is linked to libMLIR, so a tool with MLIR inside
/// would register dialects and passes twice, or in a second MLIR.
static const std::string &keepFromPlugins() {
  static std::string found;
#ifdef PIPESCHED_STATIC
  for (const char *name : kPluginOptions)
    if (auto *option = llvm::cl::getRegisteredOptions().lookup(name))
      static_cast<llvm::cl::list<std::string> *>(option)->setCallback(
          [name](const std::string &) {
            if (found.empty())
              found = name;
          });
#endif
  return found;
}

int main(int argc, char **argv) {
  openStandardStreams();
  static OutputErrors outputErrors;
  static PrintableErrors errors(argc, argv);
  mlir::DialectRegistry registry;
  registerAllDialects(registry);
  makeDiagnosticsPrintable(registry);
  registerAllPasses();
  mlir::registerTransformsPasses();
  mlir::transform::registerTransformPasses();
  printNoOpsByDefault();
  llvm::cl::SetVersionPrinter(printVersion);
  return runWithWholeOutput(argc, argv, [&](int argc, char **argv) {
    std::string help =
        mlir::registerCLIOptions("PipeSched optimizer\n", registry);
    const std::string &plugin = keepFromPlugins();
    auto [input, output] = mlir::parseCLIOptions(argc, argv, help);
    if (!plugin.empty()) {
      llvm::WithColor::error()
          << "--" << plugin
          << ": this program has MLIR inside and takes no plugins; load "
             "PipeSchedPlugin.so and others into mlir-opt, or others into "
             "pipesched-run\n";
      return 1;
    }
    return mlir::asMainReturnCode(run(argc, argv, input, output, registry));
  });
}
