//===- InstructionWaits.cpp - Dependences of instructions -----------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// One sweep over the rows finds the instructions that form one node, and the
// predecessor of each instruction in its queues.
//
//===----------------------------------------------------------------------===//

#include "InstructionWaits.h"

using namespace pipesched;

InstructionWaits::InstructionWaits(const Program &program, Transport transport)
    : program(program), transport(transport) {
  for (unsigned kind = 0; kind < kNumInstructionKinds; ++kind)
    queues[kind] = queuesOf(static_cast<InstructionKind>(kind), transport);
  std::size_t size = program.instructions.size();
  nodes.assign(size, kNone);
  previous.assign(size, kNone);
  leaders.reserve(size);
  workers.reserve(size);
  if (queuesOf(InstructionKind::Send, transport).contains(Queue::Pair)) {
    issuedBehind.assign(size, kNone);
    lastWithPeer.assign(program.getNumWorkers(), kNone);
  }
  for (int32_t row = 0; row < program.getNumWorkers(); ++row)
    walkRow(row);
}

void InstructionWaits::walkRow(int32_t row) {
  QueueEnds ends;
  ends.fill(kNone);
  uint32_t pendingWait = kNone;
  bool mayPair = false;
  for (uint32_t i = program.rowBegins[row]; i < program.rowBegins[row + 1];
       ++i) {
    const Instruction &instruction = program.instructions[i];
    bool isCompute = instruction.is(InstructionRole::Compute);
    bool isSecondHalf = mayPair && isCompute;
    mayPair = isCompute && !isSecondHalf && instruction.cell.overlapsNext();

    if (isInPair(i))
      joinPair(row, i, ends[static_cast<unsigned>(Queue::Row)]);
    else
      joinQueues(i, ends);
    joinNode(row, i, isSecondHalf);
    linkWait(i, pendingWait);
  }
}

/// Gives an instruction its node, unless an earlier instruction of the same
/// node already did.
void InstructionWaits::joinNode(int32_t row, uint32_t instruction,
                                bool isSecondHalf) {
  const Instruction &self = program.instructions[instruction];
  if (self.is(InstructionRole::Join) || nodes[instruction] != kNone ||
      (self.is(InstructionKind::Recv) && isMerged()))
    return;
  if (isSecondHalf) {
    nodes[instruction] = nodes[instruction - 1];
    return;
  }
  uint32_t node = leaders.size();
  leaders.push_back(instruction);
  workers.push_back(row);
  nodes[instruction] = node;
  uint32_t partner = program.partner[instruction];
  if (self.is(InstructionKind::Send) && isMerged())
    nodes[partner] = node;
  if (self.is(InstructionRole::Collective))
    for (; partner != instruction && partner != kNone;
         partner = program.partner[partner])
      nodes[partner] = node;
}

void InstructionWaits::joinQueues(uint32_t instruction, QueueEnds &ends) {
  bool isFirst = true;
  queuesOfInstruction(instruction).forEach([&](Queue queue) {
    uint32_t last =
        std::exchange(ends[static_cast<unsigned>(queue)], instruction);
    if (std::exchange(isFirst, false)) {
      previous[instruction] = last;
      return;
    }
    if (previousInSecond.empty())
      previousInSecond.assign(nodes.size(), kNone);
    previousInSecond[instruction] = last;
  });
}

/// A worker issues its messages in program order. Each is issued when the
/// earlier computes are done.
void InstructionWaits::joinPair(int32_t row, uint32_t instruction,
                                uint32_t lastCompute) {
  uint32_t &lastOfPair = lastWithPeer[program.instructions[instruction].peer];
  uint32_t last = std::exchange(lastOfPair, instruction);
  if (last != kNone && last >= program.rowBegins[row])
    previous[instruction] = last;
  if (!llvm::is_contained(program.operandsOf(instruction), lastCompute))
    issuedBehind[instruction] = lastCompute;
}

void InstructionWaits::linkWait(uint32_t instruction, uint32_t &pending) {
  const Instruction &self = program.instructions[instruction];
  bool takes =
      self.is(InstructionRole::Compute) || self.is(InstructionKind::Reload);
  if (!self.is(InstructionRole::Join) && (!takes || pending == kNone))
    return;
  if (pendingWaits.empty())
    pendingWaits.assign(nodes.size(), kNone);
  pendingWaits[instruction] = pending;
  pending = takes ? kNone : instruction;
}

uint32_t InstructionWaits::secondHalfOf(uint32_t leader) const {
  uint32_t next = leader + 1;
  if (!program.instructions[leader].cell.overlapsNext() ||
      next == nodes.size() || nodes[next] != nodes[leader] ||
      !program.instructions[leader].is(InstructionRole::Compute))
    return kNone;
  return next;
}

template <typename T>
static void prefetch(const std::vector<T> &array, std::size_t index) {
  __builtin_prefetch(array.data() + std::min(index, array.size()));
}

/// A search visits the rows in parallel. So it reads one memory stream per
/// worker, which are more streams than the hardware prefetcher follows.
void InstructionWaits::prefetchAfter(uint32_t node) const {
  constexpr std::size_t lookahead = 16;
  uint32_t leader = leaders[node];
  std::size_t ahead = leader + lookahead;
  prefetch(leaders, node + lookahead);
  prefetch(program.instructions, ahead);
  prefetch(program.partner, ahead);
  prefetch(program.operandBegins, ahead);
  prefetch(program.operands, program.operandBegins[leader] + lookahead);
  prefetch(nodes, ahead);
  prefetch(previous, ahead);
}

std::size_t InstructionWaits::getMaxWaits() const {
  // One wait per operand, one for the predecessor in each queue, one for the
  // compute after which a message is issued, and one per receive that is a
  // separate node.
  std::size_t numReceives = 0;
  if (!isMerged())
    for (const Instruction &instruction : program.instructions)
      numReceives += instruction.is(InstructionKind::Recv);
  return program.operands.size() + program.instructions.size() +
         previousInSecond.size() + issuedBehind.size() + numReceives;
}
