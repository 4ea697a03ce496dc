//===- Schedules.cpp - What passes on schedules share ---------------------===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Selection by name, placing and filling.
//
//===----------------------------------------------------------------------===//

#include "Schedules.h"
#include "PipeSched/Support/ClosestName.h"

using namespace mlir;
using namespace pipesched;
using namespace pipesched::pipe;

static LogicalResult emitUnknownName(ModuleOp module,
                                     ArrayRef<ScheduleOp> schedules,
                                     StringRef name) {
  auto names = llvm::map_to_vector(
      schedules, [](ScheduleOp schedule) { return schedule.getSymName(); });
  return emitError(module.getLoc())
         << "no pipe.schedule is called @" << name << ", the closest is @"
         << closestName(name, names);
}

FailureOr<SmallVector<ScheduleOp>> pipe::selectSchedules(ModuleOp module,
                                                         StringRef name) {
  auto schedules = llvm::to_vector(module.getOps<ScheduleOp>());
  if (schedules.empty())
    return emitError(module.getLoc(), "the module has no pipe.schedule");
  if (name.empty())
    return schedules;
  for (ScheduleOp schedule : schedules)
    if (schedule.getSymName() == name)
      return SmallVector<ScheduleOp>{schedule};
  return emitUnknownName(module, schedules, name);
}

FailureOr<SmallVector<ScheduleOp>> pipe::selectSolutions(ModuleOp module,
                                                         StringRef name) {
  FailureOr<SmallVector<ScheduleOp>> schedules = selectSchedules(module, name);
  if (failed(schedules))
    return failure();
  if (!name.empty() && schedules->front().isProblem())
    return emitTableError(schedules->front()) << "has no rows";
  llvm::erase_if(*schedules,
                 [](ScheduleOp schedule) { return schedule.isProblem(); });
  return schedules;
}

LogicalResult pipe::placeSchedules(
    ModuleOp module, StringRef name,
    llvm::function_ref<llvm::Expected<std::vector<Path>>(ScheduleOp)> place) {
  FailureOr<SmallVector<ScheduleOp>> schedules = selectSchedules(module, name);
  if (failed(schedules))
    return failure();
  for (ScheduleOp schedule : *schedules) {
    if (!schedule.isProblem())
      return emitTableError(schedule)
             << "has rows, whose stages another placement would move; only a "
                "schedule without rows can be placed";
    llvm::Expected<std::vector<Path>> paths = place(schedule);
    if (!paths)
      return emitTableError(schedule)
             << "cannot be placed: " << llvm::toString(paths.takeError());
    storePaths(schedule, *paths);
  }
  return success();
}

LogicalResult
pipe::placeOnOnePath(ModuleOp module, StringRef name,
                     llvm::function_ref<llvm::Expected<Path>(int64_t)> place) {
  auto placeAll = [&](ScheduleOp op) -> llvm::Expected<std::vector<Path>> {
    llvm::Expected<Path> path = place(op.getWorkers());
    if (!path)
      return path.takeError();
    return std::vector<Path>{std::move(*path)};
  };
  return placeSchedules(module, name, placeAll);
}

/// Schedules without rows; a named one must be such.
static FailureOr<SmallVector<ScheduleOp>> selectProblems(ModuleOp module,
                                                         StringRef name) {
  FailureOr<SmallVector<ScheduleOp>> schedules = selectSchedules(module, name);
  if (failed(schedules))
    return failure();
  if (!name.empty() && !schedules->front().isProblem())
    return emitTableError(schedules->front()) << "has rows already";
  llvm::erase_if(*schedules,
                 [](ScheduleOp schedule) { return !schedule.isProblem(); });
  if (schedules->empty())
    return emitError(module.getLoc(),
                     "every pipe.schedule of the module has rows already");
  return schedules;
}

static bool isSamePath(const Path &a, const Path &b) {
  return a.workers == b.workers && a.takes == b.takes && a.blocks == b.blocks &&
         a.weights == b.weights;
}

/// Writes the paths of the family, with a remark where it overrules what paths
/// were to take.
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

LogicalResult pipe::fillSchedules(
    ModuleOp module, StringRef name, StringRef family,
    ArrayRef<NamedAttribute> options,
    llvm::function_ref<FailureOr<Table>(ScheduleOp, const Placement &)>
        generate) {
  FailureOr<SmallVector<ScheduleOp>> schedules = selectProblems(module, name);
  if (failed(schedules))
    return failure();
  for (ScheduleOp schedule : *schedules) {
    ScheduleTable problem(schedule);
    FailureOr<Table> table = generate(schedule, problem.getPlacement());
    if (failed(table))
      return failure();
    replacePaths(schedule, family, problem.getPlacement(), table->placement);
    storeRows(schedule, std::move(table->rows));
    schedule.setGradientAfter(table->gradientAfter);
    schedule.setAligned(table->aligned);
    storeSlots(schedule, table->placement, table->slots);
    schedule.setFamily(family, options);
  }
  return success();
}
