//===- StageCosts.cpp - What pairs of cells cost --------------------------===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The one rule for the time of two cells that overlap, and sums of what ranks
// pass on.
//
//===----------------------------------------------------------------------===//

#include "PipeSched/Facts/StageCosts.h"
#include "llvm/Support/MathExtras.h"
#include <algorithm>

using namespace pipesched;

bool ContextCost::add(const ContextCost &cost, int64_t count) {
  for (auto part :
       {&ContextCost::ps, &ContextCost::exposedPs, &ContextCost::bytes}) {
    int64_t product = 0;
    if (llvm::MulOverflow(count, cost.*part, product) ||
        llvm::AddOverflow(this->*part, product, this->*part))
      return false;
  }
  return true;
}

uint64_t StageCosts::pairPs(const StageCost &first, Phase firstPhase,
                            const StageCost &second, Phase secondPhase) const {
  auto at = [](const auto &times, Phase phase) {
    return static_cast<uint64_t>(times[phase]);
  };
  uint64_t one = at(first.phasePs, firstPhase);
  uint64_t other = at(second.phasePs, secondPhase);
  if (!overlapsPairs)
    return one + other;
  uint64_t dispatches =
      at(first.dispatchPs, firstPhase) + at(second.dispatchPs, secondPhase);
  return std::max({one + other - dispatches, dispatches, one, other});
}

bool StageCosts::hasDispatches() const {
  for (const StageCost &stage : stages)
    for (int64_t ps : stage.dispatchPs)
      if (ps != 0)
        return true;
  return false;
}
