//===- SpreadEmbedding.cpp - Shards of the embedding on all workers -------===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Lookups and their gradients take no slots, so that they are inserted where
// the unit slots of the given rows allow it, and no other cell moves.
//
//===----------------------------------------------------------------------===//

#include "PipeSched/Schedule/Edit/SpreadVocabulary.h"
#include "PipeSched/Schedule/Table/Slots.h"
#include "SpreadChecks.h"
#include "llvm/ADT/STLExtras.h"
#include <limits>

using namespace pipesched;
using llvm::ArrayRef;
using llvm::Error;
using llvm::Expected;

static constexpr int64_t kEndless = std::numeric_limits<int64_t>::max();

namespace {
/// What the workers of a path do for one unit, from a slot on. `before` is the
/// slot that it must not delay.
struct UnitEvent {
  int64_t unit, slot, before;
};

/// A cell of a first stage.
struct CellSpan {
  int64_t unit, start, end;
};

class EmbeddingSpreader {
public:
  EmbeddingSpreader(const TableView &table, const CellIndex &index,
                    ArrayRef<int64_t> starts)
      : table(table), placement(*table.placement), index(index),
        starts(starts) {}

  std::vector<Row> run();

private:
  std::vector<CellSpan> spansOf(int64_t path, PhaseSet phases) const;
  void listEvents();
  void findHomes();
  Row fill(int64_t row) const;
  std::vector<int64_t> placeLookups(int64_t row) const;
  std::vector<int64_t> placeGradients(int64_t row) const;
  bool hasRun(int64_t row, int64_t unit, int64_t count) const;
  int64_t endOf(int64_t row, int64_t entry) const {
    return startOf(row, entry) + slotsOf(UnitSlots(), table.rows[row], entry);
  }
  int64_t startOf(int64_t row, int64_t entry) const {
    return starts[index.rowBegin(row) + entry];
  }
  /// The first stage of a path that a worker has, or -1.
  int64_t homeOf(int64_t row, int64_t unit) const {
    return homes[row * placement.getNumPaths() + placement.pathOf(unit)];
  }

  const TableView &table;
  const Placement &placement;
  const CellIndex &index;
  ArrayRef<int64_t> starts; ///< by flat index, in unit slots
  std::vector<UnitEvent> lookups, broadcasts, gradients;
  std::vector<int64_t> homes; ///< by worker and path
};
} // namespace

/// The cells of the first stage of a path, in the order of their slots.
std::vector<CellSpan> EmbeddingSpreader::spansOf(int64_t path,
                                                 PhaseSet phases) const {
  int64_t row = placement.workerOf(placement.stageOffset(path));
  std::vector<CellSpan> spans;
  for (auto [i, cell] : llvm::enumerate(table.rows[row]))
    if (cell.isIn(phases) && cell.getStage() == 0 &&
        placement.pathOf(cell.getUnit()) == path)
      spans.push_back({cell.getUnit(), startOf(row, i), endOf(row, i)});
  return spans; // a row is in the order of its slots
}

/// All workers follow one list for each kind of collective, or they would wait
/// for each other in opposite orders:
///
///   worker of the first stage   E0 E1 F0 E2 F1 E3 F2 ..  B0 C0  B1 C1 V0  ..
///
/// E of a microbatch comes when the F of the second before it has ended, so
/// that two outputs are held at most, and V when the next backward has.
void EmbeddingSpreader::listEvents() {
  for (int64_t path = 0; path != placement.getNumPaths(); ++path) {
    std::vector<CellSpan> forwards = spansOf(path, Phase::Forward);
    for (size_t i = 0; i != forwards.size(); ++i)
      lookups.push_back({forwards[i].unit, i < 2 ? 0 : forwards[i - 2].end,
                         forwards[i].start});
    std::vector<CellSpan> backwards = spansOf(path, kBackwardStarts);
    for (size_t i = 0; i != backwards.size(); ++i) {
      int64_t unit = backwards[i].unit;
      broadcasts.push_back({unit, backwards[i].end, kEndless});
      gradients.push_back(
          {unit, i + 1 < backwards.size() ? backwards[i + 1].end : kEndless,
           kEndless});
    }
  }
  for (std::vector<UnitEvent> *events : {&lookups, &broadcasts, &gradients})
    llvm::sort(*events, [](const UnitEvent &a, const UnitEvent &b) {
      return std::tie(a.slot, a.before, a.unit) <
             std::tie(b.slot, b.before, b.unit);
    });
}

void EmbeddingSpreader::findHomes() {
  int64_t numPaths = placement.getNumPaths();
  homes.assign(placement.getNumWorkers() * numPaths, -1);
  for (int64_t path = 0; path != numPaths; ++path)
    for (int64_t stage = placement.getNumStages(path); stage-- > 0;) {
      int64_t worker = placement.workerOf(placement.stageOffset(path) + stage);
      homes[worker * numPaths + path] = stage;
    }
}

