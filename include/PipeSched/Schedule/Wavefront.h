//===- Wavefront.h - Cells of a table in the order of slots -----*- C++ -*-===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Walks all rows of a table at once, from slot to slot. What cells pass to
// other stages is kept only while it is under way, so nothing has to be indexed
// before. docs/Dialects/RationaleTimes.md says why.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_SCHEDULE_WAVEFRONT_H
#define PIPESCHED_SCHEDULE_WAVEFRONT_H

#include "PipeSched/Schedule/Dependences.h"
#include "PipeSched/Schedule/Period.h"
#include "PipeSched/Schedule/PhaseCounts.h"
#include "PipeSched/Schedule/WavefrontParts.h"

namespace pipesched {

/// A cell of a row, or two overlapped ones, that start together.
struct WaveStep {
  int32_t row = 0;
  uint32_t flat = 0; ///< of the first cell, as in CellIndex
  bool isPair = false;
  Cell cells[2];
  uint32_t stages[2]; ///< their global stages
};

/// What a walk has leapt over in a row: `count` times `length` cells, the first
/// of which would have started next. Of the cells before them the last `length`
/// have started, and those before `passed` have also passed on what they made.
struct LeapedRow {
  uint32_t next, passed, length; ///< flat
  int64_t count;
};

/// Visits the cells of a table in the order of their earliest unit slots:
///
///   slot     0    1    2    3    4    5    6       in a slot: row by row, what
///   row 0    F0   F1   F2   .    .    B0 ......    ends there, and then what
///   row 1         F0   F1   B0 ......   F2         can start
///   row 2              F0   ..
///
/// A row whose next cell needs what another stage has yet to make sleeps until
/// that is passed. So the walk is linear in cells; beside the table it holds
/// what is under way between stages, which for most families is O(stages).
///
/// The table must be one of canWalkInSlots, with cells in range. The handler
/// has, where `Item` is what it notes about something that is under way,
///
///   void start(const WaveStep &, uint64_t slot, const Item *, const Item *)
///       with what the cells of the step take from other stages, or null
///   void finish(const WaveStep &, uint64_t slot)
///   void pass(const WaveStep &, unsigned half, uint32_t toStage, Item &)
///       after finish(), for each cell of the step that another stage needs.
///
/// If the rows repeat (Period.h), the walk compares its states at the ends of
/// periods. If only clocks, ranks and indices differ, all that follows would be
/// the same again, and the walk leaps over it. For this the handler has
///
///   Time   of one scenario, or of several side by side (Lanes.h): the rows of
///       all are the same, so one walk times them all; it leaps if all repeat
///   bool canLeap() const
///   int64_t numLeftOut() const
///       microbatches that the rows leave out: the walk is of a table with so
///       many more periods. It has no end if it repeats itself nowhere, or if
///       they are no multiple of the period
///   int64_t numHeld() const   what it holds of cells; the same in such states
///   void visitState(Visitor &), void visitItem(Item &, Visitor &)
///       with a StateReader or a StateLeaper, in the same order for both
///   ClockValues<Time> clocksOf(uint32_t row) const   when the row is free
///   void noteLeap(llvm::ArrayRef<LeapedRow>)
///
/// Things are passed in the order of their last slots and, within a slot, of
/// their rows: in this order receive queues take messages (Lowering.h).
///
/// `hasPaths`: whether ranks on a path differ from microbatches.
template <typename Item, typename Handler, bool hasPaths>
class WavefrontOf {
  using Time = typename Handler::Time;

public:
  WavefrontOf(const TableView &table, Handler &handler)
      : placement(*table.placement), handler(handler),
        calendar(table.rows.size()) {
    addStages(table.gradientAfter);
    addRows(table);
    if (handler.canLeap())
      watchPeriod(table);
  }

  /// Whether every row was walked to its end. If not, cells wait for each other
  /// or for one that is missing, or a cell occurs twice.
  bool run() {
    for (Row &row : rows)
      startNext(row, 0);
    calendar.takeAll(
        [&](uint32_t row, uint64_t slot) {
          finish(rows[row], slot + numLeaptSlots);
        },
        [&](uint64_t slot) {
          if (LLVM_UNLIKELY(isAtPeriod))
            endPeriod(slot);
        });
    return !isRepeated && (hasLeapt || handler.numLeftOut() == 0) &&
           llvm::all_of(rows, [](const Row &row) { return row.isDone(); });
  }

private:
  static constexpr uint32_t kNowhere = std::numeric_limits<uint32_t>::max();

