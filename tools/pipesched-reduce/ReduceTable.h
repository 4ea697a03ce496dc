//===- ReduceTable.h - Reduction of schedules -------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Lets MLIR's reducer make a pipe.schedule smaller.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_TOOLS_PIPESCHED_REDUCE_REDUCETABLE_H
#define PIPESCHED_TOOLS_PIPESCHED_REDUCE_REDUCETABLE_H

#include "mlir/IR/DialectRegistry.h"

namespace pipesched {

/// Adds the interface for MLIR's reducer to the dialect of schedules.
void registerTableReduction(mlir::DialectRegistry &registry);

} // namespace pipesched

#endif // PIPESCHED_TOOLS_PIPESCHED_REDUCE_REDUCETABLE_H
