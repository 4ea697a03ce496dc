//===- SpreadChecks.h - What can be spread over workers ---------*- C++ -*-===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The checks that the spreading of a vocabulary and of its embedding share.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_LIB_SCHEDULE_EDIT_SPREADCHECKS_H
#define PIPESCHED_LIB_SCHEDULE_EDIT_SPREADCHECKS_H

#include "PipeSched/Schedule/Check/Verify.h"

namespace pipesched {

/// Checks that `what` ("vocabulary") can be spread over the workers of a table,
/// which adds `cellsPerUnit` cells of these phases for each unit and worker.
/// Errors, as ViolationError: a cell of such a phase, or of a path, such as an
/// optimizer step; written slots; what verifyTable finds. Others: more than
/// kMaxTableCells.
llvm::Error checkSpreadable(const TableView &table, PhaseSet added,
                            int64_t cellsPerUnit, llvm::StringRef what);

} // namespace pipesched

#endif // PIPESCHED_LIB_SCHEDULE_EDIT_SPREADCHECKS_H
