//===- EventRows.h - Rows of cells that have started ------------*- C++ -*-===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Makes a solution of the cells that an EventSearch has started.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_LIB_OPTIMIZE_BOUNDS_EVENTROWS_H
#define PIPESCHED_LIB_OPTIMIZE_BOUNDS_EVENTROWS_H

#include "EventState.h"
#include "PipeSched/Optimize/Problem/Solution.h"

namespace pipesched::optimize {

/// Makes rows in which each cell that allocates joins every offload that ends
/// before it. So if memory suffices at these times, it suffices at any times.
/// `starts` are in the order in which they were decided. Nothing: rows cannot
/// express these starts.
std::optional<Solution> solutionOf(const EventRules &rules,
                                   llvm::ArrayRef<EventStart> starts);

} // namespace pipesched::optimize

#endif // PIPESCHED_LIB_OPTIMIZE_BOUNDS_EVENTROWS_H
