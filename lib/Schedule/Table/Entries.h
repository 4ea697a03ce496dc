//===- Entries.h - The entries of a row -------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Iterates over the entries of a row.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_LIB_SCHEDULE_TABLE_ENTRIES_H
#define PIPESCHED_LIB_SCHEDULE_TABLE_ENTRIES_H

#include "PipeSched/Schedule/Kinds/Cell.h"
#include "llvm/ADT/ArrayRef.h"

namespace pipesched {

/// Calls `visit(index, cells)` for each entry of a row, or once for both cells
/// of an overlapped pair.
template <typename Visit>
void forEachEntry(llvm::ArrayRef<Cell> row, Visit &&visit) {
  for (size_t i = 0; i < row.size();) {
    size_t count = row[i].overlapsNext() ? 2 : 1;
    visit(i, row.slice(i, count));
    i += count;
  }
}

} // namespace pipesched

#endif // PIPESCHED_LIB_SCHEDULE_TABLE_ENTRIES_H
