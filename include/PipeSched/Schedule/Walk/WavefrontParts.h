//===- WavefrontParts.h - State of a walk in slots --------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The steps of rows, a calendar of rows by the slot in which their cells end,
// and the data in flight between stages.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_SCHEDULE_WALK_WAVEFRONTPARTS_H
#define PIPESCHED_SCHEDULE_WALK_WAVEFRONTPARTS_H

#include "PipeSched/Schedule/Kinds/PhaseSets.h"
#include "PipeSched/Schedule/Table/Period.h"
#include "PipeSched/Schedule/Walk/Lanes.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/bit.h"
#include "llvm/Support/Allocator.h"
#include "llvm/Support/MathExtras.h"
#include <array>
#include <cstdint>
#include <vector>

namespace pipesched {

/// A phase of a global stage, as one number. The numbers of a stage start with
/// its firstKindOf.
inline uint32_t firstKindOf(uint32_t stage) { return stage * kNumPhases; }
inline uint32_t kindOf(uint32_t stage, Phase phase) {
  return firstKindOf(stage) + static_cast<uint32_t>(phase);
}

/// A cell of a row, or two overlapped cells, which start together.
struct WaveStep {
  const Cell *cells = nullptr; ///< the position in the row
  int32_t row = 0;
  bool isPair = false;
  uint32_t kinds[2]; ///< their kindOf
  int32_t ranks[2];  ///< of their microbatches on the paths; 0 for O

  uint32_t stage(unsigned half) const { return kinds[half] / kNumPhases; }
};

/// The cells that a walk has leapt over in a row: `count` times `length` cells,
/// starting with the cell `next`, which would have started next. All earlier
/// cells have started, and the cells before `passed` have also passed on their
/// outputs.
struct LeapedRow {
  uint32_t next, passed, length; ///< flat
  int64_t count;
};

/// Workers by the unit slot in which their cells end, one bit for each. Workers
/// of one slot are taken in ascending order.
///
///   slot mod 8   0  1  2  3  4  5  6  7
///                      ^ now       ^ as late as a cell can end
///
/// No cell or pair takes more than four slots (a pair of whole backwards), so
/// eight sets are enough.
class SlotCalendar {
public:
  explicit SlotCalendar(size_t numWorkers)
      : bits(llvm::divideCeil(numWorkers, 64)) {}

  void add(uint32_t worker, uint64_t slot) {
    bits[worker / 64][slot % kNumSets] |= uint64_t(1) << (worker % 64);
  }
  /// Removes the workers of each slot, from slot 0 until no worker is left, and
  /// calls `visit(worker, slot)`, which may add workers to the next seven
  /// slots. Calls `leave(slot)` at the end of each slot that has workers.
  template <typename Visit, typename Leave>
  void takeAll(Visit &&visit, Leave &&leave) {
    for (unsigned numEmpty = 0; numEmpty != kNumSets; ++now) {
      ++numEmpty;
      for (size_t word = 0; word != bits.size(); ++word) {
        uint64_t left = std::exchange(bits[word][now % kNumSets], 0);
        if (left == 0)
          continue;
        numEmpty = 0;
        for (; left != 0; left &= left - 1)
          visit(uint32_t(word * 64 + llvm::countr_zero(left)), now);
      }
      if (numEmpty == 0)
        leave(now);
    }
  }
  /// Moves the current slot, and all sets after it, by a number of slots.
  void leap(uint64_t numSlots) {
    for (Sets &sets : bits)
      std::rotate(sets.begin(), sets.end() - numSlots % kNumSets, sets.end());
    now += numSlots;
  }
  /// Calls the function for the sets of all later slots.
  template <typename Visit>
  void forEachBehind(uint64_t slot, Visit &&visit) const {
    for (uint64_t behind = 1; behind != kNumSets; ++behind)
      for (const Sets &sets : bits)
        visit(sets[(slot + behind) % kNumSets]);
  }

private:
  static constexpr uint64_t kNumSets = 8;
  static_assert(2 * kMaxUnitSlots < kNumSets, "a pair ends within the sets");
  using Sets = std::array<uint64_t, kNumSets>; ///< by slot modulo kNumSets

