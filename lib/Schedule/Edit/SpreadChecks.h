//===- SpreadChecks.h - What cannot be spread over workers ------*- C++ -*-===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A check that the spreading of a vocabulary and of its embedding share.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_LIB_SCHEDULE_EDIT_SPREADCHECKS_H
#define PIPESCHED_LIB_SCHEDULE_EDIT_SPREADCHECKS_H

#include "PipeSched/Schedule/Check/Verify.h"

namespace pipesched {

/// Finds a cell that rows must not have when `what` ("vocabulary") is spread
/// over their workers: one of the phases that this adds, or one of a path, such
/// as an optimizer step.
std::optional<Violation>
findSpreadOrEnded(const TableView &table, PhaseSet added, llvm::StringRef what);

} // namespace pipesched

#endif // PIPESCHED_LIB_SCHEDULE_EDIT_SPREADCHECKS_H
