//===- OutlineStages.cpp - pipe-outline-stages ----------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Chooses the function and the schedules; lib/Stages cuts the function.
//
//===----------------------------------------------------------------------===//

#include "PipeSched/Stages/OutlineStages.h"
#include "../SchedulePass.h"
#include "PipeSched/Support/ClosestName.h"
#include "PipeSched/Transforms/Passes.h"
#include "mlir/Dialect/Arith/IR/Arith.h"

namespace pipesched::pipe {
#define GEN_PASS_DEF_PIPEOUTLINESTAGESPASS
#include "PipeSched/Transforms/Passes.h.inc"
} // namespace pipesched::pipe

using namespace mlir;
using namespace pipesched;
using namespace pipesched::pipe;

/// The function called `name`, or the only one that names stages.
static FailureOr<func::FuncOp> selectFunction(ModuleOp module, StringRef name) {
  SmallVector<func::FuncOp> found;
  SmallVector<StringRef> names;
  for (auto function : module.getOps<func::FuncOp>()) {
    if (function.isExternal())
      continue;
    names.push_back(function.getName());
    if (name.empty() ? namesStages(function) : function.getName() == name)
      found.push_back(function);
  }
  if (found.empty() && !name.empty())
    return emitError(module.getLoc()) << "no function with a body is called @"
                                      << name << nameHint(name, names);
  if (found.empty())
    return emitError(module.getLoc())
           << "the module has no function whose ops have " << kStageAttrName
           << " and " << kPhaseAttrName;
  if (found.size() == 1)
    return found.front();
  InFlightDiagnostic diagnostic = emitError(module.getLoc())
                                  << found.size() << " functions have ops with "
                                  << kStageAttrName
                                  << "; choose one by the option 'function'";
  for (func::FuncOp function : found)
    diagnostic.attachNote(function.getLoc()) << "@" << function.getName();
  return diagnostic;
}

namespace {
struct PipeOutlineStagesPass final
    : pipe::impl::PipeOutlineStagesPassBase<PipeOutlineStagesPass> {
  using Base::Base;

  void runOnOperation() override {
    if (failed(outline()))
      signalPassFailure();
  }

private:
  LogicalResult outline();
};
} // namespace

LogicalResult PipeOutlineStagesPass::outline() {
  ModuleOp module = getOperation();
  FailureOr<SmallVector<ScheduleOp>> schedules =
      selectTreated(module, schedule, Treats::All);
  FailureOr<func::FuncOp> function = selectFunction(module, functionName);
  if (failed(schedules) || failed(function) ||
      failed(flattenFragments(*function)))
    return failure();
  FailureOr<OutlinedStages> outlined = outlineStages(*function, splitBackward);
  if (failed(outlined))
    return failure();
  for (ScheduleOp op : *schedules)
    if (failed(addStageClauses(op, *outlined)))
      return failure();
  if (reportMessages)
    pipesched::reportMessages(*outlined);
  if (SymbolTable::symbolKnownUseEmpty(*function, module))
    function->erase();
  return success();
}
