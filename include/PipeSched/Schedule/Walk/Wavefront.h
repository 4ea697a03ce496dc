//===- Wavefront.h - Cells of a table in the order of slots -----*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Walks all rows of a table at once, from slot to slot. Data between stages is
// kept only while it is in flight, so the table needs no index.
// docs/Dialects/RationaleTimes.md gives the reasons.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_SCHEDULE_WALK_WAVEFRONT_H
#define PIPESCHED_SCHEDULE_WALK_WAVEFRONT_H

#include "PipeSched/Schedule/Table/Dependences.h"
#include "PipeSched/Schedule/Table/Groups.h"
#include "PipeSched/Schedule/Table/PhaseCounts.h"
#include "PipeSched/Schedule/Walk/WavefrontParts.h"

namespace pipesched {

/// Visits the cells of a table in the order of their earliest unit slots:
///
///   slot     0    1    2    3    4    5    6       in a slot: row by row,
///   row 0    F0   F1   F2   .    .    B0 ......    first the ends, and then
///   row 1         F0   F1   B0 ......   F2         the starts
///   row 2              F0   ..
///
/// A row sleeps while its next cell needs an item that another stage has not
/// passed yet. So the walk is linear in cells. In addition to the table it
/// holds the items in flight between stages, which for most families is
/// O(stages).
///
/// Cells must be in range, and stages in lines (StageEdges::areLines). A row
/// that reaches a cell of a group sleeps until the rows of the group have come
/// (Groups.h); at the end of that slot they meet, and all continue in the next
/// one. Each cell must be in one group.
///
/// The handler has the following members. `Item` is its record of something in
/// flight.
///
///   Cost costOf(uint32_t stage, Phase)   the handler's facts about all cells
///       of a phase of a global stage, so that one look-up finds all
///   void start(const WaveStep &, uint64_t slot, const Cost &, const Item *)
///   void startPair(const WaveStep &, uint64_t slot, const Item *first,
///                  const Item *second)
///       with the items that the cells take from other stages, or null
///   void finish(const WaveStep &, uint64_t slot)
///   void pass(const WaveStep &, unsigned half, const Cost &, int32_t toRow,
///             Item &)
///       after finish(), for each cell of the step that another stage needs
///   bool copy(const WaveStep &, const Cost &)
///       for a D, U or join, which take no slots: the row has ended all
///       cells before it. Returns false if a cell it needs is not among them
///   void meet(int64_t number, llvm::ArrayRef<WaveStep>, uint64_t slot)
///       for a group, with the steps of its members by ascending row; finish()
///       follows for each
///
/// If the rows repeat (Period.h), the walk compares its states at the ends of
/// periods. If they differ only in clocks, ranks and indices, later periods
/// repeat the same steps, and the walk leaps over them. For leaps the handler
/// needs:
///
///   Time   for one scenario, or for several at once (Lanes.h): all have the
///       same rows, so one walk times them all; it leaps if all repeat
///   bool canLeap() const
///   int64_t numHeld() const   number of its records; equal in equal states
///   void visitState(Visitor &), void visitItem(Item &, Visitor &)
///       with a StateReader or a StateLeaper, in the same order for both
///   ClockValues<Time> clocksOf(uint32_t row) const   when the row is free
///   void noteLeap(llvm::ArrayRef<LeapedRow>)
///
/// Items are passed in the order in which receive queues take messages
/// (Lowering.h): by the last slot of their cells, then by row.
///
/// `hasPaths` states whether ranks on a path differ from microbatches.
template <typename Item, typename Handler, bool hasPaths>
class WavefrontOf {
  using Time = typename Handler::Time;

public:
  /// `groups` may be null if the table has no groups.
  WavefrontOf(const TableView &table, const Groups *groups, Handler &handler)
      : placement(*table.placement), groups(groups), handler(handler),
        calendar(table.rows.size()) {
    addRules(table.gradientAfter);
    if (groups)
      numArrived.assign(groups->size(), 0);
    if (hasPaths)
      addTrips();
    addRows(table);
    if (handler.canLeap())
      watchPeriod(table);
  }

