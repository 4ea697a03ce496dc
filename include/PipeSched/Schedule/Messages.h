//===- Messages.h - Does a program finish -----------------------*- C++ -*-===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Proves that a program finishes, or returns the cycle of waits in which it
// stops, by what a message layer promises about senders and receivers.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_SCHEDULE_MESSAGES_H
#define PIPESCHED_SCHEDULE_MESSAGES_H

#include "PipeSched/Schedule/Deadlock.h"
#include "PipeSched/Support/EnumNames.h"

namespace pipesched {

/// How senders and receivers wait for each other. Under all four one process
/// per worker runs its row from front to back, a receive holds its process
/// until the message is there, and an all-reduce until its group is. Messages
/// find their receive by name, as with MPI's tags.
///
///                send holds        a message is there when
///   Unbounded    nothing           its send is reached
///   Fifo         nothing           its send is reached and the messages sent
///                                  before it from the same worker to the same
///                                  worker are received
///   Rendezvous   its process       both its send and its receive are reached
///   Batched      its batch         both their batches are reached
///
/// Unbounded is MPI's buffered mode (MPI 4.0, 3.4). Fifo adds one queue without
/// tags per pair of workers, such as a socket or a pipe. Rendezvous is MPI's
/// synchronous mode, and NCCL without groups ("blocking for the GPU"). A batch
/// is one ncclGroupStart .. ncclGroupEnd or one batch_isend_irecv: its calls
/// progress independently, and the process goes on when all are complete
/// (NCCL user guide, point-to-point communication). NCCL has no tags and serves
/// calls to one peer in their order, so a program for it needs Fifo as well.
enum class MessageSemantics : uint8_t { Unbounded, Fifo, Rendezvous, Batched };

template <>
struct EnumNames<MessageSemantics> {
  static constexpr EnumName<MessageSemantics> values[] = {
      {MessageSemantics::Unbounded, "unbounded", "Sends never wait"},
      {MessageSemantics::Fifo, "fifo",
       "Sends never wait, a channel keeps its order"},
      {MessageSemantics::Rendezvous, "rendezvous",
       "A send and its receive wait for each other"},
      {MessageSemantics::Batched, "batched",
       "As rendezvous, neighbours issued together"}};
};

/// The value of the option `messages` for it: `unbounded`, ..
llvm::StringRef messageSemanticsName(MessageSemantics semantics);

/// Decides whether a program finishes. Linear in instructions and operands.
///
/// The all-reduces of one G cell begin together, under all four, and the row
/// goes on when all are done.
///
/// The batches of a row are its longest runs of sends and receives that no
/// compute or all-reduce interrupts:
///
///   F0 | send 0F0, recv 1B0 | B0 | send ..         copies and waits between
///                                                  them do not interrupt
///
/// and that do not wait for a message of their own run: one that does, directly
/// or through a copy, begins the next batch.
///
/// What finishes under Rendezvous finishes under the other three, and what
/// finishes under Fifo under Unbounded. Needs a program whose Sends and Recvs
/// have partners, and whose operands are earlier instructions of the row
/// (readers check both). Errors: DeadlockError; more than 2^31 - 1 sends,
/// receives and all-reduces.
llvm::Error verifyMessages(const Program &program, MessageSemantics semantics);

} // namespace pipesched

#endif // PIPESCHED_SCHEDULE_MESSAGES_H
