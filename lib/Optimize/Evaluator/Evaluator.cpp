//===- Evaluator.cpp - Times of a plan ------------------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Times rows alternately. For a changed row, resumes at the first difference.
//
//===----------------------------------------------------------------------===//

#include "Evaluator.h"
#include "PipeSched/Schedule/Kinds/PhaseSets.h"
#include <algorithm>

using namespace pipesched;
using namespace pipesched::optimize;
using llvm::ArrayRef;

/// The end of a cell that is not timed yet.
static constexpr int64_t kNotReached = -1;
/// If more than kMostWalked cells plus one kMostOfAll-th of all cells were
/// timed again, time the plan from the start, because its order may be cyclic.
static constexpr uint64_t kMostOfAll = 8, kMostWalked = 256;

template <typename Clock, bool Copies>
Evaluator<Clock, Copies>::Evaluator(const Encoding &encoding)
    : Base(encoding), sent(sentMessages(encoding)), tails(encoding),
      cursors(encoding.numWorkers), awaited(encoding.numWorkers),
      clocks(encoding.numWorkers), keptClocks(encoding.numWorkers),
      keptEnds(encoding.numCells), rowStarts(encoding.numWorkers),
      keptRowStarts(encoding.numWorkers) {
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

/// Times a row until a message is missing. Returns false if the row is too late
/// or violates a rule.
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
        this->template runCopy<false>(plan, worker, pos, now);
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
      if (!this->template admit<false>(plan, worker, pos, now, start))
        return false;
    ends[token.cell] = now = after(start, kind.duration);
    if constexpr (Copies)
      if (state.firstReload != state.endReloads)
        this->template issueBehind<false>(plan, worker, pos, start, now);
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

/// Times rows alternately until none can continue. Infeasible if a row is then
/// not finished.
template <typename Clock, bool Copies>
int64_t Evaluator<Clock, Copies>::run(const Plan &plan, int64_t limit) {
  const uint32_t numWorkers = encoding.numWorkers;
  bool isFinished = false;
  for (bool hasMoved = true; hasMoved && !isFinished;) {
    hasMoved = false;
    isFinished = true;
    // Activations flow down a path, gradients up.
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

/// Whether the state equals the checkpoint, so that all later cells keep their
/// times. Otherwise replaces the checkpoint by the state.
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

/// Marks positions `begin` to `end` of the row to be timed again. Cells that
/// start before `time` will not change.
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

/// If the start of the cell that waits for the cell at `pos` changes, marks it.
/// Returns false if the waiting cell is earlier in the same row.
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
/// until the next message may still change.
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
        this->template runCopy<true>(plan, worker, pos, now);
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
      if (!this->template admit<true>(plan, worker, pos, now, start))
        return Walk::Late; // the worker never has the memory for this cell
    Clock before = ends[token.cell];
    now = after(start, kind.duration);
    if (this->template setEnd<true>(token.cell, now)) {
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
        this->template issueBehind<true>(plan, worker, pos, start, now);
  }
  numWalked += pos;
  clocks[worker] = pos < rowEnd ? endBefore : now;
  dirt[worker].end = 0;
  return Walk::Through;
}

/// Times dirty rows until none is left, alternating down and up the workers.
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
  // without copies, the reason may be messages that were not final
  case Walk::Broken:
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
// Changes in the order of time
//
// Changed rows with copies are timed such that every time is final. In the kept
// plan, starts increase along messages and along rows, except for reordered
// cells. Suppose that a row must still be timed from some cell on. Then its
// changes can affect only cells that ended, in the kept plan, after the start
// of this cell plus the least time to reach another row.
//
//   row 0   done ......| c: started at 100         `time` of row 0: 100
//   row 1   done ..| d: waits for a cell that ended at 150: is this final?
//                     Yes, unless a change of row 0 can end there by 150.
//===----------------------------------------------------------------------===//

/// Sets the least time from the start of a cell to the end of a cell on another
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

/// Finds the reordered compute cells, the start of the first and the end of the
/// last of them. No chain leads from a cell that starts later to any of them,
/// so the tail of such a cell is unchanged.
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

/// Returns a time before which no cell of the row from `pos` on started in the
/// kept plan.
template <typename Clock, bool Copies>
int64_t Evaluator<Clock, Copies>::startBefore(const Plan &plan, uint32_t worker,
                                              uint32_t pos) const {
  if (worker == changedRow && pos < reorderedEnd)
    return reorderedFrom;
  Token token = plan.tokens[pos];
  return timeOf(keptEnds[token.cell]) - encoding.kinds[token.kind].duration;
}

/// Whether the message that the cell waits for may still change: its row has
/// not been timed that far, or may have to be timed again.
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

/// Returns the dirty row that may change first. Until its changes, the messages
/// of all other rows are final.
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

/// Times dirty rows until none is left. The next one is always the row that may
/// change first.
template <typename Clock, bool Copies>
typename Evaluator<Clock, Copies>::Walk
Evaluator<Clock, Copies>::repairInOrder(const Plan &plan, int64_t limit) {
  // Only a cyclic order needs to time more cells.
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

//===----------------------------------------------------------------------===//
// Rows that repeat
//===----------------------------------------------------------------------===//

/// Whether the row ends too late, judged by the time of its compute.
template <typename Clock, bool Copies>
bool Evaluator<Clock, Copies>::isRowLate(uint32_t worker, Clock now,
                                         uint32_t pos, const Plan &plan,
                                         int64_t limit) const {
  int64_t end = timeOf(now) + plan.remaining[pos];
  return end - (kIsTraced ? rowStarts[worker] : 0) > limit;
}

/// Decides about a change if the compute of a row before `pos` makes the end of
/// row `to` too late. If the delay comes from the start of row `to` itself, its
/// steps cannot follow each other in such short intervals. Otherwise it may
/// suffice to start row `to` later.
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
/// that is unknown. Cells that were not timed again yet may have origins from
/// paths that no longer exist in the plan. So the function follows the path
/// back until it reaches cells that ended before the change.
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

/// Returns the period. No row must start later if no row is longer than the
/// period. If the longest row delays itself, the period is its length.
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

//===----------------------------------------------------------------------===//
// Rows of cells
//===----------------------------------------------------------------------===//

/// Returns the row as it was evaluated, with reloads at their issue points.
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
