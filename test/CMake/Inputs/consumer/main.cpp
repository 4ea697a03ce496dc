//===- main.cpp - A project that uses an installed PipeSched --------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Generates a row through lib/Schedule, without IR, and a schedule through the
// passes; both reach the same generator. Asks the C API for its version.
//
//===----------------------------------------------------------------------===//

#include "PipeSched-c/RegisterEverything.h"
#include "PipeSched/InitAll.h"
#include "PipeSched/Schedule/Family/Generators.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/DialectRegistry.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Pass/PassRegistry.h"
#include "llvm/Support/raw_ostream.h"

static int printRow() {
  pipesched::Placement placement =
      llvm::cantFail(pipesched::Placement::create(2, 2, {{{0, 1}, {}, {}}}));
  pipesched::Table table = llvm::cantFail(pipesched::generate1F1B(placement));
  for (pipesched::Cell cell : table.rows[0])
    llvm::outs() << cell.str() << ' ';
  llvm::outs() << '\n';
  return 0;
}

static int printSchedule() {
  mlir::DialectRegistry registry;
  pipesched::registerAllDialects(registry);
  pipesched::registerAllPasses();
  mlir::MLIRContext context(registry);
  mlir::OwningOpRef<mlir::ModuleOp> module =
      mlir::ModuleOp::create(mlir::UnknownLoc::get(&context));
  mlir::PassManager passes(&context);
  if (mlir::failed(mlir::parsePassPipeline(
          "pipe-create{workers=2 microbatches=2},pipe-schedule-1f1b",
          passes)) ||
      mlir::failed(passes.run(*module)))
    return 1;
  module->print(llvm::outs());
  return 0;
}

static int printVersion() {
  MlirStringRef version = pipeschedGetVersion();
  llvm::outs() << "version " << llvm::StringRef(version.data, version.length)
               << '\n';
  return 0;
}

int main() { return printVersion() || printRow() || printSchedule(); }
