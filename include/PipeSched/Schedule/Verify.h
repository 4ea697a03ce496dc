//===- Verify.h - Checks of rows and tables -----------------*- C++ -*-===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Structural findings as data: what is wrong, at which cell, with notes that
// point to the other party. Op verifiers, passes and importers turn them into
// diagnostics.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_SCHEDULE_VERIFY_H
#define PIPESCHED_SCHEDULE_VERIFY_H

#include "PipeSched/Schedule/RowSweep.h"
#include <optional>
#include <string>

namespace pipesched {

/// A finding about a cell. The message names the cell ("cell 3 (2B1) runs
/// before its forward 2F1"); lower case, no final period.
struct Violation {
  struct Note {
    std::optional<CellRef> at;
    std::string message;
  };
  std::optional<CellRef> at; ///< nothing: the schedule as a whole
  std::string message;
  std::vector<Note> notes;
};

/// Checks one row, O(row): every stage on this worker by its path, microbatches
/// (or paths) in range, no duplicate, B and I after their own forward, W after
/// its I, not both B and I/W, U after D, joins after their copies, idle counts
/// positive, an overlap followed by a compute cell and not chained.
std::optional<Violation> verifyRow(const Placement &placement, int64_t row,
                                   llvm::ArrayRef<Cell> cells);

/// Checks a whole table whose rows are verified, linear in its cells: complete
/// (F exactly once; B, or I and W, exactly once; R at most once; D and U
/// together; G on all replicas or none), acyclic across workers (a cycle is
/// printed with one note per edge, at most eight, then a count), and
/// slot-aligned if it says so.
std::optional<Violation> verifyTable(const TableView &table);

/// The part of it that is about an aligned table: cells start no earlier, by
/// the slots as written, than what they wait for ends; their lengths are those
/// that verifySlotLengths takes.
std::optional<Violation> verifyAligned(const TableView &table,
                                       const CellIndex &index);

/// Checks the lengths of a table (`slots`) against its verified rows, linear in
/// cells: every compute cell takes a known number of slots, at least 0, and all
/// together kMaxSlots at most.
std::optional<Violation> verifySlotLengths(const TableView &table);

/// The part of verifyTable that is about G cells: where blocks are on several
/// workers, all stages that hold them have one or none has; an O comes after
/// the G by which its worker reduces its blocks. Linear in entries, and in
/// pieces times paths.
std::optional<Violation> verifyCollectives(const TableView &table,
                                           const CellIndex &index);

/// The part of verifyAligned that is about G cells: those of a group start
/// together; one that is in several groups starts when all their rows are free.
std::optional<Violation> verifyMeetings(const TableView &table,
                                        const CellIndex &index);

/// A cycle of waits, as RowSweep returns it, as a finding.
Violation describeCycle(const TableView &table, llvm::ArrayRef<CellWait> cycle);

/// A finding as one text, notes on lines of their own.
std::string toString(const Violation &violation);

/// A finding as the error of a function that returns llvm::Expected.
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

#endif // PIPESCHED_SCHEDULE_VERIFY_H
