//===- Evaluator.cpp - Times of a plan ------------------------------------===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Times rows in turn, and resumes a changed row where it first differs.
//
//===----------------------------------------------------------------------===//

#include "EvaluatorCopies.h"
#include "EvaluatorJoins.h"
#include "EvaluatorOrder.h"
#include "EvaluatorPeriod.h"
#include <algorithm>

using namespace pipesched;
using namespace pipesched::optimize;
using llvm::ArrayRef;

/// The end of a cell that is not timed yet.
static constexpr int64_t kNotReached = -1;
/// After re-timing kMostWalked cells plus one kMostOfAll-th of all cells, time
/// the plan from the start: its order may be cyclic.
static constexpr uint64_t kMostOfAll = 8, kMostWalked = 256;

template <typename Clock, bool Copies>
Evaluator<Clock, Copies>::Evaluator(const Encoding &encoding)
    : encoding(encoding), sent(sentMessages(encoding)), tails(encoding),
      cursors(encoding.numWorkers), awaited(encoding.numWorkers),
      clocks(encoding.numWorkers), rowStates(encoding.numWorkers),
      keptClocks(encoding.numWorkers), keptEnds(encoding.numCells),
      rowStarts(encoding.numWorkers), keptRowStarts(encoding.numWorkers),
      dirt(encoding.numWorkers) {
  for (const KindFacts &kind : encoding.kinds)
    isTimed &= kind.isCopy() || kind.duration > 0 ||
               (kind.type == CellType::WeightGrad && !encoding.splitBackward) ||
               (kind.type == CellType::Recompute && !encoding.recompute);
  setLookahead();
  for (Arrays *arrays : {&current, &spare}) {
    arrays->ends.resize(encoding.numCells);
    if (!Copies)
      continue;
    arrays->states.resize(encoding.rowBegins.back());
    arrays->offloads.resize(encoding.rowBegins.back());
    arrays->reloads.resize(encoding.rowBegins.back());
    arrays->needs.resize(encoding.rowBegins.back());
    arrays->places.resize(encoding.numCells);
  }
}

//===----------------------------------------------------------------------===//
// Whole plans
//===----------------------------------------------------------------------===//

/// Times a row until a message is missing. False: the row is too late or breaks
/// a rule.
template <typename Clock, bool Copies>
bool Evaluator<Clock, Copies>::advance(const Plan &plan, uint32_t worker,
                                       int64_t limit) {
  const Token *tokens = plan.tokens.data();
  const KindFacts *kinds = encoding.kinds.data();
  Clock *ends = current.ends.data();
  const uint32_t rowBegin = encoding.rowBegins[worker];
  const uint32_t rowEnd = endOfTokens(plan, worker);
  CopyState &state = rowStates[worker];
  uint32_t pos = cursors[worker];
  Clock now = clocks[worker];
  awaited[worker] = kNone;
  for (; pos < rowEnd; ++pos) {
    Token token = tokens[pos];
    const KindFacts &kind = kinds[token.kind];
    if constexpr (Copies) {
      if ((pos - rowBegin) % kStride == 0) {
        settle(worker, now);
        current.states[pos] = state;
      }
      if (kind.isCopy()) {
        runCopy<false>(plan, worker, pos, now);
        continue;
      }
    }
    Clock start = now;
    if (kind.waitsOn != kNone) {
      uint32_t source = token.cell + kind.waitsFor;
      if (timeOf(ends[source]) == kNotReached) {
        awaited[worker] = source;
        break;
      }
      start = later(start, after(ends[source], kind.delay));
    }
    if constexpr (Copies)
      if (!admit<false>(plan, worker, pos, now, start))
        return false;
    ends[token.cell] = now = after(start, kind.duration);
    if constexpr (Copies)
      if (state.firstReload != state.endReloads)
        issueBehind<false>(plan, worker, pos, start, now);
  }
  cursors[worker] = pos;
  clocks[worker] = now;
  return timeOf(now) + plan.remaining[pos] <= limit;
}

template <typename Clock, bool Copies>
int64_t Evaluator<Clock, Copies>::latestEnd() const {
  int64_t latest = 0;
  for (Clock clock : clocks)
    latest = std::max(latest, timeOf(clock));
  return latest;
}

