//===- Rings.h - Times of messages and rings --------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The times of messages between workers, and of rings over groups of ranks
// (docs/CostModel.md, "Gradient all-reduces").
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_COSTMODEL_COMM_RINGS_H
#define PIPESCHED_COSTMODEL_COMM_RINGS_H

#include "PipeSched/CostModel/Comm/RankLayout.h"
#include "PipeSched/Facts/StageCosts.h"

namespace pipesched {

/// The time of a transfer without its latency, ps.
double transferPs(double bytes, const LinkFacts &link);

/// The time of one message, as occupancy and latency. Errors: a link without
/// bandwidth; times over int64.
llvm::Expected<MessageCost> hockney(int64_t bytes, const LinkFacts &link);

/// The exchange of the gradients of a step in a group: a reduce-scatter of
/// `reducedBytes`, then an all-gather of `gatheredBytes`. If both are equal,
/// this is an all-reduce.
struct GradientExchange {
  double reducedBytes = 0, gatheredBytes = 0;
};

/// Rings within nodes and across them (Patarasu & Yuan 2009): n members on n
/// nodes each send 2 (n - 1) messages of bytes / n, one after the other;
/// `bytes` of the result counts the bytes that one worker sends. A group with
/// one member takes no time. Errors: no network; times or bytes over int64.
llvm::Expected<MessageCost> ringExchange(GradientExchange exchange,
                                         RingGroup group,
                                         const SystemFacts &system);

/// Unrounded sums over rings that run one after the other. A worker sends
/// `bytes`.
struct RingSums {
  double occupancyPs = 0, latencyPs = 0, bytes = 0;

  /// Adds a ring of n = `size` members: n - 1 messages in each half of the
  /// exchange.
  void add(GradientExchange exchange, int64_t size, const LinkFacts &link);
};

/// Returns the sums that ringExchange rounds. Errors: no network.
llvm::Expected<RingSums> sumRings(GradientExchange exchange,
                                  const RingGroup &group,
                                  const SystemFacts &system);

} // namespace pipesched

#endif // PIPESCHED_COSTMODEL_COMM_RINGS_H
