//===- ReferenceModel.cpp - Runs the unpipelined model --------------------===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A copy of the module gets the functions of Stages/Reference.h, loses all that
// is no function, and is lowered by upstream passes alone.
//
//===----------------------------------------------------------------------===//

#include "PipeSched/Run/ReferenceModel.h"
#include "PipeSched/Conversion/ToLLVM.h"
#include "PipeSched/Stages/Reference.h"
#include "mlir/Conversion/AffineToStandard/AffineToStandard.h"
#include "mlir/Conversion/ArithToLLVM/ArithToLLVM.h"
#include "mlir/Conversion/BufferizationToMemRef/BufferizationToMemRef.h"
#include "mlir/Conversion/ControlFlowToLLVM/ControlFlowToLLVM.h"
#include "mlir/Conversion/FuncToLLVM/ConvertFuncToLLVMPass.h"
#include "mlir/Conversion/IndexToLLVM/IndexToLLVM.h"
#include "mlir/Conversion/MathToLLVM/MathToLLVM.h"
#include "mlir/Conversion/MathToLibm/MathToLibm.h"
#include "mlir/Conversion/MemRefToLLVM/MemRefToLLVM.h"
#include "mlir/Conversion/ReconcileUnrealizedCasts/ReconcileUnrealizedCasts.h"
#include "mlir/Conversion/SCFToControlFlow/SCFToControlFlow.h"
#include "mlir/Dialect/Affine/Transforms/Passes.h"
#include "mlir/Dialect/Bufferization/Pipelines/Passes.h"
#include "mlir/Dialect/Bufferization/Transforms/OneShotAnalysis.h"
#include "mlir/Dialect/Bufferization/Transforms/Passes.h"
#include "mlir/Dialect/Linalg/Passes.h"
#include "mlir/Dialect/MemRef/Transforms/Passes.h"
#include "mlir/IR/AttrTypeSubElements.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Transforms/Passes.h"

using namespace mlir;
using namespace pipesched;
using namespace pipesched::run;

static constexpr char kInit[] = "pipesched_reference_init";
static constexpr char kStep[] = "pipesched_reference_step";

//===----------------------------------------------------------------------===//
// Lowering
//===----------------------------------------------------------------------===//

/// Leaves the functions alone, without attributes that only stages know.
static void keepFunctions(ModuleOp module) {
  for (Operation &op : llvm::make_early_inc_range(*module.getBody())) {
    auto function = dyn_cast<func::FuncOp>(op);
    if (!function) {
      op.erase();
      continue;
    }
    function.removeArgAttrsAttr();
    function.removeResAttrsAttr();
    if (function.getName() != kInit && function.getName() != kStep)
      function.setPrivate();
  }
  module->setAttrs(DictionaryAttr::get(module.getContext()));
}

/// Gives the functions of stages names that no library has: one that is called
/// `malloc` would be asked for memory.
static void renameFunctions(ModuleOp module) {
  llvm::DenseMap<StringAttr, StringAttr> names;
  for (auto function : module.getOps<func::FuncOp>()) {
    if (function.getName() == kInit || function.getName() == kStep)
      continue;
    auto name = StringAttr::get(module.getContext(),
                                "pipesched_reference_" + Twine(names.size()));
    names[function.getNameAttr()] = name;
    function.setSymNameAttr(name);
  }
  AttrTypeReplacer replacer;
  replacer.addReplacement(
      [&](FlatSymbolRefAttr callee) -> std::optional<Attribute> {
        StringAttr name = names.lookup(callee.getAttr());
        return name ? FlatSymbolRefAttr::get(name) : callee;
      });
  replacer.recursivelyReplaceElementsIn(module, /*replaceAttrs=*/true);
}

/// Errors of the first passes name functions, which are renamed after them.
static LogicalResult lowerStageOps(ModuleOp module) {
  PassManager manager(module.getContext());
  manager.addPass(createSymbolDCEPass());
  manager.addPass(createLowerAffinePass());
  manager.addPass(createLowerStageOpsPass());
  if (failed(manager.run(module)))
    return failure();
  renameFunctions(module);
  return success();
}

