//===- Backend.h - Runs compiled schedules ----------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Two ways to run an object: on threads of this process, and as processes under
// MPI.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_TOOLS_PIPESCHED_RUN_BACKEND_H
#define PIPESCHED_TOOLS_PIPESCHED_RUN_BACKEND_H

#include "Options.h"
#include "PipeSched/Run/Native.h"
#include "PipeSched/Run/Program.h"

namespace pipesched::run {

/// Runs all steps of a training, and prints the loss and the time of each step.
/// Errors: as for the runtime, such as the waits of all workers in a deadlock.
llvm::Expected<RunResult> runLoopback(const PreparedProgram &program,
                                      const llvm::MemoryBuffer &object,
                                      const Training &training,
                                      const Options &options);

/// The same with mpirun; the training must be among the entries of the object.
/// Errors: a missing mpicc or mpirun; missing sources of the runtime; a program
/// that fails.
llvm::Expected<RunResult> runMpi(const PreparedProgram &program,
                                 const llvm::MemoryBuffer &object,
                                 const Options &options);

/// Returns the names with which linked programs call the functions of a
/// schedule, independent of its name, and access its training. Objects for
/// runMpi and linkExecutable need them.
NativeEntries entriesOf(const PreparedProgram &program,
                        const Training &training);

/// Links an object with the runtime of the backend, and with the libraries of
/// the program's extern functions, to an executable. A signal that ends this
/// process also ends the compiler, and no files remain.
llvm::Error linkExecutable(const llvm::MemoryBuffer &object,
                           const PreparedProgram &program,
                           const Options &options, llvm::StringRef output);

} // namespace pipesched::run

#endif // PIPESCHED_TOOLS_PIPESCHED_RUN_BACKEND_H
