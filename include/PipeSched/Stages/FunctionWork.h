//===- FunctionWork.h - FLOPs and bytes of a function -----------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Counts the FLOPs and bytes of a function on tensors, op by op, contractions
// and everything else separately. docs/StageCosts.md has the rules.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_STAGES_FUNCTIONWORK_H
#define PIPESCHED_STAGES_FUNCTIONWORK_H

#include "PipeSched/Facts/Facts.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/SetVector.h"

namespace pipesched {

/// Runs of ops of one name that do equal work.
struct OpWork {
  std::string name; ///< of the op, such as linalg.matmul
  EngineWork run;   ///< one run, its bytes without fusion
  int64_t count = 1;
};

/// The work of one call of a function. Contractions are on Engine::Matrix, all
/// other FLOPs on Engine::Vector.
struct FunctionWork {
  std::vector<OpWork> ops; ///< ops with FLOPs or bytes, by first run
  int64_t contractionFlops = 0, vectorFlops = 0;
  /// Every op reads its operands from memory and writes its results to it. The
  /// payload of ops on Engine::Link is not among them.
  int64_t unfusedBytes = 0;
  /// One kernel reads the arguments that are used and writes the results; not
  /// more than `unfusedBytes`.
  int64_t fusedBytes = 0;
};

/// The bytes of a tensor in memory: whole bytes for each element, 8 for an
/// index. Nothing if it is not a ranked tensor of static shape whose elements
/// are numbers, or if the bytes are over int64.
std::optional<int64_t> bytesOfTensor(mlir::Type type);

/// The work of functions; each is counted once, even if it is called several
/// times.
class FunctionWorkAnalysis {
public:
  /// Errors, emitted at the op: a dynamic or unranked tensor, or a memref; an
  /// op that has no known work and no StageWorkOpInterface; a loop whose bounds
  /// are not constant; a recursive call, or one of a function without a body;
  /// work over int64. Calls on the way to the op are attached as notes.
  mlir::FailureOr<FunctionWork> compute(mlir::func::FuncOp function);

private:
  class Counter;

  mlir::FailureOr<FunctionWork> count(mlir::func::FuncOp function);

  llvm::DenseMap<mlir::Operation *, FunctionWork> known;
  llvm::SetVector<mlir::Operation *> open;    ///< being counted, by call depth
  llvm::SmallVector<mlir::Operation *> calls; ///< the calls in progress
};

} // namespace pipesched

#endif // PIPESCHED_STAGES_FUNCTIONWORK_H
