//===- Messages.h - Proof that a program finishes ---------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Proves that a program finishes under given message semantics, or returns a
// cycle of waits that stops it.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_ANALYSIS_PROOF_MESSAGES_H
#define PIPESCHED_ANALYSIS_PROOF_MESSAGES_H

#include "PipeSched/Schedule/Program/Deadlock.h"
#include "PipeSched/Schedule/Program/MessageSemantics.h"

namespace pipesched {

/// Decides whether a program finishes. Linear in instructions and operands.
///
/// Except under Pairs, the all-reduces of one G cell start together, and the
/// row continues when all of them are done.
///
/// The batches of a row are its longest runs of sends and receives that no
/// compute or all-reduce interrupts:
///
///   F0 | send 0F0, recv 1B0 | B0 | send ..         copies and waits between
///                                                  them do not interrupt
///
/// A send or receive that waits, directly or through a copy, for a message of
/// the same run starts the next batch.
///
/// A program that finishes under Rendezvous also finishes under Batched, Fifo
/// and Unbounded; one that finishes under Fifo also finishes under Unbounded.
/// Every Send and Recv must have its partner, and operands must be earlier
/// instructions of the row (readers check both). Errors: DeadlockError; more
/// than 2^31 - 1 sends, receives and all-reduces.
llvm::Error verifyMessages(const Program &program, MessageSemantics semantics);

/// Decides whether a program finishes if each process has one thread and posts
/// its messages. A process walks its row. Before an instruction it waits for
/// the operands of that instruction, and before a compute or reload also for
/// the operands of the Waits in front of it. It posts sends, receives, copies
/// and all-reduces, which end by themselves: a receive when its send is posted
/// too, a collective when its whole group is posted, a send by `mode`. If sends
/// block, a process waits for each send before it continues. Linear.
/// Requirements and errors as for verifyMessages, which covers processes whose
/// receives block.
llvm::Error verifyPosted(const Program &program, SendMode mode,
                         bool sendsBlock = false);

/// The same with the given operands instead of the program's: CSR by
/// instruction.
llvm::Error verifyPosted(const Program &program,
                         llvm::ArrayRef<uint32_t> operandBegins,
                         llvm::ArrayRef<uint32_t> operands, SendMode mode,
                         bool sendsBlock = false);

} // namespace pipesched

#endif // PIPESCHED_ANALYSIS_PROOF_MESSAGES_H
