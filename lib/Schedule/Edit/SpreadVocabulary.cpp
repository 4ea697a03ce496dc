//===- SpreadVocabulary.cpp - Shards of the head on all workers -----------===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// One list has the steps of the head in the order in which all workers run
// them. The rows are then run against each other slot by slot, and a worker
// that is free takes the next step of the list before the next cell of its row.
//
//===----------------------------------------------------------------------===//

#include "PipeSched/Schedule/Edit/SpreadVocabulary.h"
#include "PipeSched/Schedule/Table/Slots.h"
#include "PipeSched/Support/FormatError.h"
#include "SpreadChecks.h"
#include "llvm/ADT/STLExtras.h"
#include <deque>

using namespace pipesched;
using llvm::ArrayRef;
using llvm::Error;
using llvm::Expected;
using llvm::formatv;

static constexpr int64_t kNever = std::numeric_limits<int64_t>::max();
/// The limit of slots times workers, which take seconds.
static constexpr int64_t kMaxTurns = int64_t(1) << 29;

namespace {
/// S or T of a unit.
struct HeadStep {
  Phase phase;
  int64_t unit;
};

class Spreader {
public:
  Spreader(const TableView &table, const CellIndex &index,
           VocabularyAlgorithm algorithm)
      : table(table), placement(*table.placement), index(index),
        dependences(table, index),
        reduces(algorithm == VocabularyAlgorithm::Vocab1) {}

  Error listSteps();
  Expected<std::vector<Row>> run();

private:
  /// A row while it is filled.
  struct Worker {
    int64_t next = 0;      ///< entry of the given row
    size_t nextStep = 0;   ///< of the list
    size_t nextOutput = 0; ///< step whose X comes next
    int64_t freeAt = 0;    ///< slot
  };

  bool isLast(Cell cell) const {
    return cell.getStage() + 1 ==
           placement.getNumStages(placement.pathOf(cell.getUnit()));
  }
  void findHomes();
  /// The stage by which a worker runs its shard for a unit, or -1.
  int64_t homeOf(int64_t worker, int64_t unit) const {
    return homes[worker * placement.getNumPaths() + placement.pathOf(unit)];
  }
  Cell shardCell(int64_t worker, Phase phase, int64_t unit) const {
    return Cell(homeOf(worker, unit), phase, unit);
  }
  bool advance(int64_t row, int64_t slot);
  bool runStep(int64_t row, int64_t slot);
  bool runCells(int64_t row, int64_t slot);
  void addOutputs(int64_t row);
  void skipForeign(int64_t row, size_t &step, Phase phase) const;
  int64_t readySlot(CellRef at) const;
  int64_t readySlot(const HeadStep &step) const;

  const TableView &table;
  const Placement &placement;
  const CellIndex &index;
  Dependences dependences;
  bool reduces;
  std::vector<HeadStep> steps;
  std::vector<int64_t> homes;     ///< by worker and path
  std::vector<int64_t> numOnPath; ///< by path: its workers
  std::vector<int64_t> ends;      ///< by flat index; kNever: has not begun
  std::vector<Worker> workers;
  std::vector<Row> rows;
  // By unit: the workers that are done with X, S and T, and when the last was.
  struct Meeting {
    int64_t count = 0, slot = 0;
  };
  PhaseMap<std::vector<Meeting>> meetings;
  void arrive(Phase phase, int64_t unit, int64_t slot) {
    Meeting &meeting = meetings[phase][unit];
    ++meeting.count;
    meeting.slot = std::max(meeting.slot, slot);
  }
  int64_t slotOf(Phase phase, int64_t unit) const {
    const Meeting &meeting = meetings[phase][unit];
    return meeting.count == numOnPath[placement.pathOf(unit)] ? meeting.slot
                                                              : kNever;
  }
};
} // namespace

//===----------------------------------------------------------------------===//
// The steps
//===----------------------------------------------------------------------===//

namespace {
/// What the steps follow: a forward or the start of a backward of a last stage.
struct CellEvent {
  int64_t slot, row, index;
  Cell cell;
};
} // namespace

