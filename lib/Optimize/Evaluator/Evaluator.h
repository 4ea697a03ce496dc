//===- Evaluator.h - Times of a plan ----------------------------*- C++ -*-===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The inner loop of the search: finds the earliest times of a plan, starting at
// the first change, and stops as soon as they are too late.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_LIB_OPTIMIZE_EVALUATOR_EVALUATOR_H
#define PIPESCHED_LIB_OPTIMIZE_EVALUATOR_EVALUATOR_H

#include "Tails.h"

namespace pipesched::optimize {

/// Stands for the objective of a plan that breaks a rule, deadlocks or exceeds
/// its limit.
inline constexpr int64_t kInfeasible = std::numeric_limits<int64_t>::max();

/// Stands for an objective that has to be computed from the start.
inline constexpr int64_t kUndecided = -1;

/// Cells of a row run one after the other, each as early as its message, its
/// reload and memory allow. Memory is counted along the row: the next cell can
/// use what compute has freed. A cell that lacks memory waits for offloads that
/// stand before it, in the order of their queue. A reload counts as memory from
/// its place in the row on, which is safe even if it starts later. It is issued
/// there, or after the first later compute cell at whose end memory is free, or
/// as soon as an offload has freed enough.
///
/// If memory has to suffice whatever the times (Encoding::anyTimes), an offload
/// counts until a cell or a reload waits for it; times only decide where a
/// reload is issued.
///
/// A new plan is timed row by row, each until a message is missing. After a
/// change of one row, that row is timed again, and so is every other row from
/// the first message that arrives at another time and moves its cell. Timing of
/// a row stops where nothing changes any more. Rows with copies are timed in
/// the order of time, each until a message that may still change. So all times
/// are final, and the first that is too late rejects the plan. The cost is
/// linear in the cells that are timed; only the first evaluations allocate
/// memory.
template <typename Clock, bool Copies>
class Evaluator {
public:
  explicit Evaluator(const Encoding &encoding);

  /// Times the whole plan. Returns the end of the last cell, or kInfeasible if
  /// it is above `limit`. No cell of a row starts before the `offsets` of its
  /// worker, which may be empty.
  int64_t evaluate(const Plan &plan, int64_t limit,
                   llvm::ArrayRef<int64_t> offsets = {});
  /// The same for a plan that differs from the one kept last only at positions
  /// [begin, end) of one row. Does not update the origins of traced times.
  int64_t evaluateFrom(const Plan &plan, uint32_t worker, uint32_t begin,
                       uint32_t end, int64_t limit);
  /// The same for the period, with rows that start as in the evaluation kept
  /// last. kUndecided: the period may depend on later starts of rows.
  int64_t periodFrom(const Plan &plan, uint32_t worker, uint32_t begin,
                     uint32_t end, int64_t limit);
  /// Raises offsets after evaluate() as far as no time changes, so that more
  /// changes of a row stay within the next limit. A first cell that waits for a
  /// message still waits for one tick.
  void startLate(const Plan &plan, std::vector<int64_t> &offsets);
  /// Makes the last evaluation the one that evaluateFrom() starts from, or
  /// drops it. Before evaluateFrom(), call one of them after each evaluation,
  /// with the evaluated plan unchanged.
  void keep();
  void discard();

  /// End of a row in the plan evaluated last.
  Clock endOfRow(uint32_t worker) const { return clocks[worker]; }
  /// End of the cell at a position of that plan, which must be unchanged.
  Clock endAt(uint32_t position) const {
    uint32_t cell = evaluated->tokens[position].cell;
    return cell == kNone ? Clock() : current.ends[cell];
  }

  /// The rows of a feasible plan, for rows that start at `offsets`: with a join
  /// where a cell waits for memory, and reloads where they are issued.
  std::vector<Row> rowsOf(const Plan &plan,
                          llvm::ArrayRef<int64_t> offsets = {});

private:
  /// Copies and memory of one row at one place.
  struct CopyState {
    Clock clock = {}; ///< end of the compute so far
    Clock offloadsUntil = {}, reloadsUntil = {};
    int64_t level = 0; ///< memory, including that of all reloads so far
    uint32_t firstOffload = 0, endOffloads = 0; ///< memory not freed yet
    uint32_t nextStart = 0; ///< first reload that may start later; for memory
                            ///< at any times: that waits for more offloads
                            ///< than the row has awaited
    uint32_t firstReload = 0, endReloads = 0; ///< not issued yet

    bool operator==(const CopyState &other) const;
  };
  /// `ends` are by cell, everything else by position: the entries of a row
  /// begin where its tokens begin.
  struct Arrays {
    std::vector<Clock> ends;
    std::vector<CopyState> states;        ///< before the cell, at checkpoints
    std::vector<Token> offloads, reloads; ///< in the order of the row
    /// By reload: the number of offloads that end before it.
    std::vector<uint32_t> needs;
    std::vector<uint32_t> places; ///< by cell of a D: its place in `offloads`
  };
  /// A value that was overwritten while a row was timed.
  template <typename Value>
  struct Before {
    uint32_t place;
    Value value;
  };
  /// The changed positions of a row that has to be timed again. Timing may stop
  /// only behind the last of them.
  struct Dirt {
    uint32_t begin = kNone, end = 0;
    // How many of the first copies may have changed, and of the offloads that
    // these wait for.
    uint32_t offloads = 0, reloads = 0, needs = 0;
    bool isEarlier = false; ///< a message arrives earlier
    int64_t time = 0;       ///< cells that started earlier are not timed again
    bool isPaused = false;  ///< timing goes on at `begin`, from its state
  };
  /// Through: the row is timed. Late: the plan is rejected. Broken: it has to
  /// be timed from the start.
  enum class Walk { Through, Late, Broken };
  static constexpr bool kIsTraced = std::is_same_v<Clock, TracedTime>;