/// Times rows in turn until none can continue. Infeasible if a row is not
/// finished then.
template <typename Clock, bool Copies>
int64_t Evaluator<Clock, Copies>::run(const Plan &plan, int64_t limit) {
  const uint32_t numWorkers = encoding.numWorkers;
  bool isFinished = false;
  for (bool hasMoved = true; hasMoved && !isFinished;) {
    hasMoved = false;
    isFinished = true;
    // Activations go down a path, gradients up.
    for (uint32_t turn = 0; turn < 2 * numWorkers; ++turn) {
      uint32_t worker = turn < numWorkers ? turn : 2 * numWorkers - 1 - turn;
      uint32_t before = cursors[worker];
      uint32_t rowEnd = endOfTokens(plan, worker);
      if (before == rowEnd)
        continue;
      if (awaited[worker] != kNone &&
          timeOf(current.ends[awaited[worker]]) == kNotReached) {
        isFinished = false;
        continue;
      }
      if (!advance(plan, worker, limit))
        return kInfeasible;
      hasMoved |= cursors[worker] != before;
      isFinished &= cursors[worker] == rowEnd;
    }
  }
  if (!isFinished)
    return kInfeasible;
  int64_t makespan = latestEnd();
  return makespan <= limit ? makespan : kInfeasible;
}

template <typename Clock, bool Copies>
int64_t Evaluator<Clock, Copies>::evaluate(const Plan &plan, int64_t limit,
                                           ArrayRef<int64_t> offsets) {
  evaluated = &plan;
  if (!isWhole)
    std::swap(current, spare);
  isWhole = true;
  if (offsets.empty())
    std::fill(rowStarts.begin(), rowStarts.end(), 0);
  else
    rowStarts.assign(offsets.begin(), offsets.end());
  for (uint32_t kind = 0; kind < encoding.kinds.size(); ++kind)
    if (sent[kind].worker != kNone)
      std::fill_n(current.ends.begin() + encoding.kinds[kind].firstCell,
                  encoding.kinds[kind].count, clockOf<Clock>(kNotReached, 0));
  for (uint32_t worker = 0; worker < encoding.numWorkers; ++worker) {
    Clock clock = clockOf<Clock>(rowStarts[worker], worker);
    cursors[worker] = encoding.rowBegins[worker];
    awaited[worker] = kNone;
    clocks[worker] = clock;
    if constexpr (Copies) {
      rowStates[worker] = CopyState();
      rowStates[worker].offloadsUntil = rowStates[worker].reloadsUntil = clock;
    }
  }
  return run(plan, limit);
}

//===----------------------------------------------------------------------===//
// Changed plans
//===----------------------------------------------------------------------===//

/// Sets the end of a cell. Returns whether it has changed.
template <typename Clock, bool Copies>
template <bool Again>
bool Evaluator<Clock, Copies>::setEnd(uint32_t cell, Clock end) {
  Clock &place = current.ends[cell];
  if constexpr (Again) {
    if (isSame(place, end))
      return false;
    changedEnds.push_back({cell, place});
  }
  place = end;
  return Again;
}

/// Sets an entry of a list of copies. Returns whether it has changed.
template <typename Clock, bool Copies>
template <bool Again>
bool Evaluator<Clock, Copies>::list(std::vector<Token> &copies,
                                    std::vector<Before<Token>> &changed,
                                    uint32_t place, Token token) {
  if constexpr (Again) {
    if (copies[place] == token)
      return false;
    changed.push_back({place, copies[place]});
  }
  copies[place] = token;
  return Again;
}

/// Drops copies that have ended by `now`, so that two states with the same
/// future compare equal.
template <typename Clock, bool Copies>
void Evaluator<Clock, Copies>::settle(uint32_t worker, Clock now) {
  rowStates[worker].clock = now;
  if (encoding.anyTimes)
    return;
  startReloads(worker, timeOf(now));
  if (!recording)
    takeOffloads(worker, timeOf(now));
}

/// Whether the state equals the checkpoint, so that all later cells stay as
/// they are. Otherwise the state replaces the checkpoint.
template <typename Clock, bool Copies>
bool Evaluator<Clock, Copies>::isAsBefore(uint32_t worker, uint32_t pos) {
  const CopyState &state = rowStates[worker];
  const Dirt &own = dirt[worker];
  CopyState &before = current.states[pos];
  if (state == before) {
    uint32_t reloads = encoding.anyTimes ? state.nextStart : state.firstReload;
    return pos >= own.end && state.firstOffload >= own.offloads &&
           reloads >= own.reloads && state.nextStart >= own.needs;
  }
  changedStates.push_back({pos, before});
  before = state;
  return false;
}

