//===- Deadlock.cpp - A cycle of waits as text ----------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Describes a wait: both instructions, their workers and the reason.
//
//===----------------------------------------------------------------------===//

#include "PipeSched/Schedule/Program/Deadlock.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/raw_ostream.h"

using namespace pipesched;

static int64_t workerOf(const Program &program, uint32_t instruction) {
  return llvm::upper_bound(program.rowBegins, instruction) -
         program.rowBegins.begin() - 1;
}

/// Prints an instruction as exec spells it.
static void printInstruction(llvm::raw_ostream &os, const Program &program,
                             const Instruction &instruction) {
  os << enumName(instruction.kind) << ' ' << program.nameOf(instruction.cell);
  if (instruction.is(InstructionRole::Message))
    os << (instruction.is(InstructionKind::Send) ? " to " : " from ")
       << instruction.peer;
  // The text of the cell names the microbatch.
  if (instruction.is(InstructionRole::Collective) && instruction.peer >= 0 &&
      traitsOf(instruction.kind).grouping == Grouping::Blocks)
    os << ' ' << describeGroup(program.groups[instruction.peer]);
}

std::string pipesched::describeInstruction(const Program &program,
                                           const Instruction &instruction) {
  std::string text;
  llvm::raw_string_ostream os(text);
  printInstruction(os, program, instruction);
  return text;
}

/// The queue that two instructions share under the transport `overlap`. If they
/// share none, messages hold rows, and both are in the row.
static llvm::StringRef queueName(InstructionKind waiter,
                                 InstructionKind awaited) {
  QueueSet ofWaiter = queuesOf(waiter, Transport::Overlap);
  QueueSet ofAwaited = queuesOf(awaited, Transport::Overlap);
  for (const EnumName<Queue> &queue : EnumNames<Queue>::values)
    if (ofWaiter.contains(queue.value) && ofAwaited.contains(queue.value))
      return queue.name;
  return "row";
}

/// The reason why an instruction waits for another instruction of the same task
/// or channel.
static llvm::StringRef bondName(const Program &program, const Wait &wait) {
  if (wait.reason == WaitReason::Channel)
    return " (sent before it)";
  const Instruction &waiter = program.instructions[wait.waiter];
  const Instruction &awaited = program.instructions[wait.awaited];
  if (waiter.is(InstructionRole::Collective))
    return awaited.kind == waiter.kind ? " (its group)" : "";
  if (program.partner[wait.waiter] == wait.awaited)
    return " (its message)";
  if (waiter.is(InstructionRole::Compute) &&
      awaited.is(InstructionRole::Compute))
    return " (overlapped with it)";
  return "";
}

std::string pipesched::describeWait(const Program &program, const Wait &wait) {
  const Instruction &waiter = program.instructions[wait.waiter];
  const Instruction &awaited = program.instructions[wait.awaited];
  std::string text;
  llvm::raw_string_ostream os(text);
  printInstruction(os, program, waiter);
  if (wait.reason == WaitReason::Pair) {
    os << " comes after ";
    printInstruction(os, program, awaited);
    os << " among the messages of worker " << workerOf(program, wait.waiter)
       << " with worker " << waiter.peer;
    return text;
  }
  bool isQueue = wait.reason == WaitReason::Queue;
  if (isQueue || wait.reason == WaitReason::Row) {
    os << " comes after ";
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
