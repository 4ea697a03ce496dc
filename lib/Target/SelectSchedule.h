//===- SelectSchedule.h - The schedule that an export writes ----*- C++ -*-===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// For formats that hold one schedule: selects it in a module and checks that it
// is complete.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_LIB_TARGET_SELECTSCHEDULE_H
#define PIPESCHED_LIB_TARGET_SELECTSCHEDULE_H

#include "PipeSched/Dialect/Pipe/IR/ScheduleTable.h"

namespace pipesched {

/// The schedule called `name`, or the only one if `name` is empty. Errors,
/// emitted: none; several, with notes at each and the option that selects one.
/// `holder` says what holds only one schedule: "a CSV file".
mlir::FailureOr<pipe::ScheduleOp> selectSchedule(mlir::Operation *root,
                                                 llvm::StringRef name,
                                                 llvm::StringRef option,
                                                 llvm::StringRef holder);

/// Checks that a schedule can be exported. Errors, emitted: no rows; what
/// verifyTable finds.
llvm::LogicalResult verifyForExport(pipe::ScheduleOp schedule,
                                    const TableView &table);

} // namespace pipesched

#endif // PIPESCHED_LIB_TARGET_SELECTSCHEDULE_H