  struct Row {
    const Cell *begin, *next, *end;
    uint32_t awaitedAt = kNowhere; ///< where a sleeping row looks
    int32_t awaitedRank = 0;
    WaveStep step; ///< the one that runs, or the next

    bool isDone() const { return next == end && awaitedAt == kNowhere; }
  };
  /// Where cells of a global stage find what they need, and where what they
  /// make is needed, by phase: an index into `places`, or kNowhere.
  struct Stage {
    uint32_t findAt[kNumPhaseCodes], passTo[kNumPhaseCodes];
  };

  void addStages(GradientAfter gradientAfter);
  void addRows(const TableView &table);
  void startNext(Row &row, uint64_t slot);
  void startOne(Row &row, uint64_t slot, const Item *need);
  void startPair(Row &row, uint64_t slot);
  void finish(Row &row, uint64_t slot);
  void pass(const WaveStep &step, unsigned half, uint64_t slot);
  bool findNeed(Row &row, unsigned half, Item *&need);
  /// Ends the running step of a row at a slot.
  void add(Row &row, uint64_t slot) {
    calendar.add(row.step.row, slot - numLeaptSlots);
    isAtPeriod |= row.next == periodEnd;
  }

  void watchPeriod(const TableView &table);
  void endPeriod(uint64_t slot);
  bool isInPeriods() const;
  void readClocks();
  void takeDown(uint64_t slot, const TablePeriod &period, int64_t numPeriods,
                WalkState<Time> &state);
  void leap(uint64_t slot, const TablePeriod &repeated);
  template <typename Visitor>
  void visitState(uint64_t slot, Visitor &visitor);
  int32_t rankOf(Cell cell) const {
    return hasPaths ? placement.rankOnPath(cell.getMicrobatch())
                    : cell.getMicrobatch();
  }
  uint32_t stageOf(Cell cell) const {
    return hasPaths ? placement.globalStage(cell) : cell.getStage();
  }

  const Placement &placement;
  Handler &handler;
  SlotCalendar calendar;
  llvm::BumpPtrAllocator allocator;
  std::vector<InFlight<Item>> places; ///< two by global stage: by Flow
  std::vector<int32_t> workers;       ///< by global stage
  std::vector<Stage> stages;          ///< by global stage
  std::vector<Row> rows;
  std::vector<uint32_t> rowBegins; ///< flat
  bool isRepeated = false;         ///< a cell occurs twice