/// Walks the cells of last stages in the order of their unit slots:
///
///   last stage   F0  F1  F2  B0  F3  B1
///   steps        S0  S1  S2      S3             T one step after its S,
///                    T0  T1      T2             but before its backward
///
/// Of an overlapped pair the backward counts first: its T cannot wait for the S
/// of the forward beside it.
Error Spreader::listSteps() {
  Expected<SlotAssignment> slots = alignUnitSlots(table, index);
  if (!slots)
    return slots.takeError();
  if (slots->numSlots > kMaxTurns / int64_t(table.rows.size()))
    return pipesched::formatError(
        "{0} slots on {1} workers: their product may be {2} at most where the "
        "head is on all workers",
        slots->numSlots, table.rows.size(), kMaxTurns);
  std::vector<CellEvent> events;
  for (int64_t row = 0, end = table.rows.size(); row != end; ++row)
    for (int64_t i = 0, e = table.rows[row].size(); i != e; ++i)
      if (Cell cell = table.rows[row][i];
          cell.isIn(kBackwardStarts | Phase::Forward) && isLast(cell))
        events.push_back({slots->start[index.rowBegin(row) + i], row, i, cell});
  llvm::sort(events, [](const CellEvent &a, const CellEvent &b) {
    bool isForward[] = {a.cell.is(Phase::Forward), b.cell.is(Phase::Forward)};
    return std::tie(a.slot, isForward[0], a.row, a.index) <
           std::tie(b.slot, isForward[1], b.row, b.index);
  });
  std::deque<int64_t> pending; // units that have S and no T
  auto addT = [&] {
    steps.push_back({Phase::LogitsGrad, pending.front()});
    pending.pop_front();
  };
  for (const CellEvent &event : events) {
    int64_t unit = event.cell.getUnit();
    if (event.cell.is(Phase::Forward)) {
      steps.push_back({Phase::Logits, unit});
      if (!pending.empty())
        addT();
      pending.push_back(unit);
    } else if (reduces) {
      while (llvm::is_contained(pending, unit))
        addT();
    }
  }
  while (!pending.empty())
    addT();
  return Error::success();
}

/// The last stage that each worker has of each path.
void Spreader::findHomes() {
  int64_t numPaths = placement.getNumPaths();
  homes.assign(placement.getNumWorkers() * numPaths, -1);
  numOnPath.assign(numPaths, 0);
  for (int64_t path = 0; path != numPaths; ++path)
    for (int64_t stage = 0; stage != placement.getNumStages(path); ++stage) {
      int64_t worker = placement.workerOf(placement.stageOffset(path) + stage);
      int64_t &home = homes[worker * numPaths + path];
      numOnPath[path] += home < 0;
      home = stage;
    }
}

//===----------------------------------------------------------------------===//
// The rows
//===----------------------------------------------------------------------===//

/// The slot from which an entry may start as far as other rows say, or kNever.
int64_t Spreader::readySlot(CellRef at) const {
  Cell cell = table.rows[at.row][at.index];
  int64_t slot = 0;
  dependences.forEachPredecessor(
      cell, [&](uint32_t before) { slot = std::max(slot, ends[before]); });
  if (cell.isIn(kBackwardStarts) && isLast(cell))
    slot = std::max(slot, slotOf(reduces ? Phase::LogitsGrad : Phase::Logits,
                                 cell.getUnit()));
  return slot;
}
int64_t Spreader::readySlot(const HeadStep &step) const {
  return slotOf(step.phase == Phase::Logits ? Phase::Broadcast : Phase::Logits,
                step.unit);
}

/// Moves on to the next step of a phase whose path the worker is on; `Idle`
/// stands for both phases.
void Spreader::skipForeign(int64_t row, size_t &step, Phase phase) const {
  while (step != steps.size() &&
         (homeOf(row, steps[step].unit) < 0 ||
          (phase != Phase::Idle && steps[step].phase != phase)))
    ++step;
}

