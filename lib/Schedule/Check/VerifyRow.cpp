//===- VerifyRow.cpp - Checks of one row ----------------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Checks each cell by itself, then the order of the cells of each stage and
// microbatch, then O and G cells, which concern a whole stage.
//
//===----------------------------------------------------------------------===//

#include "PipeSched/Schedule/Check/Verify.h"
#include "PipeSched/Schedule/Kinds/PhaseSets.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/MathExtras.h"
#include <algorithm>

using namespace pipesched;
using llvm::formatv;

namespace {
class RowVerifier {
public:
  RowVerifier(const Placement &placement, int64_t row,
              llvm::ArrayRef<Cell> cells)
      : placement(placement), row(row), cells(cells),
        isPlain(placement.trainsAll() && placement.getAdded().isEmpty()) {}

  std::optional<Violation> run();

private:
  bool isFine(Cell cell) const;
  std::optional<Violation> checkCell(int64_t i);
  std::optional<Violation> checkNumber(int64_t i) const;
  std::optional<Violation> checkHost(int64_t i) const;
  std::optional<Violation> checkKind(int64_t i) const;
  std::optional<Violation> checkOverlap(int64_t i) const;
  std::optional<Violation> checkOrder() const;
  template <typename IndexOf>
  std::optional<Violation> checkOrder(int64_t numIndices,
                                      IndexOf &&indexOf) const;
  std::optional<Violation> checkPerPath() const;

  int64_t neighbourOf(Cell cell) const;
  /// Whether `cell` waits for `other`, the cell of an adjacent slice on the
  /// same stage.
  bool isBeforeSlice(Cell other, Cell cell) const {
    return other.getUnit() == neighbourOf(cell) &&
           other.isIn(kOfNeighbour[cell.getPhase()]);
  }
  Violation describeOrder(int64_t i, PhaseSet seen) const;
  Violation describeSlices(int64_t i, int64_t neighbour) const;
  Violation describeOther(int64_t i, Cell other, std::string message) const;
  std::string name(int64_t i) const {
    return formatv("cell {0} ({1})", i, nameOf(cells[i]));
  }
  CellName nameOf(Cell cell) const { return placement.nameOf(cell); }
  Violation at(int64_t i, std::string message) const {
    return {CellRef{row, i}, std::move(message), {}};
  }

  const Placement &placement;
  int64_t row;
  llvm::ArrayRef<Cell> cells;
  bool isPlain; ///< all stages train, in chains
  bool hasPerPath = false;
};
} // namespace

/// Phases whose cells are ordered relative to other cells of their stage and
/// unit.
static constexpr PhaseSet kOrderedPhases =
    phasesWith([](const PhaseTraits &traits) {
      return traits.number == CellNumber::Unit;
    });
static bool isOrdered(Cell cell) { return cell.isIn(kOrderedPhases); }

/// The phases of a set as bits, by their numbers in the enum.
static constexpr uint32_t phaseBitsOf(PhaseSet phases) {
  uint32_t bits = 0;
  phases.forEach(
      [&](Phase phase) { bits |= 1u << static_cast<unsigned>(phase); });
  return bits;
}

namespace {
/// The phases that occurred for a stage and unit. One byte while eight bits are
/// enough for the indexed phases, because large rows have many pairs.
using SeenPhases =
    std::conditional_t<(phaseBitsOf(kIndexedPhases) < 256), uint8_t, uint32_t>;

/// The earlier phases that a phase requires or excludes, and the phases that it
/// marks as seen.
struct OrderRule {
  uint32_t needs, excludes, ofNeighbour, adds;
};
} // namespace
static constexpr PhaseMap<OrderRule> kOrderRules = [] {
  PhaseMap<OrderRule> rules = {};
  kAllPhases.forEach([&](Phase phase) {
    // Several joins may name one copy: each delays the cells after it.
    PhaseSet self = kIndexedPhases & phase;
    rules[phase] = {phaseBitsOf(traitsOf(phase).order.needs),
                    phaseBitsOf(kExcludedBefore[phase] | self),
                    phaseBitsOf(kOfNeighbour[phase]), phaseBitsOf(self)};
  });
  return rules;
}();
static PhaseSet phasesOf(uint32_t bits) {
  PhaseSet phases;
  for (; bits != 0; bits &= bits - 1)
    phases |= static_cast<Phase>(llvm::countr_zero(bits));
  return phases;
}

