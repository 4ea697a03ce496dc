//===- Steps.h - The entries of a row -------------------------*- C++ -*-===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Rows entry by entry, and what a cell is to its activations: for transforms.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_LIB_SCHEDULE_STEPS_H
#define PIPESCHED_LIB_SCHEDULE_STEPS_H

#include "PipeSched/Schedule/Cell.h"
#include "llvm/ADT/ArrayRef.h"

namespace pipesched {

/// Needs the activations first.
inline bool isBackward(Cell cell) {
  return cell.is(Phase::Backward) || cell.is(Phase::InputGrad);
}

/// Frees the activations.
inline bool freesActivations(Cell cell) {
  return cell.is(Phase::Backward) || cell.is(Phase::WeightGrad);
}

/// Calls `visit(index, cells)` for each entry of a row, the cells of an
/// overlapped pair together.
template <typename Visit>
void forEachStep(llvm::ArrayRef<Cell> row, Visit &&visit) {
  for (size_t i = 0; i < row.size();) {
    size_t count = row[i].overlapsNext() ? 2 : 1;
    visit(i, row.slice(i, count));
    i += count;
  }
}

} // namespace pipesched

#endif // PIPESCHED_LIB_SCHEDULE_STEPS_H
