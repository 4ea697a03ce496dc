//===- StageUses.h - Uses of stage functions --------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Functions are still there when the schedule that names them is gone. So each
// function gets a text with the stages that it belongs to, for error messages.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_STAGES_STAGEUSES_H
#define PIPESCHED_STAGES_STAGEUSES_H

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/MapVector.h"
#include <map>

namespace pipesched {

/// The attribute of a function that describes its uses.
inline constexpr llvm::StringLiteral kStageUsesName = "stages";

/// Collects the uses of functions and writes them on the functions.
class StageUses {
public:
  /// Records that `function` runs as `what`, a phase ("F") or a clause
  /// ("init"), of `stage`, and so do all functions that it calls.
  void add(mlir::func::FuncOp function, llvm::StringRef what, int64_t stage);

  /// Sets the attribute of each function, after its existing text:
  ///
  ///   "F of stages 0 to 2 and 5; B of stage 5"
  void write();

private:
  llvm::ArrayRef<mlir::func::FuncOp> calledFrom(mlir::func::FuncOp function);

  using Stages = std::vector<int64_t>;
  llvm::MapVector<mlir::Operation *, std::map<std::string, Stages>> uses;
  /// A function and all functions that it calls, directly or not.
  llvm::DenseMap<mlir::Operation *, std::vector<mlir::func::FuncOp>> reached;
  mlir::SymbolTableCollection symbols;
};

/// Returns "function 'embed' (F of stages 0 to 2)", without the part in
/// parentheses if uses are unknown.
std::string describeWithStages(mlir::func::FuncOp function);

} // namespace pipesched

#endif // PIPESCHED_STAGES_STAGEUSES_H
