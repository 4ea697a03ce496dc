//===- FunctionWork.h - FLOPs and bytes of a function -----------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Counts the FLOPs and bytes of a function on tensors op by op, separately for
// contractions and for all other ops. docs/StageCosts.md has the rules.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_STAGES_FUNCTIONWORK_H
#define PIPESCHED_STAGES_FUNCTIONWORK_H

#include "PipeSched/Facts/Facts.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/SetVector.h"

namespace pipesched {

/// Runs of ops with the same name and equal work.
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
  /// Bytes if every op reads its operands from memory and writes its results to
  /// it. The payload of ops on Engine::Link is not included.
  int64_t unfusedBytes = 0;
  /// Bytes if one kernel reads all used arguments and writes the results; at
  /// most `unfusedBytes`.
  int64_t fusedBytes = 0;
};

/// Returns the bytes of a tensor in memory: whole bytes for each element, 8 for
/// an index. Returns nothing if it is not a ranked tensor of static shape whose
/// elements are numbers, or if the bytes exceed int64.
std::optional<int64_t> bytesOfTensor(mlir::Type type);

/// The work of functions. Each function is counted once, even if it is called
/// several times.
class FunctionWorkAnalysis {
public:
  /// Counts the work of a function. Errors, emitted at the op: a dynamic or
  /// unranked tensor, or a memref; an op that has no known work and no
  /// StageWorkOpInterface; a loop whose bounds are not constant; a recursive
  /// call, or a call of a function without a body; work over int64. Notes list
  /// the calls that lead to the op.
  mlir::FailureOr<FunctionWork> compute(mlir::func::FuncOp function);

private:
  class Counter;

  mlir::FailureOr<FunctionWork> count(mlir::func::FuncOp function);

  llvm::DenseMap<mlir::Operation *, FunctionWork> known;
  /// Functions being counted, by call depth.
  llvm::SetVector<mlir::Operation *> open;
  llvm::SmallVector<mlir::Operation *> calls; ///< the calls in progress
};

} // namespace pipesched

#endif // PIPESCHED_STAGES_FUNCTIONWORK_H
