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
#include "PipeSched/Optimize/Solution.h"

namespace pipesched::optimize {

/// Rows with a join of every offload that ends in time before a cell that
/// allocates, so that the memory which suffices at these times does at any.
/// `starts` are in the order in which they were decided. Nothing: rows cannot
/// express these starts.
std::optional<Solution> solutionOf(const EventRules &rules,
                                   llvm::ArrayRef<EventStart> starts);

} // namespace pipesched::optimize

#endif // PIPESCHED_LIB_OPTIMIZE_BOUNDS_EVENTROWS_H