/// Marks positions `begin` to `end` of the row to be timed again. No cell that
/// starts before `time` is going to change.
template <typename Clock, bool Copies>
void Evaluator<Clock, Copies>::touch(uint32_t worker, uint32_t begin,
                                     uint32_t end, bool isEarlier,
                                     int64_t time) {
  Dirt &row = dirt[worker];
  if constexpr (Copies) {
    isCyclic |= row.isPaused && begin < row.begin;
    row.time = row.begin == kNone ? time : std::min(row.time, time);
    othersFrom = std::min(othersFrom, row.time);
  }
  numDirty += row.begin == kNone;
  row.begin = std::min(row.begin, begin);
  row.end = std::max(row.end, end);
  numEarlier += isEarlier && !row.isEarlier;
  row.isEarlier |= isEarlier;
}

/// Marks the cell that waits for the one at `pos` if its start changes. False:
/// that cell stands earlier in the same row.
template <typename Clock, bool Copies>
bool Evaluator<Clock, Copies>::send(const Plan &plan, uint32_t pos,
                                    Clock before, Clock end) {
  Token token = plan.tokens[pos];
  const Sent &message = sent[token.kind];
  if (message.worker == kNone)
    return true;
  uint32_t sink = token.cell + message.distance;
  uint32_t place = plan.positions[sink];
  uint32_t worker = encoding.kinds[token.kind].worker;
  if (message.worker == worker) {
    dirt[worker].end = std::max(dirt[worker].end, place + 1);
    return place > pos;
  }
  int64_t start = timeOf(current.ends[sink]) - message.duration;
  if (timeOf(before) + message.delay >= start ||
      timeOf(end) + message.delay > start)
    touch(message.worker, place, place + 1, timeOf(end) < timeOf(before),
          startBefore(plan, message.worker, place));
  return !isCyclic;
}

/// Marks the D of an F whose end has changed.
template <typename Clock, bool Copies>
void Evaluator<Clock, Copies>::touchCopies(const Plan &plan, uint32_t worker,
                                           Token token) {
  if (encoding.kinds[token.kind].type != CellType::Forward)
    return;
  uint32_t offload = plan.positions[cellOf(token, CellType::Offload)];
  if (offload != kNone)
    dirt[worker].end = std::max(dirt[worker].end, offload + 1);
}

/// Whether this cell ends so late that the last cell is too late.
template <typename Clock, bool Copies>
bool Evaluator<Clock, Copies>::isLate(Token token, Clock end,
                                      int64_t limit) const {
  return timeOf(end) + timeOf(tails[token.cell]) > limit &&
         timeOf(keptEnds[token.cell]) - encoding.kinds[token.kind].duration >=
             reorderedUntil;
}

/// Restores the state at the first dirty position of the row, or with copies at
/// the last checkpoint before it, unless the row was paused. Returns that
/// position.
template <typename Clock, bool Copies>
uint32_t Evaluator<Clock, Copies>::takeUp(const Plan &plan, uint32_t worker) {
  Dirt &own = dirt[worker];
  const uint32_t rowBegin = encoding.rowBegins[worker];
  uint32_t pos = own.begin;
  --numDirty;
  numEarlier -= own.isEarlier;
  own.begin = kNone;
  own.isEarlier = false;
  if constexpr (Copies) {
    if (!own.isPaused) {
      own.offloads = own.reloads = own.needs = 0;
      pos -= (pos - rowBegin) % kStride;
      rowStates[worker] = current.states[pos];
    }
    own.isPaused = false;
    clocks[worker] = rowStates[worker].clock;
  } else {
    clocks[worker] = pos == rowBegin ? clockOf<Clock>(rowStarts[worker], worker)
                                     : current.ends[plan.tokens[pos - 1].cell];
  }
  return pos;
}

