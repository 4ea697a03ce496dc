//===- PostedMessages.cpp - Proof for posted messages ---------------------===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A process that posts its messages reaches an instruction when it has reached
// the one before it and when what it waits for has ended. What ends depends
// only on what other processes have reached, so one node per instruction, "it
// is reached", is enough:
//
//   row 0    send 0F0     F1 (after the send)   the slot of 0F0 is used again
//               |           |  \
//   row 1       |   F5 ---- recv 0F0            under rendezvous F1 waits until
//                                               row 1 has reached its receive
//
// No process ever chooses, so a program finishes exactly if there is no cycle.
//
//===----------------------------------------------------------------------===//

#include "PipeSched/Analysis/Proof/Messages.h"
#include "PipeSched/Schedule/Walk/TopologicalOrder.h"
#include "llvm/ADT/STLExtras.h"

using namespace pipesched;

namespace {
class PostedGraph {
public:
  PostedGraph(const Program &program, llvm::ArrayRef<uint32_t> operandBegins,
              llvm::ArrayRef<uint32_t> operands, SendMode mode, bool sendsBlock)
      : program(program), operandBegins(operandBegins), operands(operands),
        mode(mode), sendsBlock(sendsBlock),
        isRowBegin(program.instructions.size(), false) {
    for (uint32_t begin : program.rowBegins)
      if (begin < isRowBegin.size())
        isRowBegin[begin] = true;
  }

  llvm::Error verify() const;

private:
  struct Edge {
    uint32_t node;
  };

  bool isHeldByJoins(uint32_t instruction) const {
    const Instruction &self = program.instructions[instruction];
    return self.is(InstructionKind::Compute) ||
           self.is(InstructionKind::Reload);
  }
  llvm::ArrayRef<uint32_t> operandsOf(uint32_t instruction) const {
    return operands.slice(operandBegins[instruction],
                          operandBegins[instruction + 1] -
                              operandBegins[instruction]);
  }
  template <typename Callback>
  void forEachOperand(uint32_t instruction, Callback &&callback) const;
  template <typename Callback>
  void forEachEnd(uint32_t operand, Callback &&callback) const;
  void listEdges(uint32_t node, std::vector<Edge> &edges) const;
  Deadlock explain(llvm::ArrayRef<uint32_t> cycle) const;
  uint32_t findOperand(uint32_t waiter, uint32_t reached) const;

  const Program &program;
  llvm::ArrayRef<uint32_t> operandBegins, operands;
  SendMode mode;
  bool sendsBlock;
  std::vector<bool> isRowBegin;
};
} // namespace

/// Calls `callback` with each operand that an instruction waits for: its own,
/// those of the Waits in front of a compute or reload, and a send that blocks.
template <typename Callback>
void PostedGraph::forEachOperand(uint32_t instruction,
                                 Callback &&callback) const {
  if (sendsBlock && !isRowBegin[instruction] &&
      program.instructions[instruction - 1].is(InstructionKind::Send))
    callback(instruction - 1);
  if (!program.instructions[instruction].is(InstructionKind::Wait))
    for (uint32_t operand : operandsOf(instruction))
      callback(operand);
  if (!isHeldByJoins(instruction))
    return;
  for (uint32_t i = instruction; !isRowBegin[i] && !isHeldByJoins(i - 1); --i)
    if (program.instructions[i - 1].is(InstructionKind::Wait))
      for (uint32_t operand : operandsOf(i - 1))
        callback(operand);
}

/// Calls `callback` with the instructions that have to be reached before an
/// operand can end.
template <typename Callback>
void PostedGraph::forEachEnd(uint32_t operand, Callback &&callback) const {
  callback(operand);
  const Instruction &self = program.instructions[operand];
  bool isAlone = program.partner[operand] == Program::kNone ||
                 (self.is(InstructionKind::Send) && mode == SendMode::Buffered);
  if (isAlone)
    return;
  uint32_t other = program.partner[operand];
  do {
    callback(other);
    other = program.partner[other];
  } while (other != operand && other != Program::kNone);
}

void PostedGraph::listEdges(uint32_t node, std::vector<Edge> &edges) const {
  if (!isRowBegin[node])
    edges.push_back({node - 1});
  forEachOperand(node, [&](uint32_t operand) {
    forEachEnd(operand, [&](uint32_t reached) { edges.push_back({reached}); });
  });
}

/// The operand of `waiter` whose end needs `reached`.
uint32_t PostedGraph::findOperand(uint32_t waiter, uint32_t reached) const {
  uint32_t found = reached;
  forEachOperand(waiter, [&](uint32_t operand) {
    forEachEnd(operand, [&](uint32_t end) {
      if (end == reached)
        found = operand;
    });
  });
  return found;
}

/// Turns the steps within a row into one wait. A wait for another row names the
/// operand and its message.
Deadlock PostedGraph::explain(llvm::ArrayRef<uint32_t> nodes) const {
  std::vector<uint32_t> cycle(nodes.begin(), nodes.end());
  auto isStep = [&](std::size_t i) {
    uint32_t next = cycle[(i + 1) % cycle.size()];
    return next + 1 == cycle[i] && !isRowBegin[cycle[i]];
  };
  // Begin where the cycle enters a row from another row.
  for (std::size_t i = 0; i < cycle.size(); ++i)
    if (!isStep(i)) {
      std::rotate(cycle.begin(), cycle.begin() + i + 1, cycle.end());
      break;
    }
  Deadlock deadlock;
  for (std::size_t i = 0; i < cycle.size();) {
    uint32_t waiter = cycle[i];
    if (isStep(i)) {
      while (i < cycle.size() && isStep(i))
        ++i;
      deadlock.cycle.push_back(
          {waiter, cycle[i % cycle.size()], WaitReason::Row});
      continue;
    }
    uint32_t reached = cycle[++i % cycle.size()];
    uint32_t operand = findOperand(waiter, reached);
    deadlock.cycle.push_back({waiter, operand, WaitReason::Need});
    if (operand != reached)
      deadlock.cycle.push_back({operand, reached, WaitReason::Need});
  }
  return deadlock;
}

llvm::Error PostedGraph::verify() const {
  TopologicalOrder order = orderTopologically<Edge>(
      program.instructions.size(),
      [&](uint32_t node, std::vector<Edge> &edges) { listEdges(node, edges); },
      [](uint32_t, llvm::ArrayRef<Edge>) {});
  if (order.isCyclic())
    return llvm::make_error<DeadlockError>(program, explain(order.cycle));
  return llvm::Error::success();
}

llvm::Error pipesched::verifyPosted(const Program &program, SendMode mode,
                                    bool sendsBlock) {
  return verifyPosted(program, program.operandBegins, program.operands, mode,
                      sendsBlock);
}

llvm::Error pipesched::verifyPosted(const Program &program,
                                    llvm::ArrayRef<uint32_t> operandBegins,
                                    llvm::ArrayRef<uint32_t> operands,
                                    SendMode mode, bool sendsBlock) {
  return PostedGraph(program, operandBegins, operands, mode, sendsBlock)
      .verify();
}
