//===- Slots.cpp - Slot alignment of tables -------------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Earliest slots come from a sweep over all rows, written slots from sums over
// each row. Both functions are compiled for unit slots and for lengths.
//
//===----------------------------------------------------------------------===//

#include "PipeSched/Schedule/Table/Slots.h"
#include "PipeSched/Schedule/Table/RowSweep.h"
#include "PipeSched/Schedule/Table/SlotLengths.h"
#include "PipeSched/Support/FormatError.h"
#include <algorithm>

using namespace pipesched;
using llvm::ArrayRef;
using llvm::Error;
using llvm::Expected;

/// Joins and idle entries take the slot of the following entry; at the end of a
/// row, the slot after it.
static void placeBeforeNext(ArrayRef<Cell> row, int64_t rowEnd,
                            int64_t *starts) {
  int64_t next = rowEnd;
  for (int64_t i = row.size(); i-- > 0;) {
    if (row[i].isIdle() || row[i].isJoin())
      starts[i] = next;
    next = starts[i];
  }
}

namespace {
/// Gives every entry and every pair one slot.
struct EntrySlots {
  int64_t slotsOf(Cell) const { return 1; }
  int64_t ofPair(Cell, Cell) const { return 1; }
};

/// Slots at which groups start. A slot is computed when the first cell of the
/// group is visited, because all rows of the group have then reached their
/// cells.
class Meetings {
public:
  Meetings(const TableView &table, const CellIndex &index,
           ArrayRef<int64_t> clock)
      : table(table), index(index), groups(index.getGroups()), clock(clock) {
    if (groups)
      slots.assign(groups->size(), -1);
  }

  /// The latest slot at which a group of the cell starts.
  int64_t slotOf(CellRef at) {
    int64_t latest = 0;
    for (int64_t group : groups->groupsOf(table.rows[at.row][at.index])) {
      int64_t &slot = slots[group];
      if (slot < 0)
        for (CellRef member : groups->membersOf(group))
          slot = std::max(slot, clock[member.row]);
      latest = std::max(latest, slot);
    }
    return latest;
  }

  /// The slot at which the last row reached a detached group, which rows do not
  /// stop for. All rows must have reached it. `starts` has the slots of the
  /// cells.
  int64_t arrivalOf(int64_t group, ArrayRef<int64_t> starts) {
    int64_t &slot = slots[group];
    if (slot < 0)
      for (CellRef member : groups->membersOf(group))
        slot =
            std::max(slot, starts[index.rowBegin(member.row) + member.index]);
    return slot;
  }

private:
  const TableView &table;
  const CellIndex &index;
  const Groups *groups;
  ArrayRef<int64_t> clock;    ///< by row
  std::vector<int64_t> slots; ///< by group; -1: not computed
};
} // namespace

/// An entry starts when its row is free and its dependences have ended; a cell
/// of a group starts when the rows of the group are free:
///
///   row 0   | F | F |   | B |        clock[row]: where the row is free
///   row 1       | F | B |
///
/// Returns the cycle if there is one, and sets `start` by flat index.
template <bool isWide, typename Slots>
static std::vector<CellWait>
sweepInto(const Slots &lengths, const TableView &table, const CellIndex &index,
          std::vector<int64_t> &start, std::vector<int64_t> &clock) {
  constexpr bool kIsPicture = std::is_same_v<Slots, EntrySlots>;
  Meetings meetings(table, index, clock);
  RowSweepOf<isWide> sweep(table, index);
  auto endOf = [&](Dependences::Producer producer, int64_t row) {
    ArrayRef<Cell> cells = table.rows[producer.worker];
    int64_t at = producer.flat - index.rowBegin(producer.worker);
    int64_t end = start[producer.flat] + slotsOf(lengths, cells, at);
    if constexpr (std::is_same_v<Slots, TimedSlots>)
      if (producer.worker != row)
        end += lengths.ofMessage(cells[at], row, sweep.getDependences());
    return end;
  };
  auto visit = [&](const auto &step) {
    ArrayRef<Cell> row = table.rows[step.row];
    uint32_t flat = index.rowBegin(step.row) + step.index;
    Cell cell = row[step.index];
    int64_t slot = clock[step.row];
    if (isWide && cell.isIn(kMeetingPhases))
      slot = std::max(slot, meetings.slotOf({step.row, step.index}));
    for (unsigned i = 0; isWide && index.getGroups() && i < step.count; ++i)
      forEachAwaitedGroup(index, row[step.index + i], [&](int64_t group) {
        slot = std::max(slot, meetings.arrivalOf(group, start));
      });
    for (unsigned i = 0; i < step.count; ++i)
      if (Dependences::Producer producer = step.producers[i])
        slot = std::max(slot, endOf(producer, step.row));
    if constexpr (isWide)
      for (const WideRowStep::Part &part : step.more)
        slot = std::max(slot, endOf(part.producer, step.row));
    for (unsigned i = 0; i < step.count; ++i)
      start[flat + i] = slot;
    if (kIsPicture || cell.isCompute())
      clock[step.row] = slot + slotsOf(lengths, row, step.index);
  };
  return kIsPicture ? sweep.runPastCycles(visit) : sweep.run(visit);
}

