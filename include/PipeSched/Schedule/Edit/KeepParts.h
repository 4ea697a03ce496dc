//===- KeepParts.h - Parts of a table ---------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Makes a smaller table from selected parts of a table. pipesched-reduce uses
// it to find the smallest table that still shows a fault.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_SCHEDULE_EDIT_KEEPPARTS_H
#define PIPESCHED_SCHEDULE_EDIT_KEEPPARTS_H

#include "PipeSched/Schedule/Table/Table.h"
#include "llvm/ADT/BitVector.h"

namespace pipesched {

/// The parts of a table to keep; initially all of them.
struct TableParts {
  llvm::BitVector microbatches, workers;
  llvm::BitVector stages; ///< global stages
  llvm::BitVector slices; ///< of each microbatch
  llvm::BitVector phases; ///< by their numbers in the enum
  llvm::BitVector cells;  ///< by flat index, idle entries included

  explicit TableParts(const TableView &table);
};

/// Returns the table of these parts, with rows, paths and slot lengths
/// renumbered. Removing a worker removes its stages. A path is removed when no
/// stage or no microbatch of it is left, and its microbatches go with it. A
/// cell is kept if its stage, unit, path and phase are kept, and an edge if
/// both of its stages are. The result is not verified: the table may be
/// incomplete, and a cell may lack another cell that it needs. Errors: as for
/// Placement::create, for example if nothing is left, or a node has no edge.
llvm::Expected<Table> keepParts(const TableView &table,
                                const TableParts &parts);

} // namespace pipesched

#endif // PIPESCHED_SCHEDULE_EDIT_KEEPPARTS_H
