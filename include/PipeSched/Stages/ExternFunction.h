//===- ExternFunction.h - Functions compiled elsewhere ----------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A function without a body may represent a C function of an object file or a
// library, whose place and costs the attribute `pipe.extern` gives
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
  std::string symbol;  ///< of C
  std::string library; ///< a file; empty if the function is linked by others
  /// For each result the argument whose memory it takes, or -1.
  llvm::SmallVector<int64_t> inPlace;
  /// The work of one call, on the matrix or the vector engine; nothing if the
  /// attribute does not say.
  std::optional<std::vector<EngineWork>> work;
};

/// Whether the function has the attribute.
bool isExtern(mlir::func::FuncOp function);

/// Reads and verifies the attribute, which the function has. Errors, emitted at
/// the function: a body; fields that are missing, unknown or of another kind; a
/// symbol that is not a name of C, or is one of the runtime's; arguments that
/// are neither tensors of static shape nor numbers of C; results that are not
/// such tensors; a result in the place of an argument of another type, or two
/// in one place; work below 0 or on another engine.
mlir::FailureOr<ExternFunction> readExtern(mlir::func::FuncOp function);

} // namespace pipesched

#endif // PIPESCHED_STAGES_EXTERNFUNCTION_H
