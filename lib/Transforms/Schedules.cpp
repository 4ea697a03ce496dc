//===- Schedules.cpp - Placing schedules ----------------------------------===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Writes paths into schedules without rows.
//
//===----------------------------------------------------------------------===//

#include "Schedules.h"

using namespace mlir;
using namespace pipesched;
using namespace pipesched::pipe;

LogicalResult pipe::placeSchedule(
    ScheduleOp schedule,
    llvm::function_ref<llvm::Expected<std::vector<Path>>()> place) {
  if (!schedule.isProblem())
    return emitTableError(schedule)
           << "has rows, whose stages another placement would move; only a "
              "schedule without rows can be placed";
  llvm::Expected<std::vector<Path>> paths = place();
  if (!paths)
    return emitTableError(schedule)
           << "cannot be placed: " << llvm::toString(paths.takeError());
  storePaths(schedule, *paths);
  return success();
}

LogicalResult
pipe::placeOnOnePath(ScheduleOp schedule,
                     llvm::function_ref<llvm::Expected<Path>()> place) {
  return placeSchedule(schedule, [&]() -> llvm::Expected<std::vector<Path>> {
    llvm::Expected<Path> path = place();
    if (!path)
      return path.takeError();
    return std::vector<Path>{std::move(*path)};
  });
}
