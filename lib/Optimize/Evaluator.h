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

#ifndef PIPESCHED_LIB_OPTIMIZE_EVALUATOR_H
#define PIPESCHED_LIB_OPTIMIZE_EVALUATOR_H

#include "Encoding.h"

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
/// Rows are walked in turns, each as far as messages go. A change at a position
/// leaves alone all cells that start before the cell ahead of it ends: rows are
/// taken up again from there. Cost is linear in the cells behind that time; no
/// allocation.
template <typename Clock, bool Copies>
class Evaluator {
public:
  explicit Evaluator(const Encoding &encoding);

  /// End of the last cell, from nothing; kInfeasible where it is above `limit`.
  /// `offsets`: by worker, before which no cell of its row starts; or empty.
  int64_t evaluate(const Plan &plan, int64_t limit,
                   llvm::ArrayRef<int64_t> offsets = {});
  /// The same where cells from `position` on of one row differ from the plan
  /// that was kept last.
  int64_t evaluateFrom(const Plan &plan, uint32_t worker, uint32_t position,
                       int64_t limit);
  /// What was evaluated last is what evaluateFrom() goes by, or is forgotten.
  /// One of them after each evaluation.
  void keep();
  void discard();

  /// End of the row, of the plan evaluated last.
  Clock endOfRow(uint32_t worker) const { return clocks[worker]; }
  /// By position in the plan: end of the cell.
  Clock endAt(uint32_t position) const { return current.ends[position]; }

  /// The rows of a plan that is feasible, with joins where a cell waits for
  /// memory and reloads where they are issued.
  std::vector<Row> rowsOf(const Plan &plan);

private:
  /// Copies and memory of one row at one place.
  struct CopyState {
    Clock clock = {}; ///< end of the compute so far
    Clock offloadsUntil = {}, reloadsUntil = {};
    int64_t level = 0;
    uint32_t firstOffload = 0, endOffloads = 0; ///< whose memory is yet to come
    uint32_t nextStart = 0; ///< first reload that is not part of the level
    uint32_t firstReload = 0, endReloads = 0; ///< yet to be issued
  };
  /// All by position; those of a row begin where its tokens begin.
  struct Arrays {
    std::vector<Clock> ends;
    std::vector<CopyState> states; ///< before that cell, of checkpoints
    std::vector<uint32_t> offloads, reloads; ///< in order, from the row's begin
  };

  /// Rows with copies are taken up at checkpoints, so many cells apart.
  static constexpr uint32_t kStride = Copies ? 8 : 1;

  static Clock startOf(int64_t time, uint32_t worker);
  int64_t run(const Plan &plan, int64_t limit);
  bool advance(const Plan &plan, uint32_t worker, int64_t limit);
  bool admit(const Plan &plan, uint32_t worker, uint32_t pos, Clock now,
             Clock &start);
  bool allocate(const Plan &plan, uint32_t worker, uint32_t pos, Clock &start);
  void takeOffloads(const Plan &plan, uint32_t worker, uint32_t pos,
                    int64_t room, int64_t time);
  void offloadAt(const Plan &plan, uint32_t worker, uint32_t pos, Clock now);
  void issueReloads(const Plan &plan, uint32_t worker, uint32_t pos, Clock now);
  void issueBehindOffloads(const Plan &plan, uint32_t worker, uint32_t pos,
                           Clock begin, Clock now);
  bool issueReload(const Plan &plan, uint32_t worker, uint32_t pos, Clock from,
                   int64_t held, int64_t until, bool mustWait);
  int64_t freedBy(const Plan &plan, Token token) const;
  void startRow(uint32_t worker, uint32_t cursor, Clock clock);
  void resumeCopies(uint32_t worker);
  Clock clockBefore(uint32_t worker, uint32_t position) const;
  uint32_t resumptionOf(uint32_t worker, uint32_t end, int64_t time) const;
  bool isCheckpoint(uint32_t worker, uint32_t position) const {
    return (position - encoding.rowBegins[worker]) % kStride == 0;
  }
  void copyRows(const Arrays &from, Arrays &to);
  Row rowOf(const Plan &plan, uint32_t worker) const;

  const Encoding &encoding;
  std::vector<uint32_t> cursors, resumed; ///< by worker: positions
  std::vector<Clock> clocks;              ///< by worker: end of compute so far
  std::vector<CopyState> rowStates;       ///< by worker: likewise
  Arrays current, kept;
  // Of rowsOf(), by position: the offload that a cell or a reload waits for,
  // and where a reload is issued.
  bool recording = false;
  std::vector<uint32_t> joins, issues;
};

extern template class Evaluator<int64_t, false>;
extern template class Evaluator<int64_t, true>;
extern template class Evaluator<TracedTime, false>;
extern template class Evaluator<TracedTime, true>;

} // namespace pipesched::optimize

#endif // PIPESCHED_LIB_OPTIMIZE_EVALUATOR_H
