//===- ReduceTable.h - Reduction of schedules -------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// How MLIR's reducer makes a pipe.schedule smaller.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_TOOLS_PIPESCHED_REDUCE_REDUCETABLE_H
#define PIPESCHED_TOOLS_PIPESCHED_REDUCE_REDUCETABLE_H

#include "mlir/IR/DialectRegistry.h"

namespace pipesched {

/// Adds to the dialect of schedules what MLIR's reducer asks dialects for.
void registerTableReduction(mlir::DialectRegistry &registry);

} // namespace pipesched

#endif // PIPESCHED_TOOLS_PIPESCHED_REDUCE_REDUCETABLE_H
