//===- WavefrontPeriods.h - A walk that repeats itself ----------*- C++ -*-===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The part of WavefrontOf that compares states and leaps. Included by
// Wavefront.h alone.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_SCHEDULE_WALK_WAVEFRONTPERIODS_H
#define PIPESCHED_SCHEDULE_WALK_WAVEFRONTPERIODS_H

#include "PipeSched/Schedule/Walk/Wavefront.h"

namespace pipesched {

template <typename Item, typename Handler, bool hasPaths>
void WavefrontOf<Item, Handler, hasPaths>::watchPeriod(const TableView &table) {
  period = findPeriod(table);
  if (!period)
    return;
  periodEnd = rows[0].begin + period->rows[0].begin + period->rows[0].length;
  for (const RowPeriod &row : period->rows)
    numPeriodCells += row.length;
}

/// Whether every row is within the part that repeats.
template <typename Item, typename Handler, bool hasPaths>
bool WavefrontOf<Item, Handler, hasPaths>::isInPeriods() const {
  return llvm::all_of(
      llvm::zip_equal(rows, period->rows), [](const auto &both) {
        const auto &[row, repeats] = both;
        int64_t next = row.next - row.begin;
        return next >= repeats.begin + repeats.length && next < repeats.end;
      });
}

/// Compares states after row 0 has ended a period and `slot` is over. The times
/// of rows are compared first, because a whole state is larger than a period.
template <typename Item, typename Handler, bool hasPaths>
void WavefrontOf<Item, Handler, hasPaths>::endPeriod(uint64_t slot) {
  periodEnd += period->rows[0].length;
  if (periodEnd - rows[0].begin >= period->rows[0].end)
    periodEnd = nullptr;
  bool isSteady = std::exchange(numHeld, handler.numHeld()) == numHeld;
  numWalked += numPeriodCells;
  if (!isSteady || !isInPeriods()) {
    numSince = -1;
    return;
  }
  readClocks();
  if (numSince < 0) {
    if (!mayTakeDown())
      return;
    takeDown(slot, *period, 0, before);
    rowTimesBefore = rowTimes;
    numSince = 0;
    return;
  }
  ++numSince;
  if (rowTimes == rowTimesBefore && mayTakeDown()) {
    TablePeriod repeated = period->times(numSince);
    takeDown(slot, repeated, 1, after);
    if (before.numbers == after.numbers) {
      leap(slot, repeated);
      if (hasLeapt)
        periodEnd = nullptr;
    }
  }
  if (numSince >= window) {
    window *= 2;
    numSince = -1;
  }
}

/// Finds the oldest clocks, and how far ahead of row 0 the others are.
template <typename Item, typename Handler, bool hasPaths>
void WavefrontOf<Item, Handler, hasPaths>::readClocks() {
  ClockValues<Time> first = handler.clocksOf(0);
  oldest = first;
  rowTimes.clear();
  for (uint32_t row = 1; row != rows.size(); ++row) {
    ClockValues<Time> clocks = handler.clocksOf(row);
    oldest.time = earlier(oldest.time, clocks.time);
    oldest.freeTime = earlier(oldest.freeTime, clocks.freeTime);
    rowTimes.push_back(clocks.time - first.time);
  }
}

template <typename Item, typename Handler, bool hasPaths>
void WavefrontOf<Item, Handler, hasPaths>::takeDown(uint64_t slot,
                                                    const TablePeriod &repeated,
                                                    int64_t numPeriods,
                                                    WalkState<Time> &state) {
  numWalked = 0;
  state.numbers.clear();
  state.totals.clear();
  state.reference = handler.clocksOf(0);
  state.reference.slot = slot;
  StateReader<Time> reader(repeated, rowBegins, numPeriods, oldest, state);
  visitState(slot, reader);
}

/// Leaps over as many periods as leave every row before the end of its own.
template <typename Item, typename Handler, bool hasPaths>
void WavefrontOf<Item, Handler, hasPaths>::leap(uint64_t slot,
                                                const TablePeriod &repeated) {
  int64_t numPeriods = std::numeric_limits<int64_t>::max();
  for (auto [row, repeats] : llvm::zip_equal(rows, repeated.rows))
    numPeriods =
        std::min(numPeriods,
                 (repeats.end - 1 - (row.next - row.begin)) / repeats.length);
  int64_t numLeftOut = handler.numLeftOut() / repeated.getNumMicrobatches();
  if (numPeriods == 0 ||
      handler.numLeftOut() % repeated.getNumMicrobatches() != 0)
    return;
  hasLeapt = true;
  std::vector<LeapedRow> leaped;
  for (auto [row, repeats] : llvm::zip_equal(rows, repeated.rows)) {
    uint32_t begin = rowBegins[row.step.row];
    leaped.push_back({uint32_t(begin + (row.next - row.begin)),
                      uint32_t(begin + (row.step.cells - row.begin)),
                      uint32_t(repeats.length), numPeriods});
  }
  handler.noteLeap(leaped);
  StateLeaper<Time> leaper(repeated, rowBegins, numPeriods, numLeftOut, oldest,
                           before, after);
  visitState(slot, leaper);
  calendar.leap((numPeriods + numLeftOut) *
                (after.reference.slot - before.reference.slot));
}

template <typename Item, typename Handler, bool hasPaths>
template <typename Visitor>
void WavefrontOf<Item, Handler, hasPaths>::visitState(uint64_t slot,
                                                      Visitor &visitor) {
  for (Row &row : rows) {
    int64_t index = row.next - row.begin, ahead = row.next - row.step.cells;
    visitor.index(index, row.step.row);
    row.next = row.begin + index;
    row.step.cells = row.next - ahead;
    visitor.same(ahead);
    visitor.same(row.step.isPair);
    for (unsigned half = 0; half <= unsigned(row.step.isPair); ++half) {
      Cell cell = row.step.cells[half];
      visitor.cell(cell);
      visitor.same(row.step.kinds[half]);
      row.step.ranks[half] = tripOf(row.step.cells[half]).rank;
    }
    visitor.same(row.isAsleep);
    visitor.same(row.awaitedHalf);
  }
  calendar.forEachBehind(slot, [&](uint64_t set) { visitor.same(set); });
  for (auto [at, inbox] : llvm::enumerate(inboxes)) {
    int64_t path = placement.pathOfStage(at / 2);
    visitor.same(inbox.awaitedRank >= 0);
    if (inbox.awaitedRank >= 0)
      visitor.rank(inbox.awaitedRank, path);
    visitItems(inbox.items, path, allocator, visitor,
               [&](Item &item) { handler.visitItem(item, visitor); });
  }
  handler.visitState(visitor);
}

} // namespace pipesched

#endif // PIPESCHED_SCHEDULE_WALK_WAVEFRONTPERIODS_H
