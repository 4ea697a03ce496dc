//===- Bindings.cpp - What the tasks of a walk waited for -----------------===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Follows bindings back from the last cell; those of cells that a walk leapt
// over are those of cells some periods before them.
//
//===----------------------------------------------------------------------===//

#include "Bindings.h"
#include <algorithm>

using namespace pipesched;

uint32_t Bindings::stepAtOrBefore(int64_t row, int64_t flat) const {
  int64_t begin = rowBegins[row];
  while (flat >= begin && !at(row, flat).isCompute())
    --flat;
  if (flat < begin)
    return kNone;
  return flat > begin && at(row, flat - 1).overlapsNext() ? flat - 1 : flat;
}

PathStep Bindings::describe(int64_t row, uint32_t flat) const {
  Cell cell = at(row, flat);
  if (cell.isCopy())
    return {cell.is(Phase::Offload) ? InstructionKind::Offload
                                    : InstructionKind::Reload,
            cell, std::nullopt};
  PathStep step;
  step.cell = cell.withOverlap(false);
  if (cell.overlapsNext())
    step.overlapped = at(row, flat + 1);
  return step;
}

uint32_t Bindings::moveAhead(uint32_t flat, int64_t numPeriods) const {
  return flat + numPeriods * leaped[rowOf(flat)].length;
}

/// How many periods before `flat`, which may be among the cells leapt over from
/// `begin` on, the same was walked.
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

std::vector<PathStep> Bindings::trace(int64_t row) const {
  std::vector<PathStep> path;
  uint32_t step = stepAtOrBefore(row, int64_t(rowBegins[row + 1]) - 1);
  while (step != kNone) {
    path.push_back(describe(row, step));
    uint32_t binding = bindingOfCell(row, step);
    if (binding == kRow) {
      step = stepAtOrBefore(row, int64_t(step) - 1);
      continue;
    }
    if (binding == kNone)
      break;
    row = rowOf(binding);
    if (at(row, binding).isCopy()) {
      step = binding;
      continue;
    }
    uint32_t message = kNone;
    for (uint32_t before = binding; before != message;) {
      message = before;
      row = rowOf(message);
      path.push_back({InstructionKind::Send,
                      at(row, message).withOverlap(false), std::nullopt});
      before = bindingOfMessage(row, message);
    }
    step = stepAtOrBefore(row, message);
  }
  std::reverse(path.begin(), path.end());
  return path;
}
