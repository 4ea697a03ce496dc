//===- own-opt.cpp - A pass of another project over schedules -------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A tool with all of PipeSched's passes and an extra one, which reports the
// forwards that each worker runs before its first backward.
//
//===----------------------------------------------------------------------===//

#include "PipeSched/Dialect/Pipe/IR/ScheduleTable.h"
#include "PipeSched/InitAll.h"
#include "mlir/IR/DialectRegistry.h"
#include "mlir/Pass/Pass.h"
#include "mlir/Tools/mlir-opt/MlirOptMain.h"

namespace {
struct WarmupPass
    : mlir::PassWrapper<WarmupPass,
                        mlir::OperationPass<pipesched::pipe::ScheduleOp>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(WarmupPass)

  llvm::StringRef getArgument() const final { return "own-warmup"; }
  llvm::StringRef getDescription() const final {
    return "Report the forwards before the first backward of each worker";
  }

  void runOnOperation() final {
    pipesched::pipe::ScheduleTable loaded(getOperation());
    pipesched::TableView table = loaded.view();
    for (auto [worker, row] : llvm::enumerate(table.rows)) {
      auto first = llvm::find_if(row, [](pipesched::Cell cell) {
        return cell.is(pipesched::Phase::Backward);
      });
      getOperation().emitRemark("worker ")
          << worker << " runs " << std::distance(row.begin(), first)
          << " forwards first";
    }
  }
};
} // namespace

int main(int argc, char **argv) {
  mlir::DialectRegistry registry;
  pipesched::registerAllDialects(registry);
  pipesched::registerAllPasses();
  mlir::PassRegistration<WarmupPass>();
  return mlir::asMainReturnCode(
      mlir::MlirOptMain(argc, argv, "a tool of another project\n", registry));
}
