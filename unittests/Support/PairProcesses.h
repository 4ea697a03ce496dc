//===- PairProcesses.h - Programs over a queue per pair ---------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Runs a program as processes whose messages use one queue per pair of workers,
// to compare with a proof.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_UNITTESTS_SUPPORT_PAIRPROCESSES_H
#define PIPESCHED_UNITTESTS_SUPPORT_PAIRPROCESSES_H

#include "PipeSched/Schedule/Program/Program.h"
#include "llvm/ADT/STLExtras.h"
#include <deque>
#include <map>

namespace pipesched {

/// A process issues sends, receives, collectives and copies to queues and
/// continues; a compute holds it until everything that the compute waits for is
/// done. A message happens when it is at the front of the queue of its pair at
/// both ends.
class PairProcesses {
public:
  explicit PairProcesses(const Program &program)
      : program(program),
        next(program.rowBegins.begin(), program.rowBegins.end() - 1),
        pending(next.size()), isDone(program.instructions.size()) {}

  /// Whether all processes come to the end of their rows, and all queues too.
  bool finish() {
    bool hasProgress = true;
    while (hasProgress) {
      hasProgress = false;
      for (size_t worker = 0; worker < next.size(); ++worker)
        while (next[worker] != program.rowBegins[worker + 1] && step(worker))
          hasProgress = true;
      for (auto &[name, queue] : queues)
        while (!queue.empty() && runFront(queue.front()))
          hasProgress = true;
    }
    return llvm::equal(next, llvm::drop_begin(program.rowBegins)) &&
           llvm::all_of(queues,
                        [](auto &entry) { return entry.second.empty(); });
  }

private:
  /// A worker, the kind of instructions on the queue, and the peer of messages.
  using QueueName = std::tuple<int64_t, InstructionKind, int32_t>;

  const Instruction &at(uint32_t instruction) const {
    return program.instructions[instruction];
  }
  bool areDone(llvm::ArrayRef<uint32_t> instructions) const {
    return llvm::all_of(instructions, [&](uint32_t i) { return isDone[i]; });
  }
  QueueName queueOf(uint32_t instruction) const {
    int64_t worker = llvm::upper_bound(program.rowBegins, instruction) -
                     program.rowBegins.begin() - 1;
    const Instruction &self = at(instruction);
    if (self.is(InstructionRole::Message))
      return {worker, InstructionKind::Send, self.peer};
    return {worker, self.kind, -1};
  }

  bool step(int64_t worker) {
    uint32_t instruction = next[worker];
    if (at(instruction).is(InstructionRole::Join)) {
      llvm::append_range(pending[worker], program.operandsOf(instruction));
    } else if (!at(instruction).is(InstructionRole::Compute)) {
      queues[queueOf(instruction)].push_back(instruction);
    } else {
      bool isPair = at(instruction).cell.overlapsNext();
      if (!areDone(program.operandsOf(instruction)) ||
          !areDone(pending[worker]) ||
          (isPair && !areSecondHalfsDone(instruction + 1, instruction)))
        return false;
      pending[worker].clear();
      isDone[instruction] = true;
      if (isPair)
        isDone[++next[worker]] = true;
    }
    return ++next[worker];
  }

  /// The second half of a pair may wait for the first, with which it starts.
  bool areSecondHalfsDone(uint32_t second, uint32_t first) const {
    return llvm::all_of(program.operandsOf(second), [&](uint32_t operand) {
      return operand == first || isDone[operand];
    });
  }

  bool isReady(uint32_t instruction) const {
    auto queue = queues.find(queueOf(instruction));
    return queue != queues.end() && !queue->second.empty() &&
           queue->second.front() == instruction &&
           areDone(program.operandsOf(instruction));
  }

  /// Runs the instruction at the front of a queue, with its partners.
  bool runFront(uint32_t instruction) {
    std::vector<uint32_t> members = {instruction};
    for (uint32_t other = program.partner[instruction];
         other != instruction && other != Program::kNone;
         other = program.partner[other])
      members.push_back(other);
    if (!llvm::all_of(members, [&](uint32_t i) { return isReady(i); }))
      return false;
    for (uint32_t member : members) {
      isDone[member] = true;
      queues[queueOf(member)].pop_front();
    }
    return true;
  }

  const Program &program;
  std::vector<uint32_t> next;                 ///< instruction, by process
  std::vector<std::vector<uint32_t>> pending; ///< of joins, by process
  std::vector<bool> isDone;
  std::map<QueueName, std::deque<uint32_t>> queues;
};

} // namespace pipesched

#endif // PIPESCHED_UNITTESTS_SUPPORT_PAIRPROCESSES_H
