//===- FillSchedule.h - The rows of a family --------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Fills one schedule with the rows of a family.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_LIB_TRANSFORMS_GENERATE_FILLSCHEDULE_H
#define PIPESCHED_LIB_TRANSFORMS_GENERATE_FILLSCHEDULE_H

#include "../Rows/MeasureSlots.h"
#include "PipeSched/Schedule/Family/Families.h"

namespace pipesched::pipe {

/// Writes the table of a family into a problem: its rows, its paths if they
/// differ from the problem's, and the family with its options. Slots other than
/// unit slots are allowed only for the greedy rule: the table is generated for
/// cells of these lengths, and its rows are aligned. A remark reports
/// microbatches that move to another path. Errors: as for generate(),
/// measureSlots() and alignRows().
mlir::LogicalResult fillSchedule(ScheduleOp problem, const Family &family,
                                 const FamilyOptions &options,
                                 const SlotOptions &slots = {});

} // namespace pipesched::pipe

#endif // PIPESCHED_LIB_TRANSFORMS_GENERATE_FILLSCHEDULE_H
