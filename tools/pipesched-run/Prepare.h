//===- Prepare.h - The program to run ---------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Makes an exec.program with assigned buffers from a file with stage functions.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_TOOLS_PIPESCHED_RUN_PREPARE_H
#define PIPESCHED_TOOLS_PIPESCHED_RUN_PREPARE_H

#include "Options.h"
#include "PipeSched/Run/Program.h"

namespace pipesched::run {

/// Registers dialects and interfaces for reading, compiling and running.
void registerAll(mlir::DialectRegistry &registry);

/// Registers upstream's passes that change functions of stages, for --pipeline
/// and --stage-pipeline.
void registerUpstreamPasses();

/// Registers the passes and dialects of plugins. Errors: a file that is not a
/// plugin, is for another version of LLVM, or has a separate MLIR.
llvm::Error loadPlugins(const Options &options,
                        mlir::DialectRegistry &registry);

/// Reads the file, selects and fills the schedule, adds G and O, proves it and,
/// for a run or a paced executable, assigns its buffers. Errors are emitted: no
/// schedule with stages, or several; a family that needs another number of
/// stages than the file has; a stage without data; errors of the passes.
mlir::FailureOr<PreparedProgram> prepare(const Options &options,
                                         mlir::MLIRContext &context);

} // namespace pipesched::run

#endif // PIPESCHED_TOOLS_PIPESCHED_RUN_PREPARE_H
