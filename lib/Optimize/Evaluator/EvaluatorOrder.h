//===- EvaluatorOrder.h - Changes in the order of time ----------*- C++ -*-===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Members of Evaluator that time changed rows with copies so that every time is
// final. In the plan that was kept, cells start later and later along messages
// and along rows, except for cells that have changed places. Suppose that a row
// still has to be timed from some cell on. Then nothing can change that ended,
// in the kept plan, before the start of this cell plus the least time to reach
// another row.
//
//   row 0   done ......| c: started at 100         `time` of row 0: 100
//   row 1   done ..| d: waits for a cell that ended at 150: is that final?
//                     Yes, unless a change of row 0 can end there by 150.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_LIB_OPTIMIZE_EVALUATOR_EVALUATORORDER_H
#define PIPESCHED_LIB_OPTIMIZE_EVALUATOR_EVALUATORORDER_H

#include "Evaluator.h"

namespace pipesched::optimize {

/// Sets the least time from the start of a cell to the end of one on another
/// row that waits for it.
template <typename Clock, bool Copies>
void Evaluator<Clock, Copies>::setLookahead() {
  lookahead = kInfeasible;
  for (uint32_t kind = 0; kind < encoding.kinds.size(); ++kind)
    if (sent[kind].worker != kNone)
      lookahead =
          std::min(lookahead, encoding.kinds[kind].duration + sent[kind].delay +
                                  sent[kind].duration);
}

/// Finds the compute cells that have changed places, and when the first of them
/// started and the last of them ended. No chain leads from a cell that starts
/// later to any of them, so its tail is unchanged.
template <typename Clock, bool Copies>
void Evaluator<Clock, Copies>::findReordered(const Plan &plan) {
  int64_t latest = 0;
  reorderedFrom = kInfeasible;
  reorderedUntil = 0;
  reorderedEnd = changedBegin;
  for (uint32_t pos = changedBegin; pos < changedEnd; ++pos) {
    Token token = plan.tokens[pos];
    const KindFacts &kind = encoding.kinds[token.kind];
    if (kind.isCopy())
      continue;
    int64_t end = timeOf(keptEnds[token.cell]);
    reorderedFrom = std::min(reorderedFrom, end - kind.duration);
    if (end < latest) {
      reorderedUntil = latest;
      reorderedEnd = pos + 1;
    }
    latest = std::max(latest, end);
  }
  if (encoding.recompute && changedEnd == endOfTokens(plan, changedRow))
    reorderedUntil = kInfeasible; // cells may have been added or removed
}

/// A time before which no cell of the row from `pos` on started in the kept
/// plan.
template <typename Clock, bool Copies>
int64_t Evaluator<Clock, Copies>::startBefore(const Plan &plan, uint32_t worker,
                                              uint32_t pos) const {
  if (worker == changedRow && pos < reorderedEnd)
    return reorderedFrom;
  Token token = plan.tokens[pos];
  return timeOf(keptEnds[token.cell]) - encoding.kinds[token.kind].duration;
}

/// Whether the message that the cell waits for may still change: its row has
/// not been timed that far, or will perhaps have to be.
template <typename Clock, bool Copies>
bool Evaluator<Clock, Copies>::mayChange(const Plan &plan, Token token) const {
  const KindFacts &kind = encoding.kinds[token.kind];
  uint32_t source = token.cell + kind.waitsFor;
  const Dirt &row = dirt[kind.waitsOn];
  if (row.begin != kNone && plan.positions[source] >= row.begin)
    return true;
  return timeOf(keptEnds[source]) - lookahead >= othersFrom;
}

/// Stops before the cell at `pos`, whose message may change.
template <typename Clock, bool Copies>
void Evaluator<Clock, Copies>::pause(const Plan &plan, uint32_t worker,
                                     uint32_t pos, Clock now, Clock endBefore) {
  rowStates[worker].clock = now;
  clocks[worker] = endBefore;
  Dirt &own = dirt[worker];
  own.isPaused = true;
  own.begin = pos;
  own.end = std::max(own.end, pos + 1);
  own.time = startBefore(plan, worker, pos);
  ++numDirty;
  numWalked += pos;
}

/// The dirty row that may change first. Messages of all others are final until
/// these may change.
template <typename Clock, bool Copies>
uint32_t Evaluator<Clock, Copies>::firstDirty() {
  uint32_t first = kNone;
  int64_t time = kInfeasible;
  othersFrom = kInfeasible;
  for (uint32_t worker = 0; worker < encoding.numWorkers; ++worker) {
    const Dirt &row = dirt[worker];
    if (row.begin == kNone)
      continue;
    if (first == kNone || row.time < time) {
      first = worker;
      othersFrom = time;
      time = row.time;
    } else {
      othersFrom = std::min(othersFrom, row.time);
    }
  }
  return first;
}

/// Times dirty rows until none is left; the one that may change first is next.
template <typename Clock, bool Copies>
typename Evaluator<Clock, Copies>::Walk
Evaluator<Clock, Copies>::repairInOrder(const Plan &plan, int64_t limit) {
  // More cells are timed only if the order is cyclic.
  const uint64_t most = 256 + 2 * plan.tokens.size();
  numWalked = 0;
  while (numDirty > 0) {
    uint32_t worker = firstDirty();
    uint32_t from = dirt[worker].isPaused ? dirt[worker].begin : kNone;
    if (Walk walk = walkAgain(plan, worker, limit); walk != Walk::Through)
      return walk;
    bool isStuck = from != kNone && dirt[worker].begin == from;
    if (isStuck || numWalked > most)
      return Walk::Broken;
  }
  return latestEnd() <= limit ? Walk::Through : Walk::Late;
}

} // namespace pipesched::optimize

#endif // PIPESCHED_LIB_OPTIMIZE_EVALUATOR_EVALUATORORDER_H
