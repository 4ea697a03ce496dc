//===- VerifyFamily.h - Checks the family of rows ---------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Checks the family of a schedule. A schedule that was written or changed by
// hand may carry the name of a family whose formula does not hold for its rows.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_SCHEDULE_FAMILY_VERIFYFAMILY_H
#define PIPESCHED_SCHEDULE_FAMILY_VERIFYFAMILY_H

#include "PipeSched/Schedule/Check/Verify.h"
#include "PipeSched/Schedule/Family/Families.h"

namespace pipesched {

/// Checks that the rows of a complete table are rows of a family, so that the
/// family's formula holds for them. It generates the rows again on the table's
/// placement and compares them, except for idle slots. Linear in cells if the
/// generator is. `options` are the options with which the rows were generated,
/// including the slot lengths if there were any.
std::optional<Violation> verifyFamily(const TableView &table,
                                      const Family &family,
                                      const FamilyOptions &options);

} // namespace pipesched

#endif // PIPESCHED_SCHEDULE_FAMILY_VERIFYFAMILY_H