static LogicalResult lower(ModuleOp module) {
  if (failed(lowerStageOps(module)))
    return failure();
  PassManager manager(module.getContext());
  auto add = [&](std::unique_ptr<Pass> pass) {
    manager.addPass(std::move(pass));
  };
  add(createCanonicalizerPass());
  manager.addNestedPass<func::FuncOp>(createConvertElementwiseToLinalgPass());
  bufferization::OneShotBufferizePassOptions bufferize;
  bufferize.bufferizeFunctionBoundaries = true;
  bufferize.allowReturnAllocsFromLoops = true;
  bufferize.functionBoundaryTypeConversion =
      bufferization::LayoutMapOption::IdentityLayoutMap;
  add(bufferization::createOneShotBufferizePass(bufferize));
  bufferization::buildBufferDeallocationPipeline(
      manager, bufferization::BufferDeallocationPipelineOptions());
  add(createConvertBufferizationToMemRefPass());
  add(createLowerMemRefCopiesPass());
  manager.addNestedPass<func::FuncOp>(createConvertLinalgToLoopsPass());
  add(memref::createExpandStridedMetadataPass());
  add(createLowerAffinePass());
  add(createSCFToControlFlowPass());
  add(createCanonicalizerPass());
  add(createCSEPass());
  addNarrowFloatPasses(manager);
  add(createConvertMathToLLVMPass());
  add(createConvertMathToLibmPass());
  add(createArithToLLVMConversionPass());
  add(createConvertIndexToLLVMPass());
  add(createFinalizeMemRefToLLVMConversionPass());
  add(createConvertFuncToLLVMPass());
  add(createConvertControlFlowToLLVMPass());
  add(createReconcileUnrealizedCastsPass());
  return manager.run(module);
}

//===----------------------------------------------------------------------===//
// Reference
//===----------------------------------------------------------------------===//

static FailureOr<PersistentLayout>
buildFunctions(ModuleOp module, StringRef name, bool steps, bool updates) {
  auto owner = module.lookupSymbol<pipe::PlacementOwnerOpInterface>(name);
  FailureOr<StageFunctions> functions = loadStageFunctions(owner);
  if (failed(functions))
    return failure();
  int64_t numMicrobatches = owner.getNumMicrobatches();
  PersistentLayout layout = layOutReference(*functions, numMicrobatches);
  buildReferenceInit(module, kInit, *functions, layout);
  if (steps)
    buildReferenceStep(module, kStep, *functions, layout, numMicrobatches,
                       updates);
  return layout;
}

FailureOr<ReferenceModel>
ReferenceModel::compile(pipe::PlacementOwnerOpInterface owner, bool steps,
                        bool updates) {
  OwningOpRef<ModuleOp> module(owner->getParentOfType<ModuleOp>().clone());
  FailureOr<PersistentLayout> layout = buildFunctions(
      *module, SymbolTable::getSymbolName(owner), steps, updates);
  if (failed(layout))
    return failure();
  keepFunctions(*module);

  if (failed(lower(*module)))
    return owner.emitError("cannot lower the functions of its stages");
  auto fail = [&](llvm::Error error) {
    return owner.emitError("cannot compile the functions of its stages: ")
           << llvm::toString(std::move(error));
  };
  auto object = compileObject(*module);
  if (!object)
    return fail(object.takeError());
  llvm::Expected<LoadedObject> code = LoadedObject::load(**object, {});
  if (!code)
    return fail(code.takeError());
  ReferenceModel reference(std::move(*layout), std::move(*code));
  auto find = [&](StringRef name, void *&address) -> llvm::Error {
    auto found = reference.code.find<char>(("_mlir_ciface_" + name).str());
    if (!found)
      return found.takeError();
    address = *found;
    return llvm::Error::success();
  };
  if (llvm::Error error = find(kInit, reference.initFunction))
    return fail(std::move(error));
  if (steps)
    if (llvm::Error error = find(kStep, reference.stepFunction))
      return fail(std::move(error));
  return reference;
}

namespace {
/// How MLIR passes a memref of one dimension.
struct Descriptor {
  char *allocated, *aligned;
  int64_t offset = 0, size, stride = 1;

  explicit Descriptor(const Memory &block)
      : allocated(block.data()), aligned(block.data()), size(block.size()) {}
};
} // namespace

void ReferenceModel::init(Memory &block) const {
  Descriptor descriptor(block);
  reinterpret_cast<void (*)(Descriptor *)>(initFunction)(&descriptor);
}

void ReferenceModel::run(Memory &block, int64_t step) const {
  Memory after(block.size());
  Descriptor from(block), to(after);
  reinterpret_cast<void (*)(Descriptor *, Descriptor *, int64_t)>(stepFunction)(
      &from, &to, step);
  block = std::move(after);
}
