//===- InitAll.h - The one registration list --------------------*- C++ -*-===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Registers PipeSched's dialects, passes and translations. The tools, the
// plugin and other embedders call these functions, so that all offer the same.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_INITALL_H
#define PIPESCHED_INITALL_H

#include "PipeSched/Conversion/Passes.h"
#include "PipeSched/Conversion/ToLLVM.h"
#include "PipeSched/Dialect/Exec/IR/Exec.h"
#include "PipeSched/Dialect/Pipe/IR/Pipe.h"
#include "PipeSched/Target/Translations.h"
#include "PipeSched/Transforms/Passes.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Bufferization/IR/Bufferization.h"
#include "mlir/Dialect/ControlFlow/IR/ControlFlowOps.h"
#include "mlir/Dialect/DLTI/DLTI.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/DialectRegistry.h"

namespace pipesched {

/// The dialects of PipeSched; DLTI, in which `pipe` states the system; and
/// those in which functions of stages are written.
inline void registerAllDialects(mlir::DialectRegistry &registry) {
  registry.insert<exec::ExecDialect, mlir::DLTIDialect, pipe::PipeDialect>();
  registry.insert<mlir::arith::ArithDialect, mlir::func::FuncDialect,
                  mlir::linalg::LinalgDialect, mlir::math::MathDialect,
                  mlir::scf::SCFDialect, mlir::tensor::TensorDialect>();
  registry.insert<mlir::bufferization::BufferizationDialect,
                  mlir::cf::ControlFlowDialect, mlir::LLVM::LLVMDialect,
                  mlir::memref::MemRefDialect>();
  registerToLLVMInterfaces(registry);
}

/// All passes, into MLIR's global registry.
inline void registerAllPasses() {
  pipe::registerPipeSchedTransformsPasses();
  pipe::registerFamilyPasses();
  registerPipeSchedConversionPasses();
  registerToLLVMPipeline();
}

/// All imports and exports, into MLIR's global registry.
inline void registerAllTranslations() {
  registerPipeSchedTranslations();
  registerDescriptionTranslations();
  registerTorchCsvTranslations();
  registerMegatronTranslations();
  registerShardyTranslations();
  registerTextTranslations();
}

} // namespace pipesched

#endif // PIPESCHED_INITALL_H
