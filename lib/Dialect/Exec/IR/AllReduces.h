//===- AllReduces.h - Checks of a program's all-reduces ---------*- C++ -*-===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Checks that the all-reduces of all workers match, and that each block of a
// worker is stepped and reduced once, behind all of its gradients.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_LIB_DIALECT_EXEC_IR_ALLREDUCES_H
#define PIPESCHED_LIB_DIALECT_EXEC_IR_ALLREDUCES_H

#include "PipeSched/Dialect/Exec/IR/Exec.h"
#include "PipeSched/Dialect/Exec/IR/Messages.h"
#include "PipeSched/Schedule/Table/ParameterSets.h"

namespace pipesched::exec {

/// A cell and the number of the instruction that runs it.
struct RunCell {
  Cell cell;
  uint32_t instruction;
};

/// Checks program_c10 to program_c12. `ops` are the instructions by number.
/// Sorts `ends`.
mlir::LogicalResult verifyAllReduces(std::vector<AllReduceEnd> &ends,
                                     llvm::ArrayRef<mlir::Operation *> ops,
                                     const Placement &placement,
                                     const ParameterSets &sets);

/// Checks program_c13 and program_c14. `runs` and `ends` are in the order of
/// their instructions.
mlir::LogicalResult verifySteps(llvm::ArrayRef<RunCell> runs,
                                llvm::ArrayRef<AllReduceEnd> ends,
                                llvm::ArrayRef<mlir::Operation *> ops,
                                const Placement &placement,
                                const ParameterSets &sets);

} // namespace pipesched::exec

#endif // PIPESCHED_LIB_DIALECT_EXEC_IR_ALLREDUCES_H