std::optional<Violation> RowVerifier::run() {
  if (row < 0 || row >= placement.getNumWorkers())
    return Violation{std::nullopt,
                     formatv("worker {0} is out of range: there are {1} (0 to "
                             "{2})",
                             row, placement.getNumWorkers(),
                             placement.getNumWorkers() - 1),
                     {}};
  if (cells.empty())
    return std::nullopt;
  if (!placement.isAssigned())
    return at(0, "the schedule has several paths without microbatches: state "
                 "them with 'takes'");
  for (int64_t i = 0, e = cells.size(); i != e; ++i)
    if (!isFine(cells[i]))
      if (std::optional<Violation> violation = checkCell(i))
        return violation;
  if (std::optional<Violation> violation = checkOrder())
    return violation;
  return hasPerPath ? checkPerPath() : std::nullopt;
}

/// A fast check: whether the stages are plain and the cell has no overlap and
/// is of a microbatch and a stage of this worker, as most cells are. Then
/// checkCell would find nothing.
bool RowVerifier::isFine(Cell cell) const {
  if (cell.overlapsNext() || !isOrdered(cell) || !isPlain ||
      cell.getUnit() >= placement.getNumUnits())
    return false;
  int64_t path = placement.pathOf(cell.getUnit());
  return cell.getStage() < placement.getNumStages(path) &&
         placement.workerOf(placement.stageOffset(path) + cell.getStage()) ==
             row;
}

std::optional<Violation> RowVerifier::checkCell(int64_t i) {
  Cell cell = cells[i];
  if (cell.overlapsNext())
    if (std::optional<Violation> violation = checkOverlap(i))
      return violation;
  if (cell.isIdle()) {
    if (cell.getIdleSlots() == 0)
      return at(i, formatv("cell {0} counts 0 idle slots: the count must be 1 "
                           "or more",
                           i));
    return std::nullopt;
  }
  hasPerPath |= cell.isPerPath();
  if (std::optional<Violation> violation = checkNumber(i))
    return violation;
  if (std::optional<Violation> violation = checkHost(i))
    return violation;
  return isPlain ? std::nullopt : checkKind(i);
}

/// Checks that the number is a microbatch in range, or a path.
std::optional<Violation> RowVerifier::checkNumber(int64_t i) const {
  Cell cell = cells[i];
  bool isPath = cell.isPerPath();
  if (cell.getNumber() <
      (isPath ? placement.getNumPaths() : placement.getNumUnits()))
    return std::nullopt;
  int64_t number =
      isPath ? cell.getPath() : placement.microbatchOf(cell.getUnit());
  int64_t count =
      isPath ? placement.getNumPaths() : placement.getNumMicrobatches();
  return at(i, formatv("{0}: {1} {2} is out of range: there {3} {4} (0 to {5})",
                       name(i), isPath ? "path" : "microbatch", number,
                       count == 1 ? "is" : "are", count, count - 1));
}

std::optional<Violation> RowVerifier::checkHost(int64_t i) const {
  Cell cell = cells[i];
  int64_t path = placement.pathOf(cell);
  int64_t numStages = placement.getNumStages(path);
  if (cell.getStage() >= numStages)
    return at(i, formatv("{0}: stage {1} is out of range: path {2} has {3} "
                         "stage{4} (0 to {5})",
                         name(i), cell.getStage(), path, numStages,
                         numStages == 1 ? "" : "s", numStages - 1));
  int64_t host = placement.workerOf(placement.globalStage(cell));
  if (host == row)
    return std::nullopt;
  return at(i, formatv("{0}: path {1} puts stage {2} on worker {3}, not on "
                       "worker {4}",
                       name(i), path, cell.getStage(), host, row));
}

/// Checks that the stage runs cells of this phase. This depends on which stages
/// train.
std::optional<Violation> RowVerifier::checkKind(int64_t i) const {
  Cell cell = cells[i];
  int64_t path = placement.pathOf(cell), stage = placement.globalStage(cell);
  if (!cell.isPerPath() && !placement.runs(stage, cell.getUnit()))
    return at(i, formatv("{0} must not occur: {1} does not take microbatch {2}",
                         name(i), placement.nameStage(stage), cell.getUnit()));
  if (!allowedPhases(placement.backwardOf(stage)).contains(cell.getPhase()))
    return at(i, formatv("{0} must not occur: {1}", name(i),
                         placement.describeBackward(stage)));
  if (!cell.isIn(kSpreadPhases))
    return std::nullopt;
  if (!placement.getAdded().isEmpty())
    return at(i, formatv("{0} belongs to a shard, and the schedule has edges "
                         "outside of its path: shards need chains of stages",
                         name(i)));
  if (placement.getPath(path).backward.isFull())
    return std::nullopt;
  return at(i, formatv("{0} belongs to a shard, and stages of path {1} are "
                       "frozen: shards need paths whose stages all train",
                       name(i), path));
}

