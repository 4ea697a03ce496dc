//===- RowSweep.h - Cells in an order they can run in -----------*- C++ -*-===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Runs the rows of a table against each other: each row goes on until a cell
// waits for another row, which then goes first. Visits all cells, or returns
// the cycle.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_SCHEDULE_ROWSWEEP_H
#define PIPESCHED_SCHEDULE_ROWSWEEP_H

#include "PipeSched/Schedule/Dependences.h"
#include <optional>
#include <vector>

namespace pipesched {

/// An entry of a row, or two overlapped ones, with what they need from other
/// stages.
struct RowStep {
  int64_t row = 0, index = 0;
  unsigned count = 1;
  Dependences::Producer producers[2];
};

/// `waiting` needs the output of `awaited`, which is in another row or further
/// back in its own.
struct CellWait {
  CellRef waiting, awaited;
};

/// Visits every entry of a table whose rows are verified, producers first, each
/// row from left to right. Returns nothing, or a cycle of waits w0 .. wk-1: the
/// awaited cell of w(i) is the waiting cell of w(i+1), or behind it in its row.
///
///   row 0   . . . F        each row stops at the first cell that waits;
///                  \       the row it waits for is swept up to that cell
///   row 1   . . F . F      first. A row that is waiting already: a cycle
///              /
///   row 2   . F
///
/// O(entries): a row that was gone for comes back at least one step further on.
class RowSweep {
public:
  RowSweep(const TableView &table, const CellIndex &index)
      : table(table), index(index), dependences(table, index),
        next(table.rows.size(), 0), isWaiting(table.rows.size(), false) {}

  /// `visit(const RowStep &)` for each step.
  template <typename Visit>
  std::vector<CellWait> run(Visit &&visit) {
    for (int64_t row = 0, end = table.rows.size(); row != end; ++row) {
      open(row, table.rows[row].size());
      while (!goals.empty()) {
        Goal goal = goals.back();
        if (next[goal.row] >= goal.end) {
          close(goal.row);
          continue;
        }
        RowStep step = stepAt(goal.row);
        if (std::optional<CellWait> wait = findWait(step)) {
          waits.push_back(*wait);
          if (isWaiting[wait->awaited.row])
            return takeCycle(wait->awaited.row);
          open(wait->awaited.row, wait->awaited.index + 1);
          continue;
        }
        visit(step);
        next[goal.row] += step.count;
      }
    }
    return {};
  }

private:
  /// A row to be swept up to an index. The wait of goal i made goal i + 1.
  struct Goal {
    int64_t row, end;
  };

  void open(int64_t row, int64_t end) {
    isWaiting[row] = true;
    goals.push_back({row, end});
  }
  void close(int64_t row) {
    isWaiting[row] = false;
    goals.pop_back();
    if (!waits.empty())
      waits.pop_back();
  }

  RowStep stepAt(int64_t row) const {
    RowStep step;
    step.row = row;
    step.index = next[row];
    llvm::ArrayRef<Cell> cells = table.rows[row];
    Cell cell = cells[step.index];
    step.producers[0] = dependences.producerOf(cell);
    if (cell.overlapsNext() && step.index + 1 < int64_t(cells.size())) {
      step.count = 2;
      step.producers[1] = dependences.producerOf(cells[step.index + 1]);
    }
    return step;
  }

  std::optional<CellWait> findWait(const RowStep &step) const {
    for (unsigned i = 0; i < step.count; ++i) {
      Dependences::Producer producer = step.producers[i];
      if (!producer)
        continue;
      int64_t awaited = producer.flat - index.rowBegin(producer.worker);
      if (awaited >= next[producer.worker])
        return CellWait{{step.row, step.index + i}, {producer.worker, awaited}};
    }
    return std::nullopt;
  }

  /// Waits from that of `row` on.
  std::vector<CellWait> takeCycle(int64_t row) {
    size_t first = 0;
    while (waits[first].waiting.row != row)
      ++first;
    return {waits.begin() + first, waits.end()};
  }

  const TableView &table;
  const CellIndex &index;
  Dependences dependences;
  std::vector<int64_t> next; ///< by row: entries visited
  std::vector<uint8_t> isWaiting;
  std::vector<Goal> goals;
  std::vector<CellWait> waits;
};

} // namespace pipesched

#endif // PIPESCHED_SCHEDULE_ROWSWEEP_H
