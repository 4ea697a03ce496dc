//===- ForwardSends.h - Forwards that wait for their messages ---*- C++ -*-===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A timing option: frameworks that overlap messages with compute only where
// forwards and backwards alternate send synchronously while they warm up.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_SCHEDULE_FORWARDSENDS_H
#define PIPESCHED_SCHEDULE_FORWARDSENDS_H

#include "PipeSched/Schedule/Program.h"
#include "PipeSched/Support/EnumNames.h"

namespace pipesched {

/// What the send of a forward does to the forward behind it.
enum class ForwardSends : uint8_t {
  Async, ///< nothing: the send is a queue's business
  Sync   ///< it starts when the message has arrived
};

template <>
struct EnumNames<ForwardSends> {
  static constexpr EnumName<ForwardSends> values[] = {
      {ForwardSends::Async, "async", "Nothing"},
      {ForwardSends::Sync, "sync", "It starts when the message has arrived"}};
};

/// Makes each F that runs right behind an F of the same worker wait for the
/// message that the first has sent, if it has: its operands get the receive, in
/// the row of another worker. For timing; such a program is no exec.program.
/// Overlapped pairs neither wait nor are waited for. Linear.
void synchronizeForwards(Program &program);

} // namespace pipesched

#endif // PIPESCHED_SCHEDULE_FORWARDSENDS_H
