//===- ShardyRules.h - Shardy's rules of schedule ops -----------*- C++ -*-===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The writer of lib/Exchange with diagnostics for its errors.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_TARGET_SHARDYRULES_H
#define PIPESCHED_TARGET_SHARDYRULES_H

#include "PipeSched/Dialect/Pipe/IR/Pipe.h"
#include "PipeSched/Exchange/ShardyRules.h"

namespace pipesched {

/// Errors, emitted at the schedule or its rows, with nothing written: no rows;
/// a schedule that `verifyTable` refuses; what rules cannot express. Warnings
/// say where Shardy would not do as the schedule says.
mlir::LogicalResult exportShardyRules(pipe::ScheduleOp schedule,
                                      const ShardyRulesOptions &options,
                                      llvm::raw_ostream &os);

} // namespace pipesched

#endif // PIPESCHED_TARGET_SHARDYRULES_H
