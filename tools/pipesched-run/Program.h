//===- Program.h - The program to run ---------------------------*- C++ -*-===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// From a file with functions of stages to an exec.program whose buffers are
// assigned.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_TOOLS_PIPESCHED_RUN_PROGRAM_H
#define PIPESCHED_TOOLS_PIPESCHED_RUN_PROGRAM_H

#include "Options.h"
#include "PipeSched/Adapter/LoadProgram.h"
#include "PipeSched/Stages/PersistentLayout.h"
#include "mlir/IR/OwningOpRef.h"

namespace pipesched::run {

/// Dialects and interfaces that reading, compiling and running need.
void registerAll(mlir::DialectRegistry &registry);

/// A program in its module, ready for code generation.
struct PreparedProgram {
  mlir::OwningOpRef<mlir::ModuleOp> module;
  std::string name; ///< of the schedule or program
  /// What is compiled, if that is not `module`: the schedule, from which code
  /// is made without ops for its instructions.
  mlir::OwningOpRef<mlir::ModuleOp> source;
  /// Null where code is written that needs no program: then there are no module
  /// and no facts, only the source.
  exec::ProgramOp op;
  LoadedProgram loaded; ///< refers to `module`
  /// These and the layouts are known of what runs and of executables. They
  /// refer to `module`, or to the source where there is none.
  StageFunctions functions;
  std::vector<PersistentLayout> layouts; ///< by worker
  bool updates = false;                  ///< whether it steps the parameters

  exec::ProgramOp getOp() const { return op; }
  /// The program, or the schedule where there is none.
  pipe::PlacementOwnerOpInterface getOwner() const;
  llvm::StringRef getName() const { return name; }
};

/// Reads the file, chooses and fills the schedule, adds G and O, proves it and,
/// for a run or a paced executable, assigns its buffers. Errors are emitted: no
/// schedule with stages, or several; a family that needs another number of
/// stages than the file has; a stage that no data reaches; those of the passes.
mlir::FailureOr<PreparedProgram> prepare(const Options &options,
                                         mlir::MLIRContext &context);

/// Lowers the source, which it takes, or a copy of the module to the LLVM
/// dialect.
mlir::FailureOr<mlir::OwningOpRef<mlir::ModuleOp>>
lowerToLLVM(PreparedProgram &program, ProgramForm form);

} // namespace pipesched::run

#endif // PIPESCHED_TOOLS_PIPESCHED_RUN_PROGRAM_H
