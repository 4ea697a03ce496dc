//===- ShardyRules.h - Shardy's rules of schedule ops -----------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Calls the writer of lib/Exchange and emits its errors as diagnostics.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_TARGET_SHARDYRULES_H
#define PIPESCHED_TARGET_SHARDYRULES_H

#include "PipeSched/Dialect/Pipe/IR/Pipe.h"
#include "PipeSched/Exchange/ShardyRules.h"

namespace pipesched {

/// Exports a schedule as rules. Errors, emitted at the schedule or its rows
/// before anything is written: no rows; a table that `verifyTable` rejects or
/// that rules cannot express. Warnings report where Shardy would deviate from
/// the schedule.
mlir::LogicalResult exportShardyRules(pipe::ScheduleOp schedule,
                                      const ShardyRulesOptions &options,
                                      llvm::raw_ostream &os);

} // namespace pipesched

#endif // PIPESCHED_TARGET_SHARDYRULES_H
