//===- Evaluator.cpp - Times of a plan ------------------------------------===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Walks rows in turns; takes them up again behind what a change leaves alone.
//
//===----------------------------------------------------------------------===//

#include "Evaluator.h"
#include <algorithm>

using namespace pipesched;
using namespace pipesched::optimize;
using llvm::ArrayRef;

/// The end of a reload that was not issued yet.
static constexpr int64_t kNotIssued = -1;

static void setTime(int64_t &clock, int64_t time, uint32_t) { clock = time; }
static void setTime(TracedTime &clock, int64_t time, uint32_t worker) {
  clock = {time, worker};
}

/// A time that goes back to the start of the worker's row.
template <typename Clock, bool Copies>
Clock Evaluator<Clock, Copies>::startOf(int64_t time, uint32_t worker) {
  Clock clock;
  setTime(clock, time, worker);
  return clock;
}

template <typename Clock, bool Copies>
Evaluator<Clock, Copies>::Evaluator(const Encoding &encoding)
    : encoding(encoding), cursors(encoding.numWorkers),
      resumed(encoding.numWorkers), clocks(encoding.numWorkers),
      rowStates(encoding.numWorkers) {
  for (Arrays *arrays : {&current, &kept}) {
    arrays->ends.resize(encoding.rowBegins.back());
    if (!Copies)
      continue;
    arrays->states.resize(arrays->ends.size());
    arrays->offloads.resize(arrays->ends.size());
    arrays->reloads.resize(arrays->ends.size());
  }
}

//===----------------------------------------------------------------------===//
// Copies and memory
//===----------------------------------------------------------------------===//

template <typename Clock, bool Copies>
int64_t Evaluator<Clock, Copies>::freedBy(const Plan &plan, Token token) const {
  const KindFacts &kind = encoding.kinds[token.kind];
  if (encoding.recompute && kind.step == Step::Forward &&
      plan.has(encoding.sibling(token, Step::Recompute)))
    return kind.frees + encoding.freedByDropping(kind.stage);
  return kind.frees;
}

/// Lets the compute cell wait until there is memory for it and for the reloads
/// that are issued and start later. False: no offload frees enough.
template <typename Clock, bool Copies>
bool Evaluator<Clock, Copies>::allocate(const Plan &plan, uint32_t worker,
                                        uint32_t pos, Clock &start) {
  CopyState &state = rowStates[worker];
  const uint32_t *offloads = &current.offloads[encoding.rowBegins[worker]];
  const uint32_t *reloads = &current.reloads[encoding.rowBegins[worker]];
  const int64_t bytes = encoding.kinds[plan.tokens[pos].kind].allocates;
  const int64_t room = encoding.capacity[worker] - bytes;
  while (true) {
    for (; state.nextStart < state.firstReload; ++state.nextStart) {
      const KindFacts &kind =
          encoding.kinds[plan.tokens[reloads[state.nextStart]].kind];
      if (timeOf(current.ends[reloads[state.nextStart]]) - kind.duration >
          timeOf(start))
        break;
      state.level += kind.allocates;
    }
    // What is free, and what offloads free, until each of those starts.
    int64_t level = state.level;
    uint32_t offload = state.firstOffload;
    auto free = [&] {
      level -= encoding.kinds[plan.tokens[offloads[offload++]].kind].frees;
    };
    while (offload < state.endOffloads &&
           timeOf(current.ends[offloads[offload]]) <= timeOf(start))
      free();
    uint32_t next = state.nextStart;
    for (; level <= room && next < state.firstReload; ++next) {
      const KindFacts &kind = encoding.kinds[plan.tokens[reloads[next]].kind];
      int64_t time = timeOf(current.ends[reloads[next]]) - kind.duration;
      while (offload < state.endOffloads &&
             timeOf(current.ends[offloads[offload]]) <= time)
        free();
      level += kind.allocates;
    }
    if (level <= room)
      break;
    if (offload == state.endOffloads)
      return false;
    start = later(start, current.ends[offloads[offload]]);
  }
  takeOffloads(plan, worker, pos, room, timeOf(start));
  state.level += bytes;
  return true;
}