std::optional<Violation> RowVerifier::checkOverlap(int64_t i) const {
  Cell first = cells[i];
  if (!first.isCompute())
    return at(i, formatv("{0} is not a compute cell and cannot be overlapped",
                         name(i)));
  if (i + 1 == static_cast<int64_t>(cells.size()))
    return at(i, formatv("{0} is overlapped with the next cell, but it is the "
                         "last of its row",
                         name(i)));
  Cell second = cells[i + 1];
  if (!second.isCompute())
    return at(i,
              formatv("{0} is overlapped with {1}, which is not a compute cell",
                      name(i), nameOf(second)));
  for (Cell cell : {first, second})
    if (cell.isIn(kCollectivePhases))
      return at(
          i,
          formatv(
              "{0} is overlapped with {1}: {2} runs alongside compute anyway",
              name(i), nameOf(second), describePhase(cell.getPhase())));
  if (second.overlapsNext())
    return at(i + 1, formatv("{0} is in two overlapped pairs: a pair has two "
                             "cells",
                             name(i + 1)));
  if (isOrdered(first) && isOrdered(second) &&
      first.getStage() == second.getStage() &&
      (first.getUnit() == second.getUnit() || isBeforeSlice(first, second) ||
       isBeforeSlice(second, first)))
    return at(i, formatv("{0} is overlapped with {1} of the same stage and "
                         "microbatch: one waits for the other",
                         name(i), nameOf(second)));
  return std::nullopt;
}

/// The unit of the slice that must come before the slice of a cell on its
/// stage; -1 if there is none.
int64_t RowVerifier::neighbourOf(Cell cell) const {
  int64_t slice = placement.sliceOf(cell.getUnit());
  switch (traitsOf(cell.getPhase()).order.slices) {
  case SliceOrder::Any:
    return -1;
  case SliceOrder::Ascending:
    return slice == 0 ? -1 : cell.getUnit() - 1;
  case SliceOrder::Descending:
    return slice + 1 == placement.getNumSlices() ? -1 : cell.getUnit() + 1;
  }
  llvm_unreachable("covered switch");
}

/// Complete rows have a cell for each pair of stage and microbatch of the
/// worker, so a byte array by pair is linear in the row. If a row has cells for
/// only a few pairs, only the pairs that occur have entries.
std::optional<Violation> RowVerifier::checkOrder() const {
  int64_t numPairs = placement.getNumLocalPairs(row);
  if (numPairs <= static_cast<int64_t>(8 * cells.size()) + 1024)
    return checkOrder(numPairs,
                      [&](Cell cell) { return placement.localPairOf(cell); });
  std::vector<int64_t> pairs;
  pairs.reserve(cells.size());
  for (Cell cell : cells)
    if (isOrdered(cell))
      pairs.push_back(placement.localPairOf(cell));
  llvm::sort(pairs);
  pairs.erase(std::unique(pairs.begin(), pairs.end()), pairs.end());
  // The last index is for pairs that do not occur in the row.
  return checkOrder(pairs.size() + 1, [&](Cell cell) -> int64_t {
    int64_t pair = placement.localPairOf(cell);
    auto found = llvm::lower_bound(pairs, pair);
    bool occurs = found != pairs.end() && *found == pair;
    return (occurs ? found : pairs.end()) - pairs.begin();
  });
}

template <typename IndexOf>
std::optional<Violation> RowVerifier::checkOrder(int64_t numIndices,
                                                 IndexOf &&indexOf) const {
  std::vector<SeenPhases> seenByIndex(numIndices);
  bool hasSlices = placement.getNumSlices() > 1;
  for (int64_t i = 0, e = cells.size(); i != e; ++i) {
    Cell cell = cells[i];
    if (!isOrdered(cell))
      continue;
    SeenPhases &seen = seenByIndex[indexOf(cell)];
    const OrderRule &rule = kOrderRules[cell.getPhase()];
    if ((rule.needs & ~seen) != 0 || (rule.excludes & seen) != 0)
      return describeOrder(i, phasesOf(seen));
    if (int64_t neighbour = hasSlices ? neighbourOf(cell) : -1; neighbour >= 0)
      if (Cell other(cell.getStage(), cell.getPhase(), neighbour);
          (seenByIndex[indexOf(other)] & rule.ofNeighbour) == 0)
        return describeSlices(i, neighbour);
    seen |= rule.adds;
  }
  return std::nullopt;
}

