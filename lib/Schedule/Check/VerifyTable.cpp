//===- VerifyTable.cpp - Checks of a whole table --------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Checks completeness by counting, waits by a sweep over all rows, and slots by
// reading them. Memory is linear in the cells, not in the sizes that a schedule
// claims.
//
//===----------------------------------------------------------------------===//

#include "PipeSched/Schedule/Check/Verify.h"
#include "PipeSched/Schedule/Kinds/PhaseSets.h"
#include "PipeSched/Schedule/Table/ParameterSets.h"
#include "PipeSched/Schedule/Table/Replicas.h"
#include "PipeSched/Schedule/Table/RowSweep.h"
#include "PipeSched/Schedule/Table/SlotLengths.h"
#include "PipeSched/Schedule/Table/Slots.h"
#include "PipeSched/Schedule/Walk/Wavefront.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallBitVector.h"
#include "llvm/Support/FormatVariadic.h"

using namespace pipesched;
using llvm::ArrayRef;
using llvm::formatv;

static Violation ofSchedule(std::string message) {
  return {std::nullopt, std::move(message), {}};
}

static bool isMissing(uint32_t flat) { return flat == CellIndex::kNone; }

//===----------------------------------------------------------------------===//
// Completeness
//===----------------------------------------------------------------------===//

static int64_t unitOfRank(const Placement &placement, int64_t path,
                          int64_t rank) {
  if (placement.getNumPaths() == 1)
    return rank;
  int64_t unit = 0;
  while (placement.pathOf(unit) != path || placement.rankOnPath(unit) != rank)
    ++unit;
  return unit;
}

/// The lowest rank for which `row` has no forward on that stage, and should; at
/// most k if there are k forwards and every unit runs the stage.
static int64_t firstMissingRank(const Placement &placement, ArrayRef<Cell> row,
                                int64_t globalStage, int64_t numForwards) {
  if (!placement.runsAll())
    numForwards = placement.countOnPath(placement.pathOfStage(globalStage));
  std::vector<bool> isPresent(numForwards, false);
  for (int64_t rank = 0; rank != numForwards && !placement.runsAll(); ++rank)
    isPresent[rank] = !placement.runs(globalStage, rank); // on the only path
  for (Cell cell : row)
    if (cell.is(Phase::Forward) && placement.globalStage(cell) == globalStage)
      if (int64_t rank = placement.rankOf(cell); rank < numForwards)
        isPresent[rank] = true;
  return llvm::find(isPresent, false) - isPresent.begin();
}

/// Finds the first missing forward, by path, stage and unit.
static std::optional<Violation> checkForwards(const TableView &table) {
  const Placement &placement = *table.placement;
  std::vector<int64_t> counts(placement.getNumGlobalStages(), 0);
  for (ArrayRef<Cell> row : table.rows)
    for (Cell cell : row)
      if (cell.is(Phase::Forward))
        ++counts[placement.globalStage(cell)];
  for (int64_t path = 0; path < placement.getNumPaths(); ++path)
    for (int64_t stage = 0; stage < placement.getNumStages(path); ++stage) {
      int64_t global = placement.stageOffset(path) + stage;
      if (counts[global] >= placement.countOnStage(global))
        continue;
      int64_t worker = placement.workerOf(global);
      int64_t rank = firstMissingRank(placement, table.rows[worker], global,
                                      counts[global]);
      Cell missing(stage, Phase::Forward, unitOfRank(placement, path, rank));
      return ofSchedule(formatv("{0} is missing: worker {1} never runs it",
                                placement.nameOf(missing), worker));
    }
  return std::nullopt;
}

static Violation describeMissing(const TableView &table, const CellIndex &index,
                                 uint32_t present, Phase missing,
                                 const char *format) {
  CellRef ref = index.refOf(present);
  Cell cell = table.rows[ref.row][ref.index];
  return {ref,
          formatv(format, table.placement->nameOf(cell.withPhase(missing)),
                  ref.row, table.placement->nameOf(cell)),
          {}};
}

