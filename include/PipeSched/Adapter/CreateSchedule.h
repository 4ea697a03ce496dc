//===- CreateSchedule.h - From tables to ops --------------------*- C++ -*-===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Writes what generators and importers return as a pipe.schedule.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_ADAPTER_CREATESCHEDULE_H
#define PIPESCHED_ADAPTER_CREATESCHEDULE_H

#include "PipeSched/Dialect/Pipe/IR/ScheduleTable.h"
#include "PipeSched/Schedule/Families.h"

namespace pipesched {

/// What a schedule says of its family beside the name: the options that change
/// rows and that neither paths nor the gradient rule show, where they are not
/// the default.
llvm::SmallVector<mlir::NamedAttribute>
describeFamily(mlir::Builder builder, const Family &family,
               const FamilyOptions &options);

/// The options with which the rows of a schedule were generated, the inverse of
/// describeFamily; `chunks`, `waves` and `pairs` are left to the paths. No
/// options for a schedule of no known family, and none for an attribute that
/// describeFamily does not write.
FamilyOptions loadFamilyOptions(pipe::ScheduleOp schedule);

/// Adds the problem of these paths.
pipe::ScheduleOp createProblem(mlir::OpBuilder &builder,
                               mlir::Location location, llvm::StringRef name,
                               const Placement &placement);

/// Adds a schedule with the rows of a table; of no family.
pipe::ScheduleOp createSchedule(mlir::OpBuilder &builder,
                                mlir::Location location, llvm::StringRef name,
                                Table &&table);

} // namespace pipesched

#endif // PIPESCHED_ADAPTER_CREATESCHEDULE_H
