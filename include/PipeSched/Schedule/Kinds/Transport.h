//===- Transport.h - How messages occupy workers ------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The assumptions about messages that a timing uses (docs/CostModel.md,
// "Transports").
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_SCHEDULE_KINDS_TRANSPORT_H
#define PIPESCHED_SCHEDULE_KINDS_TRANSPORT_H

#include "PipeSched/Support/EnumNames.h"
#include <cstdint>

namespace pipesched {

/// How messages occupy workers and their queues. A message takes V/BW + L
/// (Hockney).
enum class Transport : uint8_t {
  Overlap,  ///< send and receive queues separate from compute; both are held
            ///< for V/BW, and the message arrives L later
  Delay,    ///< a delay of V/BW + L and no queue
  Blocking, ///< sends and receives hold the row; the send takes V/BW + L
  Pairs     ///< the messages of two workers, both directions, share a queue in
            ///< the order in which each worker issues them; a message starts
            ///< when both have reached it, takes V/BW and arrives L later
};

template <>
struct EnumNames<Transport> {
  static constexpr EnumName<Transport> values[] = {
      {Transport::Overlap, "overlap",
       "Send and receive queues alongside compute, busy for V/BW each"},
      {Transport::Delay, "delay", "A delay of V/BW + L and no queue"},
      {Transport::Blocking, "blocking",
       "Sends and receives hold the worker's row"},
      {Transport::Pairs, "pairs",
       "A queue per pair of workers, in the order of both, alongside compute"}};
};

/// The part of V/BW + L for which a message holds its queues; it arrives after
/// the rest.
enum class HeldPart : uint8_t { None, Bandwidth, All };

constexpr HeldPart heldPart(Transport transport) {
  switch (transport) {
  case Transport::Overlap:
  case Transport::Pairs:
    return HeldPart::Bandwidth;
  case Transport::Delay:
    return HeldPart::None;
  case Transport::Blocking:
    return HeldPart::All;
  }
  return HeldPart::Bandwidth;
}

} // namespace pipesched

#endif // PIPESCHED_SCHEDULE_KINDS_TRANSPORT_H
