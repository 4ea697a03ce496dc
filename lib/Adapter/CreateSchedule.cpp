//===- CreateSchedule.cpp - From tables to ops ----------------------------===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Rows move into the ops; nothing is copied.
//
//===----------------------------------------------------------------------===//

#include "PipeSched/Adapter/CreateSchedule.h"

using namespace mlir;
using namespace pipesched;

SmallVector<NamedAttribute>
pipesched::describeFamily(Builder builder, const Family &family,
                          const FamilyOptions &options) {
  SmallVector<NamedAttribute> written;
  auto add = [&](StringRef name, Attribute value) {
    written.push_back(builder.getNamedAttr(name, value));
  };
  if (options.splitBackward && options.splitBackward != family.splitsBackward)
    add("split_backward", builder.getBoolAttr(*options.splitBackward));
  if (options.group)
    add("group", builder.getI64IntegerAttr(*options.group));
  if (options.memory)
    add("memory", builder.getI64IntegerAttr(*options.memory));
  if (options.construction.value_or(ChimeraConstruction::Concat) !=
      ChimeraConstruction::Concat)
    add("construction", builder.getStringAttr(nameOf(*options.construction)));
  return written;
}

pipe::ScheduleOp pipesched::createProblem(OpBuilder &builder, Location location,
                                          StringRef name,
                                          const Placement &placement) {
  auto schedule = pipe::ScheduleOp::create(builder, location, name,
                                           placement.getNumWorkers(),
                                           placement.getNumMicrobatches());
  pipe::storePaths(schedule, placement.getPaths());
  return schedule;
}

pipe::ScheduleOp pipesched::createSchedule(OpBuilder &builder,
                                           Location location, StringRef name,
                                           Table &&table) {
  pipe::ScheduleOp schedule =
      createProblem(builder, location, name, table.placement);
  pipe::storeRows(schedule, std::move(table.rows));
  schedule.setGradientAfter(table.gradientAfter);
  schedule.setAligned(table.aligned);
  pipe::storeSlots(schedule, table.placement, table.slots);
  return schedule;
}
