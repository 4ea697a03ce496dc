//===- Verify.h - Checks of rows and tables -----------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Checks of rows and of tables. Op verifiers, passes and importers turn
// violations into diagnostics.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_SCHEDULE_CHECK_VERIFY_H
#define PIPESCHED_SCHEDULE_CHECK_VERIFY_H

#include "PipeSched/Schedule/Table/Violation.h"

namespace pipesched {

/// Checks one row, O(row): every stage is on this worker by its path;
/// microbatches (or paths) are in range; no cell occurs twice; B and I come
/// after their own forward, W after its I; there are not both B and I or W; U
/// comes after D, joins after their copies; idle counts are positive; an
/// overlap is followed by a compute cell and not chained.
std::optional<Violation> verifyRow(const Placement &placement, int64_t row,
                                   llvm::ArrayRef<Cell> cells);

/// Checks a whole table whose rows are verified, linear in its cells. The table
/// must be complete (F exactly once; B, or I and W, exactly once; R at most
/// once; D and U together; O and G for owners of blocks, after the gradients of
/// all stages that share them; G on all replicas or none) and slot-aligned if
/// it says so. It must be acyclic across workers; a cycle is reported with one
/// note per edge, at most eight, then a count.
std::optional<Violation> verifyTable(const TableView &table);

/// Checks, as part of verifyTable, that by the written slots no cell of an
/// aligned table starts before its dependences end. The lengths must satisfy
/// verifySlotLengths.
std::optional<Violation> verifyAligned(const TableView &table,
                                       const CellIndex &index);

/// Checks the lengths of a table (`slots`) against its verified rows, linear in
/// cells: every compute cell takes a known number of slots, at least 0, and all
/// together take at most kMaxSlots.
std::optional<Violation> verifySlotLengths(const TableView &table);

/// Checks, as part of verifyTable, the O and G cells of workers on which
/// several stages hold the same blocks (ParameterSets.h). The stage of such a
/// cell must own blocks. A stage that holds any of these blocks must have no
/// compute cell after the O and no weight gradient after the G, nor overlap one
/// with them. Linear in entries.
std::optional<Violation> verifyParameterSets(const TableView &table,
                                             const CellIndex &index);

/// Checks groups (Groups.h), as part of verifyTable. If several workers hold
/// the same blocks, either all stages that own them have a G or none has. For a
/// microbatch, either each worker of its path has one cell of the group or none
/// has. The first check is linear in entries, and in pieces times paths; the
/// second in groups times stages.
std::optional<Violation> verifyCollectives(const TableView &table,
                                           const CellIndex &index);

/// Checks, as part of verifyTable, the phases that are sharded over the workers
/// of a path (Occurrence::Spread): if the table has a cell of such a phase,
/// each worker of each path has one for each unit. Linear in cells, and in
/// units and paths.
std::optional<Violation> verifySpread(const TableView &table);

/// Checks groups, as part of verifyAligned: the cells of a group start
/// together; a cell in several groups starts when all their rows are free.
std::optional<Violation> verifyMeetings(const TableView &table,
                                        const CellIndex &index);

} // namespace pipesched

#endif // PIPESCHED_SCHEDULE_CHECK_VERIFY_H
