//===- Dialects.h - What translations read ----------------------*- C++ -*-===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The dialects of schedules and programs, and of the functions of their stages.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_LIB_TARGET_DIALECTS_H
#define PIPESCHED_LIB_TARGET_DIALECTS_H

#include "PipeSched/Dialect/Exec/IR/Exec.h"
#include "PipeSched/Dialect/Pipe/IR/Pipe.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/DLTI/DLTI.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/DialectRegistry.h"

namespace pipesched {

/// Registers the dialects that an exported module may have.
inline void insertDialects(mlir::DialectRegistry &registry) {
  registry.insert<exec::ExecDialect, mlir::DLTIDialect, pipe::PipeDialect>();
  registry.insert<mlir::arith::ArithDialect, mlir::func::FuncDialect,
                  mlir::linalg::LinalgDialect, mlir::math::MathDialect,
                  mlir::scf::SCFDialect, mlir::tensor::TensorDialect>();
}

} // namespace pipesched

#endif // PIPESCHED_LIB_TARGET_DIALECTS_H
