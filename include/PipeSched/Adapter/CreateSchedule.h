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

/// What a schedule says of its family beside its name: the options that change
/// rows and can be read off neither paths nor the gradient rule, where they are
/// not the default.
llvm::SmallVector<mlir::NamedAttribute>
describeFamily(mlir::Builder builder, const Family &family,
               const FamilyOptions &options);

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
