//===- Deadlock.cpp - A cycle of waits as text ----------------------------===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Names both instructions of a wait, their workers and the reason.
//
//===----------------------------------------------------------------------===//

#include "PipeSched/Schedule/Deadlock.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/raw_ostream.h"

using namespace pipesched;

static int64_t workerOf(const Program &program, uint32_t instruction) {
  return llvm::upper_bound(program.rowBegins, instruction) -
         program.rowBegins.begin() - 1;
}

/// As exec spells it.
static void printInstruction(llvm::raw_ostream &os, const Program &program,
                             const Instruction &instruction) {
  switch (instruction.kind) {
  case InstructionKind::Compute:
    os << "compute " << instruction.cell;
    return;
  case InstructionKind::Send:
    os << "send " << instruction.cell << " to " << instruction.peer;
    return;
  case InstructionKind::Recv:
    os << "recv " << instruction.cell << " from " << instruction.peer;
    return;
  case InstructionKind::Offload:
    os << "offload " << instruction.cell;
    return;
  case InstructionKind::Reload:
    os << "reload " << instruction.cell;
    return;
  case InstructionKind::Wait:
    os << "wait " << instruction.cell;
    return;
  case InstructionKind::AllReduce:
    os << "all_reduce " << instruction.cell;
    if (instruction.peer >= 0)
      os << " blocks " << program.blocks[instruction.peer].begin << " to "
         << program.blocks[instruction.peer].end;
    return;
  }
}

static bool isMessageEnd(InstructionKind kind) {
  return kind == InstructionKind::Send || kind == InstructionKind::Recv;
}

/// The queue that two neighbours share; without one of their kind the row is
/// it. An all-reduce is in the queues of both ends of messages.
static llvm::StringRef queueName(InstructionKind waiter,
                                 InstructionKind awaited) {
  if (waiter == InstructionKind::AllReduce && isMessageEnd(awaited))
    waiter = awaited;
  if (awaited == InstructionKind::AllReduce && isMessageEnd(waiter))
    awaited = waiter;
  if (waiter != awaited)
    return "row";
  switch (waiter) {
  case InstructionKind::Send:
  case InstructionKind::AllReduce:
    return "send queue";
  case InstructionKind::Recv:
    return "receive queue";
  case InstructionKind::Offload:
    return "offload queue";
  case InstructionKind::Reload:
    return "reload queue";
  case InstructionKind::Compute:
  case InstructionKind::Wait:
    return "compute queue";
  }
  llvm_unreachable("covered switch");
}

/// Why two instructions wait for each other that are one task, or one
/// channel's.
static llvm::StringRef bondName(const Program &program, const Wait &wait) {
  if (wait.reason == WaitReason::Channel)
    return " (sent before it)";
  InstructionKind waiter = program.instructions[wait.waiter].kind;
  InstructionKind awaited = program.instructions[wait.awaited].kind;
  if (program.partner[wait.waiter] == wait.awaited &&
      waiter != InstructionKind::AllReduce)
    return " (its message)";
  if (waiter == InstructionKind::AllReduce &&
      awaited == InstructionKind::AllReduce)
    return " (its group)";
  if (waiter == InstructionKind::Compute && awaited == InstructionKind::Compute)
    return " (overlapped with it)";
  return "";
}

std::string pipesched::describeWait(const Program &program, const Wait &wait) {
  const Instruction &waiter = program.instructions[wait.waiter];
  const Instruction &awaited = program.instructions[wait.awaited];
  std::string text;
  llvm::raw_string_ostream os(text);
  printInstruction(os, program, waiter);
  bool isQueue = wait.reason == WaitReason::Queue;
  if (isQueue || wait.reason == WaitReason::Row) {
    os << " stands behind ";
    printInstruction(os, program, awaited);
    os << " in the " << (isQueue ? queueName(waiter.kind, awaited.kind) : "row")
       << " of worker " << workerOf(program, wait.waiter);
    return text;
  }
  os << " on worker " << workerOf(program, wait.waiter) << " waits for ";
  printInstruction(os, program, awaited);
  os << " on worker " << workerOf(program, wait.awaited)
     << bondName(program, wait);
  return text;
}

char DeadlockError::ID = 0;

DeadlockError::DeadlockError(const Program &program, Deadlock cycleOfWaits)
    : deadlock(std::move(cycleOfWaits)) {
  constexpr std::size_t maxLines = 8;
  llvm::ArrayRef<Wait> cycle = deadlock.cycle;
  llvm::raw_string_ostream os(text);
  os << "deadlock: a cycle of " << cycle.size() << " waits";
  for (const Wait &wait : cycle.take_front(maxLines))
    os << "\n  " << describeWait(program, wait);
  if (cycle.size() > maxLines)
    os << "\n  and " << cycle.size() - maxLines << " more";
}
