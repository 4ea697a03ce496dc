//===- Messages.cpp - Proof that a program finishes -----------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The first four semantics share one graph. They differ in which calls hold
// their row, in the number of calls that a row waits for at once, and in
// whether a channel keeps an order. A process never chooses between two
// actions, so a program finishes exactly if the graph has no cycle. Pairs uses
// the waits of the transport with the same name.
//
//===----------------------------------------------------------------------===//

#include "PipeSched/Analysis/Proof/Messages.h"
#include "../Graph/InstructionWaits.h"
#include "PipeSched/Schedule/Walk/TopologicalOrder.h"
#include "llvm/ADT/STLExtras.h"

using namespace pipesched;

static constexpr uint32_t kNone = Program::kNone;

static bool isCall(const Instruction &instruction) {
  return instruction.is(InstructionRole::Message) ||
         instruction.is(InstructionRole::Collective);
}

/// Whether the instruction is a collective during which its row continues.
static bool isDetached(const Instruction &instruction) {
  return traitsOf(instruction.kind).isDetached;
}

namespace {

/// Calls are the instructions that involve other workers, numbered row by row;
/// computes and copies between them wait only for their own row. A detached
/// collective holds no row, so an instruction that waits for one is a call too,
/// such as a compute or copy that uses its token directly or by a join. A step
/// is a set of calls that a row waits for at once. A meeting is a send and its
/// receive, or the calls of an all-reduce.
///
///   row 0      F0   s0        s1 r0             s: send, r: receive
///   calls           0         1  2
///   steps           [0]       [1,2]             under Batched
///   meetings        s0 + its receive in row 1, ..
///
/// A meeting waits for the previous step of each of its calls. A step waits for
/// the previous step of its row and for the meetings of the calls that hold it.
/// The first nodes are the meetings, by the number of their leading call (for a
/// message, its send); the steps follow.
class MessageGraph {
public:
  MessageGraph(const Program &program, MessageSemantics semantics)
      : program(program), semantics(semantics) {}

  llvm::Error verify();

private:
  struct Edge {
    uint32_t node;
  };

  llvm::Error numberCalls();
  void cutRow(int64_t row);
  bool continuesCollective(uint32_t instruction, uint32_t runBegin) const;
  bool beginsStep(uint32_t instruction, uint32_t runBegin) const;
  bool needsMessageSince(uint32_t instruction, uint32_t runBegin) const;
  void findMeetings();
  void orderChannels();
  void noteAwaited(uint32_t call, uint32_t instruction);
  void orderDetached();
  template <typename Visit>
  void forAwaited(uint32_t call, Visit &&visit) const {
    for (auto it = llvm::lower_bound(awaited, std::pair(call, uint32_t(0)));
         it != awaited.end() && it->first == call; ++it)
      visit(callOf[it->second]);
  }
  const Instruction &instructionOf(uint32_t call) const {
    return program.instructions[calls[call]];
  }

  uint32_t numCalls() const { return calls.size(); }
  bool isStep(uint32_t node) const { return node >= numCalls(); }
  bool holdsRow(uint32_t call) const;
  uint32_t nodeBefore(uint32_t call) const {
    uint32_t previous = previousStep[stepOfCall[call]];
    return previous == kNone ? kNone : numCalls() + previous;
  }
  template <typename Callback>
  void forMeeting(uint32_t call, Callback &&callback) const;
  void listEdges(uint32_t node, std::vector<Edge> &edges) const;

  Deadlock explain(llvm::ArrayRef<uint32_t> cycle) const;
  uint32_t findWaiter(uint32_t meeting, uint32_t stepNode) const;
  uint32_t findAwaited(uint32_t stepNode, uint32_t meeting) const;
  Wait channelWait(uint32_t meeting, uint32_t previous) const;

  const Program &program;
  MessageSemantics semantics;
  std::vector<uint32_t> calls;      ///< by call: its instruction
  std::vector<uint32_t> callOf;     ///< by instruction: its call, or kNone
  std::vector<uint32_t> stepOfCall; ///< ascending
  std::vector<uint32_t> meetingOf;  ///< by call: the leading call
  /// By meeting, under Fifo only: its predecessor in the channel, or kNone.
  std::vector<uint32_t> previousInChannel;
  /// By call: the previous detached collective in its queue, or kNone. Empty if
  /// there are none.
  std::vector<uint32_t> previousDetached;
  /// Pairs of a call, ascending, and a detached collective that it awaits.
  std::vector<std::pair<uint32_t, uint32_t>> awaited;
  std::vector<uint32_t> stepBegins; ///< by step: its first call; and the end
  std::vector<uint32_t> previousStep;
};

} // namespace