/// Times a row from its first dirty position until nothing changes any more, or
/// until a message may change.
template <typename Clock, bool Copies>
typename Evaluator<Clock, Copies>::Walk
Evaluator<Clock, Copies>::walkAgain(const Plan &plan, uint32_t worker,
                                    int64_t limit) {
  const uint32_t rowEnd = endOfTokens(plan, worker);
  Clock *ends = current.ends.data();
  const Clock endBefore = clocks[worker];
  const Dirt &own = dirt[worker];
  CopyState &state = rowStates[worker];
  uint32_t pos = takeUp(plan, worker);
  numWalked -= pos;
  Clock now = clocks[worker];
  for (; pos < rowEnd; ++pos) {
    Token token = plan.tokens[pos];
    const KindFacts &kind = encoding.kinds[token.kind];
    if ((pos - encoding.rowBegins[worker]) % kStride == 0) {
      if (areFinal() && isRowLate(worker, now, pos, plan, limit))
        return whenLate(plan, worker, pos, worker);
      if constexpr (Copies) {
        settle(worker, now);
        if (isAsBefore(worker, pos))
          break;
      }
    }
    if constexpr (Copies)
      if (kind.isCopy()) {
        runCopy<true>(plan, worker, pos, now);
        continue;
      }
    Clock start = now;
    if (kind.waitsOn != kNone) {
      if (Copies && kind.waitsOn != worker && mayChange(plan, token)) {
        pause(plan, worker, pos, now, endBefore);
        return Walk::Through;
      }
      start = later(start, after(ends[token.cell + kind.waitsFor], kind.delay));
    }
    if constexpr (Copies)
      if (!admit<true>(plan, worker, pos, now, start))
        return Walk::Late; // its memory never suffices, whatever the times
    Clock before = ends[token.cell];
    now = after(start, kind.duration);
    if (setEnd<true>(token.cell, now)) {
      if (areFinal() && isLate(token, now, limit))
        return whenLate(plan, worker, pos + 1, originOf(tails[token.cell]));
      if (!send(plan, pos, before, now))
        return Walk::Broken;
      if constexpr (Copies)
        touchCopies(plan, worker, token);
    } else if (!Copies && pos >= own.end) {
      break;
    }
    if constexpr (Copies)
      if (state.firstReload != state.endReloads)
        issueBehind<true>(plan, worker, pos, start, now);
  }
  numWalked += pos;
  clocks[worker] = pos < rowEnd ? endBefore : now;
  dirt[worker].end = 0;
  return Walk::Through;
}

/// Times dirty rows until none is left, going down and up the workers in turn.
template <typename Clock, bool Copies>
typename Evaluator<Clock, Copies>::Walk
Evaluator<Clock, Copies>::repair(const Plan &plan, uint32_t worker,
                                 int64_t limit) {
  const uint64_t most = kMostWalked + plan.tokens.size() / kMostOfAll;
  numWalked = 0;
  for (bool isDown = true; numDirty > 0;) {
    if (dirt[worker].begin != kNone) {
      if (Walk walk = walkAgain(plan, worker, limit); walk != Walk::Through)
        return walk;
      if (!kIsTraced && numEarlier == 0 && latestEnd() > limit)
        return Walk::Late;
      if (numWalked > most)
        return Walk::Broken;
    }
    if (worker == 0 || worker + 1 == encoding.numWorkers)
      isDown = worker == 0;
    if (encoding.numWorkers > 1)
      worker = isDown ? worker + 1 : worker - 1;
  }
  return kIsTraced || latestEnd() <= limit ? Walk::Through : Walk::Late;
}

template <typename Clock, bool Copies>
typename Evaluator<Clock, Copies>::Walk
Evaluator<Clock, Copies>::walkChanges(const Plan &plan, uint32_t worker,
                                      uint32_t begin, uint32_t end,
                                      int64_t limit) {
  std::fill(dirt.begin(), dirt.end(), Dirt());
  numDirty = numEarlier = 0;
  if (!isTimed)
    return Walk::Broken;
  evaluated = &plan;
  changedRow = worker;
  changedBegin = begin;
  changedEnd = end;
  findReordered(plan);
  if constexpr (kIsTraced && !Copies)
    changeTime = begin == encoding.rowBegins[worker]
                     ? rowStarts[worker]
                     : timeOf(current.ends[plan.tokens[begin - 1].cell]);
  isCyclic = false;
  touch(worker, begin, end, /*isEarlier=*/false, /*time=*/0);
  if constexpr (Copies)
    return repairInOrder(plan, limit);
  return repair(plan, worker, limit);
}

