//===- Violation.h - Errors in tables ---------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Errors in tables as data: the error, its cell, and notes that point to other
// cells.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_SCHEDULE_TABLE_VIOLATION_H
#define PIPESCHED_SCHEDULE_TABLE_VIOLATION_H

#include "PipeSched/Schedule/Table/Table.h"
#include "llvm/Support/Error.h"
#include <optional>
#include <string>

namespace pipesched {

/// An error at a cell. The message names the cell ("cell 3 (2B1) runs before
/// its forward 2F1") in lower case, without a final period.
struct Violation {
  struct Note {
    std::optional<CellRef> at;
    std::string message;
  };
  /// Absent if the error concerns the schedule as a whole.
  std::optional<CellRef> at;
  std::string message;
  std::vector<Note> notes;
  /// For rows with a deadlock: cells of which each waits for the next, and the
  /// last for the first.
  std::vector<CellRef> cycle = {};
};

/// `waiting` needs the output of `awaited`, which is in another row or later in
/// the same row. If both are cells of a group, the other row must reach
/// `awaited`.
struct CellWait {
  CellRef waiting, awaited;
};

/// Turns a cycle of waits, as RowSweep returns it, into a violation.
Violation describeCycle(const TableView &table, llvm::ArrayRef<CellWait> waits);

/// The violation as text, with each note on its own line.
std::string toString(const Violation &violation);

/// A violation as the error of a function that returns llvm::Expected.
class ViolationError : public llvm::ErrorInfo<ViolationError> {
public:
  static char ID; // NOLINT(readability-identifier-naming): LLVM's name
  explicit ViolationError(Violation violation)
      : violation(std::move(violation)) {}

  void log(llvm::raw_ostream &os) const override { os << toString(violation); }
  std::error_code convertToErrorCode() const override {
    return llvm::inconvertibleErrorCode();
  }
  const Violation &getViolation() const { return violation; }

private:
  Violation violation;
};

} // namespace pipesched

#endif // PIPESCHED_SCHEDULE_TABLE_VIOLATION_H
