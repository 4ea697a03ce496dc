//===- Check.h - Compares a run with the unpipelined model ------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Compares losses, gradients, parameters and states of all workers with the
// reference.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_RUN_CHECK_H
#define PIPESCHED_RUN_CHECK_H

#include "PipeSched/Run/Program.h"
#include "PipeSched/Run/State.h"

namespace pipesched::run {

/// Prints a line for each kind of tensor: the number of tensors, the number of
/// tensors that equal the reference bit by bit, and the tensor with the largest
/// error. The error of a tensor is the largest difference of an element,
/// relative to the largest element of the reference. Returns whether all errors
/// are at most `tolerance`. If replicas of a stage are not summed (the program
/// has no G), the sum of their gradients is compared.
bool checkRun(const PreparedProgram &program, llvm::ArrayRef<Memory> workers,
              const PersistentLayout &model, const Memory &reference,
              double tolerance, int64_t numSteps, llvm::raw_ostream &os);

} // namespace pipesched::run

#endif // PIPESCHED_RUN_CHECK_H
