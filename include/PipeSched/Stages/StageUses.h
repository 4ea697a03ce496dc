//===- StageUses.h - Where functions of stages run --------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Functions outlive the schedule that names them. A text on each of them says
// for errors which stages it belongs to.
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

/// Collects the uses of functions and writes them on these.
class StageUses {
public:
  /// `function` runs as `what`, a phase ("F") or a clause ("init"), of `stage`;
  /// so does everything that it calls.
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

/// "function 'embed' (F of stages 0 to 2)", without the part in parentheses if
/// uses are not known.
std::string describeWithStages(mlir::func::FuncOp function);

} // namespace pipesched

#endif // PIPESCHED_STAGES_STAGEUSES_H
