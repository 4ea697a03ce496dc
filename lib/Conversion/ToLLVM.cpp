//===- ToLLVM.cpp - The pipeline pipesched-to-llvm ------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Lowers a schedule and its functions to the LLVM dialect: first our passes,
// then upstream's. docs/Lowering.md has the same list for mlir-opt.
//
//===----------------------------------------------------------------------===//

#include "PipeSched/Conversion/ToLLVM.h"
#include "ExternCalls.h"
#include "PipeSched/Transforms/Passes.h"
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
#include "mlir/Dialect/Affine/IR/AffineOps.h"
#include "mlir/Dialect/Affine/IR/ValueBoundsOpInterfaceImpl.h"
#include "mlir/Dialect/Arith/IR/ValueBoundsOpInterfaceImpl.h"
#include "mlir/Dialect/Arith/Transforms/BufferDeallocationOpInterfaceImpl.h"
#include "mlir/Dialect/Arith/Transforms/BufferViewFlowOpInterfaceImpl.h"
#include "mlir/Dialect/Arith/Transforms/BufferizableOpInterfaceImpl.h"
#include "mlir/Dialect/Arith/Transforms/Passes.h"
#include "mlir/Dialect/Bufferization/Transforms/FuncBufferizableOpInterfaceImpl.h"
#include "mlir/Dialect/Bufferization/Transforms/Passes.h"
#include "mlir/Dialect/ControlFlow/IR/ControlFlowOps.h"
#include "mlir/Dialect/ControlFlow/Transforms/BufferDeallocationOpInterfaceImpl.h"
#include "mlir/Dialect/ControlFlow/Transforms/BufferizableOpInterfaceImpl.h"
#include "mlir/Dialect/Func/Extensions/InlinerExtension.h"
#include "mlir/Dialect/Index/IR/IndexDialect.h"
#include "mlir/Dialect/Linalg/IR/ValueBoundsOpInterfaceImpl.h"
#include "mlir/Dialect/Linalg/Passes.h"
#include "mlir/Dialect/Linalg/Transforms/BufferizableOpInterfaceImpl.h"
#include "mlir/Dialect/Linalg/Transforms/RuntimeOpVerification.h"
#include "mlir/Dialect/Linalg/Transforms/SubsetInsertionOpInterfaceImpl.h"
#include "mlir/Dialect/Math/Transforms/Passes.h"
#include "mlir/Dialect/MemRef/Transforms/AllocationOpInterfaceImpl.h"
#include "mlir/Dialect/MemRef/Transforms/BufferViewFlowOpInterfaceImpl.h"
#include "mlir/Dialect/MemRef/Transforms/Passes.h"
#include "mlir/Dialect/MemRef/Transforms/RuntimeOpVerification.h"
#include "mlir/Dialect/SCF/IR/ValueBoundsOpInterfaceImpl.h"
#include "mlir/Dialect/SCF/Transforms/BufferDeallocationOpInterfaceImpl.h"
#include "mlir/Dialect/SCF/Transforms/BufferizableOpInterfaceImpl.h"
#include "mlir/Dialect/Tensor/IR/ValueBoundsOpInterfaceImpl.h"
#include "mlir/Dialect/Tensor/Transforms/BufferizableOpInterfaceImpl.h"
#include "mlir/Dialect/Tensor/Transforms/RuntimeOpVerification.h"
#include "mlir/Dialect/Tensor/Transforms/SubsetInsertionOpInterfaceImpl.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/Dialect/Vector/Transforms/BufferizableOpInterfaceImpl.h"
#include "mlir/Dialect/Vector/Transforms/SubsetOpInterfaceImpl.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Pass/PassRegistry.h"
#include "mlir/Transforms/Passes.h"

using namespace mlir;
using namespace pipesched;

