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
#include "PipeSched/Stages/StageUses.h"
#include "PipeSched/Support/MakeError.h"
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
#include "mlir/Conversion/VectorToLLVM/ConvertVectorToLLVMPass.h"
#include "mlir/Conversion/VectorToSCF/VectorToSCF.h"
#include "mlir/Dialect/Affine/Transforms/Passes.h"
#include "mlir/Dialect/Bufferization/Transforms/OneShotAnalysis.h"
#include "mlir/Dialect/Bufferization/Transforms/Passes.h"
#include "mlir/Dialect/Linalg/Passes.h"
#include "mlir/Dialect/MemRef/Transforms/Passes.h"
#include "mlir/IR/AttrTypeSubElements.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Transforms/Passes.h"
#include <csetjmp>

using namespace mlir;
using namespace pipesched;
using namespace pipesched::run;

static constexpr char kInit[] = "pipesched_reference_init";
static constexpr char kStep[] = "pipesched_reference_step";
static constexpr char kFail[] = "pipesched_reference_fail";

//===----------------------------------------------------------------------===//
// Lowering
//===----------------------------------------------------------------------===//

/// The clauses of stages that name the functions, for errors.
static void noteUses(const StageFunctions &functions) {
  StageUses uses;
  for (const Stage &stage : functions.stages)
    for (const auto &function : stage.functions)
      if (function)
        uses.add(function->op, enumName(function->kind), stage.number);
  int64_t last = functions.stages.back().number;
  if (functions.data)
    uses.add(functions.data->op, "data", 0);
  for (const auto &function : {functions.target, functions.loss})
    if (function)
      uses.add(function->op, enumName(function->kind), last);
  uses.write();
}

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
    if (function.isExternal() || function.getName() == kInit ||
        function.getName() == kStep)
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

/// Frees what the functions allocate, by the passes of upstream's
/// buffer-deallocation-pipeline. The step is not simplified: its calls return
/// all that a microbatch keeps, and to prove which of those buffers are not
/// the same costs the square of their number, or more. They are compared at
/// run time, once per microbatch.
static LogicalResult freeBuffers(ModuleOp module) {
  PassManager insertion(module.getContext());
  insertion.addPass(memref::createExpandReallocPass());
  insertion.addPass(createCanonicalizerPass());
  insertion.addPass(
      bufferization::createOwnershipBasedBufferDeallocationPass());
  insertion.addPass(createCanonicalizerPass());
  if (failed(insertion.run(module)))
    return failure();
  PassManager simplification(module.getContext(),
                             func::FuncOp::getOperationName());
  simplification.addPass(
      bufferization::createBufferDeallocationSimplificationPass());
  for (auto function : module.getOps<func::FuncOp>())
    if (!function.isExternal() && function.getName() != kStep &&
        failed(simplification.run(function)))
      return failure();
  PassManager lowering(module.getContext());
  lowering.addPass(bufferization::createLowerDeallocationsPass());
  lowering.addPass(createCSEPass());
  lowering.addPass(createCanonicalizerPass());
  return lowering.run(module);
}

/// Products of matrices and functions of numbers are rounded as those of
/// kernels are, products by loops.
static LogicalResult lower(ModuleOp module, Matmul matmul, MathFunctions math) {
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
  if (failed(manager.run(module)) || failed(freeBuffers(module)))
    return failure();
  manager.clear();
  add(createConvertBufferizationToMemRefPass());
  add(createLowerExternCallsPass());
  add(createLowerMemRefCopiesPass());
  if (matmul == Matmul::Runtime) {
    LowerMatmulsPassOptions matmuls;
    matmuls.to = MatmulCode::Loops;
    add(createLowerMatmulsPass(matmuls));
  }
  add(createVectorizeRowReductionsPass());
  manager.addNestedPass<func::FuncOp>(createConvertLinalgToLoopsPass());
  manager.addNestedPass<func::FuncOp>(createConvertVectorToSCFPass());
  add(memref::createExpandStridedMetadataPass());
  add(createLowerAffinePass());
  add(createSCFToControlFlowPass());
  LowerStageChecksPassOptions checks;
  checks.handler = kFail;
  add(createLowerStageChecksPass(checks));
  add(createCanonicalizerPass());
  add(createCSEPass());
  addNumberPasses(manager, math);
  add(createConvertVectorToLLVMPass());
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

namespace {
/// Where compiled code goes back to when a check does not hold.
struct Return {
  std::jmp_buf buffer;
  std::string text;
};
} // namespace

static thread_local Return *returnPlace = nullptr;

/// What compiled code calls when a check does not hold; without an index `size`
/// is -1, and -2 where `index` is the status of an extern function. Functions
/// of stages return tensors and no status, so that this goes back past them;
/// their code has nothing to clean up but memory, which is lost with the run
/// that ends.
[[noreturn]] static void leave(const char *text, int64_t index, int64_t size) {
  returnPlace->text = text;
  if (size > 0)
    returnPlace->text += ": index " + std::to_string(index) +
                         ", expected 0 to " + std::to_string(size - 1);
  else if (size == 0)
    returnPlace->text +=
        ": index " + std::to_string(index) + ", but there are no elements";
  else if (size == -2)
    returnPlace->text += " returned " + std::to_string(index);
  std::longjmp(returnPlace->buffer, 1);
}

/// Calls code that may call `leave`.
static llvm::Error callChecked(llvm::function_ref<void()> code) {
  Return place;
  returnPlace = &place;
  if (setjmp(place.buffer) == 0)
    code();
  returnPlace = nullptr;
  return place.text.empty() ? llvm::Error::success()
                            : makeError("unpipelined model: " + place.text);
}

static FailureOr<PersistentLayout>
buildFunctions(ModuleOp module, StringRef name, bool steps, bool updates) {
  auto owner = module.lookupSymbol<pipe::PlacementOwnerOpInterface>(name);
  FailureOr<StageFunctions> functions = loadStageFunctions(owner);
  if (failed(functions))
    return failure();
  noteUses(*functions);
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
                        bool updates, Matmul matmul, MathFunctions math,
                        ArrayRef<ExternLibrary> libraries) {
  OwningOpRef<ModuleOp> module(owner->getParentOfType<ModuleOp>().clone());
  FailureOr<PersistentLayout> layout = buildFunctions(
      *module, SymbolTable::getSymbolName(owner), steps, updates);
  if (failed(layout))
    return failure();
  keepFunctions(*module);

  if (failed(lower(*module, matmul, math)))
    return owner.emitError("cannot lower the functions of its stages");
  auto fail = [&](llvm::Error error) {
    return owner.emitError("cannot compile the functions of its stages: ")
           << llvm::toString(std::move(error));
  };
  auto object = compileObject(*module);
  if (!object)
    return fail(object.takeError());
  llvm::Expected<LoadedObject> code = LoadedObject::load(
      **object, {{kFail, reinterpret_cast<void *>(&leave)}}, libraries);
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

llvm::Error ReferenceModel::init(Memory &block) const {
  Descriptor descriptor(block);
  auto code = reinterpret_cast<void (*)(Descriptor *)>(initFunction);
  return callChecked([&] { code(&descriptor); });
}

llvm::Error ReferenceModel::run(Memory &block, int64_t step) const {
  Memory after(block.size());
  Descriptor from(block), to(after);
  auto code = reinterpret_cast<void (*)(Descriptor *, Descriptor *, int64_t)>(
      stepFunction);
  if (llvm::Error error = callChecked([&] { code(&from, &to, step); }))
    return error;
  block = std::move(after);
  return llvm::Error::success();
}
