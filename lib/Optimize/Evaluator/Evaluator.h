//===- Evaluator.h - Times of a plan ----------------------------*- C++ -*-===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The inner loop of the search: earliest times of the rows of a plan, from the
// first change on, given up as soon as they are too late.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_LIB_OPTIMIZE_EVALUATOR_EVALUATOR_H
#define PIPESCHED_LIB_OPTIMIZE_EVALUATOR_EVALUATOR_H

#include "Tails.h"

namespace pipesched::optimize {

/// An objective that no schedule has: the plan breaks a rule, deadlocks or is
/// later than it was allowed to be.
inline constexpr int64_t kInfeasible = std::numeric_limits<int64_t>::max();

/// A time and the row whose start it goes back to.
struct TracedTime {
  int64_t time = 0;
  uint32_t origin = 0;
};

inline int64_t timeOf(int64_t clock) { return clock; }
inline int64_t timeOf(TracedTime clock) { return clock.time; }
inline int64_t after(int64_t clock, int64_t ticks) { return clock + ticks; }
inline TracedTime after(TracedTime clock, int64_t ticks) {
  return {clock.time + ticks, clock.origin};
}
template <typename Clock>
Clock later(Clock a, Clock b) {
  return timeOf(b) > timeOf(a) ? b : a;
}

/// Cells of a row run one after the other, each as early as its message, its
/// reload and memory allow. Memory is counted along the row: what compute frees
/// is there for the next cell; a cell that lacks memory waits for offloads that
/// stand before it, in the order of their queue. A reload has its memory from
/// its place in the row on (as if it started there, the safe side) and is
/// issued there or after the first compute cell behind it by whose end memory
/// is there; where reloads may wait for offloads, as soon as one of them has
/// freed enough.
///
/// A new plan is timed row by row, each until a message is missing. After a
/// change of one row, that row is timed again, and every other row from the
/// first message on that arrives at another time and moves its cell. Timing a
/// row stops where nothing changes any more. The cost is linear in the cells
/// that are timed; only the first evaluations allocate memory.
template <typename Clock, bool Copies>
class Evaluator {
public:
  explicit Evaluator(const Encoding &encoding);

  /// End of the last cell, from nothing; kInfeasible where it is above `limit`.
  /// `offsets`: by worker, before which no cell of its row starts; or empty.
  int64_t evaluate(const Plan &plan, int64_t limit,
                   llvm::ArrayRef<int64_t> offsets = {});
  /// The same where cells of one row differ from the plan that was kept last,
  /// at positions of [begin, end). Times alone, without where they go back to.
  /// Takes it that no message makes anything earlier by coming later, which is
  /// so but for reloads that may not wait for offloads: such a plan may be
  /// refused though it meets the limit.
  int64_t evaluateFrom(const Plan &plan, uint32_t worker, uint32_t begin,
                       uint32_t end, int64_t limit);
  /// What was evaluated last, with the plan as it was, is what evaluateFrom()
  /// goes by, or is forgotten. One of them after each evaluation that
  /// evaluateFrom() follows.
  void keep();
  void discard();

  /// End of the row, of the plan evaluated last.
  Clock endOfRow(uint32_t worker) const { return clocks[worker]; }
  /// By position in that plan, which is as it was: end of the cell.
  Clock endAt(uint32_t position) const {
    uint32_t cell = evaluated->tokens[position].cell;
    return cell == kNone ? Clock() : current.ends[cell];
  }

  /// The rows of a plan that is feasible, with joins where a cell waits for
  /// memory and reloads where they are issued when rows start at `offsets`.
  std::vector<Row> rowsOf(const Plan &plan,
                          llvm::ArrayRef<int64_t> offsets = {});

private:
  /// Copies and memory of one row at one place.
  struct CopyState {
    Clock clock = {}; ///< end of the compute so far
    Clock offloadsUntil = {}, reloadsUntil = {};
    int64_t level = 0; ///< memory, of all reloads so far too
    uint32_t firstOffload = 0, endOffloads = 0; ///< whose memory is yet to come
    uint32_t nextStart = 0; ///< first reload that may start later
    uint32_t firstReload = 0, endReloads = 0; ///< yet to be issued

