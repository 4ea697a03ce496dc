//===- LoadProgram.h - An exec.program as arrays ----------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The arrays of a program that analyses read: instructions, placement and
// stated work, and the op of each instruction for results and diagnostics.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_ADAPTER_LOADPROGRAM_H
#define PIPESCHED_ADAPTER_LOADPROGRAM_H

#include "PipeSched/Dialect/Exec/IR/Exec.h"
#include "PipeSched/Evaluation/StatedWork.h"
#include "PipeSched/Schedule/Program/MessageSemantics.h"

namespace pipesched {

/// Whether to list the op of each instruction. Most analyses do not need ops,
/// which take a quarter of the memory of a loaded program.
enum class ListOps : bool { No, Yes };

struct LoadedProgram {
  Program program;
  Placement placement;
  GradientAfter gradientAfter = GradientAfter::InputGrad;
  /// As returned by listOps(), or empty.
  std::vector<mlir::Operation *> ops;
  std::vector<StatedWork> work; ///< ascending by instruction
};

/// Reads a verified program in the order of its workers. A program without
/// pipe.path ops has one implied path: stage s is on the worker that computes
/// it. Errors, emitted at the op: an implied path with a stage that no worker
/// or two workers compute; a wait for a token that no instruction makes; an
/// instruction that does not wait for its inputs (EarlyReads.h); more than 2^32
/// - 2 instructions. Linear in instructions, unless the ops are scattered in
/// memory or messages are out of order.
mlir::FailureOr<LoadedProgram> loadProgram(exec::ProgramOp program,
                                           ListOps listOps = ListOps::Yes);

/// Returns the ops by instruction; both halves of an overlapped pair have the
/// same op.
std::vector<mlir::Operation *> listOps(exec::ProgramOp program);

/// Emits the error of an analysis. A deadlock is an error at the program with
/// one note per wait at the waiting op: at most eight notes, then the number of
/// the others. `condition` states under which condition it deadlocks
/// ("messages=fifo").
mlir::LogicalResult emitAnalysisError(exec::ProgramOp program,
                                      const LoadedProgram &loaded,
                                      llvm::Error error,
                                      llvm::StringRef condition = "");

/// Proves that a program finishes (Messages.h). Errors, emitted: as for
/// loadProgram and emitAnalysisError.
mlir::LogicalResult verifyMessages(exec::ProgramOp program,
                                   MessageSemantics semantics);

} // namespace pipesched

#endif // PIPESCHED_ADAPTER_LOADPROGRAM_H
