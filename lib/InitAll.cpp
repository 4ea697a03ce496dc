//===- InitAll.cpp - Registration of all parts ----------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The lists are here instead of in the header, so that a program that registers
// everything need not compile the headers of all dialects.
//
//===----------------------------------------------------------------------===//

#include "PipeSched/InitAll.h"
#include "PipeSched/Conversion/Passes.h"
#include "PipeSched/Conversion/ToLLVM.h"
#include "PipeSched/Dialect/Exec/IR/Exec.h"
#include "PipeSched/Dialect/Pipe/IR/Pipe.h"
#include "PipeSched/Target/Translations.h"
#include "PipeSched/TransformOps/PipeTransformOps.h"
#include "PipeSched/Transforms/Passes.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Async/IR/Async.h"
#include "mlir/Dialect/Bufferization/IR/Bufferization.h"
#include "mlir/Dialect/ControlFlow/IR/ControlFlowOps.h"
#include "mlir/Dialect/DLTI/DLTI.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/MPI/IR/MPI.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Shard/IR/ShardDialect.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/DialectRegistry.h"

using namespace pipesched;

void pipesched::registerAllDialects(mlir::DialectRegistry &registry) {
  registry.insert<exec::ExecDialect, mlir::DLTIDialect, pipe::PipeDialect>();
  registry.insert<mlir::arith::ArithDialect, mlir::func::FuncDialect,
                  mlir::linalg::LinalgDialect, mlir::math::MathDialect,
                  mlir::scf::SCFDialect, mlir::tensor::TensorDialect>();
  registry
      .insert<mlir::bufferization::BufferizationDialect,
              mlir::cf::ControlFlowDialect, mlir::LLVM::LLVMDialect,
              mlir::memref::MemRefDialect, mlir::transform::TransformDialect>();
  registry.insert<mlir::async::AsyncDialect, mlir::gpu::GPUDialect,
                  mlir::mpi::MPIDialect, mlir::shard::ShardDialect>();
  registerPipeTransformOps(registry);
#ifdef PIPESCHED_ENABLE_COMPILE
  registerToLLVMInterfaces(registry);
#endif
}

void pipesched::registerAllPasses() {
  pipe::registerPipeSchedTransformsPasses();
  pipe::registerFamilyPasses();
#ifdef PIPESCHED_ENABLE_COMPILE
  registerPipeSchedConversionPasses();
  registerToLLVMPipeline();
#else
  registerConvertPipeToExecPass();
#endif
}

void pipesched::registerAllTranslations() {
  registerPipeSchedTranslations();
  registerDescriptionTranslations();
  registerExchangeTranslations();
}

bool pipesched::hasCompiler() {
#ifdef PIPESCHED_ENABLE_COMPILE
  return true;
#else
  return false;
#endif
}
