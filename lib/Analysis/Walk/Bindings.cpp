//===- Bindings.cpp - Critical waits of a walk ----------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Follows bindings back from the last cell. A cell that a walk leapt over has
// the binding of the same cell some periods earlier.
//
//===----------------------------------------------------------------------===//

#include "Bindings.h"
#include <algorithm>

using namespace pipesched;

uint32_t Bindings::stepAtOrBefore(int64_t row, int64_t flat) const {
  int64_t begin = rowBegins[row];
  auto holdsRow = [](Cell cell) {
    return becomes(traitsOf(cell.getPhase()), InstructionKind::Compute);
  };
  while (flat >= begin && !holdsRow(at(row, flat)))
    --flat;
  if (flat < begin)
    return kNone;
  return flat > begin && at(row, flat - 1).overlapsNext() ? flat - 1 : flat;
}

PathStep Bindings::describe(Node node) const {
  Cell cell = at(node.row, node.flat);
  PathStep step;
  step.cell = cell.withOverlap(false);
  if (node.kind == Node::Message)
    step.kind = InstructionKind::Send;
  else if (node.kind == Node::Meeting || cell.isCopy())
    step.kind = *traitsOf(cell.getPhase()).instruction;
  else if (cell.overlapsNext())
    step.overlapped = at(node.row, node.flat + 1);
  return step;
}

uint32_t Bindings::moveAhead(uint32_t flat, int64_t numPeriods) const {
  return flat + numPeriods * leaped[rowOf(flat)].length;
}

/// Returns the number of periods between `flat` and the same cell in a period
/// that the walk visited. It is 0 unless `flat` is among the cells that were
/// leapt over from `begin` on.
static int64_t periodsBack(const LeapedRow &leaped, uint32_t begin,
                           uint32_t flat) {
  bool isLeapt = flat >= begin && flat - begin < leaped.count * leaped.length;
  return isLeapt ? (flat - begin) / leaped.length + 1 : 0;
}

uint32_t Bindings::bindingOfCell(int64_t row, uint32_t flat) const {
  if (leaped.empty())
    return bindings[flat].cell;
  int64_t back = periodsBack(leaped[row], leaped[row].next, flat);
  uint32_t binding = bindings[flat - back * leaped[row].length].cell;
  return binding == kRow || binding == kNone ? binding
                                             : moveAhead(binding, back);
}

uint32_t Bindings::bindingOfMessage(int64_t row, uint32_t flat) const {
  if (leaped.empty())
    return bindings[flat].message;
  int64_t back = periodsBack(leaped[row], leaped[row].passed, flat);
  return moveAhead(bindings[flat - back * leaped[row].length].message, back);
}

Bindings::Node Bindings::nodeOf(uint32_t flat) const {
  int64_t row = rowOf(flat);
  Cell cell = at(row, flat);
  return {cell.isCopy()                  ? Node::Step
          : cell.isIn(kCollectivePhases) ? Node::Meeting
                                         : Node::Message,
          row, flat};
}

Bindings::Node Bindings::stepBefore(int64_t row, uint32_t flat) const {
  return {Node::Step, row, stepAtOrBefore(row, int64_t(flat) - 1)};
}

Bindings::Node Bindings::bindingOf(Node node) const {
  switch (node.kind) {
  case Node::Step: {
    uint32_t binding = bindingOfCell(node.row, node.flat);
    if (binding == kRow)
      return stepBefore(node.row, node.flat);
    return binding == kNone ? Node() : nodeOf(binding);
  }
  case Node::Message: {
    uint32_t before = bindingOfMessage(node.row, node.flat);
    if (before == node.flat)
      return {Node::Step, node.row, stepAtOrBefore(node.row, node.flat)};
    return nodeOf(before);
  }
  case Node::Meeting: {
    const Binding &binding = bindings[node.flat];
    if (binding.message != kNone)
      return nodeOf(binding.message);
    return binding.cell == kNone
               ? Node()
               : stepBefore(rowOf(binding.cell), binding.cell);
  }
  }
  llvm_unreachable("covered switch");
}

std::vector<PathStep> Bindings::traceRow(int64_t row) const {
  return trace(stepBefore(row, rowBegins[row + 1]));
}

std::vector<PathStep> Bindings::traceMeeting(uint32_t flat) const {
  return trace({Node::Meeting, rowOf(flat), flat});
}

std::vector<PathStep> Bindings::trace(Node node) const {
  std::vector<PathStep> path;
  for (; node.flat != kNone; node = bindingOf(node))
    path.push_back(describe(node));
  std::reverse(path.begin(), path.end());
  return path;
}
