//===- AddFormula.h - Level 1 of an evaluation ------------------*- C++ -*-===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The formula of a family for the costs of an evaluation.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_LIB_EVALUATION_ADDFORMULA_H
#define PIPESCHED_LIB_EVALUATION_ADDFORMULA_H

#include "PipeSched/Evaluation/Evaluate.h"

namespace pipesched {

/// Adds level 1, or the reason why there is none, to an evaluation whose totals
/// already have their costs. A disturbed schedule has a formula for its slots,
/// but none for its times. `table` is read for its placement, slots and
/// gradient rule.
void addFormula(llvm::StringRef family, const FamilyOptions &options,
                const TableView &table, PhaseSet phases, bool isDisturbed,
                Evaluation &evaluation);

} // namespace pipesched

#endif // PIPESCHED_LIB_EVALUATION_ADDFORMULA_H
