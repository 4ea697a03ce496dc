//===- InstructionWaits.h - Dependences of instructions ---------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The queues of a transport and the waits they imply, by instruction. The task
// graph turns waits into edges; the deadlock report uses them to explain a
// cycle.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_LIB_ANALYSIS_GRAPH_INSTRUCTIONWAITS_H
#define PIPESCHED_LIB_ANALYSIS_GRAPH_INSTRUCTIONWAITS_H

#include "PipeSched/Analysis/Graph/TaskGraph.h"

namespace pipesched {

/// Groups the instructions of a program into nodes (future tasks) and lists the
/// dependences of each node. The leader of a node is its first instruction, but
/// the leader of a message is its Send.
///
///   instruction  F0+   B1    send  recv  wait  B0        + overlaps the next
///   node         0     0     1     1     none  2
///   previous     .     F0+   .     .     .     B1        in the same queue
///
/// The table of instructions (Schedule/Instructions.h) has the queues of each
/// kind. No kind uses more than two queues.
class InstructionWaits {
public:
  static constexpr uint32_t kNone = Program::kNone;

  InstructionWaits(const Program &program, Transport transport);

  uint32_t getNumNodes() const { return leaders.size(); }
  uint32_t leaderOf(uint32_t node) const { return leaders[node]; }
  /// Returns kNone for a Wait.
  uint32_t nodeOf(uint32_t instruction) const { return nodes[instruction]; }
  int32_t workerOf(uint32_t node) const { return workers[node]; }
  /// The second half of the overlapped pair that `leader` starts, or kNone.
  uint32_t secondHalfOf(uint32_t leader) const;
  /// Prefetches the data of the nodes that follow this one in its row.
  void prefetchAfter(uint32_t node) const;
  /// Returns an upper bound on the number of callbacks of forEach over all
  /// nodes.
  std::size_t getMaxWaits() const;

  /// Calls `callback(waiter, awaited, reason)` for each wait of a node, with
  /// two instructions and a WaitReason. Leaves out waits that the order of the
  /// row implies. The wait for the previous instruction of the row comes first.
  template <typename Callback>
  void forEach(uint32_t node, Callback &&callback) const;

  /// Calls `callback(join)` for each join that holds an instruction, the last
  /// one first.
  template <typename Callback>
  void forJoins(uint32_t instruction, Callback &&callback) const {
    if (pendingWaits.empty())
      return;
    for (uint32_t join = pendingWaits[instruction]; join != kNone;
         join = pendingWaits[join])
      callback(join);
  }

private:
  /// The last instruction of each queue of a row.
  using QueueEnds = std::array<uint32_t, kNumQueues>;

  bool isInRow(uint32_t instruction) const {
    return queuesOfInstruction(instruction).contains(Queue::Row);
  }
  bool isInPair(uint32_t instruction) const {
    return queuesOfInstruction(instruction).contains(Queue::Pair);
  }
  QueueSet queuesOfInstruction(uint32_t instruction) const {
    return queues[static_cast<unsigned>(
        program.instructions[instruction].kind)];
  }
  bool isMerged() const { return areMessagesMerged(transport); }
  void walkRow(int32_t row);
  void joinNode(int32_t row, uint32_t instruction, bool isSecondHalf);
  void joinQueues(uint32_t instruction, QueueEnds &ends);
  void joinPair(int32_t row, uint32_t instruction, uint32_t lastCompute);
  void linkWait(uint32_t instruction, uint32_t &pending);

  template <typename Callback>
  void forQueue(uint32_t instruction, Callback &&callback) const {
    if (previous[instruction] != kNone)
      callback(instruction, previous[instruction],
               isInPair(instruction) ? WaitReason::Pair : WaitReason::Queue);
    if (!previousInSecond.empty() && previousInSecond[instruction] != kNone)
      callback(instruction, previousInSecond[instruction], WaitReason::Queue);
  }
  /// A message waits until both workers have reached their ends of it.
  template <typename Callback>
  void forIssue(uint32_t instruction, Callback &&callback) const {
    if (!issuedBehind.empty() && issuedBehind[instruction] != kNone)
      callback(instruction, issuedBehind[instruction], WaitReason::Row);
  }
  template <typename Callback>
  void forMember(uint32_t instruction, Callback &&callback) const;
  template <typename Callback>
  void forOperands(uint32_t waiter, uint32_t holder, Callback &&callback) const;
  template <typename Callback>
  void forHolds(uint32_t instruction, Callback &&callback) const;
  template <typename Callback>
  void forRow(uint32_t instruction, Callback &&callback) const;