Violation RowVerifier::describeOrder(int64_t i, PhaseSet seen) const {
  Cell cell = cells[i];
  Phase phase = cell.getPhase();
  if (seen.contains(phase))
    return describeOther(i, cell, formatv("{0} occurs twice", name(i)));
  if (PhaseSet excluded = seen & kExcludedBefore[phase]; !excluded.isEmpty()) {
    Cell other = cell.withPhase(excluded.first()).withOverlap(false);
    if (traitsOf(phase).order.alternatives.contains(excluded.first()))
      return describeOther(
          i, other,
          formatv("{0} and {1}: a backward is either whole (B) "
                  "or split (I and W)",
                  name(i), nameOf(other)));
    return describeOther(
        i, other,
        formatv("{0} runs after {1}, which needs it", name(i), nameOf(other)));
  }
  Phase need = (traitsOf(phase).order.needs - seen).first();
  Cell other = cell.withPhase(need).withOverlap(false);
  return describeOther(i, other,
                       formatv("{0} runs before its {1} {2}", name(i),
                               enumMeaning(need), nameOf(other)));
}

Violation RowVerifier::describeSlices(int64_t i, int64_t neighbour) const {
  Cell cell = cells[i];
  Cell other(cell.getStage(), cell.getPhase(), neighbour);
  bool isAscending =
      traitsOf(cell.getPhase()).order.slices == SliceOrder::Ascending;
  auto isOther = [&](Cell found) {
    return isOrdered(found) && found.getStage() == other.getStage() &&
           isBeforeSlice(found, cell);
  };
  if (const Cell *found = llvm::find_if(cells, isOther); found != cells.end())
    other = found->withOverlap(false);
  return describeOther(
      i, other,
      formatv("{0} runs before {1}: the {2}s of a microbatch run from its {3} "
              "slice to its {4}",
              name(i), nameOf(other), isAscending ? "forward" : "backward",
              isAscending ? "first" : "last", isAscending ? "last" : "first"));
}

/// Adds a note that points to the first `other` cell of the row.
Violation RowVerifier::describeOther(int64_t i, Cell other,
                                     std::string message) const {
  Violation violation = at(i, std::move(message));
  const Cell *found = llvm::find_if(cells, [&](Cell cell) {
    return cell.withOverlap(false) == other.withOverlap(false);
  });
  if (found == cells.end()) {
    violation.notes.push_back(
        {std::nullopt, formatv("{0} is not in this row", nameOf(other))});
    return violation;
  }
  int64_t index = found - cells.begin();
  violation.notes.push_back(
      {CellRef{row, index},
       formatv("{0} is cell {1} of this row", nameOf(other), index)});
  return violation;
}

/// O and G occur once per stage. After O the stage is done for this step; after
/// G its weight gradients are complete.
std::optional<Violation> RowVerifier::checkPerPath() const {
  std::vector<PhaseSet> seenByStage(placement.getNumLocalStages(row));
  for (int64_t i = 0, e = cells.size(); i != e; ++i) {
    Cell cell = cells[i];
    if (!cell.isCompute())
      continue;
    PhaseSet &seen =
        seenByStage[placement.localStage(placement.globalStage(cell))];
    PhaseSet late = Phase::Optimizer;
    if (cell.isIn(kGradientPhases))
      late |= Phase::AllReduce;
    if (cell.isPerPath() && seen.contains(cell.getPhase()))
      return describeOther(i, cell, formatv("{0} occurs twice", name(i)));
    if (PhaseSet before = seen & late; !before.isEmpty()) {
      Cell other(cell.getStage(), before.first(), placement.pathOf(cell));
      return describeOther(
          i, other,
          formatv("{0} runs after {1} of its stage", name(i), nameOf(other)));
    }
    if (cell.isPerPath())
      seen |= cell.getPhase();
  }
  return std::nullopt;
}

std::optional<Violation> pipesched::verifyRow(const Placement &placement,
                                              int64_t row,
                                              llvm::ArrayRef<Cell> cells) {
  return RowVerifier(placement, row, cells).run();
}
