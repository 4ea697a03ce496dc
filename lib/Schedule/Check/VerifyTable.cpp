//===- VerifyTable.cpp - Checks of a whole table --------------------------===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Checks completeness by counting, waits by sweeping the rows against each
// other, and slots by reading them. Memory is linear in the cells, whatever
// sizes a schedule claims.
//
//===----------------------------------------------------------------------===//

#include "PipeSched/Schedule/Check/Verify.h"
#include "PipeSched/Schedule/Table/Slots.h"
#include "PipeSched/Schedule/Walk/Wavefront.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/FormatVariadic.h"

using namespace pipesched;
using llvm::ArrayRef;
using llvm::formatv;

static constexpr size_t kMaxEdgeNotes = 8;

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

/// The lowest rank for which `row` has no forward on that stage; at most k if
/// there are k forwards.
static int64_t firstMissingRank(const Placement &placement, ArrayRef<Cell> row,
                                int64_t globalStage, int64_t numForwards) {
  std::vector<bool> isPresent(numForwards, false);
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
      if (counts[global] >= placement.countOnPath(path))
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

/// The cell that has to follow another one, or an alternative, and is missing.
static Violation describeMissing(const TableView &table, const CellIndex &index,
                                 int64_t entry, PhaseSet present,
                                 PhaseSet alternatives) {
  Phase follower = Phase::Idle, leader = Phase::Forward;
  present.forEach([&](Phase phase) {
    std::optional<Phase> next = traitsOf(phase).order.followedBy;
    if (next && !present.contains(*next) && follower == Phase::Idle)
      std::tie(follower, leader) = std::pair(*next, phase);
  });
  if (!present.intersects(alternatives))
    return describeMissing(
        table, index, index.at(entry, Phase::Forward), alternatives.first(),
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
  constexpr PhaseSet kAlternatives = phasesWith([](const PhaseTraits &traits) {
    return traits.order.occurrence == Occurrence::Alternative;
  });
  for (int64_t entry = 0, e = index.getNumEntries(); entry != e; ++entry) {
    PhaseSet present, followers;
    kIndexedPhases.forEach([&](Phase phase) {
      if (isMissing(index.at(entry, phase)))
        return;
      present |= phase;
      if (std::optional<Phase> next = traitsOf(phase).order.followedBy)
        followers |= *next;
    });
    if (!present.intersects(kAlternatives) || !(followers - present).isEmpty())
      return describeMissing(table, index, entry, present, kAlternatives);
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

/// Says how the waiting cell in its row delays an awaited cell.
static Violation::Note describeHold(const TableView &table, CellRef awaited,
                                    CellRef waiting) {
  bool isLater = awaited.index > waiting.index;
  return {awaited, formatv("{0} on worker {1} {2} {3} in its row",
                           nameAt(table, awaited), awaited.row,
                           isLater ? "runs after" : "is overlapped with",
                           nameAt(table, waiting))};
}

Violation pipesched::describeCycle(const TableView &table,
                                   ArrayRef<CellWait> waits) {
  Violation violation;
  std::vector<CellRef> &cycle = violation.cycle;
  for (auto [i, wait] : llvm::enumerate(waits)) {
    auto [waiting, awaited] = wait;
    cycle.push_back(waiting);
    violation.notes.push_back(
        {waiting, formatv("{0} on worker {1} waits for {2} on worker {3}",
                          nameAt(table, waiting), waiting.row,
                          nameAt(table, awaited), awaited.row)});
    CellRef next = waits[(i + 1) % waits.size()].waiting;
    if (awaited.index == next.index)
      continue;
    cycle.push_back(awaited);
    violation.notes.push_back(describeHold(table, awaited, next));
  }
  violation.at = cycle.front();
  violation.message =
      formatv("the rows deadlock: {0} waits for itself in a cycle of {1}",
              nameAt(table, cycle.front()), cycle.size());
  if (cycle.size() > kMaxEdgeNotes) {
    violation.notes.resize(kMaxEdgeNotes);
    violation.notes.push_back(
        {std::nullopt, formatv("and {0} more", cycle.size() - kMaxEdgeNotes)});
  }
  return violation;
}

namespace {
/// Checks waits between rows by written slots; the order within a row always
/// holds.
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
        formatv("cell {0} ({1}) of worker {2} starts at slot {3}, before {4} "
                "has ended, which is at slot {5}",
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
/// The handler of a walk that only asks whether the walk reaches the end.
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
  int64_t numLeftOut() const { return 0; }
  int64_t numHeld() const { return 0; }
  template <typename Visitor>
  void visitState(Visitor &) {}
  template <typename Visitor>
  void visitItem(Item &, Visitor &) {}
  ClockValues<Time> clocksOf(uint32_t) const { return {}; }
  void noteLeap(llvm::ArrayRef<LeapedRow>) {}
};
} // namespace

/// Whether sums and a walk show that nothing is wrong with the forwards and
/// backwards and with the order of the rows. If something is wrong, they do not
/// say what it is.
static bool isPlainlyValid(const TableView &table, const PhaseCounts &counts) {
  constexpr PhaseSet kOthers = kCollectivePhases | kWidePhases | kSpreadPhases;
  if (table.aligned || counts.hasAny(kOthers) || hasCopies(counts) ||
      !isComplete(*table.placement, counts))
    return false;
  EmptyWalk walk;
  return walkInSlots<EmptyWalk::Item>(table, /*groups=*/nullptr, walk);
}

/// Checks everything, to find out what is wrong.
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
    return ofSchedule("the schedule has several paths, and none says which "
                      "microbatches it takes");
  if (static_cast<int64_t>(table.rows.size()) != placement.getNumWorkers())
    return ofSchedule(formatv("the table has {0} rows for {1} workers",
                              table.rows.size(), placement.getNumWorkers()));
  if (table.getNumCells() > kMaxTableCells)
    return checkCells(table, /*isPlain=*/false);
  PhaseCounts counts = countPhases(table);
  bool isPlain = isPlainlyValid(table, counts);
  if (isPlain && !counts.has(Phase::Optimizer))
    return std::nullopt;
  return checkCells(table, isPlain);
}

std::string pipesched::toString(const Violation &violation) {
  std::string text = violation.message;
  for (const Violation::Note &note : violation.notes)
    text += "\nnote: " + note.message;
  return text;
}

char ViolationError::ID = 0;
