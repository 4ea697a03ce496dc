//===- QuickBounds.h - Bounds without search --------------------*- C++ -*-===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Lower bounds from how long a worker is busy or has to wait.
// docs/Optimize.md describes and proves each of them.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_LIB_OPTIMIZE_BOUNDS_QUICKBOUNDS_H
#define PIPESCHED_LIB_OPTIMIZE_BOUNDS_QUICKBOUNDS_H

#include "BoundsGraph.h"
#include "PipeSched/Optimize/Bounds/Bounds.h"

namespace pipesched::optimize {

/// By cell: the least time before its start (head) and after its end (tail).
/// The bounds are on the time from 0 to the end of all tails.
struct Heads {
  llvm::ArrayRef<int64_t> heads, tails;
};

/// Jackson's preemptive schedule of the worker's cells.
int64_t preemptiveBound(const BoundsGraph &graph, int64_t worker, Heads times);

/// Before its first I a worker runs only the F that fit its memory.
int64_t warmUpBound(const BoundsGraph &graph, int64_t worker, Heads times);

/// After its last F a worker runs only I and W of activations that its memory
/// held at that time.
int64_t coolDownBound(const BoundsGraph &graph, int64_t worker, Heads times);

/// Capacity times makespan is at least the sum of activations times the time
/// that each stays in memory.
int64_t memoryBound(const BoundsGraph &graph, int64_t worker, Heads times);

/// The best of all workers and kinds, for the problem's objective.
Bound quickBound(const BoundsGraph &graph);

} // namespace pipesched::optimize

#endif // PIPESCHED_LIB_OPTIMIZE_BOUNDS_QUICKBOUNDS_H