/// Describes a missing cell: a backward, or a cell that must follow another.
static Violation describeMissing(const TableView &table, const CellIndex &index,
                                 int64_t entry, PhaseSet present,
                                 StageBackward backward) {
  PhaseSet alternatives = backwardStarts(backward);
  Phase follower = Phase::Idle, leader = Phase::Forward;
  present.forEach([&](Phase phase) {
    std::optional<Phase> next = followerOf(phase, backward);
    if (next && !present.contains(*next) && follower == Phase::Idle)
      std::tie(follower, leader) = std::pair(*next, phase);
  });
  uint32_t forward = index.at(entry, Phase::Forward);
  if (alternatives == Phase::InputGrad && !present.intersects(alternatives)) {
    CellRef ref = index.refOf(forward);
    Violation violation =
        describeMissing(table, index, forward, Phase::InputGrad,
                        "{0} is missing: worker {1} runs {2} without it, and ");
    violation.message += table.placement->describeBackward(
        table.placement->globalStage(table.rows[ref.row][ref.index]));
    return violation;
  }
  if (!alternatives.isEmpty() && !present.intersects(alternatives))
    return describeMissing(
        table, index, forward, alternatives.first(),
        "{0} is missing: worker {1} runs {2} but no backward, whole (B) or "
        "split (I and W)");
  return describeMissing(table, index, index.at(entry, leader), follower,
                         leader == Phase::Offload
                             ? "{0} is missing: worker {1} offloads with {2} "
                               "and never reloads"
                             : "{0} is missing: worker {1} runs {2} without "
                               "it");
}

/// Checks backwards and copies of each entry; all forwards must be present.
static std::optional<Violation> checkOthers(const TableView &table,
                                            const CellIndex &index) {
  const Placement &placement = *table.placement;
  int64_t stage = 0; // of the entry
  for (int64_t entry = 0, e = index.getNumEntries(); entry != e; ++entry) {
    while (!placement.trainsAll() && entry == placement.firstPairOf(stage + 1))
      ++stage;
    if (!placement.runsAll() && isMissing(index.at(entry, Phase::Forward)))
      continue; // a node that takes other microbatches
    StageBackward backward = placement.backwardOf(stage);
    PhaseSet starts = backwardStarts(backward), present, followers;
    kIndexedPhases.forEach([&](Phase phase) {
      if (isMissing(index.at(entry, phase)))
        return;
      present |= phase;
      if (std::optional<Phase> next = followerOf(phase, backward))
        followers |= *next;
    });
    if ((!starts.isEmpty() && !present.intersects(starts)) ||
        !(followers - present).isEmpty())
      return describeMissing(table, index, entry, present, backward);
  }
  return std::nullopt;
}

//===----------------------------------------------------------------------===//
// Waits
//===----------------------------------------------------------------------===//

static Cell cellIn(const TableView &table, CellRef ref) {
  return table.rows[ref.row][ref.index];
}

static CellName nameAt(const TableView &table, CellRef ref) {
  return table.placement->nameOf(cellIn(table, ref));
}

namespace {
/// Checks waits between rows by the written slots. The order within a row
/// cannot be violated.
template <typename Slots>
class StartVerifier {
public:
  StartVerifier(const Slots &lengths, const TableView &table,
                const CellIndex &index)
      : lengths(lengths), table(table), index(index),
        slots(readSlots(table, index)), dependences(table, index) {}

  std::optional<Violation> run() const {
    std::optional<Violation> violation;
    for (int64_t row = 0, e = table.rows.size(); row != e; ++row)
      for (int64_t i = 0, size = table.rows[row].size(); i != size; ++i) {
        dependences.forEachProducer(table.rows[row][i],
                                    [&](Dependences::Producer producer) {
                                      if (!violation)
                                        violation = check({row, i}, producer);
                                    });
        if (violation)
          return violation;
      }
    return std::nullopt;
  }

private:
  std::optional<Violation> check(CellRef here,
                                 Dependences::Producer producer) const {
    int64_t start = slots.start[index.rowBegin(here.row) + here.index];
    CellRef other = {producer.worker,
                     producer.flat - index.rowBegin(producer.worker)};
    int64_t end = slots.start[producer.flat] +
                  slotsOf(lengths, table.rows[other.row], other.index);
    if (start >= end)
      return std::nullopt;
    CellName otherName = nameAt(table, other);
    return Violation{
        here,
        formatv("cell {0} ({1}) of worker {2} starts at slot {3}, but {4} ends "
                "only at slot {5}",
                here.index, nameAt(table, here), here.row, start, otherName,
                end),
        {{other, formatv("{0} is cell {1} of worker {2} and starts at slot "
                         "{3}",
                         otherName, other.index, other.row,
                         slots.start[producer.flat])}}};
  }

