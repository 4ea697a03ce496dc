//===- RowSweep.h - Visits cells after their inputs -------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Visits the cells of all rows of a table such that each cell comes after the
// cells that it needs. Each row advances until a cell waits for another row,
// which then advances first. If the rows wait for each other, returns the
// cycle.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_SCHEDULE_TABLE_ROWSWEEP_H
#define PIPESCHED_SCHEDULE_TABLE_ROWSWEEP_H

#include "PipeSched/Schedule/Table/Dependences.h"
#include "PipeSched/Schedule/Table/DetachedGroups.h"
#include <optional>
#include <vector>

namespace pipesched {

/// An entry of a row, or two overlapped entries, with the cells of other stages
/// whose outputs they need.
struct RowStep {
  int64_t row = 0, index = 0;
  unsigned count = 1;
  Dependences::Producer producers[2];
};

/// A step whose entries may have several producers. `more` has all producers
/// but the first of each entry; they belong to entry index + `half`.
struct WideRowStep : RowStep {
  struct Part {
    unsigned half;
    Dependences::Producer producer;
  };
  llvm::ArrayRef<Part> more;
};

/// The sweep. It is compiled twice: for tables with groups or with stages that
/// receive from several others, and for tables without, which need no look-ups
/// of these.
template <bool isWide>
class RowSweepOf {
public:
  RowSweepOf(const TableView &table, const CellIndex &index)
      : table(table), index(index), dependences(table, index),
        next(table.rows.size(), 0), isWaiting(table.rows.size(), false) {
    if (const Groups *groups = index.getGroups()) {
      numArrived.assign(groups->size(), 0);
      detached.emplace(table, index);
    }
  }

  const Dependences &getDependences() const { return dependences; }

  template <typename Visit>
  std::vector<CellWait> run(Visit &&visit) {
    std::vector<CellWait> cycle;
    for (int64_t row = 0, end = table.rows.size(); row != end && cycle.empty();
         ++row)
      cycle = sweepRow(row, visit);
    return cycle;
  }

  /// The same, but after a cycle it still visits all entries that can run.
  template <typename Visit>
  std::vector<CellWait> runPastCycles(Visit &&visit) {
    std::vector<CellWait> first;
    for (int64_t row = 0, end = table.rows.size(); row != end; ++row) {
      if (isWaiting[row]) // on a cycle, or waiting for a row that is on one
        continue;
      std::vector<CellWait> cycle = sweepRow(row, visit);
      goals.clear();
      waits.clear();
      if (first.empty())
        first = std::move(cycle);
    }
    return first;
  }

private:
  using Step = std::conditional_t<isWide, WideRowStep, RowStep>;

  /// A row to be swept up to an index, because the previous goal waits for it.
  struct Goal {
    int64_t row, end;
  };

  /// Sweeps a row to its end, or returns a cycle of waits.
  template <typename Visit>
  std::vector<CellWait> sweepRow(int64_t row, Visit &&visit) {
    open(row, table.rows[row].size());
    while (!goals.empty()) {
      Goal goal = goals.back();
      if (next[goal.row] >= goal.end) {
        close(goal.row);
        continue;
      }
      Step step = stepAt(goal.row);
      bool isMeeting = isWide && meetsOthers(step);
      if (std::optional<CellWait> wait =
              isMeeting ? findGroupWait({step.row, step.index})
                        : findWait(step)) {
        waits.push_back(*wait);
        if (isWaiting[wait->awaited.row])
          return takeCycle(wait->awaited.row);
        open(wait->awaited.row, wait->awaited.index + (isMeeting ? 0 : 1));
        continue;
      }
      if (std::vector<CellWait> cycle = findDetachedWait(step);
          !cycle.empty()) {
        if (cycle.size() > 1)
          return cycle;
        waits.push_back(cycle.front());
        int64_t awaited = cycle.front().awaited.row;
        if (isWaiting[awaited])
          return takeCycle(awaited);
        open(awaited, cycle.front().awaited.index + 1);
        continue;
      }
      visit(step);
      pass(step);
    }
    return {};
  }

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

  Step stepAt(int64_t row) {
    Step step;
    step.row = row;
    step.index = next[row];
    llvm::ArrayRef<Cell> cells = table.rows[row];
    Cell cell = cells[step.index];
    step.producers[0] = dependences.producerOf(cell);
    if (cell.overlapsNext() && step.index + 1 < int64_t(cells.size())) {
      step.count = 2;
      step.producers[1] = dependences.producerOf(cells[step.index + 1]);
    }
    if constexpr (isWide)
      addParts(step);
    return step;
  }

  /// Adds all producers but the first.
  void addParts(Step &step) {
    parts.clear();
    for (unsigned half = 0; half < step.count; ++half)
      dependences.forEachProducer(table.rows[step.row][step.index + half],
                                  [&](Dependences::Producer producer) {
                                    if (producer.flat !=
                                        step.producers[half].flat)
                                      parts.push_back({half, producer});
                                  });
    step.more = parts;
  }

