//===- LoadProgram.h - An exec.program as arrays ----------------*- C++ -*-===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What analyses read of a program: instructions, placement and stated work,
// with the op of each instruction for results and diagnostics.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_ADAPTER_LOADPROGRAM_H
#define PIPESCHED_ADAPTER_LOADPROGRAM_H

#include "PipeSched/Dialect/Exec/IR/Exec.h"
#include "PipeSched/Evaluation/StatedWork.h"

namespace pipesched {

struct LoadedProgram {
  Program program;
  Placement placement;
  GradientAfter gradientAfter = GradientAfter::InputGrad;
  /// By instruction; both halves of an overlapped pair have the same op.
  std::vector<mlir::Operation *> ops;
  std::vector<StatedWork> work; ///< ascending by instruction
};

/// Reads a verified program, in the order of its workers. Without pipe.path ops
/// one path is implied: stage s is on the worker that computes it. Errors,
/// emitted at the op: a stage computed by two workers or by none where paths
/// are implied; more than 2^32 - 2 instructions.
mlir::FailureOr<LoadedProgram> loadProgram(exec::ProgramOp program);

/// Emits why an analysis failed. A deadlock is an error at the program with one
/// note per wait at the waiting op, at most eight, then a count; `condition`
/// says under what it deadlocks ("messages=fifo").
mlir::LogicalResult emitAnalysisError(exec::ProgramOp program,
                                      const LoadedProgram &loaded,
                                      llvm::Error error,
                                      llvm::StringRef condition = "");

} // namespace pipesched

#endif // PIPESCHED_ADAPTER_LOADPROGRAM_H