  /// Walks the table and returns whether every row reached its end. If not,
  /// cells wait for each other or for a missing cell, or a cell occurs twice.
  bool run() {
    for (Row &row : rows)
      startNext(row, 0);
    auto leave = [&](uint64_t slot) {
      if (LLVM_UNLIKELY(!gathered.empty()))
        meet(slot);
      if (LLVM_UNLIKELY(periodEnd && rows.front().next >= periodEnd))
        endPeriod(slot);
    };
    leave(0);
    calendar.takeAll(
        [&](uint32_t row, uint64_t slot) { finish(rows[row], slot); }, leave);
    return !isBroken &&
           llvm::all_of(rows, [](const Row &row) { return row.isDone(); });
  }

private:
  static constexpr uint32_t kNowhere = std::numeric_limits<uint32_t>::max();

  struct alignas(64) Row {
    const Cell *begin, *next, *end;
    /// Whether its next step needs an item that has not arrived yet.
    bool isAsleep = false;
    uint8_t awaitedHalf = 0; ///< the half of the step that needs the item
    WaveStep step;           ///< the step that runs, or the next one

    bool isDone() const { return next == end && !isAsleep; }
  };
  /// The items that a neighbour has passed to the cells of one stage and that
  /// are not taken yet.
  struct Inbox {
    InFlight<Item> items;
    int32_t awaitedRank = -1; ///< rank of the item for which `taker` sleeps
    int32_t taker = -1;       ///< the row of the stage
  };
  /// Facts about all cells of a kind.
  struct Rule {
    /// The inbox from which the cells take their input, and the inbox to which
    /// they pass their output: indices into `inboxes`, or kNowhere.
    uint32_t findAt = kNowhere, passTo = kNowhere;
    typename Handler::Cost cost;
  };

  /// The route of a microbatch.
  struct Trip {
    uint32_t firstKind; ///< of the first stage of its path
    int32_t rank;       ///< on the path
  };

  void addRules(GradientAfter gradientAfter);
  void addTrips();
  void addRows(const TableView &table);
  void startNext(Row &row, uint64_t slot);
  void startOne(Row &row, uint64_t slot, const Item *need);
  void startSingle(Row &row, uint64_t slot);
  void startOther(Row &row, uint64_t slot);
  void startComputes(Row &row, uint64_t slot);
  void startNextPair(Row &row, uint64_t slot);
  void startPair(Row &row, uint64_t slot, Item *const (&needs)[2]);
  void copy(const Row &row);
  void arrive(Row &row);
  void meet(uint64_t slot);
  void wakePair(Row &row, uint64_t slot, Inbox &inbox, int32_t rank,
                Item &item);
  void finish(Row &row, uint64_t slot);
  void pass(const WaveStep &step, unsigned half, uint64_t slot);
  void readHalf(WaveStep &step, unsigned half);
  bool findNeed(Row &row, unsigned half, Item *&need);

  void watchPeriod(const TableView &table);
  void endPeriod(uint64_t slot);
  /// Whether the walk since the last recorded state has taken about as long as
  /// recording one. This limits the overhead: a walk that never leaps takes at
  /// most about twice as long.
  bool mayTakeDown() const {
    constexpr int64_t kNumbersPerCell = 2;
    return numWalked * kNumbersPerCell >=
           static_cast<int64_t>(before.numbers.size());
  }
  bool isInPeriods() const;
  void readClocks();
  void takeDown(uint64_t slot, const TablePeriod &period, int64_t numPeriods,
                WalkState<Time> &state);
  void leap(uint64_t slot, const TablePeriod &repeated);
  template <typename Visitor>
  void visitState(uint64_t slot, Visitor &visitor);
  static uint64_t slotsOf(const WaveStep &step, unsigned half) {
    if (step.cells[half].isIdle())
      llvm_unreachable("idle slots are no step");
    return unitSlots(step.cells[half]);
  }
  Trip tripOf(Cell cell) const {
    if (!hasPaths)
      return {0, static_cast<int32_t>(cell.getUnit())};
    if (LLVM_UNLIKELY(cell.isPerPath()))
      return {firstKindOf(placement.stageOffset(cell.getPath())), 0};
    return trips[cell.getUnit()];
  }

