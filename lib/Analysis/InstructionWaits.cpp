//===- InstructionWaits.cpp - What an instruction waits for ---------------===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// One pass over the rows: which instructions are one node, and which one is
// ahead in the queue.
//
//===----------------------------------------------------------------------===//

#include "InstructionWaits.h"

using namespace pipesched;

InstructionWaits::InstructionWaits(const Program &program, Transport transport)
    : program(program), transport(transport) {
  Queue sends = transport == Transport::Overlap    ? Sends
                : transport == Transport::Blocking ? Row
                                                   : None;
  Queue recvs = sends == Sends ? Recvs : sends;
  setQueue(InstructionKind::Compute, Row);
  setQueue(InstructionKind::AllReduce, sends);
  setQueue(InstructionKind::Send, sends);
  setQueue(InstructionKind::Recv, recvs);
  setQueue(InstructionKind::Offload, Offloads);
  setQueue(InstructionKind::Reload, Reloads);
  setQueue(InstructionKind::Wait, None);
  std::size_t size = program.instructions.size();
  nodes.assign(size, kNone);
  previous.assign(size, kNone);
  leaders.reserve(size);
  workers.reserve(size);
  for (int32_t row = 0; row < program.getNumWorkers(); ++row)
    walkRow(row);
}

void InstructionWaits::walkRow(int32_t row) {
  uint32_t last[kNumQueues + 1];
  std::fill(std::begin(last), std::end(last), kNone);
  uint32_t pendingWait = kNone;
  bool mayPair = false;
  for (uint32_t i = program.rowBegins[row]; i < program.rowBegins[row + 1];
       ++i) {
    const Instruction &instruction = program.instructions[i];
    bool isCompute = instruction.kind == InstructionKind::Compute;
    bool isSecondHalf = mayPair && isCompute;
    mayPair = isCompute && !isSecondHalf && instruction.cell.overlapsNext();

    Queue queue = queueOf(instruction.kind);
    if (queue != None)
      previous[i] = last[queue];
    last[queue] = i;
    if (instruction.kind == InstructionKind::AllReduce)
      linkReceives(i, last[Recvs]);
    joinNode(row, i, isSecondHalf);
    linkWait(i, pendingWait);
  }
}

/// Gives an instruction its node unless an earlier one of the node did.
void InstructionWaits::joinNode(int32_t row, uint32_t instruction,
                                bool isSecondHalf) {
  InstructionKind kind = program.instructions[instruction].kind;
  if (kind == InstructionKind::Wait || nodes[instruction] != kNone ||
      (kind == InstructionKind::Recv && areMessagesMerged()))
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
  if (kind == InstructionKind::Send && areMessagesMerged())
    nodes[partner] = node;
  if (kind == InstructionKind::AllReduce)
    for (; partner != instruction && partner != kNone;
         partner = program.partner[partner])
      nodes[partner] = node;
}

/// An all-reduce is in the queue of sends, or the row, as others are; under
/// Overlap it is in that of receives too, whose last is `lastReceive`.
void InstructionWaits::linkReceives(uint32_t instruction,
                                    uint32_t &lastReceive) {
  if (previousReceives.empty())
    previousReceives.assign(nodes.size(), kNone);
  if (transport != Transport::Overlap)
    return;
  previousReceives[instruction] = lastReceive;
  lastReceive = instruction;
}

void InstructionWaits::linkWait(uint32_t instruction, uint32_t &pending) {
  InstructionKind kind = program.instructions[instruction].kind;
  bool takes = kind == InstructionKind::Compute;
  if (kind != InstructionKind::Wait && (!takes || pending == kNone))
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
      program.instructions[leader].kind != InstructionKind::Compute)
    return kNone;
  return next;
}

template <typename T>
static void prefetch(const std::vector<T> &array, std::size_t index) {
  __builtin_prefetch(array.data() + std::min(index, array.size()));
}

/// A search visits the rows side by side: as many streams as there are workers,
/// more than hardware follows.
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
  // One per operand, one for the instruction ahead, one per blocking message,
  // one for the second queue of an all-reduce.
  std::size_t numMessages = 0;
  if (!areMessagesMerged())
    for (const Instruction &instruction : program.instructions)
      numMessages += instruction.kind == InstructionKind::Recv;
  std::size_t numReductions = 0;
  if (!previousReceives.empty())
    for (const Instruction &instruction : program.instructions)
      numReductions += instruction.kind == InstructionKind::AllReduce;
  return program.operands.size() + program.instructions.size() + numMessages +
         numReductions;
}