template <typename Clock, bool Copies>
int64_t Evaluator<Clock, Copies>::evaluateFrom(const Plan &plan,
                                               uint32_t worker, uint32_t begin,
                                               uint32_t end, int64_t limit) {
  switch (walkChanges(plan, worker, begin, end, limit)) {
  case Walk::Through:
    return latestEnd();
  case Walk::Late:
    return kInfeasible;
  case Walk::Broken: // without copies, perhaps only because of messages that
                     // were not final
    return evaluate(plan, limit);
  }
  return kInfeasible;
}

template <typename Value, typename Before>
static void takeBack(std::vector<Value> &values, std::vector<Before> &changes) {
  for (const Before &change : llvm::reverse(changes))
    values[change.place] = change.value;
  changes.clear();
}

template <typename Clock, bool Copies>
void Evaluator<Clock, Copies>::keep() {
  if (isWhole) {
    keptEnds = current.ends;
    tails.compute(*evaluated, rowStarts);
  } else {
    for (const Before<Clock> &change : changedEnds)
      keptEnds[change.place] = current.ends[change.place];
    tails.update(*evaluated, changedRow, changedBegin, changedEnd);
  }
  isWhole = false;
  keptClocks = clocks;
  keptRowStarts = rowStarts;
  changedEnds.clear();
  changedStates.clear();
  changedOffloads.clear();
  changedReloads.clear();
  changedNeeds.clear();
  changedPlaces.clear();
}

template <typename Clock, bool Copies>
void Evaluator<Clock, Copies>::discard() {
  if (isWhole)
    std::swap(current, spare);
  isWhole = false;
  clocks = keptClocks;
  rowStarts = keptRowStarts;
  takeBack(current.ends, changedEnds);
  takeBack(current.states, changedStates);
  takeBack(current.offloads, changedOffloads);
  takeBack(current.reloads, changedReloads);
  takeBack(current.needs, changedNeeds);
  takeBack(current.places, changedPlaces);
}

//===----------------------------------------------------------------------===//
// Rows of cells
//===----------------------------------------------------------------------===//

/// The row as it was evaluated, with reloads where they were issued.
template <typename Clock, bool Copies>
Row Evaluator<Clock, Copies>::rowOf(const Plan &plan, uint32_t worker) const {
  Row row;
  auto joinWith = [&](Token offload) {
    return encoding.cellOf(offload).withPhase(joinOf(Phase::Offload));
  };
  uint32_t begin = encoding.rowBegins[worker];
  uint32_t nextReload = 0;
  for (uint32_t pos = begin; pos <= begin + plan.sizes[worker]; ++pos) {
    if constexpr (Copies)
      for (; nextReload < rowStates[worker].endReloads; ++nextReload) {
        Token token = current.reloads[begin + nextReload];
        uint32_t reload = plan.positions[token.cell];
        if (issues[reload] > pos)
          break;
        if (joins[reload].cell != kNone)
          row.push_back(joinWith(joins[reload]));
        row.push_back(encoding.cellOf(token));
      }
    if (pos == begin + plan.sizes[worker])
      break;
    Token token = plan.tokens[pos];
    if (encoding.kinds[token.kind].type == CellType::Reload)
      continue;
    if (joins[pos].cell != kNone)
      row.push_back(joinWith(joins[pos]));
    row.push_back(encoding.cellOf(token));
  }
  return row;
}

template <typename Clock, bool Copies>
std::vector<Row> Evaluator<Clock, Copies>::rowsOf(const Plan &plan,
                                                  ArrayRef<int64_t> offsets) {
  joins.assign(plan.tokens.size(), Token());
  issues.assign(plan.tokens.size(), kNone);
  recording = true;
  int64_t objective = evaluate(plan, kInfeasible - 1, offsets);
  recording = false;
  std::vector<Row> rows;
  if (objective != kInfeasible)
    for (uint32_t worker = 0; worker < encoding.numWorkers; ++worker)
      rows.push_back(rowOf(plan, worker));
  discard();
  return rows;
}

template class optimize::Evaluator<int64_t, false>;
template class optimize::Evaluator<int64_t, true>;
template class optimize::Evaluator<TracedTime, false>;
template class optimize::Evaluator<TracedTime, true>;