/// Counts what offloads have freed by `time`. The cell joins those whose memory
/// it takes or that it waits for.
template <typename Clock, bool Copies>
void Evaluator<Clock, Copies>::takeOffloads(const Plan &plan, uint32_t worker,
                                            uint32_t pos, int64_t room,
                                            int64_t time) {
  CopyState &state = rowStates[worker];
  const uint32_t *offloads = &current.offloads[encoding.rowBegins[worker]];
  for (; state.firstOffload < state.endOffloads; ++state.firstOffload) {
    uint32_t offload = offloads[state.firstOffload];
    int64_t end = timeOf(current.ends[offload]);
    if (end > time)
      return;
    if (recording && (state.level > room || end == time))
      joins[pos] = offload;
    state.level -= encoding.kinds[plan.tokens[offload].kind].frees;
  }
}

/// Lets the compute cell wait for its reload and for memory. `now`: the end of
/// the compute so far. False: neither comes.
template <typename Clock, bool Copies>
bool Evaluator<Clock, Copies>::admit(const Plan &plan, uint32_t worker,
                                     uint32_t pos, Clock now, Clock &start) {
  CopyState &state = rowStates[worker];
  Token token = plan.tokens[pos];
  const KindFacts &kind = encoding.kinds[token.kind];
  if (kind.step == Step::InputGrad) {
    Token reload = encoding.sibling(token, Step::Reload);
    uint32_t reloadPos = plan.positions[reload.cell];
    if (reloadPos != kNone) {
      if (reloadPos > pos)
        return false;
      while (encoding.reloadsWait &&
             timeOf(current.ends[reloadPos]) == kNotIssued)
        if (!issueReload(plan, worker, pos, now, 0, kInfeasible, false))
          return false;
      if (timeOf(current.ends[reloadPos]) == kNotIssued)
        return false;
      start = later(start, current.ends[reloadPos]);
    }
  }
  if (kind.allocates > 0 && !allocate(plan, worker, pos, start))
    return false;
  state.level -= freedBy(plan, token);
  return true;
}

template <typename Clock, bool Copies>
void Evaluator<Clock, Copies>::offloadAt(const Plan &plan, uint32_t worker,
                                         uint32_t pos, Clock now) {
  CopyState &state = rowStates[worker];
  Clock &queue =
      encoding.sharedQueue ? state.reloadsUntil : state.offloadsUntil;
  const KindFacts &kind = encoding.kinds[plan.tokens[pos].kind];
  queue = current.ends[pos] = after(later(now, queue), kind.duration);
  current.offloads[encoding.rowBegins[worker] + state.endOffloads++] = pos;
}

/// Issues the next reload where memory is there for it when it starts, at
/// `from` or later, counting offloads that have ended by then and `held` more
/// than the level. It may, or has to, wait for offloads that end before
/// `until`.
template <typename Clock, bool Copies>
bool Evaluator<Clock, Copies>::issueReload(const Plan &plan, uint32_t worker,
                                           uint32_t pos, Clock from,
                                           int64_t held, int64_t until,
                                           bool mustWait) {
  CopyState &state = rowStates[worker];
  const uint32_t *offloads = &current.offloads[encoding.rowBegins[worker]];
  const uint32_t *reloads = &current.reloads[encoding.rowBegins[worker]];
  uint32_t reload = reloads[state.firstReload];
  Token token = plan.tokens[reload];
  Token own = encoding.sibling(token, Step::Offload);
  Clock start = later(from, state.reloadsUntil);
  start = later(start, current.ends[plan.positions[own.cell]]);
  int64_t level = state.level + held;
  for (uint32_t i = state.nextStart; i < state.firstReload; ++i)
    level += encoding.kinds[plan.tokens[reloads[i]].kind].allocates;
  uint32_t waitsFor = kNone;
  for (uint32_t i = state.firstOffload; i < state.endOffloads; ++i) {
    Clock end = current.ends[offloads[i]];
    if (timeOf(end) > timeOf(start)) {
      if (level <= encoding.capacity[worker] || timeOf(end) >= until)
        break;
      start = end;
      waitsFor = offloads[i];
    }
    level -= encoding.kinds[plan.tokens[offloads[i]].kind].frees;
  }
  if (level > encoding.capacity[worker] || (mustWait && waitsFor == kNone))
    return false;
  const KindFacts &kind = encoding.kinds[token.kind];
  state.reloadsUntil = current.ends[reload] = after(start, kind.duration);
  state.level -= kind.allocates;
  ++state.firstReload;
  if (recording) {
    issues[reload] = pos;
    joins[reload] = waitsFor;
  }
  return true;
}