//===----------------------------------------------------------------------===//
// Calls, steps and meetings
//===----------------------------------------------------------------------===//

/// Records the collectives among an instruction's own operands.
void MessageGraph::noteAwaited(uint32_t call, uint32_t instruction) {
  for (uint32_t operand : program.operandsOf(instruction))
    if (isDetached(program.instructions[operand]))
      awaited.emplace_back(call, operand);
}

/// Numbers the calls. A join awaits nothing itself, but delays the next compute
/// or reload of its row.
llvm::Error MessageGraph::numberCalls() {
  callOf.assign(program.instructions.size(), kNone);
  llvm::SmallVector<uint32_t> joins;
  for (int64_t row = 0; row < program.getNumWorkers(); ++row, joins.clear())
    for (uint32_t i = program.rowBegins[row]; i < program.rowBegins[row + 1];
         ++i) {
      const Instruction &instruction = program.instructions[i];
      if (instruction.is(InstructionRole::Join)) {
        joins.push_back(i);
        continue;
      }
      size_t numAwaited = awaited.size();
      if (!instruction.is(InstructionRole::Message))
        noteAwaited(calls.size(), i);
      if (instruction.is(InstructionRole::Compute) ||
          instruction.is(InstructionKind::Reload)) {
        for (uint32_t join : joins)
          noteAwaited(calls.size(), join);
        joins.clear();
      }
      if (!isCall(instruction) && awaited.size() == numAwaited)
        continue;
      callOf[i] = calls.size();
      calls.push_back(i);
    }
  if (calls.size() > std::numeric_limits<int32_t>::max())
    return llvm::createStringError(
        "the program has %zu sends, receives and all-reduces, more than 2^31-1",
        calls.size());
  return llvm::Error::success();
}

/// Whether an operand is a send or a receive at or after `runBegin`. Copies are
/// followed too: an instruction that waits for a copy waits for the message
/// that the copy waits for.
bool MessageGraph::needsMessageSince(uint32_t instruction,
                                     uint32_t runBegin) const {
  return llvm::any_of(program.operandsOf(instruction), [&](uint32_t operand) {
    return operand >= runBegin &&
           program.instructions[operand].is(InstructionRole::Message);
  });
}

/// Whether an instruction and the previous one are collectives of one cell.
bool MessageGraph::continuesCollective(uint32_t instruction,
                                       uint32_t runBegin) const {
  const Instruction &self = program.instructions[instruction];
  const Instruction &previous = program.instructions[instruction - 1];
  return instruction > runBegin && previous.kind == self.kind &&
         previous.cell == self.cell;
}

/// Whether the run of calls that starts at `runBegin` ends before an
/// instruction.
bool MessageGraph::beginsStep(uint32_t instruction, uint32_t runBegin) const {
  switch (traitsOf(program.instructions[instruction].kind).role) {
  case InstructionRole::Compute:
    return true;
  case InstructionRole::Collective:
    return !continuesCollective(instruction, runBegin);
  case InstructionRole::Join: // delays a compute or reload, not a message
    return false;
  case InstructionRole::Message:
  case InstructionRole::Copy:
    return semantics != MessageSemantics::Batched ||
           !program.instructions[runBegin].is(InstructionRole::Message) ||
           (callOf[instruction] != kNone &&
            !program.instructions[instruction].is(InstructionRole::Message)) ||
           needsMessageSince(instruction, runBegin);
  }
  llvm_unreachable("covered switch");
}

void MessageGraph::cutRow(int64_t row) {
  uint32_t runBegin = kNone; // the first call of the current run
  uint32_t previous = kNone;
  for (uint32_t i = program.rowBegins[row]; i < program.rowBegins[row + 1];
       ++i) {
    if (runBegin != kNone && beginsStep(i, runBegin))
      runBegin = kNone;
    uint32_t call = callOf[i];
    if (call == kNone)
      continue;
    if (runBegin == kNone) {
      stepBegins.push_back(call);
      previousStep.push_back(previous);
      previous = previousStep.size() - 1;
      runBegin = i;
    }
    stepOfCall.push_back(previous);
  }
}

