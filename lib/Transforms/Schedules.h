//===- Schedules.h - What passes on schedules share -------------*- C++ -*-===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Which schedules of a module a pass treats, and the two ways to fill them.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_LIB_TRANSFORMS_SCHEDULES_H
#define PIPESCHED_LIB_TRANSFORMS_SCHEDULES_H

#include "PipeSched/Dialect/Pipe/IR/ScheduleTable.h"
#include "PipeSched/Schedule/Generators.h"
#include "PipeSched/Transforms/SelectSchedules.h"

namespace pipesched::pipe {

/// Replaces the paths of the selected schedules by those `place` makes. Errors:
/// a schedule with rows; those of `place`.
mlir::LogicalResult placeSchedules(
    mlir::ModuleOp module, llvm::StringRef name,
    llvm::function_ref<llvm::Expected<std::vector<Path>>(ScheduleOp)> place);

/// The same where `place` makes the only path from the number of workers.
mlir::LogicalResult placeOnOnePath(
    mlir::ModuleOp module, llvm::StringRef name,
    llvm::function_ref<llvm::Expected<Path>(int64_t numWorkers)> place);

/// Fills the problems of a module, or the one called `name`: writes rows, the
/// paths where the family has others, and the family with its options. A remark
/// says where microbatches that had a path take another. Errors: no problem; a
/// named schedule with rows; those that `generate` emits.
mlir::LogicalResult fillSchedules(
    mlir::ModuleOp module, llvm::StringRef name, llvm::StringRef family,
    llvm::ArrayRef<mlir::NamedAttribute> options,
    llvm::function_ref<mlir::FailureOr<Table>(ScheduleOp, const Placement &)>
        generate);

} // namespace pipesched::pipe

#endif // PIPESCHED_LIB_TRANSFORMS_SCHEDULES_H
