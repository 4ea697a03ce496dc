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
#include "PipeSched/Schedule/PhaseCounts.h"
#include "llvm/ADT/bit.h"
#include "llvm/Support/Allocator.h"

namespace pipesched {

/// Workers by the unit slot in which their cells end, one bit for each. Those
/// of one slot are taken in ascending order.
///
///   slot mod 8   0  1  2  3  4  5  6  7
///                      ^ now       ^ as late as a cell can end
///
/// No cell takes more than four slots (a pair of whole backwards), so eight
/// sets are enough.
class SlotCalendar {
public:
  explicit SlotCalendar(size_t numWorkers)
      : numWords(llvm::divideCeil(numWorkers, 64)),
        bits(kNumSets * numWords, 0) {}

  void add(uint32_t worker, uint64_t slot) {
    bits[slot % kNumSets * numWords + worker / 64] |= uint64_t(1)
                                                      << (worker % 64);
    latest = std::max(latest, slot);
  }
  /// Takes the workers of each slot, from 0 on until none are left, with
  /// `visit(worker, slot)`, which may add to the seven slots behind this one.
  template <typename Visit>
  void takeAll(Visit &&visit) {
    for (uint64_t slot = 0; slot <= latest; ++slot)
      for (size_t word = 0; word != numWords; ++word) {
        uint64_t &set = bits[slot % kNumSets * numWords + word];
        for (uint64_t left = std::exchange(set, 0); left != 0; left &= left - 1)
          visit(uint32_t(word * 64 + llvm::countr_zero(left)), slot);
      }
  }

private:
  static constexpr uint64_t kNumSets = 8;

  size_t numWords;
  std::vector<uint64_t> bits;
  uint64_t latest = 0;
};

/// What microbatches have left at one place and nobody has taken yet, by their
/// rank on the path. Rank r lies at r modulo the capacity, which doubles when
/// two would meet: it stays below twice the distance of the outermost ranks.
template <typename Item>
class InFlight {
public:
  Item *find(int64_t rank) {
    Entry &entry = entries[rank & mask];
    return entry.rank == rank ? &entry.item : nullptr;
  }
  /// Null if the rank is there already. Invalidates other pointers.
  Item *insert(int64_t rank, llvm::BumpPtrAllocator &allocator) {
    while (LLVM_UNLIKELY(entries[rank & mask].rank >= 0)) {
      if (entries[rank & mask].rank == rank)
        return nullptr;
      grow(allocator);
    }
    entries[rank & mask].rank = rank;
    return &entries[rank & mask].item;
  }
  /// `item` is one that find() has returned.
  static void remove(Item *item) { reinterpret_cast<Entry *>(item)->rank = -1; }
  void allocate(uint32_t capacity, llvm::BumpPtrAllocator &allocator) {
    entries = allocator.Allocate<Entry>(capacity);
    std::uninitialized_fill_n(entries, capacity, Entry());
    mask = capacity - 1;
  }

private:
  struct Entry {
    Item item;         ///< first, so that remove() finds the rest
    int32_t rank = -1; ///< -1: free
  };
  static_assert(std::is_standard_layout_v<Entry>);
  static_assert(std::is_trivially_destructible_v<Entry>);

  /// Ranks that were apart stay apart.
  void grow(llvm::BumpPtrAllocator &allocator) {
    llvm::ArrayRef<Entry> old(entries, mask + size_t(1));
    allocate(2 * (mask + 1), allocator);
    for (const Entry &entry : old)
      if (entry.rank >= 0)
        entries[entry.rank & mask] = entry;
  }

  Entry *entries = nullptr;
  uint32_t mask = 0;
};

/// A cell of a row, or two overlapped ones, that start together.
struct WaveStep {
  int32_t row = 0;
  uint32_t flat = 0; ///< of the first cell, as in CellIndex
  bool isPair = false;
  Cell cells[2];
  uint32_t stages[2]; ///< their global stages
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
/// Things are passed in the order of their last slots and, within a slot, of
/// their rows: in this order receive queues take messages (Lowering.h).
///
/// `hasPaths`: whether ranks on a path differ from microbatches.
template <typename Item, typename Handler, bool hasPaths>
class WavefrontOf {
public:
  WavefrontOf(const TableView &table, Handler &handler)
      : placement(*table.placement), handler(handler),
        calendar(table.rows.size()) {
    addStages(table.gradientAfter);
    addRows(table);
  }

  /// Whether every row was walked to its end. If not, cells wait for each other
  /// or for one that is missing, or a cell occurs twice.
  bool run() {
    for (Row &row : rows)
      startNext(row, 0);
    calendar.takeAll(
        [&](uint32_t row, uint64_t slot) { finish(rows[row], slot); });
    return !isRepeated &&
           llvm::all_of(rows, [](const Row &row) { return row.isDone(); });
  }

private:
  static constexpr uint32_t kNowhere = std::numeric_limits<uint32_t>::max();

  struct Row {
    const Cell *next, *end;
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
  bool isRepeated = false; ///< a cell occurs twice
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
    row.next = cells.begin();
    row.end = cells.end();
    row.step.row = number;
    row.step.flat = flat;
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
  calendar.add(row.step.row, slot + unitSlots(row.step.cells[0]));
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
  calendar.add(row.step.row, slot + unitSlots(row.step.cells[0]) +
                                 unitSlots(row.step.cells[1]));
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

} // namespace pipesched

#endif // PIPESCHED_SCHEDULE_WAVEFRONT_H
