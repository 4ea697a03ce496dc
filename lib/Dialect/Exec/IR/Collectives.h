//===- Collectives.h - Checks of a program's collectives --------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Checks that the collectives of all workers match, and that each block of a
// worker is updated and reduced once, after all of its gradients.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_LIB_DIALECT_EXEC_IR_COLLECTIVES_H
#define PIPESCHED_LIB_DIALECT_EXEC_IR_COLLECTIVES_H

#include "PipeSched/Dialect/Exec/IR/Exec.h"
#include "PipeSched/Dialect/Exec/IR/Messages.h"
#include "PipeSched/Schedule/Table/ParameterSets.h"

namespace pipesched::exec {

/// A cell and the number of the instruction that runs it.
struct RunCell {
  Cell cell;
  uint32_t instruction;
};

/// Checks program_c10 to program_c12 of collectives that are grouped by blocks,
/// sorted by name. `ops` are the instructions by number.
mlir::LogicalResult verifyBlockGroups(llvm::ArrayRef<CollectiveEnd> ends,
                                      llvm::ArrayRef<mlir::Operation *> ops,
                                      const Placement &placement,
                                      const ParameterSets &sets);

/// Checks program_c16 of collectives that are grouped by microbatch, sorted by
/// name. `workersOf` lists the workers that must meet for a microbatch,
/// ascending.
mlir::LogicalResult verifyUnitGroups(
    llvm::ArrayRef<CollectiveEnd> ends, llvm::ArrayRef<mlir::Operation *> ops,
    llvm::function_ref<llvm::ArrayRef<int64_t>(int64_t unit)> workersOf);

/// Checks program_c13 and program_c14. `runs` and `ends`, which are grouped by
/// blocks, are in the order of their instructions.
mlir::LogicalResult verifySteps(llvm::ArrayRef<RunCell> runs,
                                llvm::ArrayRef<CollectiveEnd> ends,
                                llvm::ArrayRef<mlir::Operation *> ops,
                                const Placement &placement,
                                const ParameterSets &sets);

} // namespace pipesched::exec

#endif // PIPESCHED_LIB_DIALECT_EXEC_IR_COLLECTIVES_H
