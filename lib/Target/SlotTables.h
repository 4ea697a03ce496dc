//===- SlotTables.h - Tables to draw in slots -------------------*- C++ -*-===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Pictures in slots need only rows, no costs.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_LIB_TARGET_SLOTTABLES_H
#define PIPESCHED_LIB_TARGET_SLOTTABLES_H

#include "PipeSched/Adapter/Evaluate.h"

namespace pipesched {

/// All schedules at or below `root`, in order; programs beside them are
/// skipped. The results refer to their rows. Errors, emitted: those of
/// loadTable, after trying all schedules; only programs; neither schedules nor
/// programs.
mlir::FailureOr<std::vector<NamedTable>> loadSlotTables(mlir::Operation *root);

} // namespace pipesched

#endif // PIPESCHED_LIB_TARGET_SLOTTABLES_H
