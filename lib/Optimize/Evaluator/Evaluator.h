//===- Evaluator.h - Times of a plan ----------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The inner loop of the search. Finds the earliest times of a plan, starting at
// the first change, and stops as soon as they are too late.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_LIB_OPTIMIZE_EVALUATOR_EVALUATOR_H
#define PIPESCHED_LIB_OPTIMIZE_EVALUATOR_EVALUATOR_H

#include "RowCopies.h"

namespace pipesched::optimize {

/// Returned if the objective must be computed from the start.
inline constexpr int64_t kUndecided = -1;

/// Times the cells of rows. RowCopies times their copies and counts memory.
///
/// A new plan is timed row by row, each row until a message is missing. After a
/// change of one row, that row is timed again. Every other row is timed again
/// from the first message that arrives at another time and moves its cell.
/// Timing of a row stops where nothing changes any more. Rows with copies are
/// timed in the order of time, each row until a message that may still change.
/// So all times are final, and the first that is too late rejects the plan. The
/// cost is linear in the cells that are timed; only the first evaluations
/// allocate memory.
template <typename Clock, bool Copies>
class Evaluator : RowCopies<Clock> {
public:
  explicit Evaluator(const Encoding &encoding);

  /// Times the whole plan. Returns the end of the last cell, or kInfeasible if
  /// it is above `limit`. No cell of a row starts before the `offsets` of its
  /// worker, which may be empty.
  int64_t evaluate(const Plan &plan, int64_t limit,
                   llvm::ArrayRef<int64_t> offsets = {});
  /// The same for a plan that differs from the last kept plan only at positions
  /// [`begin`, `end`) of one row. Does not update the origins of traced times.
  int64_t evaluateFrom(const Plan &plan, uint32_t worker, uint32_t begin,
                       uint32_t end, int64_t limit);
  /// The same for the period, if rows start as in the last kept evaluation.
  /// kUndecided: the period may depend on later starts of rows.
  int64_t periodFrom(const Plan &plan, uint32_t worker, uint32_t begin,
                     uint32_t end, int64_t limit);
  /// After evaluate(), raises offsets as far as no time changes, so that more
  /// changes of a row stay within the next limit. A first cell that waits for a
  /// message still waits for one tick.
  void startLate(const Plan &plan, std::vector<int64_t> &offsets);
  /// keep() makes the last evaluation the base of evaluateFrom(); drop()
  /// discards it. Call one of them after each evaluation before evaluateFrom(),
  /// with the evaluated plan unchanged.
  void keep();
  void discard();

  /// End of a row in the last evaluated plan.
  Clock endOfRow(uint32_t worker) const { return clocks[worker]; }
  /// End of the cell at a position of the last evaluated plan, which must be
  /// unchanged.
  Clock endAt(uint32_t position) const {
    uint32_t cell = evaluated->tokens[position].cell;
    return cell == kNone ? Clock() : current.ends[cell];
  }

  /// Returns the rows of a feasible plan for rows that start at `offsets`: with
  /// a join where a cell waits for memory, and with reloads at their issue
  /// points.
  std::vector<Row> rowsOf(const Plan &plan,
                          llvm::ArrayRef<int64_t> offsets = {});

private:
  using Base = RowCopies<Clock>;
  using typename Base::Arrays;
  using typename Base::CopyState;
  using typename Base::Dirt;
  template <typename Value>
  using Before = typename Base::template Before<Value>;
  using Base::cellOf;
  using Base::changedEnds;
  using Base::changedNeeds;
  using Base::changedOffloads;
  using Base::changedPlaces;
  using Base::changedReloads;
  using Base::changedStates;
  using Base::current;
  using Base::dirt;
  using Base::encoding;
  using Base::issues;
  using Base::joins;
  using Base::recording;
  using Base::rowStates;
  using Base::settle;

  /// Through: the row is timed. Late: the plan is rejected. Broken: the plan
  /// must be timed from the start.
  enum class Walk { Through, Late, Broken };
  static constexpr bool kIsTraced = std::is_same_v<Clock, TracedTime>;

  /// Distance of checkpoints in cells. Rows with copies resume at checkpoints,
  /// and lateness is checked there.
  static constexpr uint32_t kStride = 8;

  uint32_t endOfTokens(const Plan &plan, uint32_t worker) const {
    return encoding.rowBegins[worker] + plan.sizes[worker];
  }

  bool advance(const Plan &plan, uint32_t worker, int64_t limit);
  int64_t run(const Plan &plan, int64_t limit);
  int64_t latestEnd() const;

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
  /// Whether the times of cells that are timed again can only increase.
  bool areFinal() const { return Copies || numEarlier == 0; }
  // Functions for changes in the order of time.
  void setLookahead();
  void findReordered(const Plan &plan);
  int64_t startBefore(const Plan &plan, uint32_t worker, uint32_t pos) const;
  bool mayChange(const Plan &plan, Token token) const;
  void pause(const Plan &plan, uint32_t worker, uint32_t pos, Clock now,
             Clock endBefore);
  uint32_t firstDirty();
  Walk repairInOrder(const Plan &plan, int64_t limit);

  Row rowOf(const Plan &plan, uint32_t worker) const;

  /// Whether all compute takes time. Then a cell that waits for itself gets
  /// later each time its row is timed, so that the cycle is detected.
  bool isTimed = true;
  std::vector<Sent> sent;                  ///< by kind
  Tails<Clock> tails;                      ///< of the plan that was kept
  std::vector<uint32_t> cursors;           ///< by worker: positions
  std::vector<uint32_t> awaited;           ///< by worker: cell, or kNone
  std::vector<Clock> clocks;               ///< by worker: end of compute so far
  std::vector<Clock> keptClocks, keptEnds; ///< of the plan that was kept
  std::vector<int64_t> rowStarts, keptRowStarts; ///< by worker: offsets
  const Plan *evaluated = nullptr;               ///< last
  Arrays spare;
  bool isWhole = false; ///< the kept evaluation is in `spare`
  // State of evaluateFrom().
  uint32_t changedRow = 0, changedBegin = 0, changedEnd = 0;
  /// Cells that have ended by this time keep their times.
  int64_t changeTime = 0;
  int64_t reorderedUntil = 0; ///< cells that start later keep their tails
  int64_t reorderedFrom =
      0; ///< start of the first reordered cell of `changedRow`
  uint32_t reorderedEnd = 0; ///< position after the last reordered cell
  uint32_t numDirty = 0, numEarlier = 0;
  uint64_t numWalked = 0;
  // State of repairInOrder().
  int64_t lookahead = 0;  ///< from a start to the end of a waiting cell
  int64_t othersFrom = 0; ///< the least `time` of other dirty rows
  bool isCyclic = false;  ///< a final time would change
};

extern template class Evaluator<int64_t, false>;
extern template class Evaluator<int64_t, true>;
extern template class Evaluator<TracedTime, false>;
extern template class Evaluator<TracedTime, true>;

} // namespace pipesched::optimize

#endif // PIPESCHED_LIB_OPTIMIZE_EVALUATOR_EVALUATOR_H
