//===- FillSchedule.h - The rows of a family --------------------*- C++ -*-===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What a pass that generates rows does with one schedule.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_LIB_TRANSFORMS_GENERATE_FILLSCHEDULE_H
#define PIPESCHED_LIB_TRANSFORMS_GENERATE_FILLSCHEDULE_H

#include "../Rows/MeasureSlots.h"
#include "PipeSched/Schedule/Families.h"

namespace pipesched::pipe {

/// Writes the table of a family into a problem: its rows, its paths where they
/// differ from those of the problem, and the family with its options. With
/// other slots than unit slots, which only the greedy rule takes, the table is
/// made for cells of that length, and its rows are aligned. A remark says that
/// microbatches that had a path take another. Errors: those of generate(),
/// measureSlots() and alignRows().
mlir::LogicalResult fillSchedule(ScheduleOp problem, const Family &family,
                                 const FamilyOptions &options,
                                 const SlotOptions &slots = {});

} // namespace pipesched::pipe

#endif // PIPESCHED_LIB_TRANSFORMS_GENERATE_FILLSCHEDULE_H
