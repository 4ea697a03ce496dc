//===- Backend.h - Runs compiled schedules ----------------------*- C++ -*-===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Two ways to run an object: threads of this process, and processes under MPI.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_TOOLS_PIPESCHED_RUN_BACKEND_H
#define PIPESCHED_TOOLS_PIPESCHED_RUN_BACKEND_H

#include "Native.h"
#include "Options.h"
#include "Program.h"
#include "State.h"

namespace pipesched::run {

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
  /// From the first start of a worker to the last end.
  Span spanOf(int64_t step) const;
};

/// The sum of the losses of all microbatches, in their order.
double lossOf(const PreparedProgram &program, llvm::ArrayRef<Memory> blocks);

/// Runs all steps of a training, and prints the loss and the time of each step.
/// Errors: those of the runtime, such as what each worker waits for in a
/// deadlock.
llvm::Expected<RunResult> runLoopback(const PreparedProgram &program,
                                      const llvm::MemoryBuffer &object,
                                      const Training &training,
                                      const Options &options);

/// The same by mpirun; the object has the training among its entries. Errors: a
/// missing mpicc or mpirun; sources of the runtime that are not found; a
/// program that fails.
llvm::Expected<RunResult> runMpi(const PreparedProgram &program,
                                 const llvm::MemoryBuffer &object,
                                 const Options &options);

/// The names by which linked programs call the functions of a schedule,
/// whatever it is called, and take its training; objects for runMpi and
/// linkExecutable need them.
NativeEntries entriesOf(const PreparedProgram &program,
                        const Training &training);

/// Links an object with the runtime of the backend to a program. A signal that
/// ends this process ends the compiler, and no file stays.
llvm::Error linkExecutable(const llvm::MemoryBuffer &object,
                           const Options &options, llvm::StringRef output);

} // namespace pipesched::run

#endif // PIPESCHED_TOOLS_PIPESCHED_RUN_BACKEND_H
