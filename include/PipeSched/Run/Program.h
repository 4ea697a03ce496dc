//===- Program.h - Programs and their runs ----------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A program with assigned buffers, the code that is made from it, and the
// results of a run.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_RUN_PROGRAM_H
#define PIPESCHED_RUN_PROGRAM_H

#include "PipeSched/Adapter/LoadProgram.h"
#include "PipeSched/Conversion/Passes.h"
#include "PipeSched/Run/ExternLibraries.h"
#include "PipeSched/Run/State.h"
#include "mlir/IR/OwningOpRef.h"

namespace pipesched::run {

/// A program in its module, ready for code generation.
struct PreparedProgram {
  mlir::OwningOpRef<mlir::ModuleOp> module;
  std::string name; ///< of the schedule or program
  /// The compiled module, if it is not `module`: it has the schedule, from
  /// which code is made without ops for its instructions.
  mlir::OwningOpRef<mlir::ModuleOp> source;
  /// Null if the generated code needs no program. Then there are no module and
  /// no facts, only the source.
  exec::ProgramOp op;
  LoadedProgram loaded; ///< refers to `module`
  /// These and the layouts are set for runs and for executables. They refer to
  /// `module`, or if it is null to the source.
  StageFunctions functions;
  std::vector<PersistentLayout> layouts; ///< by worker
  bool updates = false;                  ///< whether it updates the parameters
  /// The files of the extern functions that stages name.
  std::vector<ExternLibrary> libraries;

  exec::ProgramOp getOp() const { return op; }
  /// Returns the program, or the schedule if there is no program.
  pipe::PlacementOwnerOpInterface getOwner() const;
  llvm::StringRef getName() const { return name; }
};

struct CodeOptions {
  ProgramForm form = ProgramForm::Table;
  /// Passes that first change the functions of stages.
  llvm::StringRef stagePipeline;
};

/// Lowers the source, which is consumed, or a copy of the module to the LLVM
/// dialect. Errors are emitted: a text that is not a pipeline; functions that
/// its passes have replaced.
mlir::FailureOr<mlir::OwningOpRef<mlir::ModuleOp>>
lowerToLLVM(PreparedProgram &program, const CodeOptions &options);

struct Span {
  int64_t begin, end; ///< ns on a clock that all workers share
};

/// When the instructions of one worker ran. Instructions are numbered in the
/// order of its text; `exec.wait` has no number.
struct WorkerLog {
  int64_t numInstructions = 0;
  std::vector<Span> instructions; ///< [step][instruction]
  std::vector<Span> steps;

  Span at(int64_t step, int64_t instruction) const {
    return instructions[step * numInstructions + instruction];
  }
};

struct RunResult {
  std::vector<Memory> blocks; ///< by worker, after the last step
  std::vector<WorkerLog> logs;

  int64_t getNumSteps() const { return logs.front().steps.size(); }
  /// Returns the time from the first start to the last end of any worker.
  Span spanOf(int64_t step) const;
};

/// Returns the sum of the losses of all microbatches, in order.
double lossOf(const PreparedProgram &program, llvm::ArrayRef<Memory> blocks);

} // namespace pipesched::run

#endif // PIPESCHED_RUN_PROGRAM_H
