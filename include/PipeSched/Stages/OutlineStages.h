//===- OutlineStages.h - A function cut into stages -------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Cuts a function whose ops name their stage and phase into the functions that
// the clauses of a schedule name (docs/Frontends.md).
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_STAGES_OUTLINESTAGES_H
#define PIPESCHED_STAGES_OUTLINESTAGES_H

#include "PipeSched/Dialect/Pipe/IR/Pipe.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace pipesched {

/// The functions of one stage by kind; null if the stage has none of the kind.
struct OutlinedStage {
  mlir::func::FuncOp functions[kNumEnumValues<pipe::StageFunctionKind>];

  mlir::func::FuncOp get(pipe::StageFunctionKind kind) const {
    return functions[static_cast<unsigned>(kind)];
  }
};

/// The functions of a pipeline. The loss is a function of the last stage.
struct OutlinedStages {
  std::vector<OutlinedStage> stages;
};

/// Whether an op of the function has `pipe.stage` or `pipe.phase`, or is an
/// `mpmd.fragment`.
bool namesStages(mlir::func::FuncOp function);

/// Replaces each `mpmd.fragment` (in generic form) by the ops of its region,
/// which get its stage and phase, each `mpmd.transfer` by its operand, and mesh
/// tensors by tensors. Errors are emitted at the fragment: no stage; origins
/// whose transpose counts differ or are above 1; a region that returns another
/// number of values than the fragment.
mlir::LogicalResult flattenFragments(mlir::func::FuncOp function);

/// Makes a function of each stage and phase, before `function`, which stays as
/// it is. With `splitBackward`, the ops of a backward that the gradient of the
/// stage's input needs become its input_gradient, and the rest its
/// weight_gradient. Errors are emitted at the op: one whose stage is unknown;
/// one that takes a value that cannot reach its stage and phase, or a second
/// value where a message carries one; a value between functions that is not a
/// static tensor; a gradient whose shape differs from the shape of its value.
mlir::FailureOr<OutlinedStages> outlineStages(mlir::func::FuncOp function,
                                              bool splitBackward);

/// Adds clauses that name the functions to a schedule. Errors: it has such
/// clauses, or paths with another number of stages.
mlir::LogicalResult addStageClauses(pipe::ScheduleOp schedule,
                                    const OutlinedStages &outlined);

/// Emits a remark at the forward of each stage with the tensors and bytes that
/// it exchanges with the next one for a microbatch.
void reportMessages(const OutlinedStages &outlined);

} // namespace pipesched

#endif // PIPESCHED_STAGES_OUTLINESTAGES_H
