//===- Program.cpp - Programs and their runs ------------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Lowers programs, and sums the results of the workers of a run.
//
//===----------------------------------------------------------------------===//

#include "PipeSched/Run/Program.h"
#include "PipeSched/Conversion/ToLLVM.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Pass/PassRegistry.h"
#include <numeric>

using namespace mlir;
using namespace pipesched;
using namespace pipesched::run;
using pipe::PlacementOwnerOpInterface;

pipe::PlacementOwnerOpInterface PreparedProgram::getOwner() const {
  if (op)
    return cast<PlacementOwnerOpInterface>(*op);
  return source.get().lookupSymbol<PlacementOwnerOpInterface>(name);
}

/// Changes the compiled functions by a pipeline. The unpipelined model, costs
/// and layouts still use the functions of the file.
static LogicalResult changeFunctions(ModuleOp module, StringRef pipeline) {
  if (pipeline.empty())
    return success();
  PassManager manager(module.getContext());
  std::string errors;
  llvm::raw_string_ostream os(errors);
  if (failed(parsePassPipeline(pipeline, manager, os)))
    return emitError(module.getLoc())
           << "--stage-pipeline: " << StringRef(errors).rtrim();
  return manager.run(module);
}

FailureOr<OwningOpRef<ModuleOp>> run::lowerToLLVM(PreparedProgram &program,
                                                  const CodeOptions &code) {
  bool isSchedule = bool(program.source);
  OwningOpRef<ModuleOp> module =
      isSchedule ? std::move(program.source)
                 : OwningOpRef<ModuleOp>(program.module.get().clone());
  // Functions that the program does not call, such as init functions, are left
  // out, and so are symbols of other dialects, which need not lower to LLVM.
  for (auto symbol : module->getOps<SymbolOpInterface>())
    if (!isa<pipe::PipeDialect, exec::ExecDialect>(symbol->getDialect()))
      symbol.setPrivate();
  if (failed(changeFunctions(*module, code.stagePipeline)))
    return failure();
  PassManager manager(module->getContext());
  ToLLVMOptions options;
  options.from = isSchedule ? ToLLVMStart::Schedule : ToLLVMStart::Buffers;
  options.form = code.form;
  buildToLLVMPipeline(manager, options);
  if (failed(manager.run(*module)))
    return failure();
  return std::move(module);
}

Span RunResult::spanOf(int64_t step) const {
  Span span = logs.front().steps[step];
  for (const WorkerLog &log : logs) {
    span.begin = std::min(span.begin, log.steps[step].begin);
    span.end = std::max(span.end, log.steps[step].end);
  }
  return span;
}

double run::lossOf(const PreparedProgram &program,
                   llvm::ArrayRef<Memory> blocks) {
  // In the order of pipesched_rt_train. A worker has zeros as losses of the
  // microbatches of other workers.
  std::vector<double> losses;
  for (auto [layout, block] : llvm::zip(program.layouts, blocks))
    for (const PersistentTensor &tensor : layout.tensors) {
      if (tensor.kind != PersistentKind::Loss)
        continue;
      losses.resize(tensor.type.getNumElements());
      double *next = losses.data();
      forEachNumber(tensor, block, [&](double number) { *next++ += number; });
    }
  return std::accumulate(losses.begin(), losses.end(), 0.0);
}
