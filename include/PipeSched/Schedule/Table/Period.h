//===- Period.h - Rows that repeat, and states that do ----------*- C++ -*-===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Between warm-up and drain most schedules do the same for every few
// microbatches. A walk whose state after such a period is the state before it,
// except for constants, can leap over all periods that follow.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_SCHEDULE_TABLE_PERIOD_H
#define PIPESCHED_SCHEDULE_TABLE_PERIOD_H

#include "PipeSched/Schedule/Table/Table.h"
#include "PipeSched/Schedule/Walk/Lanes.h"

namespace pipesched {

/// The part of a row that repeats: row[i] == row[i - length] with the unit that
/// is one period later, for i from begin + length up to end.
struct RowPeriod {
  int64_t begin = 0, end = 0, length = 0;
};

struct TablePeriod {
  /// By how much the number of the unit grows from one period to the next:
  /// whole microbatches, so that slices stay the same. If each path takes a
  /// part of the microbatches, all paths grow by this number.
  int64_t units = 0;
  int64_t numSlices = 1;
  std::vector<int64_t> ranks; ///< by path: units of it in a period
  std::vector<RowPeriod> rows;

  /// Microbatches of all paths in a period.
  int64_t getNumMicrobatches() const;
  /// `count` of these periods as one period.
  TablePeriod times(int64_t count) const;
};

/// Finds a period in the middle of all rows that occurs at least four times.
/// Nothing if there is none with up to 1,024 microbatches, or a path takes
/// microbatches by several ranges. Linear in cells if it finds one; else it
/// looks at a small part of them.
std::optional<TablePeriod> findPeriod(const TableView &table);

//===----------------------------------------------------------------------===//
// States of a walk
//===----------------------------------------------------------------------===//

/// Quantities that grow from period to period, each by its own constant.
enum class Clock : uint8_t {
  Time,    ///< ps
  FreeTime ///< ps if communication took no time
};

/// Where a walk is: its slot, and times of one scenario or of several.
template <typename Time>
struct ClockValues {
  int64_t slot = 0;
  Time time{}, freeTime{};

  const Time &operator[](Clock clock) const {
    return clock == Clock::Time ? time : freeTime;
  }
};

/// The state of a walk as numbers that are the same after a period if the walk
/// repeats itself: times relative to the reference, and microbatches, ranks and
/// indices relative to the period. `totals` are sums so far, which do not
/// affect what happens next. Times of several scenarios are several numbers.
template <typename Time>
struct WalkState {
  ClockValues<Time> reference;
  std::vector<int64_t> numbers, totals;
};

/// A visitor that takes the state of a walk down.
template <typename Time>
class StateReader {
public:
  /// `numPeriods`: how many have passed. Times before `oldest` no longer affect
  /// anything, so they all count as equal.
  StateReader(const TablePeriod &period, llvm::ArrayRef<uint32_t> rowBegins,
              int64_t numPeriods, const ClockValues<Time> &oldest,
              WalkState<Time> &state)
      : period(period), rowBegins(rowBegins), numPeriods(numPeriods),
        oldest(oldest), state(state) {}

  void same(int64_t value) { state.numbers.push_back(value); }
  void slot(int64_t &value) { same(value - state.reference.slot); }
  template <typename Number>
  void total(Number &value) {
    for (unsigned lane = 0; lane != kNumScenarios<Number>; ++lane)
      state.totals.push_back(laneOf(value, lane));
  }
  void clock(Time &value, Clock clock) {
    for (unsigned lane = 0; lane != kNumScenarios<Time>; ++lane) {
      int64_t ps = laneOf(value, lane);
      same(ps < laneOf(oldest[clock], lane)
               ? std::numeric_limits<int64_t>::min()
               : ps - laneOf(state.reference[clock], lane));
    }
  }
  void cell(Cell &cell) { same(cell.getRaw() - numPeriods * period.units); }
  void index(int64_t &index, int64_t row) {
    same(index - numPeriods * period.rows[row].length);
  }
  void flat(uint32_t &flat) {
    if (flat == CellIndex::kNone)
      return same(-1);
    same(flat - numPeriods * period.rows[rowOf(flat)].length);
  }
  void rank(int32_t &rank, int64_t path) {
    same(rank - numPeriods * period.ranks[path]);
  }

private:
  int64_t rowOf(uint32_t flat) const {
    return llvm::upper_bound(rowBegins, flat) - rowBegins.begin() - 1;
  }

  const TablePeriod &period;
  llvm::ArrayRef<uint32_t> rowBegins;
  int64_t numPeriods;
  const ClockValues<Time> &oldest;
  WalkState<Time> &state;
};

/// A visitor that moves the state of a walk ahead by some periods of the rows.
/// `before` and `after` are the states at the start and at the end of one
/// period. Clocks and sums also grow by periods that the rows leave out.
template <typename Time>
class StateLeaper {
public:
  StateLeaper(const TablePeriod &period, llvm::ArrayRef<uint32_t> rowBegins,
              int64_t numPeriods, int64_t numLeftOut,
              const ClockValues<Time> &oldest, const WalkState<Time> &before,
              const WalkState<Time> &after)
      : period(period), rowBegins(rowBegins), numPeriods(numPeriods),
        numInAll(numPeriods + numLeftOut), oldest(oldest), before(before),
        after(after) {}

  void same(int64_t) {}
  void slot(int64_t &value) {
    value += numInAll * (after.reference.slot - before.reference.slot);
  }
  template <typename Number>
  void total(Number &value) {
    for (unsigned lane = 0; lane != kNumScenarios<Number>; ++lane, ++next)
      setLane(value, lane,
              laneOf(value, lane) +
                  numInAll * (after.totals[next] - before.totals[next]));
  }
  void clock(Time &value, Clock clock) {
    for (unsigned lane = 0; lane != kNumScenarios<Time>; ++lane) {
      int64_t ps = laneOf(value, lane);
      if (ps >= laneOf(oldest[clock], lane))
        setLane(value, lane,
                ps + numInAll * (laneOf(after.reference[clock], lane) -
                                 laneOf(before.reference[clock], lane)));
    }
  }
  void cell(Cell &cell) {
    cell = Cell::fromRaw(cell.getRaw() + numPeriods * period.units);
  }
  void index(int64_t &index, int64_t row) {
    index += numPeriods * period.rows[row].length;
  }
  void flat(uint32_t &flat) {
    if (flat != CellIndex::kNone)
      flat +=
          numPeriods *
          period
              .rows[llvm::upper_bound(rowBegins, flat) - rowBegins.begin() - 1]
              .length;
  }
  void rank(int32_t &rank, int64_t path) {
    rank += numPeriods * period.ranks[path];
  }

private:
  const TablePeriod &period;
  llvm::ArrayRef<uint32_t> rowBegins;
  int64_t numPeriods, numInAll;
  const ClockValues<Time> &oldest;
  const WalkState<Time> &before, &after;
  size_t next = 0; ///< of the totals
};

} // namespace pipesched

#endif // PIPESCHED_SCHEDULE_TABLE_PERIOD_H
