//===- pipesched-lsp-server.cpp - Language server -------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// MLIR's language server with PipeSched's dialects, for editors. While a
// schedule is edited, it also shows the errors of `pipe-verify` without
// options, the dependences of each cell, and the cells that a row lacks.
//
//===----------------------------------------------------------------------===//

#include "PipeSched/Adapter/CreateSchedule.h"
#include "PipeSched/Dialect/Pipe/IR/Editing.h"
#include "PipeSched/Dialect/Pipe/IR/ScheduleTable.h"
#include "PipeSched/InitAll.h"
#include "PipeSched/Support/StandardStreams.h"
#include "Requests.h"
#include "mlir/IR/DialectRegistry.h"
#include "mlir/Tools/mlir-lsp-server/MlirLspServerMain.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/raw_ostream.h"

using namespace mlir;
using namespace pipesched;

namespace {
/// Runs the checks of `pipe-verify` as part of the verification of the op,
/// because MLIR's server shows errors of verifiers but runs no passes.
class VerifyWhileEditing final : public pipe::ScheduleChecks {
public:
  using ScheduleChecks::ScheduleChecks;

  LogicalResult verify(pipe::ScheduleOp schedule) const override {
    pipe::ScheduleTable loaded(schedule);
    TableView table = loaded.view();
    if (std::optional<Violation> violation = verifyTable(table))
      return emitViolation(schedule, *violation);
    if (std::optional<Violation> violation = verifyFamily(schedule, table))
      return emitViolation(schedule, *violation);
    return success();
  }
};
} // namespace

int main(int argc, char **argv) {
  openStandardStreams();
  DialectRegistry registry;
  registerAllDialects(registry);
  registry.addExtension(+[](MLIRContext *, pipe::PipeDialect *dialect) {
    dialect->addInterfaces<VerifyWhileEditing>();
  });
  // Rows that are being edited are read without checks.
  DialectRegistry unchecked;
  registerAllDialects(unchecked);
  if (!filterStandardInput(unchecked)) {
    llvm::errs() << "error: no memory to read the standard input\n";
    return 1;
  }
  llvm::cl::SetVersionPrinter(printVersion);
  return failed(MlirLspServerMain(argc, argv, registry));
}
