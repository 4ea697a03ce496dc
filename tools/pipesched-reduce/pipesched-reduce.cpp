//===- pipesched-reduce.cpp - Reducer of failing inputs -------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Makes a module smaller while a program, the judge, still finds the fault in
// it. It is MLIR's reducer extended for schedules (docs/Contributing.md).
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
#include "ReduceTable.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Reducer/Passes.h"
#include "mlir/Reducer/Tester.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Program.h"
#include "llvm/Support/SourceMgr.h"
#include "llvm/Support/WithColor.h"

using namespace pipesched;

static llvm::cl::OptionCategory category("pipesched-reduce options");
static llvm::cl::opt<std::string> inputPath(llvm::cl::Positional,
                                            llvm::cl::desc("<input file>"),
                                            llvm::cl::init("-"),
                                            llvm::cl::cat(category));
static llvm::cl::opt<std::string> outputPath("o", llvm::cl::desc("Output file"),
                                             llvm::cl::value_desc("filename"),
                                             llvm::cl::init("-"),
                                             llvm::cl::cat(category));
static llvm::cl::opt<std::string> judgeName(
    "judge", llvm::cl::Required, llvm::cl::cat(category),
    llvm::cl::desc("Program that gets a file as its last argument; its exit "
                   "status is 1 if the fault is still there, else 0"));
static llvm::cl::list<std::string>
    judgeArguments("judge-argument", llvm::cl::cat(category),
                   llvm::cl::desc("Argument of the judge before the file"));

static int report(const llvm::Twine &message) {
  llvm::WithColor::error() << printableText(message.str()) << "\n";
  return 1;
}

/// Reduces a module in place. Returns the reason for a failure, or an empty
/// text.
static std::string reduce(mlir::ModuleOp module, llvm::StringRef judge) {
  mlir::ReductionTreePassOptions options;
  options.testerName = judge.str();
  options.testerArgs.assign(judgeArguments.begin(), judgeArguments.end());
  mlir::Tester tester(judge, judgeArguments);
  if (tester.isInteresting(module).first != mlir::Tester::Interestingness::True)
    return "the judge finds no fault in the input: its exit status is 0";
  mlir::PassManager passes(module.getContext());
  passes.addPass(mlir::createReductionTreePass(options));
  // Most attempts are invalid; the user need not see their errors.
  mlir::ScopedDiagnosticHandler quiet(module.getContext(),
                                      [](mlir::Diagnostic &) {});
  return succeeded(passes.run(module)) ? "" : "the input cannot be reduced";
}

static int run() {
  auto judge = llvm::sys::findProgramByName(judgeName);
  if (!judge || !llvm::sys::fs::can_execute(*judge))
    return report("the judge '" + judgeName +
                  "' is no program that can be run");
  mlir::DialectRegistry registry;
  registerAllDialects(registry);
  makeDiagnosticsPrintable(registry);
  registerTableReduction(registry);
  auto read = readWholeFile(inputPath);
  if (!read)
    return report(llvm::toString(read.takeError()));
  auto guarded = guardIR((*read)->getMemBufferRef(), registry);
  if (!guarded)
    return report(llvm::toString(guarded.takeError()));
  llvm::SourceMgr sources;
  sources.AddNewSourceBuffer(std::move(*guarded ? *guarded : *read), {});
  mlir::MLIRContext context(registry, mlir::MLIRContext::Threading::DISABLED);
  context.printOpOnDiagnostic(false);
  mlir::OwningOpRef<mlir::ModuleOp> module;
  {
    mlir::SourceMgrDiagnosticHandler handler(sources, &context);
    module = mlir::parseSourceFile<mlir::ModuleOp>(sources, &context);
  }
  if (!module)
    return 1;
  if (std::string error = reduce(*module, *judge); !error.empty())
    return report(error);
  std::string text;
  llvm::raw_string_ostream(text) << *module << "\n";
  if (llvm::Error error = writeWholeFile(outputPath, text))
    return report(llvm::toString(std::move(error)));
  return 0;
}

int main(int argc, char **argv) {
  openStandardStreams();
  static OutputErrors outputErrors;
  static PrintableErrors errors(argc, argv);
  llvm::cl::HideUnrelatedOptions(category);
  llvm::cl::ParseCommandLineOptions(
      argc, argv, "Makes a failing input smaller, for a report of the fault\n");
  return run();
}
