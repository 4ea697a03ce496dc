//===- Editing.h - Interfaces for editors of rows ---------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Interfaces of the dialect for users who write rows by hand: the places of
// cells in the text, so that diagnostics point at cells, and additional checks
// while a schedule is edited.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_DIALECT_PIPE_IR_EDITING_H
#define PIPESCHED_DIALECT_PIPE_IR_EDITING_H

#include "PipeSched/Dialect/Pipe/IR/Pipe.h"
#include "mlir/IR/DialectInterface.h"
#include "llvm/ADT/StringMap.h"
#include <mutex>

namespace pipesched::pipe {

/// The places of the cells of rows in the text. IR cannot store them: a row is
/// one op with one location, that of its first word.
class CellPlaces : public mlir::DialectInterface::Base<CellPlaces> {
public:
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(CellPlaces)
  explicit CellPlaces(mlir::Dialect *dialect) : Base(dialect) {}

  /// The places of longer rows are not stored, because no editor reads these
  /// cell by cell.
  static constexpr size_t kMostCells = 4096;

  /// Stores the places of the cells of a row whose location is `row`. `text`
  /// starts with the bracket of the row, and `bracket` is its location.
  void keep(mlir::Location row, llvm::ArrayRef<Cell> cells, const char *text,
            mlir::FileLineColLoc bracket) const;

  /// Copies the places of this context to another context, because IR that is
  /// passed on as bytecode keeps its locations.
  void copyTo(const CellPlaces &other) const;

  /// Returns the place of a cell, or of its row if the place is unknown: the
  /// row was not read from text, or has changed since.
  mlir::Location find(WorkerOp row, size_t index) const;

  /// The same for all cells of a row.
  llvm::SmallVector<mlir::Location> findAll(WorkerOp row) const;

private:
  struct Row {
    llvm::hash_code cells = 0;
    llvm::SmallVector<std::pair<unsigned, unsigned>, 0> linesAndColumns;

    mlir::Location at(size_t index, mlir::StringAttr file) const;
  };
  /// Null if the places are not known. The caller holds the mutex.
  const Row *lookUp(WorkerOp row) const;

  mutable std::mutex mutex; ///< passes emit diagnostics from several threads
  mutable llvm::StringMap<Row> rows; ///< by "line:column file"
};

/// Returns the place of a cell in the text, or the location of its row if the
/// place is unknown.
mlir::Location locationOfCell(WorkerOp row, int64_t index);

/// The same for all cells of a row, each under the name of the cell:
/// loc("2F0"("file.mlir":4:18)). The location of the row for each cell of a row
/// that is longer than kMostCells.
llvm::SmallVector<mlir::Location> locationsOfCells(WorkerOp row,
                                                   int64_t numSlices);

/// Further checks of schedules, as part of their verification. A tool adds a
/// check if a schedule that is being edited should show an error at once that
/// otherwise a pass finds later.
class ScheduleChecks : public mlir::DialectInterface::Base<ScheduleChecks> {
public:
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(ScheduleChecks)
  explicit ScheduleChecks(mlir::Dialect *dialect) : Base(dialect) {}
  virtual ~ScheduleChecks() = default;

  /// Checks a schedule whose rows are verified.
  virtual mlir::LogicalResult verify(ScheduleOp schedule) const = 0;
};

} // namespace pipesched::pipe

#endif // PIPESCHED_DIALECT_PIPE_IR_EDITING_H
