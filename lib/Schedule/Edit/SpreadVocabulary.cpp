//===- SpreadVocabulary.cpp - Shards of the head on all workers -----------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// One list has the steps of the head in the order in which all workers run
// them. A simulation then runs all rows slot by slot: a free worker takes the
// next step of the list before the next cell of its row.
//
//===----------------------------------------------------------------------===//

#include "PipeSched/Schedule/Edit/SpreadVocabulary.h"
#include "PipeSched/Schedule/Check/Verify.h"
#include "PipeSched/Schedule/Kinds/PhaseSets.h"
#include "PipeSched/Schedule/Table/Dependences.h"
#include "PipeSched/Schedule/Table/SlotLengths.h"
#include "PipeSched/Schedule/Table/Slots.h"
#include "PipeSched/Support/FormatError.h"
#include "llvm/ADT/STLExtras.h"
#include <deque>
#include <limits>

using namespace pipesched;
using llvm::ArrayRef;
using llvm::Error;
using llvm::Expected;
using llvm::formatv;
using llvm::StringRef;

//===----------------------------------------------------------------------===//
// Tables whose vocabulary can be sharded
//===----------------------------------------------------------------------===//

/// Finds a cell of a phase that would be added, or a cell that would run too
/// early.
static std::optional<Violation>
findSpreadOrEnded(const TableView &table, PhaseSet added, StringRef what) {
  for (int64_t row = 0, end = table.rows.size(); row != end; ++row)
    for (int64_t i = 0, e = table.rows[row].size(); i != e; ++i) {
      Cell cell = table.rows[row][i];
      std::string reason;
      if (cell.isIn(added))
        reason = formatv("the {0} is already sharded over the workers", what);
      else if (cell.isPerPath())
        reason =
            formatv("it would run before the shards have added their "
                    "gradients; shard the {0} before adding optimizer steps",
                    what);
      if (!reason.empty())
        return Violation{CellRef{row, i},
                         formatv("cell {0} ({1}): {2}", i,
                                 table.placement->nameOf(cell), reason),
                         {}};
    }
  return std::nullopt;
}

/// Checks that `what` ("vocabulary") can be spread over the workers of a table,
/// which adds `cellsPerUnit` cells of these phases for each unit and worker.
/// Errors, as ViolationError: a cell of such a phase; an O or G; written slots;
/// violations of verifyTable. Others: more than kMaxTableCells.
static llvm::Error checkSpreadable(const TableView &table, PhaseSet added,
                                   int64_t cellsPerUnit, StringRef what) {
  if (llvm::Error error = table.placement->checkTrainsAll("spreading takes"))
    return error;
  std::optional<Violation> violation = findSpreadOrEnded(table, added, what);
  if (!violation && table.aligned)
    violation = {
        std::nullopt,
        formatv(
            "the schedule has written slots; shard the {0} before aligning it",
            what),
        {}};
  if (!violation)
    violation = verifyTable(table);
  if (violation)
    return llvm::make_error<ViolationError>(std::move(*violation));
  int64_t numCells =
      table.getNumCells() + table.placement->getNumUnits() *
                                table.placement->getNumWorkers() * cellsPerUnit;
  if (numCells > kMaxTableCells)
    return formatError("with shards of the {0} the rows would have {1} "
                       "entries: a table may have {2}",
                       what, numCells, kMaxTableCells);
  return llvm::Error::success();
}

static constexpr int64_t kNever = std::numeric_limits<int64_t>::max();
/// The limit of slots times workers; at the limit, the simulation takes
/// seconds.
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
  /// The state of a row while it is filled.
  struct Worker {
    int64_t next = 0;      ///< entry of the given row
    size_t nextStep = 0;   ///< of the list
    size_t nextOutput = 0; ///< step of the list whose X comes next
    int64_t freeAt = 0;    ///< slot from which the worker is free
  };

  bool isLast(Cell cell) const {
    return cell.getStage() + 1 ==
           placement.getNumStages(placement.pathOf(cell.getUnit()));
  }
  void findHomes();
  /// The stage whose cells are the worker's shard for a unit, or -1.
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
  std::vector<int64_t> numOnPath; ///< by path: number of its workers
  std::vector<int64_t> ends;      ///< by flat index; kNever before the start
  std::vector<Worker> workers;
  std::vector<Row> rows;
  // By unit: the number of workers that are done with X, S and T, and the slot
  // at which the last worker was.
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
/// An event that steps follow: a forward or the start of a backward of a last
/// stage.
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
/// In an overlapped pair the backward counts first: its T cannot wait for the S
/// of the forward in the same pair.
Error Spreader::listSteps() {
  Expected<SlotAssignment> slots = alignUnitSlots(table, index);
  if (!slots)
    return slots.takeError();
  if (slots->numSlots > kMaxTurns / int64_t(table.rows.size()))
    return pipesched::formatError(
        "{0} slots on {1} workers: their product may be {2} at most if the "
        "head is sharded over all workers",
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
  std::deque<int64_t> pending; // units that have an S but no T yet
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

/// Finds the last stage of each path on each worker.
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

/// The slot from which an entry may start as far as it depends on other rows,
/// or kNever.
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

/// Skips steps of a phase for paths that do not contain the worker; `Idle`
/// means both phases.
void Spreader::skipForeign(int64_t row, size_t &step, Phase phase) const {
  while (step != steps.size() &&
         (homeOf(row, steps[step].unit) < 0 ||
          (phase != Phase::Idle && steps[step].phase != phase)))
    ++step;
}

/// Adds X for the units whose forward the worker has run, in the order in which
/// all workers run their S.
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

/// Starts all that a free worker can start in a slot; entries without slots do
/// not occupy it. Returns whether anything was started.
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

//===----------------------------------------------------------------------===//
// The embedding
//
// Lookups and their gradients take no slots. They are inserted where the unit
// slots of the given rows allow, and no other cell moves.
//===----------------------------------------------------------------------===//

static constexpr int64_t kEndless = std::numeric_limits<int64_t>::max();

namespace {
/// The cells that the workers of a path run for one unit, from a slot on. They
/// must not delay the slot `before`.
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
  /// The first stage of a path on a worker, or -1.
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
  return spans; // a row is already in the order of its slots
}

/// All workers follow one list for each kind of collective; otherwise they
/// could wait for each other in opposite orders:
///
///   worker of the first stage   E0 E1 F0 E2 F1 E3 F2 ..  B0 C0  B1 C1 V0  ..
///
/// E of a microbatch comes when the F of the microbatch two before it has
/// ended, so that at most two outputs are held. V comes when the next backward
/// has ended.
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

/// Finds the entry of a row before which each lookup goes. It comes after the
/// first cell that ends at the lookup's slot or later, so that it does not come
/// early, and after the collectives that follow that cell, which other workers
/// wait for. If that cell ends only after `before`, the lookup goes before it.
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

/// The same for gradients: they go before the first entry, except collectives,
/// that starts at their slot or later.
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

/// Whether the first `count` entries of a row contain the cell that computes
/// the gradient of a unit.
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

/// Inserts the cells of all units into a row. C comes after the worker's own
/// backward, as early as the list allows.
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
