//===- Slots.cpp - Slot alignment of tables -------------------------------===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Earliest slots come from sweeping the rows against each other; slots as
// written from adding the row up.
//
//===----------------------------------------------------------------------===//

#include "PipeSched/Schedule/Slots.h"
#include "PipeSched/Schedule/RowSweep.h"
#include "PipeSched/Schedule/Verify.h"
#include <algorithm>

using namespace pipesched;
using llvm::ArrayRef;
using llvm::Expected;

/// Joins and idle entries take the slot of the entry they stand before; at the
/// end of a row, the slot after it.
static void placeBeforeNext(ArrayRef<Cell> row, int64_t rowEnd,
                            int64_t *starts) {
  int64_t next = rowEnd;
  for (int64_t i = row.size(); i-- > 0;) {
    if (row[i].isIdle() || row[i].isJoin())
      starts[i] = next;
    next = starts[i];
  }
}

/// A step starts when its row is free and what it waits for has ended:
///
///   row 0   | F | F |   | B |        clock[row]: where the row is free
///   row 1       | F | B |
Expected<SlotAssignment> pipesched::alignSlots(const TableView &table,
                                               const CellIndex &index) {
  SlotAssignment slots;
  slots.start.resize(index.rowBegin(table.rows.size()));
  std::vector<int64_t> clock(table.rows.size(), 0);
  auto visit = [&](const RowStep &step) {
    ArrayRef<Cell> row = table.rows[step.row];
    uint32_t flat = index.rowBegin(step.row) + step.index;
    Cell cell = row[step.index];
    int64_t start = clock[step.row];
    for (unsigned i = 0; i < step.count; ++i)
      if (Dependences::Producer producer = step.producers[i])
        start = std::max(
            start, slots.end(producer.flat, table.rows[producer.worker],
                             producer.flat - index.rowBegin(producer.worker)));
    for (unsigned i = 0; i < step.count; ++i)
      slots.start[flat + i] = start;
    if (cell.isCompute())
      clock[step.row] = start + slotsOf(row, step.index);
  };
  if (std::vector<CellWait> cycle = RowSweep(table, index).run(visit);
      !cycle.empty())
    return llvm::createStringError(toString(describeCycle(table, cycle)));
  for (auto [row, cells] : llvm::enumerate(table.rows)) {
    placeBeforeNext(cells, clock[row],
                    slots.start.data() + index.rowBegin(row));
    slots.numSlots = std::max(slots.numSlots, clock[row]);
  }
  return slots;
}

SlotAssignment pipesched::readSlots(const TableView &table,
                                    const CellIndex &index) {
  SlotAssignment slots;
  slots.start.reserve(index.rowBegin(table.rows.size()));
  for (ArrayRef<Cell> row : table.rows) {
    int64_t clock = 0;
    for (int64_t i = 0, e = row.size(); i != e; ++i) {
      slots.start.push_back(clock);
      if (row[i].overlapsNext())
        continue; // the second half starts with it and adds the slots of both
      clock += slotsOf(row, i);
      if (row[i].isCompute())
        slots.numSlots = std::max(slots.numSlots, clock);
    }
  }
  return slots;
}

Expected<SlotAssignment> pipesched::assignSlots(const TableView &table,
                                                const CellIndex &index) {
  if (table.aligned)
    return readSlots(table, index);
  return alignSlots(table, index);
}

/// Appends idle slots, in several entries where one cannot count them.
static void appendIdle(Row &row, int64_t slots) {
  while (slots > 0) {
    int64_t count = std::min(slots, Cell::kMaxMicrobatches);
    row.push_back(Cell::idle(count));
    slots -= count;
  }
}

std::vector<Row> pipesched::withIdleSlots(const TableView &table,
                                          const SlotAssignment &slots) {
  std::vector<Row> rows;
  rows.reserve(table.rows.size());
  const int64_t *start = slots.start.data();
  for (ArrayRef<Cell> cells : table.rows) {
    Row &row = rows.emplace_back();
    row.reserve(cells.size());
    int64_t clock = 0;
    for (int64_t i = 0, e = cells.size(); i != e; ++i, ++start) {
      if (cells[i].isIdle())
        continue;
      appendIdle(row, *start - clock);
      row.push_back(cells[i]);
      clock = cells[i].overlapsNext() ? *start : *start + slotsOf(cells, i);
    }
    appendIdle(row, slots.numSlots - clock);
  }
  return rows;
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
