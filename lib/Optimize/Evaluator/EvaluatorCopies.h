//===- EvaluatorCopies.h - Copies and memory of a row -----------*- C++ -*-===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Members of Evaluator that decide when copies run and how a row waits for
// memory and reloads. They are in a header so that they are inlined.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_LIB_OPTIMIZE_EVALUATOR_EVALUATORCOPIES_H
#define PIPESCHED_LIB_OPTIMIZE_EVALUATOR_EVALUATORCOPIES_H

#include "Evaluator.h"

namespace pipesched::optimize {

/// The cell of another type with the same stage and microbatch.
template <typename Clock, bool Copies>
uint32_t Evaluator<Clock, Copies>::cellOf(Token token, CellType type) const {
  const KindFacts &kind = encoding.kinds[token.kind];
  uint32_t kinds =
      static_cast<uint32_t>(type) - static_cast<uint32_t>(kind.type);
  return token.cell + kinds * kind.count;
}

template <typename Clock, bool Copies>
bool Evaluator<Clock, Copies>::CopyState::operator==(
    const CopyState &other) const {
  return timeOf(clock) == timeOf(other.clock) && level == other.level &&
         timeOf(offloadsUntil) == timeOf(other.offloadsUntil) &&
         timeOf(reloadsUntil) == timeOf(other.reloadsUntil) &&
         firstOffload == other.firstOffload &&
         endOffloads == other.endOffloads && nextStart == other.nextStart &&
         firstReload == other.firstReload && endReloads == other.endReloads;
}

template <typename Clock, bool Copies>
int64_t Evaluator<Clock, Copies>::freedBy(const Plan &plan, Token token) const {
  const KindFacts &kind = encoding.kinds[token.kind];
  if (encoding.recompute && kind.type == CellType::Forward &&
      plan.positions[cellOf(token, CellType::Recompute)] != kNone)
    return kind.frees + encoding.freedByDropping(kind.stage);
  return kind.frees;
}

/// Counts the memory that offloads have freed by `time`.
template <typename Clock, bool Copies>
void Evaluator<Clock, Copies>::takeOffloads(uint32_t worker, int64_t time) {
  CopyState &state = rowStates[worker];
  const Token *offloads = &current.offloads[encoding.rowBegins[worker]];
  for (; state.firstOffload < state.endOffloads; ++state.firstOffload) {
    Token offload = offloads[state.firstOffload];
    if (timeOf(current.ends[offload.cell]) > time)
      return;
    state.level -= encoding.kinds[offload.kind].frees;
  }
}

/// The same, but the cell also joins the offloads whose memory it takes or that
/// it waits for.
template <typename Clock, bool Copies>
void Evaluator<Clock, Copies>::joinOffloads(uint32_t worker, uint32_t pos,
                                            int64_t room, int64_t time) {
  CopyState &state = rowStates[worker];
  const Token *offloads = &current.offloads[encoding.rowBegins[worker]];
  int64_t level = state.level - notStarted(worker);
  for (; state.firstOffload < state.endOffloads; ++state.firstOffload) {
    Token offload = offloads[state.firstOffload];
    int64_t end = timeOf(current.ends[offload.cell]);
    if (end > time)
      return;
    if (level > room || end == time)
      joins[pos] = offload;
    level -= encoding.kinds[offload.kind].frees;
    state.level -= encoding.kinds[offload.kind].frees;
  }
}

/// Drops issued reloads that start by `time` from those that start later.
template <typename Clock, bool Copies>
void Evaluator<Clock, Copies>::startReloads(uint32_t worker, int64_t time) {
  CopyState &state = rowStates[worker];
  const Token *reloads = &current.reloads[encoding.rowBegins[worker]];
  for (; state.nextStart < state.firstReload; ++state.nextStart) {
    Token reload = reloads[state.nextStart];
    if (timeOf(current.ends[reload.cell]) -
            encoding.kinds[reload.kind].duration >
        time)
      return;
  }
}

/// The memory of reloads that are issued but have not started.
template <typename Clock, bool Copies>
int64_t Evaluator<Clock, Copies>::notStarted(uint32_t worker) const {
  const CopyState &state = rowStates[worker];
  const Token *reloads = &current.reloads[encoding.rowBegins[worker]];
  int64_t bytes = 0;
  for (uint32_t i = state.nextStart; i < state.firstReload; ++i)
    bytes += encoding.kinds[reloads[i].kind].allocates;
  return bytes;
}

/// Delays the compute cell until there is memory for it and for the reloads
/// that are issued but start later. False: the offloads do not free enough.
template <typename Clock, bool Copies>
bool Evaluator<Clock, Copies>::waitForMemory(uint32_t worker, uint32_t pos,
                                             int64_t room, Clock &start) {
  CopyState &state = rowStates[worker];
  const Token *offloads = &current.offloads[encoding.rowBegins[worker]];
  const Token *reloads = &current.reloads[encoding.rowBegins[worker]];
  while (true) {
    startReloads(worker, timeOf(start));
    // Memory must suffice now and whenever one of those reloads starts; until
    // then offloads may free more.
    int64_t level = state.level - notStarted(worker);
    uint32_t offload = state.firstOffload;
    auto freeUntil = [&](int64_t time) {
      for (; offload < state.endOffloads &&
             timeOf(current.ends[offloads[offload].cell]) <= time;
           ++offload)
        level -= encoding.kinds[offloads[offload].kind].frees;
    };
    freeUntil(timeOf(start));
    uint32_t next = state.nextStart;
    for (; level <= room && next < state.firstReload; ++next) {
      const KindFacts &kind = encoding.kinds[reloads[next].kind];
      freeUntil(timeOf(current.ends[reloads[next].cell]) - kind.duration);
      level += kind.allocates;
    }
    if (level <= room) {
      if (recording)
        joinOffloads(worker, pos, room, timeOf(start));
      else
        takeOffloads(worker, timeOf(start));
      return true;
    }
    if (offload == state.endOffloads)
      return false;
    start = later(start, current.ends[offloads[offload].cell]);
  }
}

/// Whether the reload at `reloadPos` is issued. Reloads are issued in the order
/// of the row.
template <typename Clock, bool Copies>
bool Evaluator<Clock, Copies>::isIssued(const Plan &plan, uint32_t worker,
                                        uint32_t reloadPos) const {
  const CopyState &state = rowStates[worker];
  if (state.firstReload == state.endReloads)
    return true;
  const Token *reloads = &current.reloads[encoding.rowBegins[worker]];
  return plan.positions[reloads[state.firstReload].cell] > reloadPos;
}

/// Delays an I until its reload ends. `now` is the end of the compute so far.
/// False: the reload never ends.
template <typename Clock, bool Copies>
template <bool Again>
bool Evaluator<Clock, Copies>::waitForReload(const Plan &plan, uint32_t worker,
                                             uint32_t pos, Clock now,
                                             Clock &start) {
  uint32_t reload = cellOf(plan.tokens[pos], CellType::Reload);
  if (plan.positions[reload] > pos)
    return false;
  while (!isIssued(plan, worker, plan.positions[reload]))
    if (!issueReload<Again>(plan, worker, pos, now, 0, kInfeasible, false))
      return false;
  start = later(start, current.ends[reload]);
  if (encoding.anyTimes)
    learnFrom(worker, plan.tokens[plan.positions[reload]]);
  return true;
}

/// Delays a compute cell until its reload has ended and there is memory for it.
/// False: that never happens. No branch depends on the type of the cell alone,
/// because the processor predicts such branches badly.
template <typename Clock, bool Copies>
template <bool Again>
bool Evaluator<Clock, Copies>::admit(const Plan &plan, uint32_t worker,
                                     uint32_t pos, Clock now, Clock &start) {
  CopyState &state = rowStates[worker];
  Token token = plan.tokens[pos];
  const KindFacts &kind = encoding.kinds[token.kind];
  bool isOut = plan.positions[cellOf(token, CellType::Reload)] != kNone;
  if (isOut & (kind.type == CellType::InputGrad) &&
      !waitForReload<Again>(plan, worker, pos, now, start))
    return false;
  int64_t room = encoding.capacity[worker] - kind.allocates;
  if ((kind.allocates > 0) & (state.level > room) &&
      !(encoding.anyTimes ? joinForMemory(worker, pos, room, start)
                          : waitForMemory(worker, pos, room, start)))
    return false;
  state.level += kind.allocates - freedBy(plan, token);
  return true;
}

/// Issues the next reload if there is memory for it when it starts, at `from`
/// or later. Counts `held` in addition to the level, minus what has been
/// offloaded by then. The reload may wait for offloads that end before `until`;
/// with `mustWait` it is issued only if it does.
template <typename Clock, bool Copies>
template <bool Again>
bool Evaluator<Clock, Copies>::issueReload(const Plan &plan, uint32_t worker,
                                           uint32_t pos, Clock from,
                                           int64_t held, int64_t until,
                                           bool mustWait) {
  CopyState &state = rowStates[worker];
  const Token *offloads = &current.offloads[encoding.rowBegins[worker]];
  Token reload =
      current.reloads[encoding.rowBegins[worker] + state.firstReload];
  const int64_t capacity = encoding.capacity[worker];
  Clock start = later(from, state.reloadsUntil);
  start = later(start, current.ends[cellOf(reload, CellType::Offload)]);
  Token waitsFor;
  if (encoding.anyTimes) {
    if (!joinForReload<Again>(worker, held, until, mustWait, start, waitsFor))
      return false;
    startReload<Again>(plan, worker, pos, start, waitsFor);
    return true;
  }
  if (state.level + held > capacity && !recording)
    takeOffloads(worker, timeOf(from));
  int64_t level = state.level + held;
  if (level <= capacity && mustWait)
    return false;
  for (uint32_t i = state.firstOffload;
       level > capacity && i < state.endOffloads; ++i) {
    Clock end = current.ends[offloads[i].cell];
    if (timeOf(end) > timeOf(start)) {
      if (timeOf(end) >= until)
        break;
      start = end;
      waitsFor = offloads[i];
    }
    level -= encoding.kinds[offloads[i].kind].frees;
  }
  if (level > capacity || (mustWait && waitsFor.cell == kNone))
    return false;
  startReload<Again>(plan, worker, pos, start, waitsFor);
  return true;
}

/// Adds the next reload to its queue. It is issued at `pos`.
template <typename Clock, bool Copies>
template <bool Again>
void Evaluator<Clock, Copies>::startReload(const Plan &plan, uint32_t worker,
                                           uint32_t pos, Clock start,
                                           Token waitsFor) {
  CopyState &state = rowStates[worker];
  Token reload =
      current.reloads[encoding.rowBegins[worker] + state.firstReload];
  state.reloadsUntil = after(start, encoding.kinds[reload.kind].duration);
  ++state.firstReload;
  if (setEnd<Again>(reload.cell, state.reloadsUntil) && Again) {
    uint32_t user = plan.positions[cellOf(reload, CellType::InputGrad)];
    dirt[worker].end = std::max(dirt[worker].end, user + 1);
  }
  if (recording) {
    issues[plan.positions[reload.cell]] = pos;
    joins[plan.positions[reload.cell]] = waitsFor;
  }
}

/// Issues reloads in order as long as there is memory for them without waiting.
template <typename Clock, bool Copies>
template <bool Again>
void Evaluator<Clock, Copies>::issueReloads(const Plan &plan, uint32_t worker,
                                            uint32_t pos, Clock now) {
  const CopyState &state = rowStates[worker];
  while (state.firstReload < state.endReloads &&
         issueReload<Again>(plan, worker, pos, now, 0, timeOf(now), false))
    ;
}

/// Issues reloads after a compute cell that runs from `begin` to `now`. The
/// first of them are those for which offloads make room while the cell runs:
/// they are issued ahead of the cell, and only a join keeps them from starting
/// earlier.
template <typename Clock, bool Copies>
template <bool Again>
void Evaluator<Clock, Copies>::issueBehind(const Plan &plan, uint32_t worker,
                                           uint32_t pos, Clock begin,
                                           Clock now) {
  const CopyState &state = rowStates[worker];
  int64_t held = freedBy(plan, plan.tokens[pos]);
  while (state.firstReload < state.endReloads &&
         issueReload<Again>(plan, worker, pos, begin, held, timeOf(now), true))
    ;
  issueReloads<Again>(plan, worker, pos + 1, now);
}

/// Appends a copy to its queue. A reload is issued if there is memory for it.
template <typename Clock, bool Copies>
template <bool Again>
void Evaluator<Clock, Copies>::runCopy(const Plan &plan, uint32_t worker,
                                       uint32_t pos, Clock now) {
  CopyState &state = rowStates[worker];
  const uint32_t begin = encoding.rowBegins[worker];
  Token token = plan.tokens[pos];
  const KindFacts &kind = encoding.kinds[token.kind];
  if (kind.type == CellType::Offload) {
    Clock &queue =
        encoding.sharedQueue ? state.reloadsUntil : state.offloadsUntil;
    Clock sent =
        after(current.ends[cellOf(token, CellType::Forward)], kind.delay);
    queue = after(later(later(now, sent), queue), kind.duration);
    uint32_t &place = current.places[token.cell];
    if (Again && place != state.endOffloads)
      changedPlaces.push_back({token.cell, place});
    place = state.endOffloads;
    bool isOther = list<Again>(current.offloads, changedOffloads,
                               begin + state.endOffloads++, token);
    if (setEnd<Again>(token.cell, queue) || isOther)
      dirt[worker].offloads = state.endOffloads;
    return;
  }
  state.level += kind.allocates;
  if (list<Again>(current.reloads, changedReloads, begin + state.endReloads++,
                  token))
    dirt[worker].reloads = state.endReloads;
  issueReloads<Again>(plan, worker, pos, now);
}

} // namespace pipesched::optimize

#endif // PIPESCHED_LIB_OPTIMIZE_EVALUATOR_EVALUATORCOPIES_H
