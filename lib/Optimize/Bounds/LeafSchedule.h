//===- LeafSchedule.h - Schedules of decided rows ---------------*- C++ -*-===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Makes a solution of the orders that are left where exact search ends.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_LIB_OPTIMIZE_BOUNDS_LEAFSCHEDULE_H
#define PIPESCHED_LIB_OPTIMIZE_BOUNDS_LEAFSCHEDULE_H

#include "PipeSched/Optimize/Solution.h"
#include "RowPaths.h"

namespace pipesched::optimize {

/// Names the microbatches of rows that count them. Each R is that of the oldest
/// checkpoint.
class LeafSchedule {
public:
  explicit LeafSchedule(const BoundsGraph &graph);

  /// Nothing where the rows are no schedule: they need copies, or an I comes
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
