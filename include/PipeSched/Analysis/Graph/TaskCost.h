//===- TaskCost.h - Cost of a message under a transport ---------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// How a transport charges the cost of a message (docs/CostModel.md, "Messages:
// Hockney").
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_ANALYSIS_GRAPH_TASKCOST_H
#define PIPESCHED_ANALYSIS_GRAPH_TASKCOST_H

#include "PipeSched/Analysis/Graph/TaskGraph.h"

namespace pipesched {

/// Times from the cost model. They are unsigned so that the sum of any two
/// fits.
struct TaskCost {
  uint64_t occupancyPs = 0, latencyPs = 0;
  uint64_t aheadPs = 0; ///< MessageCost::aheadPs
};

inline TaskCost chargeMessage(const MessageCost &message, Transport transport) {
  uint64_t occupancyPs = message.occupancyPs, latencyPs = message.latencyPs;
  switch (heldPart(transport)) {
  case HeldPart::Bandwidth:
    return {occupancyPs, latencyPs, uint64_t(message.aheadPs)};
  case HeldPart::None:
    return {0, occupancyPs + latencyPs, uint64_t(message.aheadPs)};
  case HeldPart::All: // it holds the row, so no cell computes meanwhile
    return {occupancyPs + latencyPs, 0};
  }
  llvm_unreachable("covered switch");
}

/// Returns MessageCost::aheadPs for a message of an overlapped pair whose
/// PairTime::behindPs is given.
inline int64_t aheadOfPair(const MessageCost &message, int64_t behindPs) {
  return std::min<uint64_t>(behindPs, uint64_t(message.occupancyPs) +
                                          uint64_t(message.latencyPs));
}

} // namespace pipesched

#endif // PIPESCHED_ANALYSIS_GRAPH_TASKCOST_H
