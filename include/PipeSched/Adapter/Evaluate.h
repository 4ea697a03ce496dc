//===- Evaluate.h - From ops to results -------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Evaluates a schedule or a program with the model, profile and system that its
// op names. Exports and annotations use these functions.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_ADAPTER_EVALUATE_H
#define PIPESCHED_ADAPTER_EVALUATE_H

#include "PipeSched/Evaluation/NamedEvaluation.h"
#include "mlir/IR/Operation.h"

namespace pipesched {

/// Returns the `pipe.schedule` and `exec.program` ops at or below `root`, in
/// order.
llvm::SmallVector<mlir::Operation *> findEvaluables(mlir::Operation *root);

/// Loads one of these ops as a table; needs no costs. The result refers to the
/// rows, which must outlive it. Errors, emitted at the op: a program; a
/// schedule without rows; a table that `verifyTable` rejects.
mlir::FailureOr<NamedTable> loadTable(mlir::Operation *op);

/// Evaluates one of these ops. The result refers to the rows of a schedule,
/// which must outlive it. Errors, emitted at the op: a schedule without rows; a
/// table that `verifyTable` rejects; a deadlock, as its cycle; costs that do
/// not cover the rows.
mlir::FailureOr<NamedEvaluation> evaluate(mlir::Operation *op,
                                          const TimingOptions &options);

/// The same, with these costs instead of the costs that the op names.
mlir::FailureOr<NamedEvaluation> evaluate(mlir::Operation *op,
                                          const CostInputs &costs,
                                          const TimingOptions &options);

} // namespace pipesched

#endif // PIPESCHED_ADAPTER_EVALUATE_H
