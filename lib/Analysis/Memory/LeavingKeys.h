//===- LeavingKeys.h - Keys and values that go to the host ------*- C++ -*-===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Which offloads of slices take keys and values from the device, too
// (docs/CostModel.md, "Copies: D and U").
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_LIB_ANALYSIS_MEMORY_LEAVINGKEYS_H
#define PIPESCHED_LIB_ANALYSIS_MEMORY_LEAVINGKEYS_H

#include "PipeSched/Schedule/Table/Placement.h"

namespace pipesched {

/// The forwards of later slices read the keys and values of a slice, and so
/// does the backward of the last slice, which is the first to run:
///
///   F0 D0 F1 F2 ..       B2 B1 U0 B0    those of slice 0 stay
///   F0 F1 F2 D0 D2 .. U0 U2 B2 B1 B0    they leave: D is behind the last F,
///                                       and U before that of the last slice
///
/// The reload queue keeps its order, so that U of the last slice, for which its
/// backward waits, is behind all before it.
class LeavingKeys {
public:
  /// Without this call, or if microbatches have no slices, all leave.
  void init(const Placement &newPlacement) {
    placement = &newPlacement;
    if (placement->getNumSlices() > 1)
      states.assign(placement->getNumPairs(), 0);
  }
  bool isTracked() const { return !states.empty(); }

  /// Takes the cells of a worker in the order of its row.
  void visit(Cell cell) {
    if (cell.isPerPath())
      return;
    size_t pair = placement->pairOf(cell);
    int64_t numSlices = placement->getNumSlices();
    int64_t slice = placement->sliceOf(cell.getUnit());
    size_t last = pair + (numSlices - 1 - slice);
    if (cell.is(Phase::Forward))
      states[pair] |= HasRun;
    else if (cell.is(Phase::Offload) && (states[last] & HasRun))
      states[pair] |= IsBehindForwards;
    else if (cell.is(Phase::Reload))
      states[pair] |= IsBack;
    if (!cell.is(Phase::Reload) || pair != last)
      return;
    for (size_t other = last - (numSlices - 1); other <= last; ++other)
      if ((states[other] & IsBehindForwards) && (states[other] & IsBack))
        states[other] |= Leaves;
  }

  /// Whether an activation leaves none of its keys and values on the device.
  bool leaves(size_t pair) const {
    return states.empty() || (states[pair] & Leaves);
  }

private:
  enum State : uint8_t {
    HasRun = 1,
    IsBehindForwards = 2,
    IsBack = 4,
    Leaves = 8
  };

  const Placement *placement = nullptr;
  std::vector<uint8_t> states; ///< by pair; empty: not needed
};

} // namespace pipesched

#endif // PIPESCHED_LIB_ANALYSIS_MEMORY_LEAVINGKEYS_H
