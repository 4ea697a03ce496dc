//===- ForwardSends.h - Forwards that wait for their messages ---*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A timing option: frameworks that overlap messages with compute only when
// forwards and backwards alternate send synchronously during warm-up.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_SCHEDULE_PROGRAM_FORWARDSENDS_H
#define PIPESCHED_SCHEDULE_PROGRAM_FORWARDSENDS_H

#include "PipeSched/Schedule/Program/Program.h"
#include "PipeSched/Support/EnumNames.h"

namespace pipesched {

/// How the send of a forward affects the next forward.
enum class ForwardSends : uint8_t {
  Async, ///< nothing: a queue sends the message
  Sync   ///< the next forward starts when the message has arrived
};

template <>
struct EnumNames<ForwardSends> {
  static constexpr EnumName<ForwardSends> values[] = {
      {ForwardSends::Async, "async", "Nothing"},
      {ForwardSends::Sync, "sync", "It starts when the message has arrived"}};
};

/// If an F sends a message and another F directly follows it on its worker,
/// makes the second F wait until the message arrives. The operands of the
/// second F then contain the receive, which is in another worker's row, so the
/// program is only for timing and not a valid exec.program. Overlapped pairs
/// neither wait nor delay others. Linear.
void synchronizeForwards(Program &program);

} // namespace pipesched

#endif // PIPESCHED_SCHEDULE_PROGRAM_FORWARDSENDS_H
