//===- SelectSchedules.h - Selected schedules -------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// How the option 'schedule' restricts a pass to one schedule of the module.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_TRANSFORMS_SELECTSCHEDULES_H
#define PIPESCHED_TRANSFORMS_SELECTSCHEDULES_H

#include "PipeSched/Dialect/Pipe/IR/Pipe.h"
#include "mlir/IR/BuiltinOps.h"

namespace pipesched::pipe {

/// The schedules of a module, or only the one called `name`. Errors: the module
/// has no schedule; no schedule has that name, with the closest name.
mlir::FailureOr<llvm::SmallVector<ScheduleOp>>
selectSchedules(mlir::ModuleOp module, llvm::StringRef name);

} // namespace pipesched::pipe

#endif // PIPESCHED_TRANSFORMS_SELECTSCHEDULES_H