  const Slots &lengths;
  const TableView &table;
  const CellIndex &index;
  SlotAssignment slots;
  Dependences dependences;
};
} // namespace

std::optional<Violation> pipesched::verifyAligned(const TableView &table,
                                                  const CellIndex &index) {
  if (std::optional<Violation> violation = verifySlotLengths(table))
    return violation;
  auto check = [&](const auto &lengths) {
    return StartVerifier<std::decay_t<decltype(lengths)>>(lengths, table, index)
        .run();
  };
  if (std::optional<Violation> violation = withSlotsOf(table, check))
    return violation;
  return verifyMeetings(table, index);
}

namespace {
/// A handler for a walk that only tests whether the walk reaches the end.
struct EmptyWalk {
  using Time = int64_t;
  struct Item {};
  struct Cost {};
  Cost costOf(uint32_t, Phase) const { return {}; }
  void start(const WaveStep &, uint64_t, const Cost &, const Item *) {}
  void startPair(const WaveStep &, uint64_t, const Item *, const Item *) {}
  void finish(const WaveStep &, uint64_t) {}
  void pass(const WaveStep &, unsigned, const Cost &, int32_t, Item &) {}
  bool copy(const WaveStep &, const Cost &) { return false; }
  void meet(int64_t, llvm::ArrayRef<WaveStep>, uint64_t) {}

  bool canLeap() const { return true; }
  int64_t numHeld() const { return 0; }
  template <typename Visitor>
  void visitState(Visitor &) {}
  template <typename Visitor>
  void visitItem(Item &, Visitor &) {}
  ClockValues<Time> clocksOf(uint32_t) const { return {}; }
  void noteLeap(llvm::ArrayRef<LeapedRow>) {}
};
} // namespace

/// A fast check: whether sums and a walk show that forwards, backwards and the
/// order of the rows are valid. It does not find the reason if they are not.
static bool isPlainlyValid(const TableView &table, const PhaseCounts &counts) {
  constexpr PhaseSet kOthers = kCollectivePhases | kSpreadPhases;
  if (table.aligned || counts.hasAny(kOthers) || hasCopies(counts) ||
      !table.placement->getEdges().areLines() || !table.placement->runsAll() ||
      !isComplete(*table.placement, counts))
    return false;
  EmptyWalk walk;
  return walkInSlots<EmptyWalk::Item>(table, /*groups=*/nullptr, walk);
}

/// Runs all checks, to find the error.
static std::optional<Violation> checkCells(const TableView &table,
                                           bool isPlain) {
  if (!isPlain)
    if (std::optional<Violation> violation = checkForwards(table))
      return violation;
  llvm::Expected<CellIndex> index = CellIndex::create(table);
  if (!index)
    return ofSchedule(llvm::toString(index.takeError()));
  if (!isPlain)
    if (std::optional<Violation> violation = checkOthers(table, *index))
      return violation;
  if (std::optional<Violation> violation = verifyParameterSets(table, *index))
    return violation;
  if (std::optional<Violation> violation = verifyCollectives(table, *index))
    return violation;
  if (isPlain)
    return std::nullopt;
  if (std::optional<Violation> violation = verifySpread(table))
    return violation;
  std::vector<CellWait> cycle =
      RowSweep(table, *index).run([](const RowStep &) {});
  if (!cycle.empty())
    return describeCycle(table, cycle);
  return table.aligned ? verifyAligned(table, *index) : std::nullopt;
}