/// Calls `callback` with each call of the meeting of `call`, starting with
/// `call`.
template <typename Callback>
void MessageGraph::forMeeting(uint32_t call, Callback &&callback) const {
  uint32_t first = calls[call], instruction = first;
  do {
    callback(callOf[instruction]);
    instruction = program.partner[instruction];
  } while (instruction != first && instruction != kNone);
}

void MessageGraph::findMeetings() {
  meetingOf.assign(numCalls(), kNone);
  for (uint32_t call = 0; call < numCalls(); ++call) {
    if (meetingOf[call] != kNone)
      continue;
    uint32_t instruction = calls[call], lead = call;
    if (program.instructions[instruction].kind == InstructionKind::Recv)
      lead = callOf[program.partner[instruction]];
    forMeeting(call, [&](uint32_t member) { meetingOf[member] = lead; });
  }
}

void MessageGraph::orderChannels() {
  previousInChannel.assign(numCalls(), kNone);
  // By destination: the last send. An entry from an earlier row belongs to
  // another channel.
  std::vector<uint32_t> lastTo(program.getNumWorkers(), kNone);
  for (int64_t row = 0; row < program.getNumWorkers(); ++row)
    for (uint32_t i = program.rowBegins[row]; i < program.rowBegins[row + 1];
         ++i) {
      const Instruction &instruction = program.instructions[i];
      if (instruction.kind != InstructionKind::Send)
        continue;
      uint32_t last = std::exchange(lastTo[instruction.peer], callOf[i]);
      if (last != kNone && calls[last] >= program.rowBegins[row])
        previousInChannel[callOf[i]] = last;
    }
}

/// Finds the predecessor of each detached collective in its queue.
void MessageGraph::orderDetached() {
  auto isAny = [&](uint32_t call) { return isDetached(instructionOf(call)); };
  if (llvm::none_of(llvm::seq<uint32_t>(0, numCalls()), isAny))
    return;
  previousDetached.assign(numCalls(), kNone);
  for (int64_t row = 0; row < program.getNumWorkers(); ++row) {
    std::array<uint32_t, kNumQueues> last;
    last.fill(kNone);
    for (uint32_t i = program.rowBegins[row]; i < program.rowBegins[row + 1];
         ++i)
      if (isDetached(program.instructions[i]))
        queuesOf(program.instructions[i].kind, Transport::Overlap)
            .forEach([&](Queue queue) {
              previousDetached[callOf[i]] =
                  std::exchange(last[static_cast<unsigned>(queue)], callOf[i]);
            });
  }
}

//===----------------------------------------------------------------------===//
// Waits
//===----------------------------------------------------------------------===//

/// Whether a row waits for the meeting of its call.
bool MessageGraph::holdsRow(uint32_t call) const {
  if (!isCall(instructionOf(call)) || isDetached(instructionOf(call)))
    return false;
  bool isBuffered = semantics == MessageSemantics::Unbounded ||
                    semantics == MessageSemantics::Fifo;
  return !isBuffered ||
         program.instructions[calls[call]].kind != InstructionKind::Send;
}

void MessageGraph::listEdges(uint32_t node, std::vector<Edge> &edges) const {
  if (isStep(node)) {
    uint32_t step = node - numCalls();
    if (previousStep[step] != kNone)
      edges.push_back({numCalls() + previousStep[step]});
    for (uint32_t call = stepBegins[step]; call < stepBegins[step + 1];
         ++call) {
      if (holdsRow(call))
        edges.push_back({meetingOf[call]});
      forAwaited(call,
                 [&](uint32_t other) { edges.push_back({meetingOf[other]}); });
    }
    return;
  }
  if (meetingOf[node] != node)
    return; // another call leads it
  forMeeting(node, [&](uint32_t call) {
    if (uint32_t before = nodeBefore(call); before != kNone)
      edges.push_back({before});
    if (!previousDetached.empty() && previousDetached[call] != kNone)
      edges.push_back({meetingOf[previousDetached[call]]});
  });
  if (!previousInChannel.empty() && previousInChannel[node] != kNone)
    edges.push_back({previousInChannel[node]});
}

