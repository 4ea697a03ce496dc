//===- Schedules.h - Placing schedules --------------------------*- C++ -*-===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What passes that place schedules share.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_LIB_TRANSFORMS_SCHEDULES_H
#define PIPESCHED_LIB_TRANSFORMS_SCHEDULES_H

#include "PipeSched/Dialect/Pipe/IR/ScheduleTable.h"
#include "PipeSched/Schedule/Placement.h"
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

} // namespace pipesched::pipe

#endif // PIPESCHED_LIB_TRANSFORMS_SCHEDULES_H