  const Placement &placement;
  const Groups *groups;
  Handler &handler;
  SlotCalendar calendar;
  llvm::BumpPtrAllocator allocator;
  std::vector<Inbox> inboxes;        ///< two by global stage: by Flow
  llvm::MutableArrayRef<Rule> rules; ///< by kind
  std::vector<Trip> trips; ///< by microbatch; empty: there is one path
  std::vector<Row> rows;
  std::vector<uint32_t> rowBegins;  ///< flat
  std::vector<uint32_t> numArrived; ///< by group: rows that have come
  /// Groups whose rows have all arrived, but that have not met.
  std::vector<int64_t> gathered;
  /// Whether a cell occurs twice, or a copy is at an invalid place.
  bool isBroken = false;

  std::optional<TablePeriod> period;
  /// The cell with which row 0 ends its next period; null if periods are not
  /// watched.
  const Cell *periodEnd = nullptr;
  int64_t numHeld = -1; ///< at the end of the last period
  /// `numSince` is the number of periods since `before` was recorded (-1: not
  /// recorded), and `window` the number of periods that are compared with it.
  /// `window` grows each time (Brent's cycle detection).
  int64_t numSince = -1, window = 1;
  /// The number of cells of a period, and of cells walked since the last state
  /// was recorded.
  int64_t numPeriodCells = 0, numWalked = 0;
  ClockValues<Time> oldest;
  std::vector<Time> rowTimes, rowTimesBefore; ///< relative to row 0
  bool hasLeapt = false;
  WalkState<Time> before, after;
};

/// Walks the table; see WavefrontOf.
template <typename Item, typename Handler>
bool walkInSlots(const TableView &table, const Groups *groups,
                 Handler &handler) {
  const Placement &placement = *table.placement;
  if (placement.getNumPaths() > 1 ||
      placement.countOnPath(0) != placement.getNumUnits())
    return WavefrontOf<Item, Handler, /*hasPaths=*/true>(table, groups, handler)
        .run();
  return WavefrontOf<Item, Handler, /*hasPaths=*/false>(table, groups, handler)
      .run();
}

//===----------------------------------------------------------------------===//
// Implementation
//===----------------------------------------------------------------------===//

template <typename Item, typename Handler, bool hasPaths>
void WavefrontOf<Item, Handler, hasPaths>::addRules(
    GradientAfter gradientAfter) {
  int64_t numStages = placement.getNumGlobalStages();
  size_t numKinds = numStages * kNumPhases;
  rules = {static_cast<Rule *>(
               allocator.Allocate(numKinds * sizeof(Rule), llvm::Align(64))),
           numKinds};
  std::uninitialized_fill(rules.begin(), rules.end(), Rule());
  inboxes.resize(2 * numStages);
  for (Inbox &inbox : inboxes)
    inbox.items.allocate(1, allocator);
  auto inboxAt = [](int64_t stage, Flow flow) {
    return 2 * stage + static_cast<unsigned>(flow);
  };
  const StageEdges &edges = placement.getEdges();
  for (int64_t stage = 0; stage != numStages; ++stage)
    kCostedPhases.forEach([&](Phase phase) {
      Rule &rule = rules[kindOf(stage, phase)];
      rule.cost = handler.costOf(stage, phase);
      std::optional<Flow> need = flowNeededBy(phase);
      if (need && !edges.sourcesOf(*need, stage).empty())
        rule.findAt = inboxAt(stage, *need);
      std::optional<Flow> made =
          flowMadeBy(phase, gradientAfter, placement.backwardOf(stage));
      if (!made)
        return;
      for (int64_t target : edges.targetsOf(*made, stage)) {
        rule.passTo = inboxAt(target, *made);
        inboxes[rule.passTo].taker = placement.workerOf(target);
      }
    });
}

template <typename Item, typename Handler, bool hasPaths>
void WavefrontOf<Item, Handler, hasPaths>::addTrips() {
  trips.reserve(placement.getNumUnits());
  for (int64_t number = 0; number != placement.getNumUnits(); ++number) {
    uint32_t stage = placement.stageOffset(placement.pathOf(number));
    trips.push_back({firstKindOf(stage),
                     static_cast<int32_t>(placement.rankOnPath(number))});
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
    rowBegins.push_back(flat);
    flat += cells.size();
  }
}

/// Reads one half of the next step.
template <typename Item, typename Handler, bool hasPaths>
LLVM_ATTRIBUTE_ALWAYS_INLINE void
WavefrontOf<Item, Handler, hasPaths>::readHalf(WaveStep &step, unsigned half) {
  Cell cell = step.cells[half];
  Trip trip = tripOf(cell);
  step.kinds[half] = trip.firstKind + kindOf(cell.getStage(), cell.getPhase());
  step.ranks[half] = trip.rank;
}

/// Finds the item that a half of the next step needs; null if it needs none.
/// Returns false if the item has not arrived yet; then the row sleeps.
template <typename Item, typename Handler, bool hasPaths>
LLVM_ATTRIBUTE_ALWAYS_INLINE bool
WavefrontOf<Item, Handler, hasPaths>::findNeed(Row &row, unsigned half,
                                               Item *&need) {
  need = nullptr;
  uint32_t at = rules[row.step.kinds[half]].findAt;
  if (at == kNowhere)
    return true;
  int32_t rank = row.step.ranks[half];
  need = inboxes[at].items.find(rank);
  if (need)
    return true;
  inboxes[at].awaitedRank = rank;
  row.isAsleep = true;
  row.awaitedHalf = half;
  return false;
}

/// Starts the next cell of a row that is free, or puts the row to sleep.
template <typename Item, typename Handler, bool hasPaths>
LLVM_ATTRIBUTE_ALWAYS_INLINE void
WavefrontOf<Item, Handler, hasPaths>::startNext(Row &row, uint64_t slot) {
  if (row.next == row.end)
    return;
  // Each row is a separate stream of memory, and hardware prefetchers do not
  // follow that many streams.
  constexpr int64_t kLookahead = 16;
  __builtin_prefetch(row.next + kLookahead);
  if (LLVM_UNLIKELY(!row.next->isIn(kUnitComputePhases)))
    return startOther(row, slot);
  startComputes(row, slot);
}

/// Starts a cell or a pair.
template <typename Item, typename Handler, bool hasPaths>
LLVM_ATTRIBUTE_ALWAYS_INLINE void
WavefrontOf<Item, Handler, hasPaths>::startComputes(Row &row, uint64_t slot) {
  if (row.next->overlapsNext() && row.next + 1 != row.end)
    return startNextPair(row, slot);
  startSingle(row, slot);
}

template <typename Item, typename Handler, bool hasPaths>
LLVM_ATTRIBUTE_ALWAYS_INLINE void
WavefrontOf<Item, Handler, hasPaths>::startSingle(Row &row, uint64_t slot) {
  row.step.cells = row.next;
  row.step.isPair = false;
  readHalf(row.step, 0);
  Item *need;
  if (!findNeed(row, 0, need))
    return;
  startOne(row, slot, need);
  if (need)
    InFlight<Item>::remove(need);
}

/// Passes idle slots and copies; then joins a group, or starts the next cells.
template <typename Item, typename Handler, bool hasPaths>
LLVM_ATTRIBUTE_NOINLINE void
WavefrontOf<Item, Handler, hasPaths>::startOther(Row &row, uint64_t slot) {
  for (; row.next != row.end; ++row.next) {
    if (row.next->isCopy() || row.next->isJoin())
      copy(row);
    else if (!row.next->isIdle())
      break;
  }
  if (row.next == row.end)
    return;
  if (row.next->isIn(kCollectivePhases))
    return arrive(row);
  startComputes(row, slot);
}

template <typename Item, typename Handler, bool hasPaths>
LLVM_ATTRIBUTE_NOINLINE void
WavefrontOf<Item, Handler, hasPaths>::startNextPair(Row &row, uint64_t slot) {
  row.step.cells = row.next;
  row.step.isPair = true;
  Item *needs[2];
  for (unsigned half : {0, 1})
    readHalf(row.step, half);
  if (!findNeed(row, 0, needs[0]) || !findNeed(row, 1, needs[1]))
    return;
  startPair(row, slot, needs);
  for (Item *need : needs)
    if (need)
      InFlight<Item>::remove(need);
}

template <typename Item, typename Handler, bool hasPaths>
void WavefrontOf<Item, Handler, hasPaths>::copy(const Row &row) {
  WaveStep step;
  step.cells = row.next;
  step.row = row.step.row;
  readHalf(step, 0);
  if (!handler.copy(step, rules[step.kinds[0]].cost))
    isBroken = true;
}

/// Records that a row has reached a cell of a group.
template <typename Item, typename Handler, bool hasPaths>
void WavefrontOf<Item, Handler, hasPaths>::arrive(Row &row) {
  row.isAsleep = true;
  row.step.cells = row.next;
  row.step.isPair = false;
  readHalf(row.step, 0);
  if (!groups)
    return;
  int64_t group = *groups->groupsOf(*row.next).begin();
  if (++numArrived[group] == groups->membersOf(group).size())
    gathered.push_back(group);
}

/// Lets all groups meet whose rows have arrived.
template <typename Item, typename Handler, bool hasPaths>
void WavefrontOf<Item, Handler, hasPaths>::meet(uint64_t slot) {
  std::vector<WaveStep> steps;
  for (int64_t group : gathered) {
    steps.clear();
    for (CellRef member : groups->membersOf(group)) {
      Row &row = rows[member.row];
      steps.push_back(row.step);
      row.isAsleep = false;
      ++row.next;
      calendar.add(row.step.row, slot + slotsOf(row.step, 0));
    }
    handler.meet(group, steps, slot);
  }
  gathered.clear();
}

template <typename Item, typename Handler, bool hasPaths>
LLVM_ATTRIBUTE_ALWAYS_INLINE void
WavefrontOf<Item, Handler, hasPaths>::startOne(Row &row, uint64_t slot,
                                               const Item *need) {
  const Rule &rule = rules[row.step.kinds[0]];
  handler.start(row.step, slot, rule.cost, need);
  ++row.next;
  calendar.add(row.step.row, slot + slotsOf(row.step, 0));
}

template <typename Item, typename Handler, bool hasPaths>
LLVM_ATTRIBUTE_ALWAYS_INLINE void
WavefrontOf<Item, Handler, hasPaths>::startPair(Row &row, uint64_t slot,
                                                Item *const (&needs)[2]) {
  handler.startPair(row.step, slot, needs[0], needs[1]);
  row.next += 2;
  calendar.add(row.step.row,
               slot + slotsOf(row.step, 0) + slotsOf(row.step, 1));
}

/// Starts a pair that slept for `item` of a rank. If the other half needs an
/// item that has not arrived, leaves `item` in the inbox.
template <typename Item, typename Handler, bool hasPaths>
LLVM_ATTRIBUTE_NOINLINE void WavefrontOf<Item, Handler, hasPaths>::wakePair(
    Row &row, uint64_t slot, Inbox &inbox, int32_t rank, Item &item) {
  Item *needs[2] = {&item, &item}, *&other = needs[!row.awaitedHalf];
  if (!findNeed(row, !row.awaitedHalf, other)) {
    *inbox.items.insert(rank, allocator) = item;
    return;
  }
  startPair(row, slot, needs);
  if (other)
    InFlight<Item>::remove(other);
}

template <typename Item, typename Handler, bool hasPaths>
LLVM_ATTRIBUTE_ALWAYS_INLINE void
WavefrontOf<Item, Handler, hasPaths>::finish(Row &row, uint64_t slot) {
  handler.finish(row.step, slot);
  pass(row.step, 0, slot);
  if (row.step.isPair)
    pass(row.step, 1, slot);
  startNext(row, slot);
}

/// Passes on the output of a cell. A row that sleeps for it takes it at once.
template <typename Item, typename Handler, bool hasPaths>
LLVM_ATTRIBUTE_ALWAYS_INLINE void
WavefrontOf<Item, Handler, hasPaths>::pass(const WaveStep &step, unsigned half,
                                           uint64_t slot) {
  const Rule &rule = rules[step.kinds[half]];
  if (rule.passTo == kNowhere)
    return;
  int32_t rank = step.ranks[half];
  Inbox &inbox = inboxes[rule.passTo];
  Row &taker = rows[inbox.taker];
  if (inbox.awaitedRank == rank) {
    inbox.awaitedRank = -1;
    taker.isAsleep = false;
    Item item;
    handler.pass(step, half, rule.cost, inbox.taker, item);
    return taker.step.isPair ? wakePair(taker, slot, inbox, rank, item)
                             : startOne(taker, slot, &item);
  }
  Item *item = inbox.items.insert(rank, allocator);
  if (!item) {
    isBroken = true;
    return;
  }
  handler.pass(step, half, rule.cost, inbox.taker, *item);
}

//===----------------------------------------------------------------------===//
// Periods
//===----------------------------------------------------------------------===//

template <typename Item, typename Handler, bool hasPaths>
void WavefrontOf<Item, Handler, hasPaths>::watchPeriod(const TableView &table) {
  period = findPeriod(table);
  if (!period)
    return;
  periodEnd = rows[0].begin + period->rows[0].begin + period->rows[0].length;
  for (const RowPeriod &row : period->rows)
    numPeriodCells += row.length;
}

/// Whether every row is within its repeating part.
template <typename Item, typename Handler, bool hasPaths>
bool WavefrontOf<Item, Handler, hasPaths>::isInPeriods() const {
  return llvm::all_of(
      llvm::zip_equal(rows, period->rows), [](const auto &both) {
        const auto &[row, repeats] = both;
        int64_t next = row.next - row.begin;
        return next >= repeats.begin + repeats.length && next < repeats.end;
      });
}

/// Compares states after the slot in which row 0 ended a period. The times of
/// rows are compared first, because a whole state is larger than a period.
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

/// Finds the oldest clocks, and by how much the times of the other rows exceed
/// the time of row 0.
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

/// Leaps over as many periods as possible such that every row stays before its
/// end.
template <typename Item, typename Handler, bool hasPaths>
void WavefrontOf<Item, Handler, hasPaths>::leap(uint64_t slot,
                                                const TablePeriod &repeated) {
  int64_t numPeriods = std::numeric_limits<int64_t>::max();
  for (auto [row, repeats] : llvm::zip_equal(rows, repeated.rows))
    numPeriods =
        std::min(numPeriods,
                 (repeats.end - 1 - (row.next - row.begin)) / repeats.length);
  if (numPeriods == 0)
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
  StateLeaper<Time> leaper(repeated, rowBegins, numPeriods, oldest, before,
                           after);
  visitState(slot, leaper);
  calendar.leap(numPeriods * (after.reference.slot - before.reference.slot));
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

#endif // PIPESCHED_SCHEDULE_WALK_WAVEFRONT_H
