//===- AllReduces.h - Checks of a program's all-reduces ---------*- C++ -*-===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Checks that the all-reduces of all workers match.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_LIB_DIALECT_EXEC_IR_ALLREDUCES_H
#define PIPESCHED_LIB_DIALECT_EXEC_IR_ALLREDUCES_H

#include "PipeSched/Dialect/Exec/IR/Exec.h"
#include "PipeSched/Dialect/Exec/IR/Messages.h"

namespace pipesched::exec {

/// Checks program_c10 to program_c12. `ops` are the instructions by number;
/// `placement` is null if the program has no paths. Sorts `ends`.
mlir::LogicalResult verifyAllReduces(std::vector<AllReduceEnd> &ends,
                                     llvm::ArrayRef<mlir::Operation *> ops,
                                     const Placement *placement);

} // namespace pipesched::exec

#endif // PIPESCHED_LIB_DIALECT_EXEC_IR_ALLREDUCES_H