template <typename Slots>
static std::vector<CellWait>
sweepBy(const Slots &lengths, const TableView &table, const CellIndex &index,
        std::vector<int64_t> &start, std::vector<int64_t> &clock) {
  start.assign(index.rowBegin(table.rows.size()), -1);
  clock.assign(table.rows.size(), 0);
  if (needsWideSweep(table, index))
    return sweepInto</*isWide=*/true>(lengths, table, index, start, clock);
  return sweepInto</*isWide=*/false>(lengths, table, index, start, clock);
}

template <typename Slots>
static Expected<SlotAssignment>
alignBy(const Slots &lengths, const TableView &table, const CellIndex &index) {
  SlotAssignment slots;
  std::vector<int64_t> clock;
  std::vector<CellWait> cycle =
      sweepBy(lengths, table, index, slots.start, clock);
  if (!cycle.empty())
    return llvm::createStringError(toString(describeCycle(table, cycle)));
  for (auto [row, cells] : llvm::enumerate(table.rows)) {
    placeBeforeNext(cells, clock[row],
                    slots.start.data() + index.rowBegin(row));
    slots.numSlots = std::max(slots.numSlots, clock[row]);
  }
  return slots;
}

SlotAssignment pipesched::alignUntilDeadlock(const TableView &table,
                                             const CellIndex &index) {
  SlotAssignment slots;
  std::vector<int64_t> clock;
  sweepBy(EntrySlots(), table, index, slots.start, clock);
  slots.numSlots = *llvm::max_element(clock);
  return slots;
}

Expected<SlotAssignment> pipesched::alignSlots(const TableView &table,
                                               const CellIndex &index) {
  return withSlotsOf(table, [&](const auto &lengths) {
    return alignBy(lengths, table, index);
  });
}

Expected<SlotAssignment> pipesched::alignUnitSlots(const TableView &table,
                                                   const CellIndex &index) {
  return alignBy(UnitSlots(), table, index);
}

TimedSlots::~TimedSlots() = default;

Expected<SlotAssignment> pipesched::alignTimes(const TableView &table,
                                               const CellIndex &index,
                                               const TimedSlots &times) {
  return alignBy(times, table, index);
}

template <typename Slots>
static SlotAssignment readBy(const Slots &lengths, const TableView &table,
                             const CellIndex &index) {
  SlotAssignment slots;
  slots.start.reserve(index.rowBegin(table.rows.size()));
  for (ArrayRef<Cell> row : table.rows) {
    int64_t clock = 0;
    for (int64_t i = 0, e = row.size(); i != e; ++i) {
      slots.start.push_back(clock);
      if (row[i].overlapsNext())
        // the second half starts at the same slot, and adds the slots of both
        // halves
        continue;
      clock += slotsOf(lengths, row, i);
      if (row[i].isCompute())
        slots.numSlots = std::max(slots.numSlots, clock);
    }
  }
  return slots;
}

SlotAssignment pipesched::readSlots(const TableView &table,
                                    const CellIndex &index) {
  return withSlotsOf(table, [&](const auto &lengths) {
    return readBy(lengths, table, index);
  });
}

Expected<SlotAssignment> pipesched::assignSlots(const TableView &table,
                                                const CellIndex &index) {
  if (table.aligned)
    return readSlots(table, index);
  return alignSlots(table, index);
}

