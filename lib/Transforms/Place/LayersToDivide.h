//===- LayersToDivide.h - Layers to divide ----------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The number of layers to divide: of the model of the schedule, or from an
// option.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_LIB_TRANSFORMS_PLACE_LAYERSTODIVIDE_H
#define PIPESCHED_LIB_TRANSFORMS_PLACE_LAYERSTODIVIDE_H

#include "PipeSched/Dialect/Pipe/IR/Pipe.h"
#include "PipeSched/Schedule/Table/Placement.h"

namespace pipesched::pipe {

/// Returns the number of layers of the schedule's model, or `blocks` if there
/// is no model and that option is not 0; nothing if neither is given. Errors:
/// `blocks` below 0; `blocks` that differs from the layers of the model.
llvm::Expected<std::optional<int64_t>> layersToDivide(ScheduleOp schedule,
                                                      int64_t blocks);

/// Checks that the schedule can have these paths and that their blocks add up
/// to the layers of its model.
llvm::Error checkPaths(ScheduleOp schedule, llvm::ArrayRef<Path> paths);

} // namespace pipesched::pipe

#endif // PIPESCHED_LIB_TRANSFORMS_PLACE_LAYERSTODIVIDE_H
