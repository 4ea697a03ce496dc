//===- RecomputedCells.h - Activations that a table recomputes --*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Records which activations have an R. The memory of an F depends on it, but a
// walk cannot see a later R of the row when it starts the F.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_LIB_ANALYSIS_WALK_RECOMPUTEDCELLS_H
#define PIPESCHED_LIB_ANALYSIS_WALK_RECOMPUTEDCELLS_H

#include "PipeSched/Schedule/Table/PhaseCounts.h"

namespace pipesched {

/// For each stage and microbatch of a table, one bit for whether it has an R.
/// There are no bits if the table has no R.
class RecomputedCells {
public:
  RecomputedCells(const TableView &table, const PhaseCounts &counts)
      : placement(*table.placement) {
    if (!counts.has(Phase::Recompute))
      return;
    bits.assign(placement.getNumPairs(), false);
    for (llvm::ArrayRef<Cell> row : table.rows)
      for (Cell cell : row)
        if (cell.is(Phase::Recompute))
          bits[placement.pairOf(cell)] = true;
  }

  bool isEmpty() const { return bits.empty(); }
  bool contains(uint32_t stage, int64_t rank) const {
    return !bits.empty() && bits[placement.firstPairOf(stage) + rank];
  }

private:
  const Placement &placement;
  std::vector<bool> bits; ///< by pair
};

} // namespace pipesched

#endif // PIPESCHED_LIB_ANALYSIS_WALK_RECOMPUTEDCELLS_H
