//===- Tails.h - Longest chains after cells ---------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The longest chain from the end of each cell of a plan to the end of the step,
// updated after changes of a row.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_LIB_OPTIMIZE_EVALUATOR_TAILS_H
#define PIPESCHED_LIB_OPTIMIZE_EVALUATOR_TAILS_H

#include "Encoding.h"

namespace pipesched::optimize {

/// A time, and the row whose start determines it; for a tail, the row at whose
/// end the chain ends.
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
inline uint32_t originOf(int64_t) { return 0; }
inline uint32_t originOf(TracedTime clock) { return clock.origin; }
template <typename Clock>
Clock later(Clock a, Clock b) {
  return timeOf(b) > timeOf(a) ? b : a;
}
inline bool isSame(int64_t a, int64_t b) { return a == b; }
inline bool isSame(TracedTime a, TracedTime b) {
  return a.time == b.time && a.origin == b.origin;
}
inline void setTime(int64_t &clock, int64_t time, uint32_t) { clock = time; }
inline void setTime(TracedTime &clock, int64_t time, uint32_t worker) {
  clock = {time, worker};
}
/// Returns a time that the start or end of the worker's row determines.
template <typename Clock>
Clock clockOf(int64_t time, uint32_t worker) {
  Clock clock;
  setTime(clock, time, worker);
  return clock;
}

/// The message that cells of a kind send.
struct Sent {
  uint32_t distance = 0;   ///< to the waiting cell
  uint32_t worker = kNone; ///< worker of the waiting cell; kNone: no cell waits
  int64_t delay = 0;
  int64_t duration = 0; ///< duration of the waiting cell
};

/// Returns the messages of all kinds of cells.
std::vector<Sent> sentMessages(const Encoding &encoding);

/// By cell: the least time from its end to the end of the last cell that rows
/// and messages allow, ignoring copies and memory. Plans must be feasible. If
/// rows have offsets, a tail is the largest time to the end of a row minus the
/// offset of that row.
template <typename Clock>
class Tails {
public:
  explicit Tails(const Encoding &encoding);

  /// `offsets`, by worker, may be empty.
  void compute(const Plan &plan, llvm::ArrayRef<int64_t> offsets);
  /// Updates tails after cells of [`begin`, `end`) of a row were reordered,
  /// added or removed.
  void update(const Plan &plan, uint32_t worker, uint32_t begin, uint32_t end);
  Clock operator[](uint32_t cell) const { return tails[cell]; }

private:
  /// Positions of a row whose tails must be updated, the last one first.
  struct Dirt {
    uint32_t begin = kNone, end = 0;
  };

  Clock tailOf(Token token, Clock behind) const;
  bool goBack(const Plan &plan, uint32_t worker);
  Clock behind(const Plan &plan, uint32_t worker, uint32_t pos) const;
  void walkBack(const Plan &plan, uint32_t worker);

  const Encoding &encoding;
  std::vector<Sent> sent;    ///< by kind
  std::vector<Clock> tails;  ///< by cell
  std::vector<int64_t> ends; ///< by worker: tail at the end of its row
  std::vector<Dirt> dirt;    ///< by worker
  uint32_t numDirty = 0;
};

extern template class Tails<int64_t>;
extern template class Tails<TracedTime>;

} // namespace pipesched::optimize

#endif // PIPESCHED_LIB_OPTIMIZE_EVALUATOR_TAILS_H
