//===- Schedules.h - Placing schedules --------------------------*- C++ -*-===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Common code of the passes that place the stages of schedules.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_LIB_TRANSFORMS_SCHEDULES_H
#define PIPESCHED_LIB_TRANSFORMS_SCHEDULES_H

#include "PipeSched/Dialect/Pipe/IR/ScheduleTable.h"
#include "PipeSched/Schedule/Table/Placement.h"
#include "PipeSched/Transforms/SelectSchedules.h"

namespace pipesched::pipe {

/// Replaces the paths of a schedule by the result of `place`. Errors: the
/// schedule has rows; those of `place`.
mlir::LogicalResult
placeSchedule(ScheduleOp schedule,
              llvm::function_ref<llvm::Expected<std::vector<Path>>()> place);

/// The same for a `place` that returns the only path.
mlir::LogicalResult
placeOnOnePath(ScheduleOp schedule,
               llvm::function_ref<llvm::Expected<Path>()> place);

} // namespace pipesched::pipe

#endif // PIPESCHED_LIB_TRANSFORMS_SCHEDULES_H
