//===- Kernels.h - Calls of a cell ------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A kernel does the work of the cells of one stage and phase: calls of the
// stage's functions, and the tensors that these read and write. Assignment of
// buffers, lowering and the arguments of `buffers` in exec use its order.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_STAGES_KERNELS_H
#define PIPESCHED_STAGES_KERNELS_H

#include "PipeSched/Stages/StageFunctions.h"

namespace pipesched {

/// The name of a tensor of a stage and microbatch, in the arena of its worker.
struct ActivationName {
  /// Input, Output, their gradients, Residual, Target; Earlier or its gradient,
  /// which the slices of a microbatch share; or, for a shard, LastOutput, its
  /// gradient and Partials.
  pipe::StageRole role;
  unsigned index = 0; ///< for named roles: index into their list of Stage

  bool isShared() const {
    return role == pipe::StageRole::Earlier ||
           role == pipe::StageRole::EarlierGradient;
  }

  friend bool operator==(ActivationName a, ActivationName b) {
    return a.role == b.role && a.index == b.index;
  }
};

mlir::RankedTensorType typeOf(const StageFunctions &functions,
                              const Stage &stage, ActivationName name);

/// The source of an argument of a call, or the destination of a result.
struct KernelOperand {
  enum class Kind {
    Buffer,   ///< StageKernel::buffers[index]
    Param,    ///< Stage::params[index]
    Gradient, ///< Stage::gradients[index], the sum of the step
    State,    ///< Stage::states[index]
    Loss,     ///< the loss of the microbatch
    Microbatch,
    Slice,
    Step,
    Shard ///< the number of the shard
  };
  Kind kind;
  unsigned index = 0;
};

struct KernelCall {
  const StageFunction *function;
  llvm::SmallVector<KernelOperand> arguments, results; ///< as the function's

  /// Whether a result that is a gradient, or an EarlierGradient, is the new
  /// sum, because the function takes the old sum. Otherwise the result must be
  /// added to the sum.
  bool givesSum(unsigned result) const;
  /// Whether a result is the part of one shard of its buffer. The buffer has
  /// the parts of all shards, and other places are zero.
  bool givesPartial(unsigned result) const;
};

/// Creates a copy of `whole`, the value that all slices share, with the
/// residual of one slice in its place. The shape of `whole` is slices x the
/// shape of `residual`.
mlir::Value putSlice(mlir::OpBuilder &builder, mlir::Location loc,
                     mlir::Value residual, mlir::Value whole,
                     mlir::OpFoldResult slice);

/// A residual that the kernel also writes into its slice of an Earlier.
struct KernelCopy {
  unsigned residual, earlier; ///< into StageKernel::buffers
};

struct KernelBuffer {
  ActivationName name;
  mlir::RankedTensorType type;
  int64_t bytes;       ///< of its elements
  bool isRead = false; ///< before the kernel writes it
  /// Written completely; if slices share it, a part.
  bool isWritten = false;

  /// If slices share the buffer and this kernel changes it: the slice whose
  /// cell zeroes it first. F runs from the first slice on, the backward from
  /// the last.
  std::optional<int64_t> begunBy(int64_t numSlices) const {
    if (!name.isShared() || !isWritten)
      return std::nullopt;
    return name.role == pipe::StageRole::Earlier ? 0 : numSlices - 1;
  }
};

/// The functions of F, R, B, I, W or O of a stage, in order:
///
///   F   data (first stage), forward
///   R   recompute, or forward if there is none
///   B   target and loss (last stage), backward, or I's and W's functions
///   I   target and loss (last stage), input_gradient
///   W   weight_gradient
///   O   update
struct StageKernel {
  const Stage *stage = nullptr;
  Phase phase = Phase::Forward;
  llvm::SmallVector<KernelCall> calls;
  /// The activations that the kernel accesses, each once, in the order of its
  /// calls. Arguments come before results.
  llvm::SmallVector<KernelBuffer> buffers;
  llvm::SmallVector<KernelCopy, 2> copies;

  /// Whether it needs the number of the stage's shard.
  bool takesShard() const;
};

/// The kernels of all stages. Keeps a reference to `functions`.
class StageKernels {
public:
  /// Needs `functions` that loadStageFunctions returned.
  explicit StageKernels(const StageFunctions &functions);

  const StageFunctions &getFunctions() const { return functions; }

  /// The kernel of a cell of phase F, B, I, W, R, O, S or T; null if the stage
  /// has no function for it.
  const StageKernel *find(int64_t stage, Phase phase) const;

private:
  const StageFunctions &functions;
  std::vector<PhaseMap<std::optional<StageKernel>>> kernels; ///< by stage
};

} // namespace pipesched

#endif // PIPESCHED_STAGES_KERNELS_H