  std::optional<TablePeriod> period;
  /// Where row 0 ends a period next; null if nobody looks for that.
  const Cell *periodEnd = nullptr;
  bool isAtPeriod = false; ///< row 0 has just come there
  int64_t numHeld = -1;    ///< at the last end of a period
  /// Periods since `before` was taken down, -1: it was not; and how many of
  /// them to compare with it, more each time (Brent's search for cycles).
  int64_t numSince = -1, window = 1;
  ClockValues<Time> oldest;
  std::vector<Time> rowTimes, rowTimesBefore; ///< against row 0
  bool hasLeapt = false;
  uint64_t numLeaptSlots = 0;
  WalkState<Time> before, after;
};

/// Whether a table with these phases has neither copies and joins, which run
/// beside the row, nor G cells, which wait for other rows.
bool canWalkInSlots(const PhaseCounts &counts);

/// Walks the table; see WavefrontOf.
template <typename Item, typename Handler>
bool walkInSlots(const TableView &table, Handler &handler) {
  const Placement &placement = *table.placement;
  if (placement.getNumPaths() > 1 ||
      placement.countOnPath(0) != placement.getNumMicrobatches())
    return WavefrontOf<Item, Handler, /*hasPaths=*/true>(table, handler).run();
  return WavefrontOf<Item, Handler, /*hasPaths=*/false>(table, handler).run();
}

//===----------------------------------------------------------------------===//
// Implementation
//===----------------------------------------------------------------------===//

template <typename Item, typename Handler, bool hasPaths>
void WavefrontOf<Item, Handler, hasPaths>::addStages(
    GradientAfter gradientAfter) {
  int64_t numStages = placement.getNumGlobalStages();
  stages.resize(numStages);
  places.resize(2 * numStages);
  for (InFlight<Item> &place : places)
    place.allocate(2, allocator);
  for (int64_t stage = 0; stage != numStages; ++stage) {
    workers.push_back(placement.workerOf(stage));
    int64_t path = placement.pathOfStage(stage);
    /// The place at a stage of the path for a flow whose other end is there
    /// too.
    auto placeAt = [&](std::optional<Flow> flow, int64_t at, int64_t other) {
      auto isOnPath = [&](int64_t end) {
        return placement.stageOffset(path) <= end &&
               end < placement.stageOffset(path + 1);
      };
      return flow && isOnPath(at) && isOnPath(other)
                 ? 2 * at + static_cast<unsigned>(*flow)
                 : kNowhere;
    };
    for (unsigned code = 0; code != kNumPhaseCodes; ++code) {
      auto phase = static_cast<Phase>(code);
      std::optional<Flow> need = flowNeededBy(phase);
      std::optional<Flow> made = flowMadeBy(phase, gradientAfter);
      stages[stage].findAt[code] =
          placeAt(need, stage, need ? sourceOf(*need, stage) : stage);
      stages[stage].passTo[code] =
          placeAt(made, made ? targetOf(*made, stage) : stage, stage);
    }
  }
}

template <typename Item, typename Handler, bool hasPaths>
void WavefrontOf<Item, Handler, hasPaths>::addRows(const TableView &table) {
  rows.resize(table.rows.size());
  uint32_t flat = 0;
  for (auto [number, cells] : llvm::enumerate(table.rows)) {
    Row &row = rows[number];
    row.begin = row.next = cells.begin();
    row.end = cells.end();
    row.step.row = number;
    row.step.flat = flat;
    rowBegins.push_back(flat);
    flat += cells.size();
  }
}

/// Finds what a half of the next step needs, which is null if that is nothing.
/// If it is not there yet, the row sleeps.
template <typename Item, typename Handler, bool hasPaths>
LLVM_ATTRIBUTE_ALWAYS_INLINE bool
WavefrontOf<Item, Handler, hasPaths>::findNeed(Row &row, unsigned half,
                                               Item *&need) {
  Cell cell = row.step.cells[half] = row.next[half];
  uint32_t stage = row.step.stages[half] = stageOf(cell);
  uint32_t at = stages[stage].findAt[static_cast<unsigned>(cell.getPhase())];
  need = nullptr;
  if (at == kNowhere)
    return true;
  int32_t rank = rankOf(cell);
  need = places[at].find(rank);
  if (need)
    return true;
  row.awaitedAt = at;
  row.awaitedRank = rank;
  return false;
}

/// Starts the next cell of a row that is free, or puts the row to sleep.
template <typename Item, typename Handler, bool hasPaths>
void WavefrontOf<Item, Handler, hasPaths>::startNext(Row &row, uint64_t slot) {
  for (; row.next != row.end && row.next->isIdle(); ++row.next)
    ++row.step.flat;
  if (row.next == row.end)
    return;
  // The rows are as many streams of memory, more than the hardware follows.
  constexpr int64_t kLookahead = 16;
  __builtin_prefetch(row.next + kLookahead);
  row.step.isPair = row.next->overlapsNext() && row.next + 1 != row.end;
  if (row.step.isPair)
    return startPair(row, slot);
  Item *need;
  if (!findNeed(row, 0, need))
    return;
  startOne(row, slot, need);
  if (need)
    InFlight<Item>::remove(need);
}

template <typename Item, typename Handler, bool hasPaths>
LLVM_ATTRIBUTE_ALWAYS_INLINE void
WavefrontOf<Item, Handler, hasPaths>::startOne(Row &row, uint64_t slot,
                                               const Item *need) {
  handler.start(row.step, slot, need, nullptr);
  ++row.next;
  add(row, slot + unitSlots(row.step.cells[0]));
}

template <typename Item, typename Handler, bool hasPaths>
void WavefrontOf<Item, Handler, hasPaths>::startPair(Row &row, uint64_t slot) {
  Item *needs[2];
  for (unsigned half : {0, 1})
    if (!findNeed(row, half, needs[half]))
      return;
  handler.start(row.step, slot, needs[0], needs[1]);
  for (Item *need : needs)
    if (need)
      InFlight<Item>::remove(need);
  row.next += 2;
  add(row, slot + unitSlots(row.step.cells[0]) + unitSlots(row.step.cells[1]));
}

template <typename Item, typename Handler, bool hasPaths>
LLVM_ATTRIBUTE_ALWAYS_INLINE void
WavefrontOf<Item, Handler, hasPaths>::finish(Row &row, uint64_t slot) {
  handler.finish(row.step, slot);
  pass(row.step, 0, slot);
  if (row.step.isPair)
    pass(row.step, 1, slot);
  row.step.flat += 1 + row.step.isPair;
  startNext(row, slot);
}

/// Passes on what a cell has made. A row that sleeps for it takes it at once.
template <typename Item, typename Handler, bool hasPaths>
void WavefrontOf<Item, Handler, hasPaths>::pass(const WaveStep &step,
                                                unsigned half, uint64_t slot) {
  Cell cell = step.cells[half];
  uint32_t at =
      stages[step.stages[half]].passTo[static_cast<unsigned>(cell.getPhase())];
  if (at == kNowhere)
    return;
  int32_t rank = rankOf(cell);
  uint32_t stage = at / 2;
  Row &consumer = rows[workers[stage]];
  bool isAwaited = consumer.awaitedAt == at && consumer.awaitedRank == rank;
  if (isAwaited)
    consumer.awaitedAt = kNowhere;
  if (isAwaited && !consumer.step.isPair) {
    Item item;
    handler.pass(step, half, stage, item);
    return startOne(consumer, slot, &item);
  }
  Item *item = places[at].insert(rank, allocator);
  if (!item) {
    isRepeated = true;
    return;
  }
  handler.pass(step, half, stage, *item);
  if (isAwaited)
    startPair(consumer, slot);
}

//===----------------------------------------------------------------------===//
// Periods
//===----------------------------------------------------------------------===//

template <typename Item, typename Handler, bool hasPaths>
void WavefrontOf<Item, Handler, hasPaths>::watchPeriod(const TableView &table) {
  period = findPeriod(table);
  if (period)
    periodEnd = rows[0].begin + period->rows[0].begin + period->rows[0].length;
}

/// Whether every row is where it repeats.
template <typename Item, typename Handler, bool hasPaths>
bool WavefrontOf<Item, Handler, hasPaths>::isInPeriods() const {
  return llvm::all_of(
      llvm::zip_equal(rows, period->rows), [](const auto &both) {
        const auto &[row, repeats] = both;
        int64_t next = row.next - row.begin;
        return next >= repeats.begin + repeats.length && next < repeats.end;
      });
}

/// Row 0 has ended a period, and `slot` is over. The times of rows are compared
/// first, because a whole state is larger than a period.
template <typename Item, typename Handler, bool hasPaths>
void WavefrontOf<Item, Handler, hasPaths>::endPeriod(uint64_t slot) {
  isAtPeriod = false;
  periodEnd += period->rows[0].length;
  if (periodEnd - rows[0].begin >= period->rows[0].end)
    periodEnd = nullptr;
  bool isSteady = std::exchange(numHeld, handler.numHeld()) == numHeld;
  if (!isSteady || !isInPeriods()) {
    numSince = -1;
    return;
  }
  readClocks();
  if (numSince < 0) {
    takeDown(slot, *period, 0, before);
    rowTimesBefore = rowTimes;
    numSince = 0;
    return;
  }
  ++numSince;
  if (rowTimes == rowTimesBefore) {
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
    bool isRunning = row.awaitedAt == kNowhere;
    uint32_t next = rowBegins[row.step.row] + (row.next - row.begin);
    leaped.push_back({next, isRunning ? row.step.flat : next,
                      uint32_t(repeats.length), numPeriods});
  }
  handler.noteLeap(leaped);
  StateLeaper<Time> leaper(repeated, rowBegins, numPeriods, numLeftOut, oldest,
                           before, after);
  visitState(slot, leaper);
  numLeaptSlots += (numPeriods + numLeftOut) *
                   (after.reference.slot - before.reference.slot);
}

template <typename Item, typename Handler, bool hasPaths>
template <typename Visitor>
void WavefrontOf<Item, Handler, hasPaths>::visitState(uint64_t slot,
                                                      Visitor &visitor) {
  for (Row &row : rows) {
    int64_t index = row.next - row.begin;
    visitor.index(index, row.step.row);
    row.next = row.begin + index;
    visitor.flat(row.step.flat);
    visitor.same(row.step.isPair);
    for (unsigned half = 0; half <= unsigned(row.step.isPair); ++half) {
      visitor.cell(row.step.cells[half]);
      visitor.same(row.step.stages[half]);
    }
    visitor.same(row.awaitedAt);
    if (row.awaitedAt != kNowhere)
      visitor.rank(row.awaitedRank, placement.pathOfStage(row.awaitedAt / 2));
  }
  calendar.forEachBehind(slot, [&](uint64_t set) { visitor.same(set); });
  std::vector<std::pair<int32_t, Item>> items;
  for (auto [at, place] : llvm::enumerate(places)) {
    place.takeAll(items);
    visitor.same(items.size());
    for (auto &[rank, item] : items) {
      visitor.rank(rank, placement.pathOfStage(at / 2));
      handler.visitItem(item, visitor);
      *place.insert(rank, allocator) = item;
    }
  }
  handler.visitState(visitor);
}

} // namespace pipesched

#endif // PIPESCHED_SCHEDULE_WAVEFRONT_H