/// Issues reloads, in order, as long as there is memory without waiting.
template <typename Clock, bool Copies>
void Evaluator<Clock, Copies>::issueReloads(const Plan &plan, uint32_t worker,
                                            uint32_t pos, Clock now) {
  const CopyState &state = rowStates[worker];
  while (state.firstReload < state.endReloads &&
         issueReload(plan, worker, pos, now, 0, timeOf(now), false))
    ;
}

/// Issues reloads for which offloads make room while the compute cell at `pos`
/// runs, which is from `begin` to `now`. They are issued ahead of it, so that
/// only a join keeps them from starting earlier.
template <typename Clock, bool Copies>
void Evaluator<Clock, Copies>::issueBehindOffloads(const Plan &plan,
                                                   uint32_t worker,
                                                   uint32_t pos, Clock begin,
                                                   Clock now) {
  const CopyState &state = rowStates[worker];
  int64_t held = freedBy(plan, plan.tokens[pos]);
  while (state.firstReload < state.endReloads &&
         issueReload(plan, worker, pos, begin, held, timeOf(now), true))
    ;
}

//===----------------------------------------------------------------------===//
// Rows
//===----------------------------------------------------------------------===//

/// Walks a row as far as messages go. False: it is too late, or breaks a rule.
template <typename Clock, bool Copies>
bool Evaluator<Clock, Copies>::advance(const Plan &plan, uint32_t worker,
                                       int64_t limit) {
  const Token *tokens = plan.tokens.data();
  const uint32_t *positions = plan.positions.data();
  const KindFacts *kinds = encoding.kinds.data();
  Clock *end = current.ends.data();
  uint32_t *cursor = cursors.data();
  uint32_t pos = cursor[worker];
  const uint32_t rowEnd = encoding.rowBegins[worker] + plan.sizes[worker];
  Clock now = clocks[worker];
  for (; pos < rowEnd; cursor[worker] = ++pos) {
    Token token = tokens[pos];
    const KindFacts &kind = kinds[token.kind];
    if constexpr (Copies) {
      if (isCheckpoint(worker, pos)) {
        rowStates[worker].clock = now;
        current.states[pos] = rowStates[worker];
      }
      if (kind.isCopy()) {
        if (kind.step == Step::Offload) {
          offloadAt(plan, worker, pos, now);
          continue;
        }
        CopyState &state = rowStates[worker];
        state.level += kind.allocates;
        end[pos] = startOf(kNotIssued, worker);
        current.reloads[encoding.rowBegins[worker] + state.endReloads++] = pos;
        issueReloads(plan, worker, pos, now);
        continue;
      }
    }
    Clock start = now;
    if (kind.waitsOn != kNone) {
      uint32_t source = positions[token.cell + kind.waitsFor];
      if (source >= cursor[kind.waitsOn])
        break;
      start = later(start, after(end[source], kind.delay));
    }
    if constexpr (Copies)
      if (!admit(plan, worker, pos, now, start))
        return false;
    end[pos] = now = after(start, kind.duration);
    if constexpr (Copies)
      if (rowStates[worker].firstReload != rowStates[worker].endReloads) {
        if (encoding.reloadsWait)
          issueBehindOffloads(plan, worker, pos, start, now);
        issueReloads(plan, worker, pos + 1, now);
      }
  }
  clocks[worker] = now;
  return timeOf(now) + plan.remaining[pos] <= limit;
}