llvm::Error MessageGraph::verify() {
  if (llvm::Error error = numberCalls())
    return error;
  stepOfCall.reserve(numCalls());
  for (int64_t row = 0; row < program.getNumWorkers(); ++row)
    cutRow(row);
  stepBegins.push_back(numCalls());
  findMeetings();
  orderDetached();
  if (semantics == MessageSemantics::Fifo)
    orderChannels();
  TopologicalOrder order = orderTopologically<Edge>(
      numCalls() + previousStep.size(),
      [&](uint32_t node, std::vector<Edge> &edges) { listEdges(node, edges); },
      [](uint32_t, llvm::ArrayRef<Edge>) {});
  if (order.isCyclic())
    return llvm::make_error<DeadlockError>(program, explain(order.cycle));
  return llvm::Error::success();
}

//===----------------------------------------------------------------------===//
// The counterexample
//===----------------------------------------------------------------------===//

/// Returns the call of a meeting that comes right after a step.
uint32_t MessageGraph::findWaiter(uint32_t meeting, uint32_t stepNode) const {
  uint32_t found = kNone;
  forMeeting(meeting, [&](uint32_t call) {
    if (found == kNone && nodeBefore(call) == stepNode)
      found = call;
  });
  return found;
}

/// Returns the call of a step that holds the step until a meeting.
uint32_t MessageGraph::findAwaited(uint32_t stepNode, uint32_t meeting) const {
  uint32_t step = stepNode - numCalls(), found = kNone;
  for (uint32_t call = stepBegins[step]; call < stepBegins[step + 1]; ++call) {
    if (found == kNone && meetingOf[call] == meeting && holdsRow(call))
      found = call;
    forAwaited(call, [&](uint32_t other) {
      if (found == kNone && meetingOf[other] == meeting)
        found = other;
    });
  }
  assert(found != kNone && "the step does not wait for the meeting");
  return found;
}

/// The wait of a meeting for its predecessor in a channel, or in a queue of
/// detached collectives.
Wait MessageGraph::channelWait(uint32_t meeting, uint32_t previous) const {
  Wait wait = {kNone, kNone, WaitReason::Queue};
  if (isDetached(instructionOf(meeting)))
    forMeeting(meeting, [&](uint32_t call) {
      uint32_t before = previousDetached[call];
      if (before != kNone && meetingOf[before] == previous)
        wait = {calls[call], calls[before], WaitReason::Queue};
    });
  if (wait.waiter != kNone)
    return wait;
  return {program.partner[calls[meeting]], program.partner[calls[previous]],
          WaitReason::Channel};
}

/// Turns the steps between two meetings into one wait in their row:
///
///   cycle   meeting 3  ->  step 8  ->  step 7  ->  meeting 5  ->  ..
///   waits   a call of 3 comes after a call of 5. If the next wait starts at
///           the other call of 5, the first call of 5 waits for the other
Deadlock MessageGraph::explain(llvm::ArrayRef<uint32_t> nodes) const {
  std::vector<uint32_t> cycle(nodes.begin(), nodes.end());
  auto isMeeting = [&](uint32_t node) { return !isStep(node); };
  std::rotate(cycle.begin(), llvm::find_if(cycle, isMeeting), cycle.end());
  std::vector<Wait> waits;
  for (std::size_t i = 0; i < cycle.size();) {
    uint32_t meeting = cycle[i], firstStep = cycle[(i + 1) % cycle.size()];
    while (++i < cycle.size() && isStep(cycle[i]))
      ;
    uint32_t next = cycle[i % cycle.size()];
    if (!isStep(firstStep)) {
      waits.push_back(channelWait(meeting, next));
      continue;
    }
    waits.push_back({calls[findWaiter(meeting, firstStep)],
                     calls[findAwaited(cycle[i - 1], next)], WaitReason::Row});
  }
  Deadlock deadlock;
  for (std::size_t i = 0; i < waits.size(); ++i) {
    uint32_t next = waits[(i + 1) % waits.size()].waiter;
    deadlock.cycle.push_back(waits[i]);
    if (waits[i].awaited != next)
      deadlock.cycle.push_back({waits[i].awaited, next, WaitReason::Need});
  }
  // Start with a message that cannot happen, because a reader looks there
  // first.
  if (deadlock.cycle.back().reason == WaitReason::Need)
    std::rotate(deadlock.cycle.begin(), std::prev(deadlock.cycle.end()),
                deadlock.cycle.end());
  return deadlock;
}

