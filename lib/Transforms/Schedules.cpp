//===- Schedules.cpp - Placing and filling schedules ----------------------===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Writes paths and tables into schedules.
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

static bool isSamePath(const Path &a, const Path &b) {
  return a.workers == b.workers && a.takes == b.takes && a.blocks == b.blocks &&
         a.weights == b.weights;
}

/// Writes the paths of the family. A remark says where the family assigns
/// microbatches in another way than the paths of the problem did.
static void replacePaths(ScheduleOp schedule, StringRef family,
                         const Placement &given, const Placement &placement) {
  if (llvm::equal(given.getPaths(), placement.getPaths(), isSamePath))
    return;
  if (given.getNumPaths() > 1 && given.isAssigned())
    emitRemark(schedule.getLoc())
        << family << " assigns microbatches to paths by a rule of its own, "
        << "which replaces what they took";
  storePaths(schedule, placement.getPaths());
}

void pipe::storeTable(ScheduleOp problem, StringRef family,
                      ArrayRef<NamedAttribute> options, Table &&table) {
  replacePaths(problem, family, ScheduleTable(problem).getPlacement(),
               table.placement);
  storeRows(problem, std::move(table.rows));
  problem.setGradientAfter(table.gradientAfter);
  problem.setAligned(table.aligned);
  storeSlots(problem, table.placement, table.slots);
  problem.setFamily(family, options);
}
