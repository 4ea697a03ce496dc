//===- CountFunctions.h - Work of functions in text -------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Parses a module and counts one of its functions; errors are collected.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_UNITTESTS_STAGES_COUNTFUNCTIONS_H
#define PIPESCHED_UNITTESTS_STAGES_COUNTFUNCTIONS_H

#include "PipeSched/Dialect/Pipe/IR/Pipe.h"
#include "PipeSched/Stages/FunctionWork.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Parser/Parser.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace pipesched {

class CountFunctions : public testing::Test {
protected:
  CountFunctions() {
    context.printOpOnDiagnostic(false);
    context.loadDialect<mlir::arith::ArithDialect, mlir::func::FuncDialect,
                        mlir::linalg::LinalgDialect, mlir::math::MathDialect,
                        mlir::scf::SCFDialect, mlir::tensor::TensorDialect>();
    context.getDiagEngine().registerHandler([&](mlir::Diagnostic &diagnostic) {
      errors += diagnostic.str() + "\n";
      for (mlir::Diagnostic &note : diagnostic.getNotes())
        errors += "note: " + note.str() + "\n";
      return mlir::success();
    });
  }

  /// The work of the first function of a module.
  mlir::FailureOr<FunctionWork> count(const std::string &text) {
    module = mlir::parseSourceString<mlir::ModuleOp>(
        text, mlir::ParserConfig(&context));
    if (!module)
      return mlir::failure();
    return FunctionWorkAnalysis().compute(
        *module->getOps<mlir::func::FuncOp>().begin());
  }

  /// The work of a function with these arguments and results, and this body.
  mlir::FailureOr<FunctionWork> count(const std::string &signature,
                                      const std::string &body) {
    return count("func.func @f" + signature + " {\n" + body + "\n}");
  }

  mlir::MLIRContext context;
  mlir::OwningOpRef<mlir::ModuleOp> module;
  std::string errors;
};

/// Expects FLOPs of contractions and others, and bytes without and with fusion.
#define EXPECT_WORK(work, contraction, vector, unfused, fused)                 \
  do {                                                                         \
    auto counted = work;                                                       \
    ASSERT_TRUE(mlir::succeeded(counted)) << errors;                           \
    EXPECT_EQ(counted->contractionFlops, contraction);                         \
    EXPECT_EQ(counted->vectorFlops, vector);                                   \
    EXPECT_EQ(counted->unfusedBytes, unfused);                                 \
    EXPECT_EQ(counted->fusedBytes, fused);                                     \
  } while (false)

} // namespace pipesched

#endif // PIPESCHED_UNITTESTS_STAGES_COUNTFUNCTIONS_H
