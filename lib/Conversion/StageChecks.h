//===- StageChecks.h - Checks of operands that are data ---------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// lower-stage-ops creates a check as an op, and lower-stage-checks turns it
// into a branch:
//
//   call @pipesched_rt_check_index(%index, %size) {check = "'tensor..' op .."}
//   cf.assert %condition, "'arith.divsi' .."
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_LIB_CONVERSION_STAGECHECKS_H
#define PIPESCHED_LIB_CONVERSION_STAGECHECKS_H

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace pipesched {

/// The name of the function that a check of an index seems to call, and the
/// attribute that describes the owner of the index.
inline constexpr llvm::StringLiteral kCheckIndexName =
    "pipesched_rt_check_index";
inline constexpr llvm::StringLiteral kCheckTextName = "check";

/// The same for the status of a C function.
inline constexpr llvm::StringLiteral kCheckStatusName =
    "pipesched_rt_check_status";

/// Checks that the status returned by `what` is 0.
void requireStatus(mlir::OpBuilder &builder, mlir::Value status,
                   const llvm::Twine &what);

/// Whether a function is a kernel of convert-exec-to-func: its last argument is
/// the context, and it returns a status.
bool isKernel(mlir::func::FuncOp function);

/// Creates checks in front of an op.
class CheckBuilder {
public:
  /// `op` is in `function`; the message of a failed check names both.
  CheckBuilder(mlir::Operation *op, mlir::func::FuncOp function);

  /// Checks that 0 <= index < size. Creates nothing if this is known.
  void requireIndex(mlir::OpFoldResult index, mlir::OpFoldResult size,
                    const llvm::Twine &what);
  /// Checks a condition. `text` describes the error if it does not hold:
  /// "divides ..".
  void require(mlir::Value condition, const llvm::Twine &text);

  mlir::Value value(mlir::OpFoldResult number);
  mlir::OpBuilder &getBuilder() { return builder; }
  mlir::Location getLoc() const { return op->getLoc(); }
  /// Returns "'tensor.extract' op in function 'f'".
  std::string describe();

private:
  mlir::Operation *op;
  mlir::func::FuncOp function;
  mlir::OpBuilder builder;
};

/// Puts checks before each op of `function` that could read or write outside of
/// a tensor, or end the program by a signal, depending on operands that are
/// data: element accesses, slices, integer divisions, loop steps, and shapes
/// that are not static.
void insertChecks(mlir::func::FuncOp function);

} // namespace pipesched

#endif // PIPESCHED_LIB_CONVERSION_STAGECHECKS_H
