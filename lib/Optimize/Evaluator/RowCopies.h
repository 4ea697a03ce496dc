//===- RowCopies.h - Copies and memory of rows ------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Computes the times of the copies of a row, and delays its cells until there
// is memory, for given times or for any times. Members are in the header so
// that they are inlined.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_LIB_OPTIMIZE_EVALUATOR_ROWCOPIES_H
#define PIPESCHED_LIB_OPTIMIZE_EVALUATOR_ROWCOPIES_H

#include "Tails.h"

namespace pipesched::optimize {

/// The objective of a plan that breaks a rule, deadlocks or exceeds its limit.
inline constexpr int64_t kInfeasible = std::numeric_limits<int64_t>::max();

/// Cells of a row run one after the other, each as early as its message, its
/// reload and memory allow. Memory is counted along the row: the next cell can
/// use memory that compute has freed. A cell that lacks memory waits for
/// earlier offloads, in the order of their queue. The memory of a reload counts
/// from its place in the row on, which is safe even if it starts later. It is
/// issued there, or after the first later compute cell at whose end memory is
/// free, or as soon as an offload has freed enough.
///
/// If memory must suffice for any times (Encoding::anyTimes), an offload counts
/// until a cell or a reload waits for it; times only decide where a reload is
/// issued.
template <typename Clock>
class RowCopies {
protected:
  explicit RowCopies(const Encoding &encoding)
      : encoding(encoding), rowStates(encoding.numWorkers),
        dirt(encoding.numWorkers) {}

  /// The state of copies and memory of one row at one position.
  struct CopyState {
    Clock clock = {}; ///< end of the compute so far
    Clock offloadsUntil = {}, reloadsUntil = {};
    int64_t level = 0; ///< memory, including all reloads so far
    /// Offloads whose memory is not freed yet.
    uint32_t firstOffload = 0, endOffloads = 0;
    uint32_t nextStart =
        0; ///< first reload that may start later; if memory must suffice for
           ///< any times: first reload that waits for more offloads than the
           ///< row has awaited
    uint32_t firstReload = 0,
             endReloads = 0; ///< reloads that are not issued yet

    bool operator==(const CopyState &other) const;
  };
  /// `ends` are by cell, all others by position: the entries of a row start
  /// where its tokens start.
  struct Arrays {
    std::vector<Clock> ends;
    std::vector<CopyState> states;        ///< before the cell, at checkpoints
    std::vector<Token> offloads, reloads; ///< in the order of the row
    /// By reload: the number of offloads that end before it.
    std::vector<uint32_t> needs;
    std::vector<uint32_t> places; ///< by cell of a D: its index in `offloads`
  };
  /// A value that was overwritten while a row was timed.
  template <typename Value>
  struct Before {
    uint32_t place;
    Value value;
  };
  /// The changed positions of a row that must be timed again. Timing may stop
  /// only after the last of them.
  struct Dirt {
    uint32_t begin = kNone, end = 0;
    // The indices of the first copies that may have changed, and of the first
    // offloads that these wait for.
    uint32_t offloads = 0, reloads = 0, needs = 0;
    bool isEarlier = false; ///< a message arrives earlier
    int64_t time = 0;       ///< cells that started earlier are not timed again
    bool isPaused = false;  ///< timing continues at `begin`, from its state
  };

  uint32_t cellOf(Token token, CellType type) const;

  template <bool Again>
  bool setEnd(uint32_t cell, Clock end);
  template <bool Again>
  bool list(std::vector<Token> &copies, std::vector<Before<Token>> &changed,
            uint32_t place, Token token);
  void settle(uint32_t worker, Clock now);

