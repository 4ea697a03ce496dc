//===- LayersToDivide.h - How many layers stages share ----------*- C++ -*-===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The layers of the model that a schedule trains, or what an option says.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_LIB_TRANSFORMS_PLACE_LAYERSTODIVIDE_H
#define PIPESCHED_LIB_TRANSFORMS_PLACE_LAYERSTODIVIDE_H

#include "PipeSched/Dialect/Pipe/IR/Pipe.h"
#include "PipeSched/Schedule/Placement.h"

namespace pipesched::pipe {

/// Layers of the schedule's model, or `blocks` where that option is not 0;
/// nothing where there is neither. Errors: blocks below 0; blocks that are not
/// the layers of the model.
llvm::Expected<std::optional<int64_t>> layersToDivide(ScheduleOp schedule,
                                                      int64_t blocks);

/// Refuses paths that the schedule cannot have, or whose blocks do not add up
/// to the layers of its model.
llvm::Error checkPaths(ScheduleOp schedule, llvm::ArrayRef<Path> paths);

} // namespace pipesched::pipe

#endif // PIPESCHED_LIB_TRANSFORMS_PLACE_LAYERSTODIVIDE_H