/// The rows have to be finished when no row can go on.
template <typename Clock, bool Copies>
int64_t Evaluator<Clock, Copies>::run(const Plan &plan, int64_t limit) {
  const uint32_t numWorkers = encoding.numWorkers;
  bool isFinished = false;
  for (bool hasMoved = true; hasMoved && !isFinished;) {
    hasMoved = false;
    isFinished = true;
    // Forwards come down a path, gradients up.
    for (uint32_t turn = 0; turn < 2 * numWorkers; ++turn) {
      uint32_t worker = turn < numWorkers ? turn : 2 * numWorkers - 1 - turn;
      uint32_t before = cursors[worker];
      uint32_t rowEnd = encoding.rowBegins[worker] + plan.sizes[worker];
      if (before == rowEnd)
        continue;
      if (!advance(plan, worker, limit))
        return kInfeasible;
      hasMoved |= cursors[worker] != before;
      isFinished &= cursors[worker] == rowEnd;
    }
  }
  if (!isFinished)
    return kInfeasible;
  int64_t makespan = 0;
  for (Clock clock : clocks)
    makespan = std::max(makespan, timeOf(clock));
  return makespan <= limit ? makespan : kInfeasible;
}

template <typename Clock, bool Copies>
void Evaluator<Clock, Copies>::startRow(uint32_t worker, uint32_t cursor,
                                        Clock clock) {
  cursors[worker] = resumed[worker] = cursor;
  clocks[worker] = clock;
}

template <typename Clock, bool Copies>
int64_t Evaluator<Clock, Copies>::evaluate(const Plan &plan, int64_t limit,
                                           ArrayRef<int64_t> offsets) {
  for (uint32_t worker = 0; worker < encoding.numWorkers; ++worker) {
    Clock clock = startOf(offsets.empty() ? 0 : offsets[worker], worker);
    startRow(worker, encoding.rowBegins[worker], clock);
    if constexpr (Copies) {
      rowStates[worker] = CopyState();
      rowStates[worker].offloadsUntil = rowStates[worker].reloadsUntil = clock;
    }
  }
  return run(plan, limit);
}

/// End of the compute ahead of a position; of a checkpoint with copies.
template <typename Clock, bool Copies>
Clock Evaluator<Clock, Copies>::clockBefore(uint32_t worker,
                                            uint32_t position) const {
  if (position == encoding.rowBegins[worker])
    return startOf(0, worker);
  if constexpr (Copies)
    return current.states[position].clock;
  return current.ends[position - 1];
}

/// Where a row is to be taken up: cells before it start earlier than anything
/// that depends on a cell that ends at `time`. A checkpoint, with copies.
template <typename Clock, bool Copies>
uint32_t Evaluator<Clock, Copies>::resumptionOf(uint32_t worker, uint32_t end,
                                                int64_t time) const {
  const uint32_t begin = encoding.rowBegins[worker];
  uint32_t first = 0; // that many checkpoints are earlier than `time`
  for (uint32_t count = (end - begin + kStride - 1) / kStride; count > 0;) {
    uint32_t half = count / 2;
    bool isEarlier =
        timeOf(clockBefore(worker, begin + (first + half) * kStride)) < time;
    first = isEarlier ? first + half + 1 : first;
    count = isEarlier ? count - half - 1 : half;
  }
  // The cell ahead of the first that is not may start later than `time`.
  return begin + (first > 0 ? first - 1 : 0) * kStride;
}

template <typename Clock, bool Copies>
void Evaluator<Clock, Copies>::resumeCopies(uint32_t worker) {
  rowStates[worker] = current.states[cursors[worker]];
  CopyState &state = rowStates[worker];
  const uint32_t *reloads = &current.reloads[encoding.rowBegins[worker]];
  for (uint32_t i = state.firstReload; i < state.endReloads; ++i)
    current.ends[reloads[i]] = startOf(kNotIssued, worker);
}

template <typename Clock, bool Copies>
int64_t
Evaluator<Clock, Copies>::evaluateFrom(const Plan &plan, uint32_t worker,
                                       uint32_t position, int64_t limit) {
  uint32_t place = position - encoding.rowBegins[worker];
  uint32_t checkpoint = position - place % kStride;
  int64_t time = timeOf(clockBefore(worker, checkpoint));
  for (uint32_t row = 0; row < encoding.numWorkers; ++row) {
    uint32_t end = encoding.rowBegins[row] + plan.sizes[row];
    uint32_t cursor = row == worker ? checkpoint : resumptionOf(row, end, time);
    startRow(row, cursor, clockBefore(row, cursor));
    if constexpr (Copies)
      resumeCopies(row);
  }
  return run(plan, limit);
}

