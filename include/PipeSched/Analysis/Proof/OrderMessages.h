//===- OrderMessages.h - Messages in one order of all workers ---*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Finds positions for sends and receives with which a program finishes even if
// both hold their processes, such as MPI_Ssend and MPI_Recv.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_ANALYSIS_PROOF_ORDERMESSAGES_H
#define PIPESCHED_ANALYSIS_PROOF_ORDERMESSAGES_H

#include "PipeSched/Schedule/Program/Program.h"
#include "llvm/Support/Error.h"

namespace pipesched {

/// Returns the instructions row by row in an order that finishes under
/// MessageSemantics::Rendezvous. Only sends and receives change their places
/// among the other instructions of their row.
///
/// Each row is a part of one order of all cells and messages, in which a
/// message is a single entry, so no two workers wait for each other:
///
///   slot        1    after it  2         after it
///   order       0F0  0F0->1    0F1 1F0   0F1->1 1B0->0
///   worker 0    0F0  send 0F0  0F1       send 0F1, recv 1B0
///   worker 1         recv 0F0  1F0       recv 0F1, send 1B0
///
/// Every cell takes one slot. Of the messages after a slot, first all whose
/// lower worker is even, so that a chain of workers passes them in two turns.
/// Takes time for a sort. Errors: a DeadlockError, for a program that finishes
/// in no order.
llvm::Expected<std::vector<uint32_t>> orderMessages(const Program &program);

} // namespace pipesched

#endif // PIPESCHED_ANALYSIS_PROOF_ORDERMESSAGES_H
