//===- MeasureSlots.h - Slot lengths of a schedule --------------*- C++ -*-===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The options `slots` and `slot` of passes, and what they come to on a
// schedule.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_LIB_TRANSFORMS_ROWS_MEASURESLOTS_H
#define PIPESCHED_LIB_TRANSFORMS_ROWS_MEASURESLOTS_H

#include "PipeSched/Dialect/Pipe/IR/ScheduleTable.h"
#include "PipeSched/Evaluation/SlotMeasure.h"
#include "mlir/IR/BuiltinOps.h"

namespace pipesched::pipe {

struct SlotOptions {
  SlotMeasure measure = SlotMeasure::Unit;
  std::optional<int64_t> slotPs; ///< nothing: as long as divides all times
};

/// The options of `pass`, whose `slot` is a time or empty. Errors, at `root`:
/// text that is no time; a slot of 0; a slot where slots are not durations.
mlir::FailureOr<SlotOptions> readSlotOptions(mlir::Operation *root,
                                             llvm::StringRef pass,
                                             SlotMeasure measure,
                                             llvm::StringRef slot);

/// The lengths by global stage of the cells that a schedule has or gets; empty
/// for unit slots. Remarks say where durations are rounded, and where they are
/// divided too finely. Errors: costs that cannot be loaded; those of
/// slotsByBlocks, computeStageCosts and slotsByDurations.
mlir::FailureOr<std::vector<StageSlots>>
measureSlots(ScheduleOp schedule, const Placement &placement,
             const SlotOptions &options, CellsInUse cells);

/// What to do about too many slots, "; a longer slot ...", or nothing.
llvm::StringRef adviseOnSlots(const SlotOptions &options);

} // namespace pipesched::pipe

#endif // PIPESCHED_LIB_TRANSFORMS_ROWS_MEASURESLOTS_H