  template <bool Again>
  bool waitForReload(const Plan &plan, uint32_t worker, uint32_t pos, Clock now,
                     Clock &start);
  template <bool Again>
  LLVM_ATTRIBUTE_ALWAYS_INLINE bool admit(const Plan &plan, uint32_t worker,
                                          uint32_t pos, Clock now,
                                          Clock &start);
  bool isIssued(const Plan &plan, uint32_t worker, uint32_t reloadPos) const;
  bool waitForMemory(uint32_t worker, uint32_t pos, int64_t room, Clock &start);
  void takeOffloads(uint32_t worker, int64_t time);
  void joinOffloads(uint32_t worker, uint32_t pos, int64_t room, int64_t time);
  void startReloads(uint32_t worker, int64_t time);
  int64_t notStarted(uint32_t worker) const;
  template <bool Again>
  void runCopy(const Plan &plan, uint32_t worker, uint32_t pos, Clock now);
  template <bool Again>
  void issueReloads(const Plan &plan, uint32_t worker, uint32_t pos, Clock now);
  template <bool Again>
  void issueBehind(const Plan &plan, uint32_t worker, uint32_t pos, Clock begin,
                   Clock now);
  template <bool Again>
  bool issueReload(const Plan &plan, uint32_t worker, uint32_t pos, Clock from,
                   int64_t held, int64_t until, bool mustWait);
  template <bool Again>
  void startReload(const Plan &plan, uint32_t worker, uint32_t pos, Clock start,
                   Token waitsFor);
  // Functions for memory that must suffice for any times.
  void awaitOffloads(uint32_t worker, uint32_t numEnded);
  void learnFrom(uint32_t worker, Token reload);
  int64_t mostHeld(uint32_t worker) const;
  bool joinForMemory(uint32_t worker, uint32_t pos, int64_t room, Clock &start);
  template <bool Again>
  bool joinForReload(uint32_t worker, int64_t held, int64_t until,
                     bool mustWait, Clock &start, Token &waitsFor);
  int64_t freedBy(const Plan &plan, Token token) const;