  bool meetsOthers(const RowStep &step) const {
    return table.rows[step.row][step.index].isIn(kMeetingPhases);
  }

  /// Returns the wait of a step for a detached group, or a cycle of such
  /// groups; nothing if the step waits for none.
  std::vector<CellWait> findDetachedWait(const RowStep &step) const {
    std::vector<CellWait> found;
    if (!isWide || !detached)
      return found;
    for (unsigned half = 0; half < step.count && found.empty(); ++half) {
      CellRef at = {step.row, step.index + half};
      forEachAwaitedGroup(index, table.rows[at.row][at.index],
                          [&](int64_t group) {
                            if (found.empty() && !detached->hasMet(group))
                              found = detached->findWaits(at, group, next);
                          });
    }
    return found;
  }

  /// Moves the row to the entry after a step.
  void pass(const RowStep &step) {
    next[step.row] += step.count;
    if (isWide && table.rows[step.row][step.index].isIn(kDetachedPhases))
      detached->pass({step.row, step.index});
  }

  std::optional<CellWait> findWait(const RowStep &step, unsigned half,
                                   Dependences::Producer producer) const {
    int64_t awaited = producer.flat - index.rowBegin(producer.worker);
    if (awaited < next[producer.worker])
      return std::nullopt;
    return CellWait{{step.row, step.index + half}, {producer.worker, awaited}};
  }
  std::optional<CellWait> findWait(const Step &step) const {
    for (unsigned i = 0; i < step.count; ++i)
      if (Dependences::Producer producer = step.producers[i])
        if (std::optional<CellWait> wait = findWait(step, i, producer))
          return wait;
    if constexpr (isWide)
      for (const WideRowStep::Part &part : step.more)
        if (std::optional<CellWait> wait =
                findWait(step, part.half, part.producer))
          return wait;
    return std::nullopt;
  }

  /// Finds the first member of a group of this cell whose row has not reached
  /// it.
  std::optional<CellWait> findGroupWait(CellRef at) {
    const Groups &groups = *index.getGroups();
    for (int64_t group : groups.groupsOf(table.rows[at.row][at.index])) {
      // Members that have arrived stay arrived, so the search continues after
      // them.
      llvm::ArrayRef<CellRef> members = groups.membersOf(group);
      for (uint32_t &i = numArrived[group]; i != members.size(); ++i)
        if (next[members[i].row] < members[i].index)
          return CellWait{at, members[i]};
    }
    return std::nullopt;
  }

  /// Returns the waits, starting from the wait of `row`; all waits if an
  /// earlier cycle stopped that row.
  std::vector<CellWait> takeCycle(int64_t row) {
    size_t first = 0;
    while (first != waits.size() && waits[first].waiting.row != row)
      ++first;
    if (first == waits.size())
      return waits;
    return {waits.begin() + first, waits.end()};
  }

  const TableView &table;
  const CellIndex &index;
  Dependences dependences;
  std::vector<int64_t> next; ///< by row: number of visited entries
  std::vector<uint8_t> isWaiting;
  /// By group: number of members whose row has arrived.
  std::vector<uint32_t> numArrived;
  std::optional<DetachedGroups> detached; ///< if the table has groups
  std::vector<Goal> goals;
  std::vector<CellWait> waits;
  std::vector<WideRowStep::Part> parts; ///< of the last step
};

/// Whether a table has groups, or stages that receive from several others.
inline bool needsWideSweep(const TableView &table, const CellIndex &index) {
  return index.getGroups() || !table.placement->getEdges().areLines();
}

/// Visits every entry of a table whose rows are verified: producers first, each
/// row from left to right. Returns nothing, or a cycle of waits w0 .. wk-1: the
/// awaited cell of w(i) is the waiting cell of w(i+1), or comes after it in the
/// same row.
///
///   row 0   . . . F        each row stops at the first cell that waits;
///                  \       the row it waits for is swept up to that cell
///   row 1   . . F . F      first. A row that already waits closes a cycle
///              /
///   row 2   . F
///
/// A cell of a group is visited when all rows of its groups have reached their
/// cells; the other cells of the group are visited later. X, Y and Z do not
/// stop their rows: only the cells that use their results wait until the group
/// has met. O(entries): when the sweep returns to a row that waited, it
/// advances by at least one entry.
class RowSweep {
public:
  RowSweep(const TableView &table, const CellIndex &index)
      : table(table), index(index) {}

  /// Calls `visit(const RowStep &)` for each entry.
  template <typename Visit>
  std::vector<CellWait> run(Visit &&visit) {
    if (needsWideSweep(table, index))
      return RowSweepOf</*isWide=*/true>(table, index).run(visit);
    return RowSweepOf</*isWide=*/false>(table, index).run(visit);
  }

private:
  const TableView &table;
  const CellIndex &index;
};

} // namespace pipesched

#endif // PIPESCHED_SCHEDULE_TABLE_ROWSWEEP_H
