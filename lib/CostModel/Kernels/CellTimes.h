//===- CellTimes.h - Rounded times of cells and their parts -----*- C++ -*-===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What a roofline knows of the cells of a stage, before they are lists of
// segments.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_LIB_COSTMODEL_KERNELS_CELLTIMES_H
#define PIPESCHED_LIB_COSTMODEL_KERNELS_CELLTIMES_H

#include "PipeSched/Facts/CellCosts.h"

namespace pipesched {

/// The rounded times of the cells of a stage, ps, and what of them is on its
/// way. Whole times are rounded first and parts apart, so that how a cell is
/// divided changes no time.
struct CellTimes {
  int64_t &operator[](Phase phase) { return all[phase]; }
  /// What is on its way becomes a segment, and compute has the rest. Errors:
  /// those of CellCosts::setSegments.
  llvm::Error storeIn(CellCosts &cells, int64_t slice) const;

  PhaseMap<int64_t> all = {};
  /// Rows on their way to experts and back: what the cell waits for, and what
  /// the compute of another cell hides, which is no part of its time.
  PhaseMap<int64_t> dispatch = {}, hiddenDispatch = {};
  PhaseMap<Exchange> context = {};
};

} // namespace pipesched

#endif // PIPESCHED_LIB_COSTMODEL_KERNELS_CELLTIMES_H
