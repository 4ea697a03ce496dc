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
  /// Absent: the longest slot that divides all times.
  std::optional<int64_t> slotPs;
};

/// Parses the options of `pass`; `slot` is a time or empty. Errors, at `root`:
/// text that is not a time; a slot of 0; a slot unless slots measure durations.
mlir::FailureOr<SlotOptions> readSlotOptions(mlir::Operation *root,
                                             llvm::StringRef pass,
                                             SlotMeasure measure,
                                             llvm::StringRef slot);

/// Returns the lengths of the cells that a schedule has or will get, by global
/// stage; empty for unit slots. Remarks report rounded durations and a very
/// short common slot. Errors: costs that cannot be loaded; as for
/// slotsByBlocks, computeStageCosts and slotsByDurations.
mlir::FailureOr<std::vector<StageSlots>>
measureSlots(ScheduleOp schedule, const Placement &placement,
             const SlotOptions &options, CellsInUse cells);

/// Returns advice for an error about too many slots, "; a longer slot ...", or
/// an empty text.
llvm::StringRef adviseOnSlots(const SlotOptions &options);

} // namespace pipesched::pipe

#endif // PIPESCHED_LIB_TRANSFORMS_ROWS_MEASURESLOTS_H
