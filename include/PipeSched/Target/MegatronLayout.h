//===- MegatronLayout.h - Layouts of schedule ops ---------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Calls the writer of lib/Exchange and emits its errors as diagnostics.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_TARGET_MEGATRONLAYOUT_H
#define PIPESCHED_TARGET_MEGATRONLAYOUT_H

#include "PipeSched/Dialect/Pipe/IR/Pipe.h"

namespace pipesched {

/// Returns the layout of a schedule, with or without rows, without a newline.
/// Errors, emitted at the schedule: more than one path, or a path that does not
/// visit all workers in order, repeatedly; layers that are unknown or cannot be
/// divided.
mlir::FailureOr<std::string> exportMegatronLayout(pipe::ScheduleOp schedule);

} // namespace pipesched

#endif // PIPESCHED_TARGET_MEGATRONLAYOUT_H