//===----------------------------------------------------------------------===//
// Keep and discard
//===----------------------------------------------------------------------===//

/// Copies what the last evaluation wrote. It began with the state that is kept
/// of where it was taken up; reloads that were waiting then have been issued
/// anew.
template <typename Clock, bool Copies>
void Evaluator<Clock, Copies>::copyRows(const Arrays &from, Arrays &to) {
  for (uint32_t worker = 0; worker < encoding.numWorkers; ++worker) {
    uint32_t begin = resumed[worker], end = cursors[worker] + 1;
    if constexpr (Copies) {
      const CopyState first = kept.states[begin], &last = rowStates[worker];
      for (uint32_t pos = begin; pos < end; pos += kStride)
        to.states[pos] = from.states[pos];
      uint32_t row = encoding.rowBegins[worker];
      for (uint32_t i = first.endOffloads; i < last.endOffloads; ++i)
        to.offloads[row + i] = from.offloads[row + i];
      for (uint32_t i = first.endReloads; i < last.endReloads; ++i)
        to.reloads[row + i] = from.reloads[row + i];
      for (uint32_t i = first.firstReload; i < first.endReloads; ++i)
        to.ends[from.reloads[row + i]] = from.ends[from.reloads[row + i]];
    }
    std::copy(&from.ends[begin], &from.ends[begin] + (end - begin),
              &to.ends[begin]);
  }
}

template <typename Clock, bool Copies>
void Evaluator<Clock, Copies>::keep() {
  copyRows(current, kept);
}

template <typename Clock, bool Copies>
void Evaluator<Clock, Copies>::discard() {
  copyRows(kept, current);
}

//===----------------------------------------------------------------------===//
// Rows of cells
//===----------------------------------------------------------------------===//

static Cell joinOf(Cell offload) {
  return offload.withPhase(Phase::OffloadJoin);
}

/// A row as it was evaluated: reloads where they were issued.
template <typename Clock, bool Copies>
Row Evaluator<Clock, Copies>::rowOf(const Plan &plan, uint32_t worker) const {
  Row row;
  uint32_t begin = encoding.rowBegins[worker];
  uint32_t nextReload = 0;
  for (uint32_t pos = begin; pos <= begin + plan.sizes[worker]; ++pos) {
    if constexpr (Copies)
      for (; nextReload < rowStates[worker].endReloads; ++nextReload) {
        uint32_t reload = current.reloads[begin + nextReload];
        if (issues[reload] > pos)
          break;
        if (joins[reload] != kNone)
          row.push_back(joinOf(encoding.cellOf(plan.tokens[joins[reload]])));
        row.push_back(encoding.cellOf(plan.tokens[reload]));
      }
    if (pos == begin + plan.sizes[worker])
      break;
    Token token = plan.tokens[pos];
    if (encoding.kinds[token.kind].step == Step::Reload)
      continue;
    if (joins[pos] != kNone)
      row.push_back(joinOf(encoding.cellOf(plan.tokens[joins[pos]])));
    row.push_back(encoding.cellOf(token));
  }
  return row;
}

template <typename Clock, bool Copies>
std::vector<Row> Evaluator<Clock, Copies>::rowsOf(const Plan &plan) {
  joins.assign(current.ends.size(), kNone);
  issues.assign(current.ends.size(), kNone);
  recording = true;
  int64_t objective = evaluate(plan, kInfeasible - 1);
  recording = false;
  if (objective == kInfeasible)
    return {};
  std::vector<Row> rows(encoding.numWorkers);
  for (uint32_t worker = 0; worker < encoding.numWorkers; ++worker)
    rows[worker] = rowOf(plan, worker);
  return rows;
}

template class optimize::Evaluator<int64_t, false>;
template class optimize::Evaluator<int64_t, true>;
template class optimize::Evaluator<TracedTime, false>;
template class optimize::Evaluator<TracedTime, true>;
