//===- Schedules.h - Placing and filling schedules --------------*- C++ -*-===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The two ways in which a pass fills a schedule: with paths and with rows.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_LIB_TRANSFORMS_SCHEDULES_H
#define PIPESCHED_LIB_TRANSFORMS_SCHEDULES_H

#include "PipeSched/Dialect/Pipe/IR/ScheduleTable.h"
#include "PipeSched/Schedule/Generators.h"
#include "PipeSched/Transforms/SelectSchedules.h"

namespace pipesched::pipe {

/// Replaces the paths of a schedule by those that `place` makes. Errors: the
/// schedule has rows; those of `place`.
mlir::LogicalResult
placeSchedule(ScheduleOp schedule,
              llvm::function_ref<llvm::Expected<std::vector<Path>>()> place);

/// The same where `place` makes the only path.
mlir::LogicalResult
placeOnOnePath(ScheduleOp schedule,
               llvm::function_ref<llvm::Expected<Path>()> place);

/// Writes the table that a family made for a problem: its rows, its paths where
/// they differ from those of the problem, and the family with its options. A
/// remark says that microbatches that had a path take another.
void storeTable(ScheduleOp problem, llvm::StringRef family,
                llvm::ArrayRef<mlir::NamedAttribute> options, Table &&table);

} // namespace pipesched::pipe

#endif // PIPESCHED_LIB_TRANSFORMS_SCHEDULES_H
