//===- LongTables.h - Schedules that are not written out --------*- C++ -*-===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Evaluates a configuration with more microbatches than a table may have, by a
// shorter table of the same family.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_LIB_EVALUATION_LONGTABLES_H
#define PIPESCHED_LIB_EVALUATION_LONGTABLES_H

#include "PipeSched/Evaluation/Sweep.h"

namespace pipesched {

/// Makes the table of a configuration, with an optimizer step, if it asks for
/// one, as pipe-add-optimizer adds it.
llvm::Expected<Table> makeTable(const Configuration &configuration);

/// Whether the table of a problem may have more cells than tables may.
bool isLongTable(const Problem &problem);

/// Whether the tables of a configuration grow by whole periods: the table with
/// `period` microbatches more equals the table with `microbatches`, except that
/// it repeats its period once more. Compares both tables, in time linear in
/// their cells. Also false if either table does not exist.
bool growsByPeriods(const Configuration &configuration, int64_t microbatches,
                    int64_t period);

/// Evaluates a configuration whose table would be too long. The result has a
/// placement, but no rows, no execution and no critical path. Errors: a
/// schedule that does not repeat itself, or whose shorter tables do not grow by
/// whole periods; those of evaluateTable().
llvm::Expected<NamedEvaluation>
evaluateLongTable(const Configuration &configuration, const CostInputs &costs);

} // namespace pipesched

#endif // PIPESCHED_LIB_EVALUATION_LONGTABLES_H
