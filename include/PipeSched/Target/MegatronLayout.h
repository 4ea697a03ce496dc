//===- MegatronLayout.h - Layouts of schedule ops ---------------*- C++ -*-===//
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

#ifndef PIPESCHED_TARGET_MEGATRONLAYOUT_H
#define PIPESCHED_TARGET_MEGATRONLAYOUT_H

#include "PipeSched/Dialect/Pipe/IR/Pipe.h"

namespace pipesched {

/// The layout of a schedule, rows or not, without an end of line. Errors,
/// emitted at the schedule: paths other than one that goes through all workers
/// again and again; layers that are not known or cannot be divided.
mlir::FailureOr<std::string> exportMegatronLayout(pipe::ScheduleOp schedule);

} // namespace pipesched

#endif // PIPESCHED_TARGET_MEGATRONLAYOUT_H
