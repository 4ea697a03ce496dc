//===- ExternFunction.h - Functions compiled elsewhere ----------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A function without a body may represent a C function of an object file or a
// library. The attribute `pipe.extern` states where it is and its costs
// (docs/Stages.md, "Extern functions").
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_STAGES_EXTERNFUNCTION_H
#define PIPESCHED_STAGES_EXTERNFUNCTION_H

#include "PipeSched/Facts/Facts.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace pipesched {

/// The attribute of the function.
inline constexpr llvm::StringLiteral kExternName = "pipe.extern";

/// The contents of the attribute.
struct ExternFunction {
  std::string symbol;  ///< of the C function
  std::string library; ///< a file; empty if another tool links the function
  /// For each result: the argument whose memory it uses, or -1.
  llvm::SmallVector<int64_t> inPlace;
  /// The work of one call, on the matrix or the vector engine; nothing if the
  /// attribute does not state it.
  std::optional<std::vector<EngineWork>> work;
};

/// Whether the function has the attribute.
bool isExtern(mlir::func::FuncOp function);

/// Reads and verifies the attribute, which the function must have. Errors,
/// emitted at the function: a body; fields that are missing, unknown or of
/// another kind; a symbol that is not a C name, or belongs to the runtime;
/// arguments that are neither tensors of static shape nor C numbers; results
/// that are not such tensors; a result in the place of an argument of another
/// type, or two results in one place; work below 0 or on another engine.
mlir::FailureOr<ExternFunction> readExtern(mlir::func::FuncOp function);

} // namespace pipesched

#endif // PIPESCHED_STAGES_EXTERNFUNCTION_H
