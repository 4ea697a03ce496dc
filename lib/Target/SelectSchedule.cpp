//===- SelectSchedule.cpp - The schedule that an export writes ------------===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// If there are several, the user must choose; the module's order must not.
//
//===----------------------------------------------------------------------===//

#include "SelectSchedule.h"

using namespace mlir;
using namespace pipesched;

FailureOr<pipe::ScheduleOp> pipesched::selectSchedule(Operation *root,
                                                      StringRef name,
                                                      StringRef option,
                                                      StringRef holder) {
  SmallVector<pipe::ScheduleOp> schedules;
  root->walk([&](pipe::ScheduleOp schedule) {
    if (name.empty() || schedule.getSymName() == name)
      schedules.push_back(schedule);
  });
  if (schedules.size() == 1)
    return schedules.front();
  if (!name.empty())
    return emitError(root->getLoc()) << "found no schedule @" << name;
  if (schedules.empty())
    return emitError(root->getLoc())
           << "found no schedule to export; pipe-create makes one, "
              "pipe-schedule-* fills it";
  InFlightDiagnostic diagnostic = emitError(root->getLoc())
                                  << "found " << schedules.size()
                                  << " schedules, but " << holder
                                  << " holds one; name it with --" << option;
  for (pipe::ScheduleOp schedule : schedules)
    diagnostic.attachNote(schedule.getLoc())
        << "@" << schedule.getSymName() << " is here";
  return diagnostic;
}

LogicalResult pipesched::verifyForExport(pipe::ScheduleOp schedule,
                                         const TableView &table) {
  if (schedule.isProblem())
    return pipe::emitTableError(schedule)
           << "has no rows to export; fill it with a pipe-schedule-* pass";
  if (failed(pipe::verifyUnsliced(schedule, "an export")))
    return failure();
  if (std::optional<Violation> violation = verifyTable(table))
    return pipe::emitViolation(schedule, *violation);
  return success();
}