std::optional<Violation> pipesched::verifyTable(const TableView &table) {
  const Placement &placement = *table.placement;
  if (!placement.isAssigned())
    return ofSchedule("the schedule has several paths without microbatches: "
                      "state them with 'takes'");
  if (static_cast<int64_t>(table.rows.size()) != placement.getNumWorkers())
    return ofSchedule(formatv("the table has {0} rows for {1} workers",
                              table.rows.size(), placement.getNumWorkers()));
  if (!placement.trainsAll() && placement.getNumPaths() > 1)
    if (llvm::Error error = Replicas::create(placement).takeError())
      return ofSchedule(llvm::toString(std::move(error)));
  if (table.getNumCells() > kMaxTableCells)
    return checkCells(table, /*isPlain=*/false);
  PhaseCounts counts = countPhases(table);
  bool isPlain = isPlainlyValid(table, counts);
  if (isPlain && !counts.has(Phase::Optimizer))
    return std::nullopt;
  return checkCells(table, isPlain);
}

//===----------------------------------------------------------------------===//
// Lengths of slots
//
// Sweeps once over the cells. After this check, code that counts slots finds a
// length for each cell and cannot overflow.
//===----------------------------------------------------------------------===//

static Violation describeUnknown(CellName cell, CellRef at) {
  bool isHalf = cell.cell.isIn(kSplitBackward);
  return {at,
          formatv("cell {0} ({1}) has no number of slots: {2}", at.index, cell,
                  isHalf ? "the schedule's slots give B; give I and W too"
                         : "the schedule's slots do not give its phase"),
          {}};
}

static Violation describeTooMany(CellName cell, CellRef at, int64_t slots) {
  return {at,
          formatv("the cells up to cell {0} ({1}) of worker {2}, which takes "
                  "{3} slots, take more than {4} in all",
                  at.index, cell, at.row, slots, kMaxSlots),
          {}};
}

std::optional<Violation> pipesched::verifySlotLengths(const TableView &table) {
  if (table.slots.empty())
    return std::nullopt; // at most two slots per cell
  GivenSlots lengths(*table.placement, table.slots);
  int64_t total = 0;
  for (auto [row, cells] : llvm::enumerate(table.rows))
    for (int64_t i = 0, e = cells.size(); i != e; ++i) {
      if (!cells[i].isCompute())
        continue;
      CellRef at = {static_cast<int64_t>(row), i};
      // The length of a pair is counted at its second half.
      bool isPair = cells[i].overlapsNext() && i + 1 != e;
      int64_t slots = isPair ? 0 : slotsOf(lengths, cells, i);
      if (lengths.slotsOf(cells[i]) < 0 || slots < 0)
        return describeUnknown(table.placement->nameOf(cells[i]), at);
      if (slots > kMaxSlots - total)
        return describeTooMany(table.placement->nameOf(cells[i]), at, slots);
      total += slots;
    }
  return std::nullopt;
}

//===----------------------------------------------------------------------===//
// Phases that workers share
//
// A phase with Occurrence::Spread computes a shard on each worker, so each
// worker of a unit's path needs one cell of it.
//===----------------------------------------------------------------------===//

namespace {
/// Checks the cells of one phase.
class SpreadVerifier {
public:
  SpreadVerifier(const TableView &table, Phase phase)
      : table(table), placement(*table.placement), phase(phase),
        byUnit(placement.getNumUnits()) {}

  std::optional<Violation> run();

private:
  /// The cells found for a unit.
  struct Shards {
    int64_t count = 0;
    CellRef last = {-1, -1}; ///< the last cell in the order of the rows
  };

  std::optional<Violation> readRow(int64_t row);
  std::optional<Violation> checkStage(CellRef here) const;
  std::optional<Violation> checkUnit(int64_t unit) const;
  bool hasCell(int64_t row, int64_t unit) const {
    return llvm::any_of(table.rows[row], [&](Cell cell) {
      return cell.is(phase) && cell.getUnit() == unit;
    });
  }
  CellName nameAt(CellRef at) const {
    return placement.nameOf(table.rows[at.row][at.index]);
  }

  const TableView &table;
  const Placement &placement;
  Phase phase;
  std::vector<Shards> byUnit;
  std::vector<int64_t> numWorkersOf; ///< by path
  std::optional<CellRef> any;        ///< a cell of the phase
};
} // namespace

