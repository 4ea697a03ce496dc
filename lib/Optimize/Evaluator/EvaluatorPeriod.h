//===- EvaluatorPeriod.h - Rows that repeat ---------------------*- C++ -*-===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Members of Evaluator that find the period after a change of one row. They are
// in a header so that they are inlined.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_LIB_OPTIMIZE_EVALUATOR_EVALUATORPERIOD_H
#define PIPESCHED_LIB_OPTIMIZE_EVALUATOR_EVALUATORPERIOD_H

#include "Evaluator.h"

namespace pipesched::optimize {

/// Whether the row ends too late, by the time of its compute alone.
template <typename Clock, bool Copies>
bool Evaluator<Clock, Copies>::isRowLate(uint32_t worker, Clock now,
                                         uint32_t pos, const Plan &plan,
                                         int64_t limit) const {
  int64_t end = timeOf(now) + plan.remaining[pos];
  return end - (kIsTraced ? rowStarts[worker] : 0) > limit;
}

/// Decides what to do if the compute of a row before `pos` makes the end of row
/// `to` too late. If the start of row `to` itself causes the delay, its steps
/// cannot follow each other that fast. Otherwise it may suffice that row `to`
/// starts later.
template <typename Clock, bool Copies>
typename Evaluator<Clock, Copies>::Walk
Evaluator<Clock, Copies>::whenLate(const Plan &plan, uint32_t worker,
                                   uint32_t pos, uint32_t to) const {
  if constexpr (!kIsTraced)
    return Walk::Late;
  bool isBegin = pos == encoding.rowBegins[worker];
  uint32_t from = isBegin ? worker : startOfPath(plan, pos);
  return from == to ? Walk::Late : Walk::Broken;
}

/// The row whose start determines the end of the cell before `pos`; kNone if
/// that is unknown. Cells that have not been timed again yet may name origins
/// by paths that the plan no longer has. So this follows the path back until it
/// reaches cells that ended before the change.
template <typename Clock, bool Copies>
uint32_t Evaluator<Clock, Copies>::startOfPath(const Plan &plan,
                                               uint32_t pos) const {
  const Clock *ends = current.ends.data();
  while (true) {
    --pos;
    Token token = plan.tokens[pos];
    const KindFacts &kind = encoding.kinds[token.kind];
    if (timeOf(ends[token.cell]) <= changeTime)
      return originOf(ends[token.cell]);
    int64_t start = timeOf(ends[token.cell]) - kind.duration;
    uint32_t source = token.cell + kind.waitsFor;
    if (kind.waitsOn != kNone && timeOf(ends[source]) + kind.delay == start) {
      pos = plan.positions[source] + 1;
      continue;
    }
    if (pos == encoding.rowBegins[kind.worker])
      return rowStarts[kind.worker] == start ? kind.worker : kNone;
    if (timeOf(ends[plan.tokens[pos - 1].cell]) != start)
      return kNone;
  }
}

/// No row needs to start later if none is longer than the period. The period is
/// that of the longest row if that row delays itself.
template <typename Clock, bool Copies>
int64_t Evaluator<Clock, Copies>::periodFrom(const Plan &plan, uint32_t worker,
                                             uint32_t begin, uint32_t end,
                                             int64_t limit) {
  Walk walk = walkChanges(plan, worker, begin, end, limit);
  if (walk != Walk::Through)
    return walk == Walk::Late ? kInfeasible : kUndecided;
  int64_t least = 0, most = 0;
  for (uint32_t row = 0; row < encoding.numWorkers; ++row) {
    int64_t length = timeOf(clocks[row]) - rowStarts[row];
    most = std::max(most, length);
    bool isOwn = originOf(clocks[row]) == row;
    least = std::max(least,
                     isOwn ? length : plan.remaining[encoding.rowBegins[row]]);
  }
  if (least > limit)
    return kInfeasible;
  return least == most ? most : kUndecided;
}

template <typename Clock, bool Copies>
void Evaluator<Clock, Copies>::startLate(const Plan &plan,
                                         std::vector<int64_t> &offsets) {
  for (uint32_t worker = 0; worker < encoding.numWorkers; ++worker) {
    if (plan.sizes[worker] == 0)
      continue;
    Token first = plan.tokens[encoding.rowBegins[worker]];
    int64_t start =
        timeOf(current.ends[first.cell]) - encoding.kinds[first.kind].duration;
    rowStarts[worker] = offsets[worker] = std::max(offsets[worker], start - 1);
  }
}

} // namespace pipesched::optimize

#endif // PIPESCHED_LIB_OPTIMIZE_EVALUATOR_EVALUATORPERIOD_H
