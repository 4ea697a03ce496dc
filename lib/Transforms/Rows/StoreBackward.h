//===- StoreBackward.h - Changed backwards ----------------------*- C++ -*-===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// How passes that split and merge backwards store their result.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_LIB_TRANSFORMS_ROWS_STOREBACKWARD_H
#define PIPESCHED_LIB_TRANSFORMS_ROWS_STOREBACKWARD_H

#include "PipeSched/Dialect/Pipe/IR/ScheduleTable.h"
#include "PipeSched/Schedule/Edit/Backward.h"

namespace pipesched::pipe {

/// Stores the rows and the gradient rule. If the family has the option
/// `split_backward`, updates it, unless some backwards stayed as they were.
void storeBackward(ScheduleOp schedule, BackwardChange change, bool isSplit);

} // namespace pipesched::pipe

#endif // PIPESCHED_LIB_TRANSFORMS_ROWS_STOREBACKWARD_H