int64_t pipesched::slotsOf(const TableView &table, CellRef at) {
  return withSlotsOf(table, [&](const auto &lengths) {
    return slotsOf(lengths, table.rows[at.row], at.index);
  });
}

/// Walks along a row slot by slot: calls `onIdle(slots)` for empty slots and
/// `onCell(cell)` for cells. `start` has the slots of the cells.
template <typename Slots, typename OnIdle, typename OnCell>
static void spread(const Slots &lengths, ArrayRef<Cell> cells,
                   const int64_t *start, int64_t numSlots, OnIdle onIdle,
                   OnCell onCell) {
  int64_t clock = 0;
  for (int64_t i = 0, e = cells.size(); i != e; ++i) {
    if (cells[i].isIdle())
      continue;
    onIdle(start[i] - clock);
    onCell(cells[i]);
    clock = start[i];
    if (!cells[i].overlapsNext())
      clock += slotsOf(lengths, cells, i);
  }
  onIdle(numSlots - clock);
}

/// The number of entries of an aligned row. A gap may need several idle
/// entries.
template <typename Slots>
static int64_t countEntries(const Slots &lengths, ArrayRef<Cell> cells,
                            const int64_t *start, int64_t numSlots) {
  int64_t entries = 0;
  spread(
      lengths, cells, start, numSlots,
      [&](int64_t slots) {
        entries += llvm::divideCeilSigned(slots, Cell::kMaxMicrobatches);
      },
      [&](Cell) { ++entries; });
  return entries;
}

/// Appends idle slots, as several entries if they are too many for one.
static void appendIdle(Row &row, int64_t slots) {
  while (slots > 0) {
    int64_t count = std::min(slots, Cell::kMaxMicrobatches);
    row.push_back(Cell::idle(count));
    slots -= count;
  }
}

template <typename Slots>
static std::vector<Row> spreadRows(const Slots &lengths, const TableView &table,
                                   const SlotAssignment &slots) {
  std::vector<Row> rows;
  rows.reserve(table.rows.size());
  const int64_t *start = slots.start.data();
  for (ArrayRef<Cell> cells : table.rows) {
    Row &row = rows.emplace_back();
    row.reserve(countEntries(lengths, cells, start, slots.numSlots));
    spread(
        lengths, cells, start, slots.numSlots,
        [&](int64_t slots) { appendIdle(row, slots); },
        [&](Cell cell) { row.push_back(cell); });
    start += cells.size();
  }
  return rows;
}

std::vector<Row> pipesched::withIdleSlots(const TableView &table,
                                          const SlotAssignment &slots) {
  return withSlotsOf(table, [&](const auto &lengths) {
    return spreadRows(lengths, table, slots);
  });
}

template <typename Slots>
static Error checkEntries(const Slots &lengths, const TableView &table,
                          const SlotAssignment &slots) {
  int64_t entries = 0;
  const int64_t *start = slots.start.data();
  for (ArrayRef<Cell> cells : table.rows) {
    entries += countEntries(lengths, cells, start, slots.numSlots);
    start += cells.size();
  }
  if (entries > kMaxTableCells)
    return formatError("aligned, the rows of {0} slots would have {1} entries, "
                       "of at most {2} idle slots each: a table may have {3}",
                       slots.numSlots, entries, Cell::kMaxMicrobatches,
                       kMaxTableCells);
  return Error::success();
}

Expected<std::vector<Row>> pipesched::alignRows(const TableView &table) {
  Expected<CellIndex> index = CellIndex::create(table);
  if (!index)
    return index.takeError();
  Expected<SlotAssignment> slots = alignSlots(table, *index);
  if (!slots)
    return slots.takeError();
  auto check = [&](const auto &lengths) {
    return checkEntries(lengths, table, *slots);
  };
  if (Error error = withSlotsOf(table, check))
    return std::move(error);
  return withIdleSlots(table, *slots);
}

std::vector<Row> pipesched::compactRows(const TableView &table) {
  std::vector<Row> rows;
  rows.reserve(table.rows.size());
  for (ArrayRef<Cell> cells : table.rows) {
    Row &row = rows.emplace_back();
    row.reserve(cells.size());
    std::copy_if(cells.begin(), cells.end(), std::back_inserter(row),
                 [](Cell cell) { return !cell.isIdle(); });
  }
  return rows;
}