/// On the worker of the first or last stage, the cell that uses its input or
/// output must be a cell of that stage: the order of the row and its waits rely
/// on it.
std::optional<Violation> SpreadVerifier::checkStage(CellRef here) const {
  Cell cell = table.rows[here.row][here.index];
  int64_t path = placement.pathOf(cell.getUnit());
  std::optional<PathEnd> end = traitsOf(phase).order.end;
  if (!end)
    return std::nullopt;
  bool isFirst = *end == PathEnd::First;
  int64_t stage = isFirst ? 0 : placement.getNumStages(path) - 1;
  if (cell.getStage() == stage ||
      placement.workerOf(placement.stageOffset(path) + stage) != here.row)
    return std::nullopt;
  return Violation{
      here,
      formatv(
          "cell {0} ({1}) is of stage {2}, but worker {3} has the {4} stage of "
          "its path, which exchanges data with the shards: expected {5}",
          here.index, nameAt(here), cell.getStage(), here.row,
          isFirst ? "first" : "last",
          placement.nameOf(Cell(stage, phase, cell.getUnit()))),
      {}};
}

std::optional<Violation> SpreadVerifier::readRow(int64_t row) {
  ArrayRef<Cell> cells = table.rows[row];
  for (int64_t i = 0, e = cells.size(); i != e; ++i) {
    if (!cells[i].is(phase))
      continue;
    CellRef here = {row, i};
    if (std::optional<Violation> violation = checkStage(here))
      return violation;
    Shards &shards = byUnit[cells[i].getUnit()];
    if (shards.last.row == row)
      return Violation{
          here,
          formatv("cell {0} ({1}) runs the shard of worker {2} a second time",
                  i, nameAt(here), row),
          {{shards.last, formatv("{0} is cell {1} of this row",
                                 nameAt(shards.last), shards.last.index)}}};
    shards.last = here;
    ++shards.count;
    if (!any)
      any = here;
  }
  return std::nullopt;
}

/// Finds a worker of the path of a unit that has no cell of the phase.
std::optional<Violation> SpreadVerifier::checkUnit(int64_t unit) const {
  int64_t path = placement.pathOf(unit);
  const Shards &shards = byUnit[unit];
  if (shards.count == numWorkersOf[path])
    return std::nullopt;
  CellRef other = shards.count == 0 ? *any : shards.last;
  for (int64_t stage = 0; stage != placement.getNumStages(path); ++stage) {
    int64_t worker = placement.workerOf(placement.stageOffset(path) + stage);
    if (shards.count != 0 && hasCell(worker, unit))
      continue;
    return Violation{
        other,
        formatv("{0} is missing: worker {1} runs {2}, and worker {3} has a "
                "shard of it",
                placement.nameOf(Cell(stage, phase, unit)), other.row,
                nameAt(other), worker),
        {}};
  }
  return std::nullopt;
}

std::optional<Violation> SpreadVerifier::run() {
  for (int64_t row = 0, e = table.rows.size(); row != e; ++row)
    if (std::optional<Violation> violation = readRow(row))
      return violation;
  if (!any)
    return std::nullopt;
  for (int64_t path = 0; path != placement.getNumPaths(); ++path) {
    llvm::SmallBitVector isOnPath(placement.getNumWorkers());
    for (int32_t worker : placement.getPath(path).workers)
      isOnPath.set(worker);
    numWorkersOf.push_back(isOnPath.count());
  }
  for (int64_t unit = 0; unit != placement.getNumUnits(); ++unit)
    if (std::optional<Violation> violation = checkUnit(unit))
      return violation;
  return std::nullopt;
}

std::optional<Violation> pipesched::verifySpread(const TableView &table) {
  std::optional<Violation> violation;
  kSpreadPhases.forEach([&](Phase phase) {
    if (!violation)
      violation = SpreadVerifier(table, phase).run();
  });
  return violation;
}

//===----------------------------------------------------------------------===//
// Parameter sets
//
// Sweeps once over each row: an O or G marks all stages that hold its blocks,
// and no later cell may be of a marked stage. verifyRow has checked the stage
// of the O or G itself.
//===----------------------------------------------------------------------===//

