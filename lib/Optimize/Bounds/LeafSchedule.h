//===- LeafSchedule.h - Solutions of decided rows ---------------*- C++ -*-===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Makes a solution of rows in which exact search has decided every cell.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_LIB_OPTIMIZE_BOUNDS_LEAFSCHEDULE_H
#define PIPESCHED_LIB_OPTIMIZE_BOUNDS_LEAFSCHEDULE_H

#include "PipeSched/Optimize/Problem/Solution.h"
#include "RowPaths.h"

namespace pipesched::optimize {

/// Gives each cell of the rows, which only count microbatches, its microbatch.
/// Each R takes the oldest checkpoint of its stage.
class LeafSchedule {
public:
  explicit LeafSchedule(const BoundsGraph &graph);

  /// Nothing if the rows are no schedule: they need copies, or an I comes
  /// before its R.
  std::optional<Solution> build(const Windows &windows) const;

private:
  std::optional<Row> rowOf(const RowPaths &paths) const;
  Cell nameOf(int64_t globalStage, Phase phase, int64_t rank) const;

  const BoundsGraph &graph;
  std::vector<std::vector<int64_t>> microbatches; ///< by path and rank
};

} // namespace pipesched::optimize

#endif // PIPESCHED_LIB_OPTIMIZE_BOUNDS_LEAFSCHEDULE_H
