//===- SlotTables.cpp - Tables to draw in slots ---------------------------===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A program has no slots, but its schedule is often in the same module.
//
//===----------------------------------------------------------------------===//

#include "SlotTables.h"
#include "PipeSched/Dialect/Pipe/IR/Pipe.h"

using namespace mlir;
using namespace pipesched;

FailureOr<std::vector<NamedTable>> pipesched::loadSlotTables(Operation *root) {
  SmallVector<Operation *> found = findEvaluables(root);
  if (found.empty())
    return root->emitOpError("has no schedule to draw; pipe-create makes one, "
                             "pipe-schedule-* fills it");
  auto isSchedule = [](Operation *op) { return isa<pipe::ScheduleOp>(op); };
  if (llvm::any_of(found, isSchedule))
    llvm::erase_if(found, std::not_fn(isSchedule));
  std::vector<NamedTable> tables;
  LogicalResult result = success();
  for (Operation *op : found) {
    FailureOr<NamedTable> table = loadTable(op);
    if (failed(table))
      result = failure();
    else
      tables.push_back(std::move(*table));
  }
  if (failed(result))
    return failure();
  return std::move(tables);
}
