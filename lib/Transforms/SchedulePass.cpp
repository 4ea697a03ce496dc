//===- SchedulePass.cpp - Passes on pipe.schedule -------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Selects schedules by name and by whether they have rows, and processes them
// in parallel.
//
//===----------------------------------------------------------------------===//

#include "SchedulePass.h"
#include "PipeSched/Dialect/Exec/IR/Exec.h"
#include "PipeSched/Dialect/Pipe/IR/ScheduleTable.h"
#include "PipeSched/Support/ClosestName.h"
#include "mlir/IR/Threading.h"
#include <atomic>

using namespace mlir;
using namespace pipesched;
using namespace pipesched::pipe;

static LogicalResult emitUnknownName(ModuleOp module,
                                     ArrayRef<ScheduleOp> schedules,
                                     StringRef name) {
  auto names = llvm::map_to_vector(
      schedules, [](ScheduleOp schedule) { return schedule.getSymName(); });
  return emitError(module.getLoc())
         << "no pipe.schedule is called @" << name << nameHint(name, names);
}

FailureOr<SmallVector<exec::ProgramOp>> pipe::selectPrograms(ModuleOp module) {
  auto programs = llvm::to_vector(module.getOps<exec::ProgramOp>());
  if (!programs.empty())
    return programs;
  emitError(module.getLoc(),
            "the module has no exec.program; run convert-pipe-to-exec first");
  return failure();
}

LogicalResult
pipe::forEachProgram(ModuleOp module,
                     llvm::function_ref<LogicalResult(exec::ProgramOp)> visit) {
  FailureOr<SmallVector<exec::ProgramOp>> programs = selectPrograms(module);
  if (failed(programs))
    return failure();
  bool hasFailed = false;
  for (exec::ProgramOp program : *programs)
    hasFailed |= failed(visit(program));
  return failure(hasFailed);
}

FailureOr<SmallVector<ScheduleOp>> pipe::selectSchedules(ModuleOp module,
                                                         StringRef name) {
  auto schedules = llvm::to_vector(module.getOps<ScheduleOp>());
  if (schedules.empty()) {
    InFlightDiagnostic diagnostic = emitError(module.getLoc())
                                    << "the module has no pipe.schedule";
    if (!module.getOps<exec::ProgramOp>().empty())
      diagnostic << ", but programs, which exec-verify proves";
    return diagnostic;
  }
  if (name.empty())
    return schedules;
  for (ScheduleOp schedule : schedules)
    if (schedule.getSymName() == name)
      return SmallVector<ScheduleOp>{schedule};
  return emitUnknownName(module, schedules, name);
}

/// Returns the schedules called `name`; all if it is empty. For a root that is
/// a pipe.schedule, another name selects nothing and is not an error, because
/// it may be the name of another schedule.
static FailureOr<SmallVector<ScheduleOp>> selectByName(Operation *root,
                                                       StringRef name) {
  if (auto module = dyn_cast<ModuleOp>(root))
    return selectSchedules(module, name);
  auto schedule = cast<ScheduleOp>(root);
  if (name.empty() || schedule.getSymName() == name)
    return SmallVector<ScheduleOp>{schedule};
  return SmallVector<ScheduleOp>();
}

static bool isTreated(ScheduleOp schedule, Treats treats) {
  switch (treats) {
  case Treats::All:
    return true;
  case Treats::Problems:
    return schedule.isProblem();
  case Treats::Solutions:
    return !schedule.isProblem();
  }
  llvm_unreachable("covered switch");
}

FailureOr<SmallVector<ScheduleOp>>
pipe::selectTreated(Operation *root, StringRef name, Treats treats) {
  FailureOr<SmallVector<ScheduleOp>> schedules = selectByName(root, name);
  if (failed(schedules))
    return failure();
  for (ScheduleOp schedule : *schedules)
    if (!name.empty() && !isTreated(schedule, treats))
      return emitTableError(schedule)
             << (schedule.isProblem() ? "has no rows" : "has rows already");
  llvm::erase_if(*schedules, [&](ScheduleOp schedule) {
    return !isTreated(schedule, treats);
  });
  if (schedules->empty() && treats == Treats::Problems && isa<ModuleOp>(root))
    return emitError(root->getLoc(),
                     "every pipe.schedule of the module has rows already");
  return schedules;
}

LogicalResult
pipe::treatEach(ArrayRef<ScheduleOp> schedules,
                llvm::function_ref<LogicalResult(ScheduleOp)> treat) {
  if (schedules.empty())
    return success();
  std::atomic<bool> isFine = true;
  parallelForEach(ScheduleOp(schedules.front())->getContext(), schedules,
                  [&](ScheduleOp schedule) {
                    if (failed(treat(schedule)))
                      isFine = false;
                  });
  return success(isFine);
}

bool pipe::holdsSchedules(RegisteredOperationName name) {
  return name.getStringRef() == ModuleOp::getOperationName() ||
         name.getStringRef() == ScheduleOp::getOperationName();
}

//===----------------------------------------------------------------------===//
// Placements
//===----------------------------------------------------------------------===//

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
  std::vector<Path> replaced;
  for (PathOp path : schedule.getPaths())
    replaced.push_back(path.toPath());
  if (llvm::Error error = keepBackward(replaced, *paths))
    return emitTableError(schedule)
           << "cannot be placed: " << llvm::toString(std::move(error));
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