    bool operator==(const CopyState &other) const;
  };
  /// Ends by cell, all else by position; what is of a row begins where its
  /// tokens begin.
  struct Arrays {
    std::vector<Clock> ends;
    std::vector<CopyState> states;        ///< before that cell, of checkpoints
    std::vector<Token> offloads, reloads; ///< in order, from the row's begin
  };
  /// A value that timing a row has overwritten.
  template <typename Value>
  struct Before {
    uint32_t place;
    Value value;
  };
  /// The changed positions of a row that has to be timed again; timing may stop
  /// behind the last of them.
  struct Dirt {
    uint32_t begin = kNone, end = 0;
    uint32_t offloads = 0, reloads = 0; ///< that many include all that changed
    bool isEarlier = false;             ///< a message comes earlier
  };
  /// The row is timed, the plan is rejected as too late, or it has to be timed
  /// from the start.
  enum class Walk { Through, Late, Broken };

  /// Rows with copies are taken up at checkpoints, so many cells apart;
  /// lateness is looked for there.
  static constexpr uint32_t kStride = 8;

  static Clock startOf(int64_t time, uint32_t worker);
  uint32_t endOfTokens(const Plan &plan, uint32_t worker) const {
    return encoding.rowBegins[worker] + plan.sizes[worker];
  }
  uint32_t cellOf(Token token, CellType type) const;

  bool advance(const Plan &plan, uint32_t worker, int64_t limit);
  int64_t run(const Plan &plan, int64_t limit);
  int64_t latestEnd() const;

  template <bool Again>
  bool setEnd(uint32_t cell, Clock end);
  template <bool Again>
  bool list(std::vector<Token> &copies, std::vector<Before<Token>> &changed,
            uint32_t place, Token token);
  void settle(uint32_t worker, Clock now);
  bool isAsBefore(uint32_t worker, uint32_t pos);
  void touch(uint32_t worker, uint32_t begin, uint32_t end, bool isEarlier);
  bool send(const Plan &plan, uint32_t pos, Clock before, Clock end);
  int64_t reorderedBy(const Plan &plan) const;
  bool isLate(Token token, Clock end, int64_t limit) const;
  uint32_t takeUp(const Plan &plan, uint32_t worker);
  Walk walkAgain(const Plan &plan, uint32_t worker, int64_t limit);
  Walk repair(const Plan &plan, uint32_t worker, int64_t limit);

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
  int64_t freedBy(const Plan &plan, Token token) const;
  Row rowOf(const Plan &plan, uint32_t worker) const;

  const Encoding &encoding;
  /// Whether all compute takes time, so that a cell which waits for itself gets
  /// later each time its row is timed.
  bool isTimed = true;
  std::vector<Sent> sent;                  ///< by kind
  Tails tails;                             ///< of the plan that was kept
  std::vector<uint32_t> cursors;           ///< by worker: positions
  std::vector<uint32_t> awaited;           ///< by worker: cell, or kNone
  std::vector<Clock> clocks;               ///< by worker: end of compute so far
  std::vector<CopyState> rowStates;        ///< by worker: likewise
  std::vector<Clock> keptClocks, keptEnds; ///< of the plan that was kept
  const Plan *evaluated = nullptr;         ///< last
  Arrays current, spare;
  bool isWhole = false; ///< what was kept is in `spare`
  // By evaluateFrom() since the last keep(), in order.
  std::vector<Before<Clock>> changedEnds;
  std::vector<Before<CopyState>> changedStates;
  std::vector<Before<Token>> changedOffloads, changedReloads;
  // Of evaluateFrom().
  std::vector<Dirt> dirt; ///< by worker
  uint32_t changedRow = 0, changedBegin = 0, changedEnd = 0;
  int64_t reorderedUntil = 0; ///< cells that start later have their tails
  uint32_t numDirty = 0, numEarlier = 0;
  uint64_t numWalked = 0;
  // Of rowsOf(), by position: the offload that a cell or a reload waits for,
  // and where a reload is issued.
  bool recording = false;
  std::vector<Token> joins;
  std::vector<uint32_t> issues;
};

extern template class Evaluator<int64_t, false>;
extern template class Evaluator<int64_t, true>;
extern template class Evaluator<TracedTime, false>;
extern template class Evaluator<TracedTime, true>;

} // namespace pipesched::optimize

#endif // PIPESCHED_LIB_OPTIMIZE_EVALUATOR_EVALUATOR_H