  /// Distance of checkpoints in cells. Rows with copies resume at checkpoints,
  /// and lateness is checked there.
  static constexpr uint32_t kStride = 8;

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
  void touch(uint32_t worker, uint32_t begin, uint32_t end, bool isEarlier,
             int64_t time);
  bool send(const Plan &plan, uint32_t pos, Clock before, Clock end);
  bool isLate(Token token, Clock end, int64_t limit) const;
  bool isRowLate(uint32_t worker, Clock now, uint32_t pos, const Plan &plan,
                 int64_t limit) const;
  Walk whenLate(const Plan &plan, uint32_t worker, uint32_t pos,
                uint32_t to) const;
  uint32_t startOfPath(const Plan &plan, uint32_t pos) const;
  Walk walkChanges(const Plan &plan, uint32_t worker, uint32_t begin,
                   uint32_t end, int64_t limit);
  void touchCopies(const Plan &plan, uint32_t worker, Token token);
  uint32_t takeUp(const Plan &plan, uint32_t worker);
  Walk walkAgain(const Plan &plan, uint32_t worker, int64_t limit);
  Walk repair(const Plan &plan, uint32_t worker, int64_t limit);
  /// Whether a cell that is timed again can only get later.
  bool areFinal() const { return Copies || numEarlier == 0; }
  // EvaluatorOrder.h: changes in the order of time.
  void setLookahead();
  void findReordered(const Plan &plan);
  int64_t startBefore(const Plan &plan, uint32_t worker, uint32_t pos) const;
  bool mayChange(const Plan &plan, Token token) const;
  void pause(const Plan &plan, uint32_t worker, uint32_t pos, Clock now,
             Clock endBefore);
  uint32_t firstDirty();
  Walk repairInOrder(const Plan &plan, int64_t limit);

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
  // EvaluatorJoins.h: memory whatever the times.
  void awaitOffloads(uint32_t worker, uint32_t numEnded);
  void learnFrom(uint32_t worker, Token reload);
  int64_t mostHeld(uint32_t worker) const;
  bool joinForMemory(uint32_t worker, uint32_t pos, int64_t room, Clock &start);
  template <bool Again>
  bool joinForReload(uint32_t worker, int64_t held, int64_t until,
                     bool mustWait, Clock &start, Token &waitsFor);
  int64_t freedBy(const Plan &plan, Token token) const;
  Row rowOf(const Plan &plan, uint32_t worker) const;

  const Encoding &encoding;
  /// Whether all compute takes time. Then a cell that waits for itself gets
  /// later each time its row is timed, so that such a cycle is noticed.
  bool isTimed = true;
  std::vector<Sent> sent;                  ///< by kind
  Tails<Clock> tails;                      ///< of the plan that was kept
  std::vector<uint32_t> cursors;           ///< by worker: positions
  std::vector<uint32_t> awaited;           ///< by worker: cell, or kNone
  std::vector<Clock> clocks;               ///< by worker: end of compute so far
  std::vector<CopyState> rowStates;        ///< by worker: its current state
  std::vector<Clock> keptClocks, keptEnds; ///< of the plan that was kept
  std::vector<int64_t> rowStarts, keptRowStarts; ///< by worker: offsets
  const Plan *evaluated = nullptr;               ///< last
  Arrays current, spare;
  bool isWhole = false; ///< the kept evaluation is in `spare`
  // What evaluateFrom() has overwritten since the last keep(), in order.
  std::vector<Before<Clock>> changedEnds;
  std::vector<Before<CopyState>> changedStates;
  std::vector<Before<Token>> changedOffloads, changedReloads;
  std::vector<Before<uint32_t>> changedNeeds, changedPlaces;
  // State of evaluateFrom().
  std::vector<Dirt> dirt; ///< by worker
  uint32_t changedRow = 0, changedBegin = 0, changedEnd = 0;
  /// Cells that have ended by this time keep their times.
  int64_t changeTime = 0;
  int64_t reorderedUntil = 0; ///< cells that start later keep their tails
  int64_t reorderedFrom = 0;  ///< when the first of `changedRow` that changed
                              ///< places started
  uint32_t reorderedEnd = 0;  ///< behind the last of them
  uint32_t numDirty = 0, numEarlier = 0;
  uint64_t numWalked = 0;
  // State of repairInOrder().
  int64_t lookahead = 0;  ///< from a start to the end of a cell that waits
  int64_t othersFrom = 0; ///< the least `time` of other dirty rows
  bool isCyclic = false;  ///< a cell that was final would change
  // For rowsOf(), by position: the offload that a cell or a reload waits for,
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
