//===- SelectSchedule.h - The schedule that an export writes ----*- C++ -*-===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// For formats that hold one schedule: which one of a module, and that it is
// complete.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_LIB_TARGET_SELECTSCHEDULE_H
#define PIPESCHED_LIB_TARGET_SELECTSCHEDULE_H

#include "PipeSched/Dialect/Pipe/IR/ScheduleTable.h"

namespace pipesched {

/// The schedule called `name`, or the only one where that is empty. Errors,
/// emitted: none; several, pointing to each and to the option that names one.
/// `holder` is what holds one schedule: "a CSV file".
mlir::FailureOr<pipe::ScheduleOp> selectSchedule(mlir::Operation *root,
                                                 llvm::StringRef name,
                                                 llvm::StringRef option,
                                                 llvm::StringRef holder);

/// Errors, emitted: no rows; what verifyTable finds.
llvm::LogicalResult verifyForExport(pipe::ScheduleOp schedule,
                                    const TableView &table);

} // namespace pipesched

#endif // PIPESCHED_LIB_TARGET_SELECTSCHEDULE_H
