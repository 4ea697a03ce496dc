//===- ScheduleTable.h - A schedule op as a table ---------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The bridge between ops and lib/Schedule: reads a schedule without copying its
// rows, writes rows and paths back, and turns violations into diagnostics.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_DIALECT_PIPE_IR_SCHEDULETABLE_H
#define PIPESCHED_DIALECT_PIPE_IR_SCHEDULETABLE_H

#include "PipeSched/Dialect/Pipe/IR/Pipe.h"
#include "PipeSched/Schedule/Check/Verify.h"
#include "PipeSched/Schedule/Table/Table.h"

namespace pipesched::pipe {

/// A verified schedule op as a table. It owns the placement; the rows stay in
/// the ops, which must outlive it unchanged.
class ScheduleTable {
public:
  /// The rows of a problem are empty.
  explicit ScheduleTable(ScheduleOp schedule);

  const Placement &getPlacement() const { return placement; }
  TableView view() const;

private:
  Placement placement;
  GradientAfter gradientAfter;
  bool aligned;
  std::vector<StageSlots> slots;
  llvm::SmallVector<llvm::ArrayRef<Cell>> rows;
};

/// Refuses slices. Errors: the microbatches of the schedule or program have
/// slices, which `reader` does not support. Code that counts microbatches calls
/// it, so that it does not mistake a unit for a whole microbatch.
mlir::LogicalResult verifyUnsliced(PlacementOwnerOpInterface owner,
                                   llvm::StringRef reader);

/// Refuses edges outside of the chains of the paths, which `reader` ("an export
/// takes") does not support. Requires a path, or no edges.
mlir::LogicalResult verifyChains(PlacementOwnerOpInterface owner,
                                 llvm::StringRef reader);

/// Refuses such edges, and stages that do not train, neither of which `reader`
/// ("an export takes") supports.
mlir::LogicalResult verifyTrainsAll(PlacementOwnerOpInterface owner,
                                    llvm::StringRef reader);

void storePaths(ScheduleOp schedule, llvm::ArrayRef<Path> paths);

/// Replaces the rows of a schedule, one per worker, in the order of workers.
void storeRows(ScheduleOp schedule, std::vector<Row> &&rows);

/// The same for rows from outside; also drops the name of the family. Errors,
/// emitted, after which nothing has changed: another number of rows than
/// workers; rows that the schedule's verifier refuses.
mlir::LogicalResult replaceRows(ScheduleOp schedule, std::vector<Row> &&rows);

/// Stores the lengths of cells in slots, or nothing if they take unit slots.
void storeSlots(ScheduleOp schedule, const Placement &placement,
                llvm::ArrayRef<StageSlots> slots);

/// Emits a violation at its cell, else at the schedule. Notes are emitted at
/// their cells; a note without a cell is emitted with the violation.
mlir::InFlightDiagnostic emitViolation(ScheduleOp schedule,
                                       const Violation &violation);

/// Emits the error of a function of lib/Schedule or lib/Analysis: a
/// ViolationError as a violation, all other errors at the schedule.
mlir::LogicalResult emitTableError(ScheduleOp schedule, llvm::Error error);

} // namespace pipesched::pipe

#endif // PIPESCHED_DIALECT_PIPE_IR_SCHEDULETABLE_H