  const Program &program;
  Transport transport;
  /// By kind: the queues under this transport, for loops over instructions.
  std::array<QueueSet, kNumInstructionKinds> queues;
  std::vector<uint32_t> nodes, leaders, previous;
  std::vector<int32_t> workers; ///< by node
  /// By instruction: its predecessor in its second queue. Empty if no
  /// instruction uses two queues.
  std::vector<uint32_t> previousInSecond;
  /// By Send or Recv: the last Compute before it in its row, unless it is an
  /// operand. Empty unless each pair of workers has a queue.
  std::vector<uint32_t> issuedBehind;
  /// By peer: the last message of the pair. An entry from an earlier row
  /// belongs to another pair.
  std::vector<uint32_t> lastWithPeer;
  /// Linked lists of Waits: a Compute or Reload has the last Wait that holds
  /// it, and a Wait has the Wait before it. Empty without Waits.
  std::vector<uint32_t> pendingWaits;
};

template <typename Callback>
void InstructionWaits::forOperands(uint32_t waiter, uint32_t holder,
                                   Callback &&callback) const {
  bool isRowOrdered = isInRow(waiter);
  for (uint32_t operand : program.operandsOf(holder))
    if (!isRowOrdered || !isInRow(operand))
      callback(waiter, operand, WaitReason::Need);
}

template <typename Callback>
void InstructionWaits::forHolds(uint32_t instruction,
                                Callback &&callback) const {
  forJoins(instruction,
           [&](uint32_t join) { forOperands(instruction, join, callback); });
}

/// Reports all waits of a Compute.
template <typename Callback>
void InstructionWaits::forRow(uint32_t instruction, Callback &&callback) const {
  forQueue(instruction, callback);
  forOperands(instruction, instruction, callback);
  forHolds(instruction, callback);
}

/// Reports the dependences that a collective has on one of its workers.
template <typename Callback>
void InstructionWaits::forMember(uint32_t instruction,
                                 Callback &&callback) const {
  forQueue(instruction, callback);
  forOperands(instruction, instruction, callback);
}

template <typename Callback>
void InstructionWaits::forEach(uint32_t node, Callback &&callback) const {
  uint32_t leader = leaders[node], partner = program.partner[leader];
  switch (traitsOf(program.instructions[leader].kind).role) {
  case InstructionRole::Compute: {
    forRow(leader, callback);
    uint32_t second = secondHalfOf(leader);
    if (second != kNone)
      forOperands(second, second, callback);
    return;
  }
  case InstructionRole::Collective:
    forMember(leader, callback);
    for (; partner != leader && partner != kNone;
         partner = program.partner[partner])
      forMember(partner, callback);
    return;
  case InstructionRole::Message:
    if (isMerged()) {
      forOperands(leader, leader, callback);
      forQueue(leader, callback);
      forIssue(leader, callback);
      forQueue(partner, callback);
      forIssue(partner, callback);
      forOperands(partner, partner, callback);
      return;
    }
    forQueue(leader, callback);
    if (program.instructions[leader].is(InstructionKind::Recv))
      callback(leader, partner, WaitReason::Need);
    forOperands(leader, leader, callback);
    return;
  case InstructionRole::Copy:
    forOperands(leader, leader, callback);
    forQueue(leader, callback);
    forHolds(leader, callback);
    return;
  case InstructionRole::Join:
    break;
  }
  llvm_unreachable("a wait is no node");
}

/// Returns the waits between the instructions of a cycle of nodes: each waits
/// for the next, and the last for the first.
Deadlock explainCycle(const InstructionWaits &waits,
                      llvm::ArrayRef<uint32_t> cycle);

} // namespace pipesched

#endif // PIPESCHED_LIB_ANALYSIS_GRAPH_INSTRUCTIONWAITS_H