  const Encoding &encoding;
  std::vector<CopyState> rowStates; ///< by worker: its current state
  Arrays current;
  // The overwritten values since the last Evaluator::keep(), in order.
  std::vector<Before<Clock>> changedEnds;
  std::vector<Before<CopyState>> changedStates;
  std::vector<Before<Token>> changedOffloads, changedReloads;
  std::vector<Before<uint32_t>> changedNeeds, changedPlaces;
  std::vector<Dirt> dirt; ///< by worker
  // For Evaluator::rowsOf(), by position: the offload that a cell or a reload
  // waits for, and the issue point of a reload.
  bool recording = false;
  std::vector<Token> joins;
  std::vector<uint32_t> issues;
};

/// Sets the end of a cell. Returns whether it has changed.
template <typename Clock>
template <bool Again>
bool RowCopies<Clock>::setEnd(uint32_t cell, Clock end) {
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
template <typename Clock>
template <bool Again>
bool RowCopies<Clock>::list(std::vector<Token> &copies,
                            std::vector<Before<Token>> &changed, uint32_t place,
                            Token token) {
  if constexpr (Again) {
    if (copies[place] == token)
      return false;
    changed.push_back({place, copies[place]});
  }
  copies[place] = token;
  return Again;
}

/// Removes copies that have ended by `now`, so that two states with the same
/// future compare equal.
template <typename Clock>
void RowCopies<Clock>::settle(uint32_t worker, Clock now) {
  rowStates[worker].clock = now;
  if (encoding.anyTimes)
    return;
  startReloads(worker, timeOf(now));
  if (!recording)
    takeOffloads(worker, timeOf(now));
}

/// The cell of another type with the same stage and microbatch.
template <typename Clock>
uint32_t RowCopies<Clock>::cellOf(Token token, CellType type) const {
  const KindFacts &kind = encoding.kinds[token.kind];
  uint32_t kinds =
      static_cast<uint32_t>(type) - static_cast<uint32_t>(kind.type);
  return token.cell + kinds * kind.count;
}

template <typename Clock>
bool RowCopies<Clock>::CopyState::operator==(const CopyState &other) const {
  return timeOf(clock) == timeOf(other.clock) && level == other.level &&
         timeOf(offloadsUntil) == timeOf(other.offloadsUntil) &&
         timeOf(reloadsUntil) == timeOf(other.reloadsUntil) &&
         firstOffload == other.firstOffload &&
         endOffloads == other.endOffloads && nextStart == other.nextStart &&
         firstReload == other.firstReload && endReloads == other.endReloads;
}

template <typename Clock>
int64_t RowCopies<Clock>::freedBy(const Plan &plan, Token token) const {
  const KindFacts &kind = encoding.kinds[token.kind];
  if (encoding.recompute && kind.type == CellType::Forward &&
      plan.positions[cellOf(token, CellType::Recompute)] != kNone)
    return kind.frees + encoding.freedByDropping(kind.stage);
  return kind.frees;
}

/// Counts the memory that offloads have freed by `time`.
template <typename Clock>
void RowCopies<Clock>::takeOffloads(uint32_t worker, int64_t time) {
  CopyState &state = rowStates[worker];
  const Token *offloads = &current.offloads[encoding.rowBegins[worker]];
  for (; state.firstOffload < state.endOffloads; ++state.firstOffload) {
    Token offload = offloads[state.firstOffload];
    if (timeOf(current.ends[offload.cell]) > time)
      return;
    state.level -= encoding.kinds[offload.kind].frees;
  }
}

/// The same, but the cell also joins the offloads whose memory it uses or for
/// which it waits.
template <typename Clock>
void RowCopies<Clock>::joinOffloads(uint32_t worker, uint32_t pos, int64_t room,
                                    int64_t time) {
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

/// Removes the issued reloads that start by `time` from the list of later ones.
template <typename Clock>
void RowCopies<Clock>::startReloads(uint32_t worker, int64_t time) {
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
template <typename Clock>
int64_t RowCopies<Clock>::notStarted(uint32_t worker) const {
  const CopyState &state = rowStates[worker];
  const Token *reloads = &current.reloads[encoding.rowBegins[worker]];
  int64_t bytes = 0;
  for (uint32_t i = state.nextStart; i < state.firstReload; ++i)
    bytes += encoding.kinds[reloads[i].kind].allocates;
  return bytes;
}

/// Delays the compute cell until there is memory for it and for the reloads
/// that are issued but start later. Returns false if the offloads do not free
/// enough.
template <typename Clock>
bool RowCopies<Clock>::waitForMemory(uint32_t worker, uint32_t pos,
                                     int64_t room, Clock &start) {
  CopyState &state = rowStates[worker];
  const Token *offloads = &current.offloads[encoding.rowBegins[worker]];
  const Token *reloads = &current.reloads[encoding.rowBegins[worker]];
  while (true) {
    startReloads(worker, timeOf(start));
    // Memory must suffice now, and whenever one of these reloads starts; until
    // then offloads may free more memory.
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
template <typename Clock>
bool RowCopies<Clock>::isIssued(const Plan &plan, uint32_t worker,
                                uint32_t reloadPos) const {
  const CopyState &state = rowStates[worker];
  if (state.firstReload == state.endReloads)
    return true;
  const Token *reloads = &current.reloads[encoding.rowBegins[worker]];
  return plan.positions[reloads[state.firstReload].cell] > reloadPos;
}

/// Delays an I until its reload ends. `now` is the end of the compute so far.
/// Returns false if the reload never ends.
template <typename Clock>
template <bool Again>
bool RowCopies<Clock>::waitForReload(const Plan &plan, uint32_t worker,
                                     uint32_t pos, Clock now, Clock &start) {
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
/// Returns false if that never happens. No branch depends only on the type of
/// the cell, because processors predict such branches badly.
template <typename Clock>
template <bool Again>
bool RowCopies<Clock>::admit(const Plan &plan, uint32_t worker, uint32_t pos,
                             Clock now, Clock &start) {
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
/// or later. Counts `held` in addition to the level, minus the memory that has
/// been offloaded by then. The reload may wait for offloads that end before
/// `until`; with `mustWait` it is issued only if it waits for one.
template <typename Clock>
template <bool Again>
bool RowCopies<Clock>::issueReload(const Plan &plan, uint32_t worker,
                                   uint32_t pos, Clock from, int64_t held,
                                   int64_t until, bool mustWait) {
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
template <typename Clock>
template <bool Again>
void RowCopies<Clock>::startReload(const Plan &plan, uint32_t worker,
                                   uint32_t pos, Clock start, Token waitsFor) {
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
template <typename Clock>
template <bool Again>
void RowCopies<Clock>::issueReloads(const Plan &plan, uint32_t worker,
                                    uint32_t pos, Clock now) {
  const CopyState &state = rowStates[worker];
  while (state.firstReload < state.endReloads &&
         issueReload<Again>(plan, worker, pos, now, 0, timeOf(now), false))
    ;
}

/// Issues reloads after a compute cell that runs from `begin` to `now`. For the
/// first of them, offloads make room while the cell runs: these reloads are
/// issued before the cell, and only a join delays them.
template <typename Clock>
template <bool Again>
void RowCopies<Clock>::issueBehind(const Plan &plan, uint32_t worker,
                                   uint32_t pos, Clock begin, Clock now) {
  const CopyState &state = rowStates[worker];
  int64_t held = freedBy(plan, plan.tokens[pos]);
  while (state.firstReload < state.endReloads &&
         issueReload<Again>(plan, worker, pos, begin, held, timeOf(now), true))
    ;
  issueReloads<Again>(plan, worker, pos + 1, now);
}

/// Appends a copy to its queue. A reload is issued if there is memory for it.
template <typename Clock>
template <bool Again>
void RowCopies<Clock>::runCopy(const Plan &plan, uint32_t worker, uint32_t pos,
                               Clock now) {
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

//===----------------------------------------------------------------------===//
// Memory at any times
//
// The order of the rows must keep memory within the capacity for any times. An
// offload counts as held until the row, or a reload, waits for it. So the joins
// that a plan needs follow from its order. The count here is never below the
// exact peak of rows with joins, which AnyTimeMemory.h computes.
//===----------------------------------------------------------------------===//

/// Records that the row has waited for the first `numEnded` offloads.
template <typename Clock>
void RowCopies<Clock>::awaitOffloads(uint32_t worker, uint32_t numEnded) {
  CopyState &state = rowStates[worker];
  const uint32_t begin = encoding.rowBegins[worker];
  for (; state.firstOffload < numEnded; ++state.firstOffload)
    state.level -=
        encoding.kinds[current.offloads[begin + state.firstOffload].kind].frees;
  while (state.nextStart < state.firstReload &&
         current.needs[begin + state.nextStart] <= state.firstOffload)
    ++state.nextStart;
}

/// Records that the row has waited for a reload, and so for the offloads for
/// which the reload waits.
template <typename Clock>
void RowCopies<Clock>::learnFrom(uint32_t worker, Token reload) {
  const CopyState &state = rowStates[worker];
  const uint32_t begin = encoding.rowBegins[worker];
  for (uint32_t i = state.nextStart; i < state.firstReload; ++i)
    if (current.reloads[begin + i] == reload)
      return awaitOffloads(worker, current.needs[begin + i]);
}

/// Returns the most that compute, offloads and issued reloads can hold, and the
/// memory reserved for reloads that are not issued. A reload that waits for
/// offloads counts only in states in which these have ended.
template <typename Clock>
int64_t RowCopies<Clock>::mostHeld(uint32_t worker) const {
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

/// Delays the compute cell until enough offloads have ended to make room for it
/// at any times. Returns false if there are not enough.
template <typename Clock>
bool RowCopies<Clock>::joinForMemory(uint32_t worker, uint32_t pos,
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

/// Finds the offloads that the next reload must join to have room at any times,
/// and delays its `start` until they end. Arguments as for issueReload.
template <typename Clock>
template <bool Again>
bool RowCopies<Clock>::joinForReload(uint32_t worker, int64_t held,
                                     int64_t until, bool mustWait, Clock &start,
                                     Token &waitsFor) {
  CopyState &state = rowStates[worker];
  const uint32_t begin = encoding.rowBegins[worker];
  const uint32_t place = begin + state.firstReload;
  Token own = encoding.sibling(current.reloads[place], CellType::Offload);
  // The offloads for which the reload waits even without a join. The joins of a
  // cell do not delay a reload before it.
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

#endif // PIPESCHED_LIB_OPTIMIZE_EVALUATOR_ROWCOPIES_H