/// Adds upstream's buffer-deallocation-pipeline, but skips functions that it
/// does not support.
static void addDeallocation(OpPassManager &manager) {
  memref::ExpandReallocPassOptions reallocs;
  reallocs.emitDeallocs = false;
  manager.addPass(memref::createExpandReallocPass(reallocs));
  manager.addPass(createCanonicalizerPass());
  manager.addPass(createDeallocateBuffersPass());
  manager.addPass(createCanonicalizerPass());
  manager.addPass(bufferization::createBufferDeallocationSimplificationPass());
  manager.addPass(bufferization::createLowerDeallocationsPass());
  manager.addPass(createCSEPass());
  manager.addPass(createCanonicalizerPass());
}

/// Inlines the functions of stages into the kernels, makes results use the
/// memory of the kernels, and frees the other allocations of functions.
static void addBufferization(OpPassManager &manager) {
  manager.addPass(createSymbolDCEPass());
  manager.addPass(createLowerAffinePass());
  manager.addPass(createLowerStageOpsPass());
  manager.addPass(createInlinerPass());
  manager.addPass(createSymbolDCEPass());
  manager.addPass(createCanonicalizerPass());
  manager.addPass(createCSEPass());
  manager.addPass(createFoldMatmulTransposesPass());
  manager.addNestedPass<func::FuncOp>(createConvertElementwiseToLinalgPass());
  manager.addPass(bufferization::createEmptyTensorEliminationPass());
  manager.addPass(createVerifyKernelStoresPass());
  bufferization::OneShotBufferizePassOptions bufferize;
  bufferize.bufferizeFunctionBoundaries = true;
  bufferize.allowReturnAllocsFromLoops = true;
  bufferize.functionBoundaryTypeConversion =
      bufferization::LayoutMapOption::IdentityLayoutMap;
  manager.addPass(bufferization::createOneShotBufferizePass(bufferize));
  manager.addPass(createCanonicalizerPass());
  manager.addPass(createCSEPass());
  addDeallocation(manager);
  // Free a temporary right after its last use, so that its memory is reused
  // while it is still in the caches.
  manager.addNestedPass<func::FuncOp>(
      bufferization::createOptimizeAllocationLivenessPass());
  manager.addPass(createConvertBufferizationToMemRefPass());
  // Inline the helper of deallocations: its memrefs of unknown sizes cannot
  // become bare pointers.
  manager.addPass(createInlinerPass());
  manager.addPass(createSymbolDCEPass());
  manager.addPass(createLowerExternCallsPass());
  manager.addPass(createLowerMemRefCopiesPass());
}

void pipesched::addNumberPasses(OpPassManager &manager) {
  arith::ArithEmulateUnsupportedFloatsOptions emulate;
  emulate.sourceTypeStrs = {"bf16"};
  manager.addPass(arith::createArithEmulateUnsupportedFloats(emulate));
  manager.addPass(math::createMathExtendToSupportedTypes());
  arith::ArithExpandOpsPassOptions expand;
  expand.includeBf16 = true;
  manager.addPass(arith::createArithExpandOpsPass(expand));
  manager.addPass(createCallLibmPass());
}

/// Lowers kernels, whose static shapes let their memrefs become bare pointers.
/// LLVM may assume that these do not alias.
static void addLowering(OpPassManager &manager) {
  manager.addPass(createCallBlasPass());
  manager.addNestedPass<func::FuncOp>(createConvertLinalgToLoopsPass());
  manager.addNestedPass<func::FuncOp>(createConvertVectorToSCFPass());
  manager.addPass(memref::createExpandStridedMetadataPass());
  manager.addPass(createLowerAffinePass());
  manager.addPass(createSCFToControlFlowPass());
  manager.addPass(createLowerStageChecksPass());
  manager.addPass(createCanonicalizerPass());
  manager.addPass(createCSEPass());
  addNumberPasses(manager);
  manager.addPass(createConvertVectorToLLVMPass());
  manager.addPass(createConvertMathToLLVMPass());
  manager.addPass(createConvertMathToLibmPass());
  manager.addPass(createArithToLLVMConversionPass());
  manager.addPass(createConvertIndexToLLVMPass());
  manager.addPass(createFinalizeMemRefToLLVMConversionPass());
  ConvertFuncToLLVMPassOptions functions;
  functions.useBarePtrCallConv = true;
  manager.addPass(createConvertFuncToLLVMPass(functions));
  manager.addPass(createConvertControlFlowToLLVMPass());
  manager.addPass(createReconcileUnrealizedCastsPass());
  manager.addPass(createCanonicalizerPass());
}

