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

#ifndef PIPESCHED_ANALYSIS_MESSAGES_H
#define PIPESCHED_ANALYSIS_MESSAGES_H

#include "PipeSched/Schedule/Deadlock.h"
#include "PipeSched/Schedule/MessageSemantics.h"

namespace pipesched {

/// Decides whether a program finishes. Linear in instructions and operands.
///
/// The all-reduces of one G cell begin together, except under Pairs, and the
/// row goes on when all are done.
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

#endif // PIPESCHED_ANALYSIS_MESSAGES_H
