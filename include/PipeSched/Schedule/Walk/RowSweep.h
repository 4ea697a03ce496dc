//===- RowSweep.h - Cells in an order they can run in -----------*- C++ -*-===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Runs the rows of a table against each other: each row advances until a cell
// waits for another row, which then advances first. Visits all cells, or
// returns a cycle.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_SCHEDULE_WALK_ROWSWEEP_H
#define PIPESCHED_SCHEDULE_WALK_ROWSWEEP_H

#include "PipeSched/Schedule/Table/Collectives.h"
#include "PipeSched/Schedule/Table/Dependences.h"
#include <optional>
#include <vector>

namespace pipesched {

/// An entry of a row, or two overlapped ones, with the cells on other stages
/// whose outputs they need.
struct RowStep {
  int64_t row = 0, index = 0;
  unsigned count = 1;
  Dependences::Producer producers[2];
};

/// `waiting` needs the output of `awaited`, which is in another row or later in
/// its own. If both are G cells, the other row must reach `awaited`.
struct CellWait {
  CellRef waiting, awaited;
};

/// The sweep, compiled for tables with and without G cells, so that tables
/// without them need not look for any.
template <bool hasReductions>
class RowSweepOf {
public:
  RowSweepOf(const TableView &table, const CellIndex &index)
      : table(table), index(index), dependences(table, index),
        next(table.rows.size(), 0), isWaiting(table.rows.size(), false) {
    if (const Collectives *collectives = index.getCollectives())
      numArrived.assign(collectives->getReplicas().getNumPieces(), 0);
  }

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
        bool isMeeting = hasReductions && isReduction(step);
        if (std::optional<CellWait> wait =
                isMeeting ? findGroupWait({step.row, step.index})
                          : findWait(step)) {
          waits.push_back(*wait);
          if (isWaiting[wait->awaited.row])
            return takeCycle(wait->awaited.row);
          open(wait->awaited.row, wait->awaited.index + (isMeeting ? 0 : 1));
          continue;
        }
        visit(step);
        next[goal.row] += step.count;
      }
    }
    return {};
  }

private:
  /// A row to be swept up to an index. The wait of goal i created goal i + 1.
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

  bool isReduction(const RowStep &step) const {
    return table.rows[step.row][step.index].is(Phase::AllReduce);
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

  /// Finds the first member of a group of this G whose row has not reached it.
  std::optional<CellWait> findGroupWait(CellRef at) {
    const Collectives &collectives = *index.getCollectives();
    int64_t stage = table.placement->globalStage(table.rows[at.row][at.index]);
    for (int64_t piece : collectives.piecesOf(stage)) {
      // Members that have arrived stay: none is checked again.
      llvm::ArrayRef<CellRef> members = collectives.membersOf(piece);
      for (uint32_t &i = numArrived[piece]; i != members.size(); ++i)
        if (next[members[i].row] < members[i].index)
          return CellWait{at, members[i]};
    }
    return std::nullopt;
  }

  /// The waits from the one of `row` on.
  std::vector<CellWait> takeCycle(int64_t row) {
    size_t first = 0;
    while (waits[first].waiting.row != row)
      ++first;
    return {waits.begin() + first, waits.end()};
  }

  const TableView &table;
  const CellIndex &index;
  Dependences dependences;
  std::vector<int64_t> next; ///< by row: number of visited entries
  std::vector<uint8_t> isWaiting;
  std::vector<uint32_t> numArrived; ///< by piece: members whose row has come
  std::vector<Goal> goals;
  std::vector<CellWait> waits;
};

/// Visits every entry of a table whose rows are verified: producers first, each
/// row from left to right. Returns nothing, or a cycle of waits w0 .. wk-1: the
/// awaited cell of w(i) is the waiting cell of w(i+1), or behind it in its row.
///
///   row 0   . . . F        each row stops at the first cell that waits;
///                  \       the row it waits for is swept up to that cell
///   row 1   . . F . F      first. A row that is waiting already: a cycle
///              /
///   row 2   . F
///
/// A G is visited when the rows of its group have reached their G cells, which
/// are visited later. O(entries): when the sweep returns to a row that waited,
/// it advances by at least one entry.
class RowSweep {
public:
  RowSweep(const TableView &table, const CellIndex &index)
      : table(table), index(index) {}

  /// Calls `visit(const RowStep &)` for each entry.
  template <typename Visit>
  std::vector<CellWait> run(Visit &&visit) {
    if (index.getCollectives())
      return RowSweepOf</*hasReductions=*/true>(table, index).run(visit);
    return RowSweepOf</*hasReductions=*/false>(table, index).run(visit);
  }

private:
  const TableView &table;
  const CellIndex &index;
};

} // namespace pipesched

#endif // PIPESCHED_SCHEDULE_WALK_ROWSWEEP_H