/// Before which entry of a row each lookup stands: behind the first cell that
/// ends at its slot or later, so that it does not come early, and behind the
/// collectives that follow that cell, which other workers wait for. If that
/// cell ends only after `before`, the place is in front of it.
std::vector<int64_t> EmbeddingSpreader::placeLookups(int64_t row) const {
  ArrayRef<Cell> cells = table.rows[row];
  std::vector<int64_t> places;
  int64_t next = 0, last = -1; // the last compute cell, or the first of a pair
  for (const UnitEvent &event : lookups) {
    auto isPlace = [&] {
      bool isInside = next > 0 && cells[next - 1].overlapsNext();
      bool isLate = last < 0 ? event.slot == 0 : endOf(row, last) >= event.slot;
      return isLate && !isInside && !cells[next].isIn(kDetachedPhases);
    };
    for (; next != int64_t(cells.size()) && !isPlace(); ++next)
      if (cells[next].isCompute() &&
          !(next > 0 && cells[next - 1].overlapsNext()))
        last = next;
    int64_t place = next;
    if (last >= 0 && endOf(row, last) > event.before)
      for (place = last; place > 0 && cells[place - 1].isJoin();)
        --place;
    places.push_back(place);
  }
  return places;
}

/// The same of gradients: the first entry that starts at the slot or later, but
/// for collectives.
std::vector<int64_t> EmbeddingSpreader::placeGradients(int64_t row) const {
  ArrayRef<Cell> cells = table.rows[row];
  std::vector<int64_t> places;
  int64_t next = 0;
  for (const UnitEvent &event : gradients) {
    while (
        next != int64_t(cells.size()) &&
        (cells[next].isIn(kDetachedPhases) || startOf(row, next) < event.slot))
      ++next;
    places.push_back(next);
  }
  return places;
}

/// Whether the first `count` entries of a row have the backward of a unit that
/// finds the gradient.
bool EmbeddingSpreader::hasRun(int64_t row, int64_t unit, int64_t count) const {
  int64_t entry = index.entryOf(homeOf(row, unit), unit);
  int64_t end = int64_t(index.rowBegin(row)) + count;
  bool hasRun = false;
  kBackwardStarts.forEach([&](Phase phase) {
    uint32_t flat = index.at(entry, phase);
    hasRun |= flat != CellIndex::kNone && int64_t(flat) < end;
  });
  return hasRun;
}

/// Inserts the cells of all units into a row. C stands behind the own backward
/// of the worker, as early as the list allows.
Row EmbeddingSpreader::fill(int64_t row) const {
  ArrayRef<Cell> cells = table.rows[row];
  std::vector<int64_t> lookupPlaces = placeLookups(row);
  std::vector<int64_t> gradientPlaces = placeGradients(row);
  Row filled;
  auto add = [&](Phase phase, int64_t unit) {
    if (homeOf(row, unit) >= 0)
      filled.push_back(Cell(homeOf(row, unit), phase, unit));
  };
  auto canJoin = [&](int64_t unit, int64_t count) {
    bool isInPair = count > 0 && cells[count - 1].overlapsNext();
    return homeOf(row, unit) < 0 || (!isInPair && hasRun(row, unit, count));
  };
  size_t lookup = 0, broadcast = 0, gradient = 0;
  for (int64_t i = 0, e = cells.size(); i <= e; ++i) {
    for (; broadcast != broadcasts.size() &&
           canJoin(broadcasts[broadcast].unit, i);
         ++broadcast)
      add(Phase::GradientBroadcast, broadcasts[broadcast].unit);
    for (; lookup != lookups.size() && lookupPlaces[lookup] <= i; ++lookup) {
      add(Phase::Lookup, lookups[lookup].unit);
      add(Phase::LookupSum, lookups[lookup].unit);
    }
    for (; gradient != gradients.size() && gradientPlaces[gradient] <= i;
         ++gradient)
      add(Phase::LookupGrad, gradients[gradient].unit);
    if (i != e)
      filled.push_back(cells[i]);
  }
  return filled;
}

std::vector<Row> EmbeddingSpreader::run() {
  listEvents();
  findHomes();
  std::vector<Row> rows;
  for (int64_t row = 0, e = table.rows.size(); row != e; ++row)
    rows.push_back(fill(row));
  return rows;
}

Expected<std::vector<Row>> pipesched::spreadEmbedding(const TableView &table) {
  if (Error error = checkSpreadable(table, kEmbeddingPhases, /*cellsPerUnit=*/4,
                                    "embedding"))
    return std::move(error);
  Expected<CellIndex> index = CellIndex::create(table);
  if (!index)
    return index.takeError();
  Expected<SlotAssignment> slots = alignUnitSlots(table, *index);
  if (!slots)
    return slots.takeError();
  return EmbeddingSpreader(table, *index, slots->start).run();
}
