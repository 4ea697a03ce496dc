//===- own-opt.cpp - A pass of another project over schedules -------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A tool with all of PipeSched's passes and an extra one, which makes a
// schedule, moves cells, proves the result and checks how long it is.
//
//===----------------------------------------------------------------------===//

#include "PipeSched/Adapter/Evaluate.h"
#include "PipeSched/Dialect/Pipe/IR/ScheduleTable.h"
#include "PipeSched/InitAll.h"
#include "mlir/IR/DialectRegistry.h"
#include "mlir/Pass/Pass.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Pass/PassRegistry.h"
#include "mlir/Tools/mlir-opt/MlirOptMain.h"

using namespace pipesched;

namespace {
/// Fills a schedule by 1F1B, with one more forward in front of the first
/// backward of each worker, which then waits less for late messages.
struct ForwardAheadPass
    : mlir::PassWrapper<ForwardAheadPass,
                        mlir::OperationPass<pipe::ScheduleOp>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(ForwardAheadPass)

  ForwardAheadPass() = default;
  ForwardAheadPass(const ForwardAheadPass &other) : PassWrapper(other) {}

  llvm::StringRef getArgument() const final { return "own-forward-ahead"; }
  llvm::StringRef getDescription() const final {
    return "Fill a schedule by 1F1B with one more forward in flight";
  }

  mlir::LogicalResult run(llvm::StringRef pipeline) {
    mlir::OpPassManager passes(pipe::ScheduleOp::getOperationName());
    return mlir::failure(failed(mlir::parsePassPipeline(pipeline, passes)) ||
                         failed(runPipeline(passes, getOperation())));
  }

  mlir::LogicalResult moveForwards() {
    pipe::ScheduleTable loaded(getOperation());
    std::vector<Row> rows;
    for (llvm::ArrayRef<Cell> cells : loaded.view().rows) {
      Row &row = rows.emplace_back(cells.begin(), cells.end());
      auto isForward = [](Cell cell) { return cell.is(Phase::Forward); };
      auto backward = std::find_if_not(row.begin(), row.end(), isForward);
      auto forward = std::find_if(backward, row.end(), isForward);
      if (forward != row.end())
        std::rotate(backward, forward, std::next(forward));
    }
    return pipe::replaceRows(getOperation(), std::move(rows));
  }

  void runOnOperation() final {
    if (failed(run("pipe-schedule-1f1b")) || failed(moveForwards()) ||
        failed(run("pipe-verify{messages=batched}")))
      return signalPassFailure();
    auto found = evaluate(getOperation(), TimingOptions());
    if (failed(found))
      return signalPassFailure();
    int64_t slots = found->evaluation.table->slots;
    if (slots <= atMost)
      return;
    getOperation().emitOpError("takes ")
        << slots << " slots, at most " << atMost.getValue() << " are wanted";
    signalPassFailure();
  }

  Option<int64_t> atMost{*this, "at-most", llvm::cl::desc("Slots of a step"),
                         llvm::cl::init(1000)};
};
} // namespace

int main(int argc, char **argv) {
  mlir::DialectRegistry registry;
  registerAllDialects(registry);
  registerAllPasses();
  mlir::PassRegistration<ForwardAheadPass>();
  return mlir::asMainReturnCode(
      mlir::MlirOptMain(argc, argv, "a tool of another project\n", registry));
}
