//===- CreateSchedule.h - From tables to ops --------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Creates a pipe.schedule from the results of generators and importers.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_ADAPTER_CREATESCHEDULE_H
#define PIPESCHED_ADAPTER_CREATESCHEDULE_H

#include "PipeSched/Dialect/Pipe/IR/ScheduleTable.h"
#include "PipeSched/Schedule/Family/VerifyFamily.h"

namespace pipesched {

/// The attribute next to the name of a family which states that its rows were
/// made for slots of measured lengths: the slot lengths of the schedule.
inline constexpr llvm::StringLiteral kSlotsOption = "slots";

/// Returns the attributes of a schedule in addition to the name of its family:
/// the options that affect rows, do not follow from the paths or the gradient
/// rule, and differ from their default.
llvm::SmallVector<mlir::NamedAttribute>
describeFamily(mlir::Builder builder, const Family &family,
               const FamilyOptions &options);

/// Returns the options with which the rows of a schedule were generated; the
/// inverse of describeFamily. `chunks`, `waves` and `pairs` stay unset, because
/// the paths determine them. A schedule without a known family has no options.
/// Attributes that describeFamily does not write are ignored.
FamilyOptions loadFamilyOptions(pipe::ScheduleOp schedule);

/// Checks that the rows in `table` are rows of the family that the schedule
/// names. Returns nothing if it names no family, or an unknown one.
std::optional<Violation> verifyFamily(pipe::ScheduleOp schedule,
                                      const TableView &table);

/// Creates a problem with these paths.
pipe::ScheduleOp createProblem(mlir::OpBuilder &builder,
                               mlir::Location location, llvm::StringRef name,
                               const Placement &placement);

/// Creates a schedule with the rows of a table and without a family.
pipe::ScheduleOp createSchedule(mlir::OpBuilder &builder,
                                mlir::Location location, llvm::StringRef name,
                                Table &&table);

} // namespace pipesched

#endif // PIPESCHED_ADAPTER_CREATESCHEDULE_H
