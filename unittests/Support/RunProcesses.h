//===- RunProcesses.h - Programs, run by processes --------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Simulates the message semantics: processes take turns, and each runs as far
// as it can. It uses no graph, so that it can be read as the definition of the
// semantics.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_UNITTESTS_SUPPORT_RUNPROCESSES_H
#define PIPESCHED_UNITTESTS_SUPPORT_RUNPROCESSES_H

#include "PipeSched/Analysis/Proof/Messages.h"
#include "llvm/ADT/STLExtras.h"
#include <deque>
#include <map>

namespace pipesched {

class Processes {
public:
  Processes(const Program &program, MessageSemantics semantics)
      : program(program), semantics(semantics),
        next(program.rowBegins.begin(), program.rowBegins.end() - 1),
        isReached(program.instructions.size()) {}

  /// Whether all processes reach the end of their rows.
  bool finish() {
    hasProgress = true;
    while (hasProgress) {
      hasProgress = false;
      for (size_t worker = 0; worker < next.size(); ++worker)
        while (next[worker] != program.rowBegins[worker + 1] && step(worker))
          hasProgress = true;
    }
    return llvm::equal(next, llvm::drop_begin(program.rowBegins));
  }

  /// The end of the batch that starts at a send or receive.
  uint32_t batchEnd(uint32_t begin, uint32_t rowEnd) const {
    uint32_t end = begin;
    while (end < rowEnd && !interruptsBatch(end, begin))
      ++end;
    return end;
  }

private:
  const Instruction &at(uint32_t instruction) const {
    return program.instructions[instruction];
  }
  bool isMessage(uint32_t instruction) const {
    return at(instruction).kind == InstructionKind::Send ||
           at(instruction).kind == InstructionKind::Recv;
  }
  bool interruptsBatch(uint32_t instruction, uint32_t begin) const {
    InstructionKind kind = at(instruction).kind;
    if (kind == InstructionKind::Compute || kind == InstructionKind::AllReduce)
      return true;
    for (uint32_t operand : program.operandsOf(instruction))
      if (operand >= begin && isMessage(operand))
        return kind != InstructionKind::Wait;
    return false;
  }

  /// Gives a process one turn; returns false if it is held.
  bool step(int64_t worker) {
    uint32_t instruction = next[worker];
    if (at(instruction).kind == InstructionKind::AllReduce)
      return meetGroups(worker, instruction);
    if (!isMessage(instruction))
      return goOn(worker);
    switch (semantics) {
    case MessageSemantics::Unbounded:
      return runBuffered(worker, instruction);
    case MessageSemantics::Fifo:
      return runChannel(worker, instruction);
    case MessageSemantics::Rendezvous:
      return runRendezvous(worker, instruction);
    case MessageSemantics::Batched:
      return runBatch(worker, instruction);
    case MessageSemantics::Pairs:
      break;
    }
    llvm_unreachable("PairProcesses.h runs messages in pairs");
  }

  bool goOn(int64_t worker) { return ++next[worker]; }

  /// Reaching a call counts as progress, since its partner may now continue.
  void reach(uint32_t instruction) {
    hasProgress |= !isReached[instruction];
    isReached[instruction] = true;
  }

  /// The end of the all-reduces of one G cell, which start together.
  uint32_t reductionsEnd(uint32_t begin, uint32_t rowEnd) const {
    uint32_t end = begin;
    while (end < rowEnd && at(end).kind == InstructionKind::AllReduce &&
           at(end).cell == at(begin).cell)
      ++end;
    return end;
  }

  bool meetGroups(int64_t worker, uint32_t begin) {
    uint32_t end = reductionsEnd(begin, program.rowBegins[worker + 1]);
    for (uint32_t i = begin; i < end; ++i)
      reach(i);
    for (uint32_t i = begin; i < end; ++i)
      for (uint32_t other = program.partner[i];
           other != i && other != Program::kNone;
           other = program.partner[other])
        if (!isReached[other])
          return false;
    next[worker] = end;
    return true;
  }

  bool runBuffered(int64_t worker, uint32_t instruction) {
    reach(instruction);
    bool isHeld = at(instruction).kind == InstructionKind::Recv &&
                  !isReached[program.partner[instruction]];
    return !isHeld && goOn(worker);
  }

  bool runChannel(int64_t worker, uint32_t instruction) {
    int32_t peer = at(instruction).peer, self = worker;
    if (at(instruction).kind == InstructionKind::Send) {
      channels[{self, peer}].push_back(instruction);
      return goOn(worker);
    }
    std::deque<uint32_t> &channel = channels[{peer, self}];
    if (channel.empty() || channel.front() != program.partner[instruction])
      return false;
    channel.pop_front();
    return goOn(worker);
  }

  /// A send also completes its receive.
  bool runRendezvous(int64_t worker, uint32_t instruction) {
    int32_t peer = at(instruction).peer;
    if (at(instruction).kind != InstructionKind::Send ||
        next[peer] != program.partner[instruction])
      return false;
    ++next[peer];
    return goOn(worker);
  }

  bool runBatch(int64_t worker, uint32_t begin) {
    uint32_t end = batchEnd(begin, program.rowBegins[worker + 1]);
    bool isComplete = true;
    for (uint32_t i = begin; i < end; ++i) {
      reach(i);
      isComplete &= !isMessage(i) || isReached[program.partner[i]];
    }
    if (!isComplete)
      return false;
    next[worker] = end;
    return true;
  }

  const Program &program;
  MessageSemantics semantics;
  std::vector<uint32_t> next; ///< instruction, by process
  std::vector<bool> isReached;
  bool hasProgress = false; ///< in this round
  std::map<std::pair<int32_t, int32_t>, std::deque<uint32_t>> channels;
};

} // namespace pipesched

#endif // PIPESCHED_UNITTESTS_SUPPORT_RUNPROCESSES_H