/// Converts programs that the module already has.
static void addProgramConversion(OpPassManager &manager,
                                 const ToLLVMOptions &options) {
  if (options.from == ToLLVMStart::Program) {
    pipe::ExecAssignBuffersPassOptions buffers;
    buffers.sends = options.sends;
    buffers.inFlight = options.inFlight;
    buffers.hostMemory = options.hostMemory;
    manager.addPass(pipe::createExecAssignBuffersPass(buffers));
  }
  ConvertExecToFuncPassOptions toFunc;
  toFunc.form = options.form;
  manager.addPass(createConvertExecToFuncPass(toFunc));
}

void pipesched::buildToLLVMPipeline(OpPassManager &manager,
                                    const ToLLVMOptions &options) {
  if (options.from == ToLLVMStart::Schedule) {
    ConvertPipeToFuncPassOptions toFunc;
    toFunc.form = options.form;
    toFunc.receivePlacement = options.receivePlacement;
    toFunc.sends = options.sends;
    toFunc.inFlight = options.inFlight;
    toFunc.hostMemory = options.hostMemory;
    manager.addPass(createConvertPipeToFuncPass(toFunc));
  } else {
    addProgramConversion(manager, options);
  }
  addBufferization(manager);
  addLowering(manager);
}

void pipesched::registerToLLVMPipeline() {
  PassPipelineRegistration<ToLLVMOptions>(
      "pipesched-to-llvm",
      "Compile schedules and the functions of their stages to the LLVM dialect "
      "(docs/Lowering.md)",
      [](OpPassManager &manager, const ToLLVMOptions &options) {
        buildToLLVMPipeline(manager, options);
      });
}

void pipesched::registerToLLVMInterfaces(DialectRegistry &registry) {
  registry.insert<affine::AffineDialect, cf::ControlFlowDialect,
                  index::IndexDialect, vector::VectorDialect>();
  func::registerInlinerExtension(registry);
  affine::registerValueBoundsOpInterfaceExternalModels(registry);
  arith::registerValueBoundsOpInterfaceExternalModels(registry);
  linalg::registerValueBoundsOpInterfaceExternalModels(registry);
  scf::registerValueBoundsOpInterfaceExternalModels(registry);
  tensor::registerValueBoundsOpInterfaceExternalModels(registry);
  linalg::registerRuntimeVerifiableOpInterfaceExternalModels(registry);
  memref::registerRuntimeVerifiableOpInterfaceExternalModels(registry);
  tensor::registerRuntimeVerifiableOpInterfaceExternalModels(registry);
  arith::registerBufferizableOpInterfaceExternalModels(registry);
  arith::registerBufferDeallocationOpInterfaceExternalModels(registry);
  arith::registerBufferViewFlowOpInterfaceExternalModels(registry);
  bufferization::func_ext::registerBufferizableOpInterfaceExternalModels(
      registry);
  cf::registerBufferizableOpInterfaceExternalModels(registry);
  cf::registerBufferDeallocationOpInterfaceExternalModels(registry);
  linalg::registerBufferizableOpInterfaceExternalModels(registry);
  linalg::registerSubsetOpInterfaceExternalModels(registry);
  memref::registerAllocationOpInterfaceExternalModels(registry);
  memref::registerBufferViewFlowOpInterfaceExternalModels(registry);
  scf::registerBufferizableOpInterfaceExternalModels(registry);
  scf::registerBufferDeallocationOpInterfaceExternalModels(registry);
  tensor::registerBufferizableOpInterfaceExternalModels(registry);
  tensor::registerSubsetOpInterfaceExternalModels(registry);
  vector::registerBufferizableOpInterfaceExternalModels(registry);
  vector::registerSubsetOpInterfaceExternalModels(registry);
  registerExternCallInterfaces(registry);
}