namespace {
class ParameterSetVerifier {
public:
  ParameterSetVerifier(const TableView &table, const ParameterSets &sets)
      : table(table), placement(*table.placement), sets(sets),
        marks(placement.getNumGlobalStages()) {}

  std::optional<Violation> checkRow(int64_t row);

private:
  /// The first O and the first G of blocks of a stage in the row.
  struct Mark {
    int64_t step = -1, reduction = -1;
  };

  std::optional<Violation> checkOwner(CellRef at) const;
  std::optional<Violation> checkCell(CellRef at) const;
  void mark(CellRef at);
  Cell cellAt(CellRef at) const { return table.rows[at.row][at.index]; }
  int64_t stageAt(CellRef at) const {
    return placement.globalStage(cellAt(at));
  }

  const TableView &table;
  const Placement &placement;
  const ParameterSets &sets;
  std::vector<Mark> marks; ///< by global stage
};
} // namespace

/// Checks that the stage of an O or G owns blocks.
std::optional<Violation> ParameterSetVerifier::checkOwner(CellRef at) const {
  Cell cell = cellAt(at).withOverlap(false);
  if (sets.ownsAny(stageAt(at)))
    return std::nullopt;
  return Violation{at,
                   formatv("cell {0} ({1}) has no blocks to {2}: {3}", at.index,
                           cell, cell.is(Phase::Optimizer) ? "step" : "reduce",
                           sets.describeOwners(stageAt(at), cell.getPhase())),
                   {}};
}

void ParameterSetVerifier::mark(CellRef at) {
  bool isStep = cellAt(at).is(Phase::Optimizer);
  sets.forEachUser(stageAt(at), [&](int64_t stage) {
    int64_t &first = isStep ? marks[stage].step : marks[stage].reduction;
    if (first < 0)
      first = at.index;
  });
}

/// Checks that a cell that uses parameters comes before the O and the G of its
/// blocks. A mark after the cell comes from the other half of its pair.
std::optional<Violation> ParameterSetVerifier::checkCell(CellRef at) const {
  Cell cell = cellAt(at).withOverlap(false);
  const Mark &mark = marks[stageAt(at)];
  int64_t other = mark.step;
  if (other < 0 && cell.isIn(kGradientPhases))
    other = mark.reduction;
  if (other < 0)
    return std::nullopt;
  CellRef otherAt = {at.row, other};
  Cell otherCell = cellAt(otherAt).withOverlap(false);
  return Violation{
      at,
      formatv("cell {0} ({1}) {2} {3}, which {4} its blocks", at.index,
              placement.nameOf(cell),
              other == at.index + 1 ||
                      (other + 1 == at.index && cellAt(otherAt).overlapsNext())
                  ? "is overlapped with"
                  : "runs after",
              otherCell,
              otherCell.is(Phase::Optimizer) ? "steps"
                                             : "reduces the gradients of"),
      {{otherAt, formatv("{0} is cell {1} of this row", otherCell, other)}}};
}

///   row     1F0 1F1 1B1 1B0 1O0        stages 1 of both paths are the same
///   marks                   both
std::optional<Violation> ParameterSetVerifier::checkRow(int64_t row) {
  llvm::ArrayRef<Cell> cells = table.rows[row];
  for (int64_t i = 0, end = cells.size(); i != end; ++i) {
    if (cells[i].isPerPath())
      if (std::optional<Violation> violation = checkOwner({row, i}))
        return violation;
    bool isPair = cells[i].overlapsNext() && i + 1 != end;
    if (isPair && cells[i + 1].isPerPath())
      mark({row, i + 1});
    if (cells[i].isPerPath())
      mark({row, i});
    else if (cells[i].isCompute())
      if (std::optional<Violation> violation = checkCell({row, i}))
        return violation;
  }
  return std::nullopt;
}

std::optional<Violation>
pipesched::verifyParameterSets(const TableView &table, const CellIndex &index) {
  const ParameterSets *sets = index.getParameterSets();
  if (!sets)
    return std::nullopt;
  ParameterSetVerifier verifier(table, *sets);
  for (int64_t row = 0, end = table.rows.size(); row != end; ++row)
    if (std::optional<Violation> violation = verifier.checkRow(row))
      return violation;
  return std::nullopt;
}
