//===- StoreOptimized.h - An optimized schedule in the IR -------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// How pipe-optimize stores its result in the IR and reports it.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_LIB_TRANSFORMS_OPTIMIZE_STOREOPTIMIZED_H
#define PIPESCHED_LIB_TRANSFORMS_OPTIMIZE_STOREOPTIMIZED_H

#include "PipeSched/Dialect/Pipe/IR/Pipe.h"
#include "PipeSched/Optimize/Schedule/Candidates.h"

namespace pipesched::pipe {

/// Emits the result as a remark with notes, emits the warnings of the cache,
/// and adds the result to the log of the context if there is one.
void reportOptimized(ScheduleOp schedule, const OptimizedStart &optimized);

/// Stores the number of microbatches, the model for their size, the paths if
/// they changed, and the rows. `isPlaced` states whether the paths come from a
/// placement that the user requested, and `kind` what R recomputes.
void storeOptimized(ScheduleOp schedule, OptimizedStart &&optimized,
                    bool isPlaced, Recompute kind);

} // namespace pipesched::pipe

#endif // PIPESCHED_LIB_TRANSFORMS_OPTIMIZE_STOREOPTIMIZED_H