//===----------------------------------------------------------------------===//
// Queues of pairs
//===----------------------------------------------------------------------===//

/// A program stops under the transport `pairs` exactly if its tasks have no
/// topological order.
static llvm::Error verifyPairs(const Program &program) {
  struct Edge {
    uint32_t node;
  };
  InstructionWaits waits(program, Transport::Pairs);
  TopologicalOrder order = orderTopologically<Edge>(
      waits.getNumNodes(),
      [&](uint32_t node, std::vector<Edge> &edges) {
        waits.forEach(node, [&](uint32_t, uint32_t awaited, WaitReason) {
          edges.push_back({waits.nodeOf(awaited)});
        });
      },
      [](uint32_t, llvm::ArrayRef<Edge>) {});
  if (!order.isCyclic())
    return llvm::Error::success();
  return llvm::make_error<DeadlockError>(program,
                                         explainCycle(waits, order.cycle));
}

llvm::Error pipesched::verifyMessages(const Program &program,
                                      MessageSemantics semantics) {
  if (semantics == MessageSemantics::Pairs)
    return verifyPairs(program);
  return MessageGraph(program, semantics).verify();
}

//===----------------------------------------------------------------------===//
// Posted messages
//
// A process that posts its messages reaches an instruction when it has reached
// the previous one and the dependences have ended. Whether they end depends
// only on which instructions other processes have reached. So one node per
// instruction is enough, which means that the instruction is reached:
//
//   row 0    send 0F0     F1 (after the send)   reuses the slot of 0F0
//               |           |  \
//   row 1       |   F5 ---- recv 0F0            under rendezvous F1 waits until
//                                               row 1 has reached its receive
//
// No process chooses between actions, so a program finishes exactly if there is
// no cycle.
//===----------------------------------------------------------------------===//

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

/// Calls `callback` with each operand that an instruction waits for: its own
/// operands, the operands of the Waits in front of a compute or reload, and a
/// blocking send.
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

/// Calls `callback` with the instructions that must be reached before an
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

/// Returns the operand of `waiter` that cannot end before `reached` is reached.
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

/// Turns the steps within a row into one wait. A wait for another row reports
/// the operand and its message.
Deadlock PostedGraph::explain(llvm::ArrayRef<uint32_t> nodes) const {
  std::vector<uint32_t> cycle(nodes.begin(), nodes.end());
  auto isStep = [&](std::size_t i) {
    uint32_t next = cycle[(i + 1) % cycle.size()];
    return next + 1 == cycle[i] && !isRowBegin[cycle[i]];
  };
  // Start where the cycle enters a row from another row.
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

//===----------------------------------------------------------------------===//
// Cycles of tasks as waits of instructions
//===----------------------------------------------------------------------===//

static Wait findWait(const InstructionWaits &waits, uint32_t node,
                     uint32_t awaitedNode) {
  Wait found = {Program::kNone, Program::kNone, WaitReason::Need};
  waits.forEach(node, [&](uint32_t waiter, uint32_t awaited,
                          WaitReason reason) {
    if (found.waiter == Program::kNone && waits.nodeOf(awaited) == awaitedNode)
      found = {waiter, awaited, reason};
  });
  assert(found.waiter != Program::kNone && "neighbours of a cycle wait");
  return found;
}

Deadlock pipesched::explainCycle(const InstructionWaits &waits,
                                 llvm::ArrayRef<uint32_t> cycle) {
  Deadlock deadlock;
  for (std::size_t i = 0; i < cycle.size(); ++i)
    deadlock.cycle.push_back(
        findWait(waits, cycle[i], cycle[(i + 1) % cycle.size()]));

  // If a wait ends at one instruction of a node and the next wait starts at
  // another (a recv and its send), add a wait between the two.
  std::vector<Wait> chain;
  for (std::size_t i = 0; i < cycle.size(); ++i) {
    const Wait &wait = deadlock.cycle[i];
    uint32_t next = deadlock.cycle[(i + 1) % cycle.size()].waiter;
    chain.push_back(wait);
    if (wait.awaited != next)
      chain.push_back({wait.awaited, next, WaitReason::Need});
  }
  deadlock.cycle = std::move(chain);
  return deadlock;
}
