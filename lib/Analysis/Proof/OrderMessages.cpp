//===- OrderMessages.cpp - Messages in one order of all workers -----------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Gives each cell and message its slot, and sorts the rows by it.
//
//===----------------------------------------------------------------------===//

#include "PipeSched/Analysis/Proof/OrderMessages.h"
#include "PipeSched/Analysis/Proof/Messages.h"
#include "PipeSched/Schedule/Walk/TopologicalOrder.h"
#include "llvm/ADT/STLExtras.h"
#include <numeric>
#include <tuple>
#include <utility>

using namespace pipesched;

namespace {
/// A node is a cell with the other half of its pair, a message with both its
/// ends, a collective with its group, or another instruction, among them a
/// collective during which rows continue. It has the number of its first
/// instruction; of a message, of the send.
class MessageOrder {
public:
  explicit MessageOrder(const Program &program)
      : program(program), leaders(program.instructions.size()),
        before(program.instructions.size(), Program::kNone),
        places(program.instructions.size()) {}

  llvm::Expected<std::vector<uint32_t>> run();

private:
  struct Edge {
    uint32_t node;
  };
  /// A node comes after all nodes that it waits for: its slot is later, or it
  /// is the same and its turn in the slot is later.
  struct Place {
    uint32_t slot = 0, turn = 0;
    bool isOdd = false;
  };

  const Instruction &at(uint32_t i) const { return program.instructions[i]; }
  bool isFirstHalf(uint32_t i) const {
    return at(i).is(InstructionRole::Compute) && at(i).cell.overlapsNext();
  }
  /// Whether rows continue during a collective.
  bool isDetached(uint32_t i) const { return traitsOf(at(i).kind).isDetached; }
  /// Whether two collectives of a row start together.
  bool isOneCall(uint32_t i, uint32_t other) const {
    return at(i).is(InstructionRole::Collective) &&
           at(i).kind == at(other).kind && at(i).cell == at(other).cell;
  }
  uint32_t leaderOf(uint32_t instruction) const;
  void findLeaders();
  template <typename Visit>
  void forPartners(uint32_t instruction, Visit &&visit) const;
  template <typename Visit>
  void forInstructions(uint32_t node, Visit &&visit) const;
  template <typename Visit>
  void forAwaited(uint32_t instruction, Visit &&visit) const;
  void listEdges(uint32_t node, std::vector<Edge> &edges) const;

  const Program &program;
  std::vector<uint32_t> leaders; ///< by instruction: its node
  /// By instruction other than a message: the one before it in the row.
  std::vector<uint32_t> before;
  std::vector<Place> places; ///< by node
};
} // namespace

/// Calls `visit` with the other ends of a message or the others of a group.
template <typename Visit>
void MessageOrder::forPartners(uint32_t instruction, Visit &&visit) const {
  for (uint32_t other = program.partner[instruction];
       other != instruction && other != Program::kNone;
       other = program.partner[other])
    visit(other);
}

uint32_t MessageOrder::leaderOf(uint32_t i) const {
  if (at(i).is(InstructionRole::Message))
    return at(i).is(InstructionKind::Send) ? i : program.partner[i];
  if (before[i] != Program::kNone && before[i] + 1 == i &&
      isFirstHalf(before[i]))
    return before[i];
  uint32_t leader = i;
  if (at(i).is(InstructionRole::Collective) && !isDetached(i))
    forPartners(i, [&](uint32_t other) { leader = std::min(leader, other); });
  return leader;
}

void MessageOrder::findLeaders() {
  for (int64_t row = 0; row < program.getNumWorkers(); ++row) {
    uint32_t last = Program::kNone;
    for (uint32_t i = program.rowBegins[row]; i < program.rowBegins[row + 1];
         ++i) {
      if (!at(i).is(InstructionRole::Message))
        before[i] = std::exchange(last, i);
      leaders[i] = leaderOf(i);
    }
  }
}

template <typename Visit>
void MessageOrder::forInstructions(uint32_t node, Visit &&visit) const {
  visit(node);
  if (isFirstHalf(node))
    visit(node + 1);
  if (!isDetached(node))
    forPartners(node, visit);
}

/// Calls `visit` with the instructions that must be reached before one.
template <typename Visit>
void MessageOrder::forAwaited(uint32_t instruction, Visit &&visit) const {
  for (uint32_t operand : program.operandsOf(instruction)) {
    visit(operand);
    if (isDetached(operand))
      forPartners(operand, visit);
  }
  uint32_t other = before[instruction];
  while (other != Program::kNone && isOneCall(instruction, other))
    other = before[other];
  for (; other != Program::kNone; other = before[other]) {
    visit(other);
    if (before[other] == Program::kNone || !isOneCall(other, before[other]))
      break;
  }
}

void MessageOrder::listEdges(uint32_t node, std::vector<Edge> &edges) const {
  if (leaders[node] != node)
    return;
  forInstructions(node, [&](uint32_t instruction) {
    forAwaited(instruction, [&](uint32_t other) {
      if (leaders[other] != node)
        edges.push_back({leaders[other]});
    });
  });
}

llvm::Expected<std::vector<uint32_t>> MessageOrder::run() {
  findLeaders();
  std::vector<Place> visited; // by position
  visited.reserve(places.size());
  auto visit = [&](uint32_t node, llvm::ArrayRef<Edge> edges) {
    Place &place = places[node];
    for (Edge edge : edges) {
      const Place &other = visited[edge.node];
      if (other.slot == place.slot)
        place.turn = std::max(place.turn, other.turn + 1);
      else if (other.slot > place.slot)
        place = {other.slot, other.turn + 1};
    }
    if (at(node).is(InstructionRole::Compute))
      place = {place.slot + 1, 0};
    if (at(node).is(InstructionRole::Message))
      place.isOdd =
          std::min(at(node).peer, at(program.partner[node]).peer) % 2 != 0;
    visited.push_back(place);
  };
  auto list = [&](uint32_t node, std::vector<Edge> &edges) {
    listEdges(node, edges);
  };
  if (orderTopologically<Edge>(places.size(), list, visit).isCyclic()) {
    if (llvm::Error error =
            verifyMessages(program, MessageSemantics::Unbounded))
      return error;
    return llvm::createStringError("the messages have no common order");
  }
  std::vector<uint32_t> order(places.size());
  std::iota(order.begin(), order.end(), 0);
  auto keyOf = [&](uint32_t instruction) {
    uint32_t node = leaders[instruction];
    const Place &place = places[node];
    return std::tuple(place.slot, place.turn, place.isOdd, node, instruction);
  };
  for (int64_t row = 0; row < program.getNumWorkers(); ++row)
    std::sort(order.begin() + program.rowBegins[row],
              order.begin() + program.rowBegins[row + 1],
              [&](uint32_t a, uint32_t b) { return keyOf(a) < keyOf(b); });
  return order;
}

llvm::Expected<std::vector<uint32_t>>
pipesched::orderMessages(const Program &program) {
  return MessageOrder(program).run();
}
