//===- StageChecks.h - Checks of indices that are data ----------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A check is an op from lower-stage-ops to lower-stage-checks, which makes a
// branch of it:
//
//   call @pipesched_rt_check_index(%index, %size) {check = "'tensor..' op .."}
//   cf.assert %condition, "'arith.divsi' .."
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_LIB_CONVERSION_STAGECHECKS_H
#define PIPESCHED_LIB_CONVERSION_STAGECHECKS_H

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace pipesched {

/// The function that a check of an index seems to call, and the attribute that
/// describes the owner of the index.
inline constexpr llvm::StringLiteral kCheckIndexName =
    "pipesched_rt_check_index";
inline constexpr llvm::StringLiteral kCheckTextName = "check";

/// The same for the status of a function of C.
inline constexpr llvm::StringLiteral kCheckStatusName =
    "pipesched_rt_check_status";

/// Checks that the status that `what` has returned is 0.
void requireStatus(mlir::OpBuilder &builder, mlir::Value status,
                   const llvm::Twine &what);

/// Kernels of convert-exec-to-func end with their context and return a status.
bool isKernel(mlir::func::FuncOp function);

/// Creates checks in front of an op.
class CheckBuilder {
public:
  /// `op` is in `function`; both are named when a check fails.
  CheckBuilder(mlir::Operation *op, mlir::func::FuncOp function);

  /// 0 <= index < size. Creates nothing if this is known.
  void requireIndex(mlir::OpFoldResult index, mlir::OpFoldResult size,
                    const llvm::Twine &what);
  /// `text` describes the error if the condition does not hold: "divides ..".
  void require(mlir::Value condition, const llvm::Twine &text);

  mlir::Value value(mlir::OpFoldResult number);
  mlir::OpBuilder &getBuilder() { return builder; }
  mlir::Location getLoc() const { return op->getLoc(); }
  /// "'tensor.extract' op in function 'f'".
  std::string describe();

private:
  mlir::Operation *op;
  mlir::func::FuncOp function;
  mlir::OpBuilder builder;
};

/// Puts checks in front of each op of `function` that could read or write
/// outside of a tensor or end the program by a signal if its operands are data:
/// element accesses, slices, divisions of integers, steps of loops, and shapes
/// that are not static.
void insertChecks(mlir::func::FuncOp function);

} // namespace pipesched

#endif // PIPESCHED_LIB_CONVERSION_STAGECHECKS_H
