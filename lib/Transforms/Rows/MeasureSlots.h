//===- MeasureSlots.h - Slot lengths of a schedule --------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The pass options `slots` and `slot`, and the lengths of cells that they give
// for a schedule.
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

/// Parses the options of `pass`; `slot` is a time or empty. Errors, at `root`:
/// text that is not a time; a slot of 0; a slot unless slots measure durations.
mlir::FailureOr<SlotOptions> readSlotOptions(mlir::Operation *root,
                                             llvm::StringRef pass,
                                             SlotMeasure measure,
                                             llvm::StringRef slot);

/// The lengths of the cells that a schedule has or will get, by global stage;
/// empty for unit slots. Remarks say if durations are rounded, and if the
/// longest common slot is very short. Errors: costs that cannot be loaded; as
/// for slotsByBlocks, computeStageCosts and slotsByDurations.
mlir::FailureOr<std::vector<StageSlots>>
measureSlots(ScheduleOp schedule, const Placement &placement,
             const SlotOptions &options, CellsInUse cells);

/// The advice to add to an error about too many slots, "; a longer slot ...",
/// or nothing.
llvm::StringRef adviseOnSlots(const SlotOptions &options);

} // namespace pipesched::pipe

#endif // PIPESCHED_LIB_TRANSFORMS_ROWS_MEASURESLOTS_H
