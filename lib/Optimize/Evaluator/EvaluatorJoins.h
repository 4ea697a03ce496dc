//===- EvaluatorJoins.h - Memory whatever the times -------------*- C++ -*-===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Members of Evaluator for problems in which the order of the rows has to keep
// the capacity whatever the times. An offload counts as held until the row, or
// a reload, waits for it; so the joins that a plan needs follow from its order
// (AnyTimeMemory.h has the exact peak of rows with joins; the count here is
// never below it).
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_LIB_OPTIMIZE_EVALUATOR_EVALUATORJOINS_H
#define PIPESCHED_LIB_OPTIMIZE_EVALUATOR_EVALUATORJOINS_H

#include "Evaluator.h"

namespace pipesched::optimize {

/// Notes that the row has waited for the first `numEnded` offloads.
template <typename Clock, bool Copies>
void Evaluator<Clock, Copies>::awaitOffloads(uint32_t worker,
                                             uint32_t numEnded) {
  CopyState &state = rowStates[worker];
  const uint32_t begin = encoding.rowBegins[worker];
  for (; state.firstOffload < numEnded; ++state.firstOffload)
    state.level -=
        encoding.kinds[current.offloads[begin + state.firstOffload].kind].frees;
  while (state.nextStart < state.firstReload &&
         current.needs[begin + state.nextStart] <= state.firstOffload)
    ++state.nextStart;
}

/// Notes that the row has waited for a reload, and so for the offloads for
/// which the reload waits.
template <typename Clock, bool Copies>
void Evaluator<Clock, Copies>::learnFrom(uint32_t worker, Token reload) {
  const CopyState &state = rowStates[worker];
  const uint32_t begin = encoding.rowBegins[worker];
  for (uint32_t i = state.nextStart; i < state.firstReload; ++i)
    if (current.reloads[begin + i] == reload)
      return awaitOffloads(worker, current.needs[begin + i]);
}

/// The most that compute, offloads and issued reloads can hold, and what is
/// kept for reloads that are not issued. A reload that waits for offloads
/// counts only in states in which these have ended.
template <typename Clock, bool Copies>
int64_t Evaluator<Clock, Copies>::mostHeld(uint32_t worker) const {
  const CopyState &state = rowStates[worker];
  const uint32_t begin = encoding.rowBegins[worker];
  const KindFacts *kinds = encoding.kinds.data();
  int64_t held = state.level;
  for (uint32_t i = state.nextStart; i < state.firstReload; ++i)
    held -= kinds[current.reloads[begin + i].kind].allocates;
  int64_t most = held;
  uint32_t offload = state.firstOffload;
  for (uint32_t i = state.nextStart; i < state.firstReload; ++i) {
    held += kinds[current.reloads[begin + i].kind].allocates;
    for (; offload < current.needs[begin + i]; ++offload)
      held -= kinds[current.offloads[begin + offload].kind].frees;
    most = std::max(most, held);
  }
  return most;
}

/// Delays the compute cell until offloads have ended that make room for it,
/// whatever the times. False: there are not enough.
template <typename Clock, bool Copies>
bool Evaluator<Clock, Copies>::joinForMemory(uint32_t worker, uint32_t pos,
                                             int64_t room, Clock &start) {
  const CopyState &state = rowStates[worker];
  const uint32_t begin = encoding.rowBegins[worker];
  while (mostHeld(worker) > room) {
    if (state.firstOffload == state.endOffloads)
      return false;
    Token offload = current.offloads[begin + state.firstOffload];
    start = later(start, current.ends[offload.cell]);
    awaitOffloads(worker, state.firstOffload + 1);
    if (recording)
      joins[pos] = offload;
  }
  return true;
}

/// Finds the offloads that the next reload has to join, for room whatever the
/// times, and delays its `start` until they end. Arguments as for issueReload.
template <typename Clock, bool Copies>
template <bool Again>
bool Evaluator<Clock, Copies>::joinForReload(uint32_t worker, int64_t held,
                                             int64_t until, bool mustWait,
                                             Clock &start, Token &waitsFor) {
  CopyState &state = rowStates[worker];
  const uint32_t begin = encoding.rowBegins[worker];
  const uint32_t place = begin + state.firstReload;
  Token own = encoding.sibling(current.reloads[place], CellType::Offload);
  // The offloads for which the reload waits even without a join. A reload ahead
  // of a cell is not held by the joins of that cell.
  uint32_t known = current.places[own.cell] + 1;
  if (state.firstReload > 0)
    known = std::max(known, current.needs[place - 1]);
  if (!mustWait)
    known = std::max(known, state.firstOffload);
  uint32_t need = std::max(known, state.firstOffload);
  int64_t level = state.level + held;
  auto freedBy = [&](uint32_t offload) {
    return encoding.kinds[current.offloads[begin + offload].kind].frees;
  };
  for (uint32_t i = state.firstOffload; i < need; ++i)
    level -= freedBy(i);
  for (; level > encoding.capacity[worker]; ++need) {
    if (need == state.endOffloads)
      return false;
    Clock end = current.ends[current.offloads[begin + need].cell];
    if (timeOf(end) > timeOf(start) && timeOf(end) >= until)
      return false;
    start = later(start, end);
    level -= freedBy(need);
  }
  if (mustWait && need == known)
    return false;
  if (need > known) {
    waitsFor = current.offloads[begin + need - 1];
    start = later(start, current.ends[waitsFor.cell]);
  }
  uint32_t &needed = current.needs[place];
  if constexpr (Again)
    if (needed != need) {
      changedNeeds.push_back({place, needed});
      dirt[worker].needs = state.firstReload + 1;
    }
  needed = need;
  return true;
}

} // namespace pipesched::optimize

#endif // PIPESCHED_LIB_OPTIMIZE_EVALUATOR_EVALUATORJOINS_H
