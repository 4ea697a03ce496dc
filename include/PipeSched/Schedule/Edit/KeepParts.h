//===- KeepParts.h - Parts of a table ---------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Makes a smaller table of some parts of a table. pipesched-reduce looks with
// it for the smallest table that still shows a fault.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_SCHEDULE_EDIT_KEEPPARTS_H
#define PIPESCHED_SCHEDULE_EDIT_KEEPPARTS_H

#include "PipeSched/Schedule/Table/Table.h"
#include "llvm/ADT/BitVector.h"

namespace pipesched {

/// Which parts of a table stay; at first all of them.
struct TableParts {
  llvm::BitVector microbatches, workers;
  llvm::BitVector stages; ///< global stages
  llvm::BitVector slices; ///< of each microbatch
  llvm::BitVector phases; ///< by their numbers in the enum
  llvm::BitVector cells;  ///< by flat index, idle entries included

  explicit TableParts(const TableView &table);
};

/// The table of these parts, numbered anew in all rows, paths and lengths of
/// slots. Without a worker its stages go, without its last stage a path, and
/// without its path a microbatch; a path without microbatches goes as well. A
/// cell stays with its stage, unit, path and phase, and an edge between stages
/// with both of them. Nothing is checked: the table need not be complete, and a
/// cell may lack another that it needs. Errors: those of Placement::create, as
/// if nothing is left, or a node without an edge.
llvm::Expected<Table> keepParts(const TableView &table,
                                const TableParts &parts);

} // namespace pipesched

#endif // PIPESCHED_SCHEDULE_EDIT_KEEPPARTS_H