/// Adds X of the units whose forward the worker has run, in the order of their
/// S on all workers.
void Spreader::addOutputs(int64_t row) {
  Worker &worker = workers[row];
  while (true) {
    skipForeign(row, worker.nextOutput, Phase::Logits);
    if (worker.nextOutput == steps.size())
      return;
    int64_t unit = steps[worker.nextOutput].unit;
    int64_t end = ends[index.lookup(homeOf(row, unit), Phase::Forward, unit)];
    if (end == kNever)
      return;
    rows[row].push_back(shardCell(row, Phase::Broadcast, unit));
    arrive(Phase::Broadcast, unit, end);
    ++worker.nextOutput;
  }
}

bool Spreader::runStep(int64_t row, int64_t slot) {
  Worker &worker = workers[row];
  skipForeign(row, worker.nextStep, Phase::Idle);
  if (worker.nextStep == steps.size())
    return false;
  HeadStep step = steps[worker.nextStep];
  if (readySlot(step) > slot)
    return false;
  bool isLogits = step.phase == Phase::Logits;
  rows[row].push_back(shardCell(row, step.phase, step.unit));
  if (isLogits || reduces)
    rows[row].push_back(
        shardCell(row, isLogits ? Phase::Combine : Phase::Reduce, step.unit));
  worker.freeAt = slot + traitsOf(step.phase).unitSlots;
  arrive(step.phase, step.unit, worker.freeAt);
  ++worker.nextStep;
  return true;
}

/// Runs the next entry of a row, or an overlapped pair.
bool Spreader::runCells(int64_t row, int64_t slot) {
  Worker &worker = workers[row];
  ArrayRef<Cell> cells = table.rows[row];
  int64_t begin = worker.next;
  if (begin == int64_t(cells.size()))
    return false;
  int64_t end = begin + 1 + cells[begin].overlapsNext();
  int64_t length = 0;
  for (int64_t i = begin; i != end; ++i) {
    if (readySlot({row, i}) > slot)
      return false;
    length += unitSlots(cells[i]);
  }
  for (int64_t i = begin; i != end; ++i) {
    ends[index.rowBegin(row) + i] = slot + length;
    rows[row].push_back(cells[i]);
  }
  worker.next = end;
  worker.freeAt = slot + length;
  addOutputs(row);
  return true;
}

/// Starts what a free worker can start in a slot; entries without slots do not
/// keep it. Returns whether there was anything.
bool Spreader::advance(int64_t row, int64_t slot) {
  bool hasMoved = false;
  while (workers[row].freeAt <= slot &&
         (runStep(row, slot) || runCells(row, slot)))
    hasMoved = true;
  return hasMoved;
}

Expected<std::vector<Row>> Spreader::run() {
  findHomes();
  ends.assign(index.rowBegin(table.rows.size()), kNever);
  for (Phase phase : {Phase::Broadcast, Phase::Logits, Phase::LogitsGrad})
    meetings[phase].resize(placement.getNumUnits());
  workers.resize(table.rows.size());
  rows.resize(table.rows.size());
  bool isBusy = true;
  for (int64_t slot = 0; isBusy; ++slot) {
    isBusy = false;
    for (int64_t row = 0, e = rows.size(); row != e; ++row) {
      bool hasMoved = advance(row, slot);
      isBusy |= hasMoved || workers[row].freeAt > slot;
    }
  }
  for (int64_t row = 0, e = rows.size(); row != e; ++row)
    if (workers[row].next != int64_t(table.rows[row].size()))
      return llvm::make_error<ViolationError>(Violation{
          CellRef{row, workers[row].next},
          formatv("cell {0} ({1}) would wait for a step of the head that waits "
                  "for it",
                  workers[row].next,
                  placement.nameOf(table.rows[row][workers[row].next])),
          {}});
  return std::move(rows);
}

Expected<std::vector<Row>>
pipesched::spreadVocabulary(const TableView &table,
                            VocabularyAlgorithm algorithm) {
  bool reduces = algorithm == VocabularyAlgorithm::Vocab1;
  if (Error error =
          checkSpreadable(table, kSpreadPhases, 4 + reduces, "vocabulary"))
    return std::move(error);
  Expected<CellIndex> index = CellIndex::create(table);
  if (!index)
    return index.takeError();
  Spreader spreader(table, *index, algorithm);
  if (Error error = spreader.listSteps())
    return std::move(error);
  return spreader.run();
}