  std::vector<Sets> bits; ///< one for each 64 workers
  uint64_t now = 0;
};

/// The items of one inbox that are not taken yet, by the rank of their
/// microbatch on the path. The item of rank r is at index r modulo the
/// capacity. The capacity doubles when two ranks would share an index, so it
/// stays below twice the distance of the outermost ranks.
template <typename Item>
class InFlight {
public:
  Item *find(int64_t rank) {
    Entry &entry = entries[rank & mask];
    return entry.rank == rank ? &entry.item : nullptr;
  }
  /// Returns null if the rank is already present. Invalidates other pointers.
  Item *insert(int64_t rank, llvm::BumpPtrAllocator &allocator) {
    while (LLVM_UNLIKELY(entries[rank & mask].rank >= 0)) {
      if (entries[rank & mask].rank == rank)
        return nullptr;
      grow(allocator);
    }
    entries[rank & mask].rank = rank;
    return &entries[rank & mask].item;
  }
  /// `item` must come from find().
  static void remove(Item *item) { reinterpret_cast<Entry *>(item)->rank = -1; }
  /// Removes all items and returns them in the order of ranks.
  void takeAll(std::vector<std::pair<int32_t, Item>> &items) {
    items.clear();
    for (Entry &entry : llvm::MutableArrayRef(entries, mask + size_t(1)))
      if (entry.rank >= 0)
        items.emplace_back(std::exchange(entry.rank, -1), entry.item);
    llvm::sort(items, llvm::less_first());
  }
  void allocate(uint32_t capacity, llvm::BumpPtrAllocator &allocator) {
    entries = allocator.Allocate<Entry>(capacity);
    std::uninitialized_fill_n(entries, capacity, Entry());
    mask = capacity - 1;
  }

private:
  struct Entry {
    Item item;         ///< first member, so that remove() finds the entry
    int32_t rank = -1; ///< -1: free
  };
  static_assert(std::is_standard_layout_v<Entry>);
  static_assert(std::is_trivially_destructible_v<Entry>);

  /// Ranks at different indices keep different indices.
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

/// Calls `visitItem(Item &)` for the items in flight in one inbox, in the order
/// of ranks (Period.h).
template <typename Item, typename Visitor, typename VisitItem>
void visitItems(InFlight<Item> &place, int64_t path,
                llvm::BumpPtrAllocator &allocator, Visitor &visitor,
                VisitItem &&visitItem) {
  std::vector<std::pair<int32_t, Item>> items;
  place.takeAll(items);
  visitor.same(items.size());
  for (auto &[rank, item] : items) {
    visitor.rank(rank, path);
    visitItem(item);
    *place.insert(rank, allocator) = item;
  }
}

//===----------------------------------------------------------------------===//
// States that repeat
//===----------------------------------------------------------------------===//

/// Quantities that grow by a constant from period to period, each by its own
/// constant.
enum class Clock : uint8_t {
  Time,    ///< ps
  FreeTime ///< ps, as if communication took no time
};

/// The clocks of a walk: its slot, and the times of one scenario or of several.
template <typename Time>
struct ClockValues {
  int64_t slot = 0;
  Time time{}, freeTime{};

  const Time &operator[](Clock clock) const {
    return clock == Clock::Time ? time : freeTime;
  }
};

/// The state of a walk as numbers that are equal after a period if the walk
/// repeats itself: times relative to the reference, and microbatches, ranks and
/// indices relative to the period. `totals` are sums so far; they do not affect
/// the next steps. Each time of several scenarios is several numbers.
template <typename Time>
struct WalkState {
  ClockValues<Time> reference;
  std::vector<int64_t> numbers, totals;
};

/// A visitor that records the state of a walk.
template <typename Time>
class StateReader {
public:
  /// `numPeriods` is the number of completed periods. Times before `oldest` no
  /// longer have an effect, so they all count as equal.
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

/// A visitor that moves the state of a walk forward by some periods of the
/// rows. `before` and `after` are the states at the start and at the end of one
/// period.
template <typename Time>
class StateLeaper {
public:
  StateLeaper(const TablePeriod &period, llvm::ArrayRef<uint32_t> rowBegins,
              int64_t numPeriods, const ClockValues<Time> &oldest,
              const WalkState<Time> &before, const WalkState<Time> &after)
      : period(period), rowBegins(rowBegins), numPeriods(numPeriods),
        oldest(oldest), before(before), after(after) {}

  void same(int64_t) {}
  void slot(int64_t &value) {
    value += numPeriods * (after.reference.slot - before.reference.slot);
  }
  template <typename Number>
  void total(Number &value) {
    for (unsigned lane = 0; lane != kNumScenarios<Number>; ++lane, ++next)
      setLane(value, lane,
              laneOf(value, lane) +
                  numPeriods * (after.totals[next] - before.totals[next]));
  }
  void clock(Time &value, Clock clock) {
    for (unsigned lane = 0; lane != kNumScenarios<Time>; ++lane) {
      int64_t ps = laneOf(value, lane);
      if (ps >= laneOf(oldest[clock], lane))
        setLane(value, lane,
                ps + numPeriods * (laneOf(after.reference[clock], lane) -
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
  int64_t numPeriods;
  const ClockValues<Time> &oldest;
  const WalkState<Time> &before, &after;
  size_t next = 0; ///< of the totals
};

} // namespace pipesched

#endif // PIPESCHED_SCHEDULE_WALK_WAVEFRONTPARTS_H
