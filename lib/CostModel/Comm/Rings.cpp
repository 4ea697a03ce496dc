//===- Rings.cpp - Messages and rings -------------------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The times of messages between workers, and of rings over groups of ranks.
//
//===----------------------------------------------------------------------===//

#include "PipeSched/CostModel/Comm/Rings.h"
#include "StorePs.h"

using namespace pipesched;

double pipesched::transferPs(double bytes, const LinkFacts &link) {
  return bytes / (double(link.bytesPerSecond) * link.efficiency.at(bytes)) *
         kPsPerSecond;
}

llvm::Expected<MessageCost> pipesched::hockney(int64_t bytes,
                                               const LinkFacts &link) {
  if (link.bytesPerSecond <= 0)
    return makeError("the system has no network between workers");
  MessageCost cost;
  cost.bytes = bytes;
  cost.latencyPs = link.latencyPs;
  if (llvm::Error error =
          store(transferPs(double(bytes), link), "a message", cost.occupancyPs))
    return std::move(error);
  return cost;
}

void RingSums::add(GradientExchange exchange, int64_t size,
                   const LinkFacts &link) {
  double parts = double(size), steps = parts - 1;
  for (double total : {exchange.reducedBytes, exchange.gatheredBytes}) {
    if (size == 1 || total == 0)
      continue;
    occupancyPs += steps * transferPs(total / parts, link);
    latencyPs += steps * double(link.latencyPs);
    bytes += steps * total / parts;
  }
}

llvm::Expected<RingSums> pipesched::sumRings(GradientExchange exchange,
                                             const RingGroup &group,
                                             const SystemFacts &system) {
  RingSums sums;
  if (group.size() == 1 || exchange.reducedBytes + exchange.gatheredBytes == 0)
    return sums;
  double parts = 1;
  for (auto [level, size] : llvm::zip_equal(kNetworkLevels, group.sizes())) {
    LinkFacts link = linkOfWorker(level, system);
    if (size > 1 && level != NetworkLevel::Link && link.bytesPerSecond <= 0)
      return makeError(level == NetworkLevel::Spine
                           ? "the system has no spine between pods"
                           : "the system has no network between workers");
    sums.add({exchange.reducedBytes / parts, exchange.gatheredBytes / parts},
             size, link);
    parts *= double(size);
  }
  return sums;
}

llvm::Expected<MessageCost> pipesched::ringExchange(GradientExchange exchange,
                                                    RingGroup group,
                                                    const SystemFacts &system) {
  llvm::Expected<RingSums> rings = sumRings(exchange, group, system);
  if (!rings)
    return rings.takeError();
  RingSums sums = *rings;
  MessageCost cost;
  if (auto error = store(sums.occupancyPs, "an all-reduce", cost.occupancyPs))
    return std::move(error);
  if (auto error = store(sums.latencyPs, "an all-reduce", cost.latencyPs))
    return std::move(error);
  if (!(std::nearbyint(sums.bytes) < kPsLimit))
    return makeError(
        "a worker sends more than 2^63 - 1 bytes in an all-reduce");
  cost.bytes = static_cast<int64_t>(std::nearbyint(sums.bytes));
  return cost;
}
