//===- MessageSemantics.h - Assumptions about a message layer ---*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Assumptions about the message layer under which a program is proved to finish
// (docs/Dialects/RationalePipe.md, "Message semantics").
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_SCHEDULE_PROGRAM_MESSAGESEMANTICS_H
#define PIPESCHED_SCHEDULE_PROGRAM_MESSAGESEMANTICS_H

#include "PipeSched/Support/EnumNames.h"
#include <cstdint>

namespace pipesched {

/// How senders and receivers wait for each other. One process per worker runs
/// its row from front to back. Messages find their receive by name, as with
/// MPI's tags. Under the first four a receive holds its process until the
/// message is there, and an all-reduce until its group is:
///
///                send holds        a message is there when
///   Unbounded    nothing           its send is reached
///   Fifo         nothing           its send is reached, and all messages sent
///                                  before it from the same worker to the same
///                                  worker are received
///   Rendezvous   its process       its send and its receive are reached
///   Batched      its batch         the batches of both are reached
///
/// Unbounded is MPI's buffered mode (MPI 4.0, 3.4). Fifo adds one queue without
/// tags per pair of workers, such as a socket or a pipe. Rendezvous is MPI's
/// synchronous mode, and NCCL without groups ("blocking for the GPU"). A batch
/// is one ncclGroupStart .. ncclGroupEnd or one batch_isend_irecv: its calls
/// progress independently, and the process continues when all are complete
/// (NCCL user guide, point-to-point communication). NCCL has no tags and serves
/// calls to one peer in their order, so a program for it needs Fifo as well.
///
/// Under Pairs only computes hold a process: a compute waits until the messages
/// and all-reduces that it needs are done. The messages of two workers, both
/// directions, happen one after the other in the order in which each worker
/// reaches them, and all-reduces in the order of each worker. PyTorch runs
/// isend and irecv over NCCL in this way, on one stream per pair of ranks.
enum class MessageSemantics : uint8_t {
  Unbounded,
  Fifo,
  Rendezvous,
  Batched,
  Pairs
};

template <>
struct EnumNames<MessageSemantics> {
  static constexpr EnumName<MessageSemantics> values[] = {
      {MessageSemantics::Unbounded, "unbounded", "Sends never wait"},
      {MessageSemantics::Fifo, "fifo",
       "Sends never wait, a channel keeps its order"},
      {MessageSemantics::Rendezvous, "rendezvous",
       "A send and its receive wait for each other"},
      {MessageSemantics::Batched, "batched",
       "As rendezvous, neighbours issued together"},
      {MessageSemantics::Pairs, "pairs",
       "One queue per pair of workers, both directions, in the order of both"}};
};

/// When a posted send ends, so that its buffer may be used again: MPI's
/// buffered and synchronous modes (MPI 4.0, 3.4).
enum class SendMode : uint8_t { Buffered, Rendezvous };

template <>
struct EnumNames<SendMode> {
  static constexpr EnumName<SendMode> values[] = {
      {SendMode::Buffered, "buffered", "A posted send ends by itself"},
      {SendMode::Rendezvous, "rendezvous",
       "A posted send ends when its receive is posted"}};
};

} // namespace pipesched

#endif // PIPESCHED_SCHEDULE_PROGRAM_MESSAGESEMANTICS_H
