//===- Offload.cpp - Adds offload cells to tables -------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Decides for each row which activations are offloaded, then rewrites the row
// with their copies and, if memory is limited, with joins.
//
//===----------------------------------------------------------------------===//

#include "PipeSched/Schedule/Edit/Offload.h"
#include "../Table/Entries.h"
#include "PipeSched/Schedule/Check/Verify.h"
#include "PipeSched/Schedule/Kinds/PhaseSets.h"
#include "PipeSched/Schedule/Table/Slots.h"
#include "PipeSched/Support/FormatError.h"
#include "llvm/ADT/BitVector.h"
#include "llvm/ADT/STLExtras.h"
#include <algorithm>
#include <utility>

using namespace pipesched;
using llvm::ArrayRef;
using llvm::Error;
using llvm::Expected;
using llvm::formatv;

static Error checkOffloadOptions(const Placement &placement,
                                 const OffloadOptions &options) {
  int64_t least = std::min({options.keep, options.ahead, options.memory});
  if (least < 0)
    return formatError("activations to keep or to hold and cells to reload "
                       "ahead are 0 or more, found {0}",
                       least);
  return checkSelection(placement, options.stages, options.workers,
                        options.microbatches);
}

//===----------------------------------------------------------------------===//
// Selection of activations
//===----------------------------------------------------------------------===//

namespace {
/// Numbers the compute entries of each row. All other entries have the number
/// of the last compute entry:
///
///   row      0F0 0D0 0F1+0B0 _2 0d0 0F2
///   number    0   0    1  1   1  1   2
class ComputeNumbers {
public:
  explicit ComputeNumbers(const TableView &table) {
    numbers.reserve(table.getNumCells());
    for (ArrayRef<Cell> row : table.rows) {
      int64_t number = -1;
      forEachEntry(row, [&](int64_t, ArrayRef<Cell> cells) {
        number += cells.front().isCompute();
        numbers.insert(numbers.end(), cells.size(), number);
      });
    }
  }
  int64_t of(uint32_t flat) const { return numbers[flat]; }

private:
  std::vector<int32_t> numbers; ///< by flat index
};

/// The cells that make and use an activation, as flat indices.
struct Uses {
  uint32_t forward, backward, last;
};

Uses usesOf(const CellIndex &index, int64_t entry) {
  uint32_t whole = index.at(entry, Phase::Backward);
  bool isSplit = whole == CellIndex::kNone;
  return {index.at(entry, Phase::Forward),
          isSplit ? index.at(entry, Phase::InputGrad) : whole,
          isSplit ? index.at(entry, Phase::WeightGrad) : whole};
}

/// Decides for each row which activations are offloaded.
class OffloadChooser {
public:
  OffloadChooser(const TableView &table, const CellIndex &index,
                 const SlotAssignment &slots,
                 const ComputeNumbers &computeNumbers,
                 const OffloadOptions &options)
      : table(table), index(index), slots(slots),
        computeNumbers(computeNumbers), options(options),
        isChosen(index.getNumEntries()), isKept(index.getNumEntries()) {}

  void run() {
    for (int64_t row = 0, end = table.rows.size(); row != end; ++row)
      if (isInRanges(options.workers, row))
        chooseRow(table.rows[row]);
  }

private:
  struct Candidate {
    int64_t entry, lifespan;
    uint32_t forward;
  };

  int64_t entryOf(Cell cell) const { return index.entryOf(cell); }

  void chooseRow(ArrayRef<Cell> row) {
    candidates.clear();
    for (Cell cell : row)
      if (cell.is(Phase::Forward))
        consider(cell);
    if (options.amount == OffloadAmount::Half)
      takeLongestHalf();
    for (Candidate candidate : candidates)
      isChosen.set(candidate.entry);
    if (options.keep > 0)
      keepSome(row);
  }

  void consider(Cell forward) {
    if (!isInRanges(options.stages, forward.getStage()) ||
        !isInRanges(options.microbatches,
                    table.placement->microbatchOf(forward.getUnit())))
      return;
    int64_t entry = entryOf(forward);
    Uses uses = usesOf(index, entry);
    int64_t numBetween =
        computeNumbers.of(uses.backward) - computeNumbers.of(uses.forward) - 1;
    if (index.at(entry, Phase::Offload) != CellIndex::kNone)
      ++numPresent;
    else if (index.at(entry, Phase::Recompute) != CellIndex::kNone)
      ++numRecomputed;
    else if (numBetween <= options.ahead)
      ++numBrief;
    else
      candidates.push_back({entry,
                            slots.start[uses.last] - slots.start[uses.forward],
                            uses.forward});
  }

  /// Chooses the activations that live longest. Among equally long ones, it
  /// takes every other one in the order of their forwards, so that the
  /// remaining ones are spread over the step.
  void takeLongestHalf() {
    llvm::sort(candidates, [](Candidate a, Candidate b) {
      return std::tie(b.lifespan, a.forward) < std::tie(a.lifespan, b.forward);
    });
    std::vector<Candidate> sorted;
    sorted.reserve(candidates.size());
    for (size_t begin = 0, end = 0; begin < candidates.size(); begin = end) {
      while (end < candidates.size() &&
             candidates[end].lifespan == candidates[begin].lifespan)
        ++end;
      for (size_t first : {begin, begin + 1})
        for (size_t i = first; i < end; i += 2)
          sorted.push_back(candidates[i]);
    }
    sorted.resize((sorted.size() + 1) / 2);
    candidates = std::move(sorted);
  }

  /// Keeps activations on the device, in row order, while there is room.
  void keepSome(ArrayRef<Cell> row) {
    int64_t numKept = 0;
    forEachEntry(row, [&](int64_t, ArrayRef<Cell> cells) {
      for (Cell cell : cells)
        if (cell.is(Phase::Forward) && isChosen.test(entryOf(cell)) &&
            numKept < options.keep) {
          ++numKept;
          isKept.set(entryOf(cell));
          isChosen.reset(entryOf(cell));
        }
      for (Cell cell : cells)
        numKept -= cell.isIn(kReleasingPhases) && isKept.test(entryOf(cell));
    });
  }

  const TableView &table;
  const CellIndex &index;
  const SlotAssignment &slots;
  const ComputeNumbers &computeNumbers;
  const OffloadOptions &options;
  std::vector<Candidate> candidates; ///< of the current row

public:
  llvm::BitVector isChosen; ///< by entry of the index
  int64_t numPresent = 0, numRecomputed = 0, numBrief = 0;

private:
  /// By entry of the index: kept because of the option `keep`.
  llvm::BitVector isKept;
};
} // namespace

//===----------------------------------------------------------------------===//
// Places of the copies
//===----------------------------------------------------------------------===//

static Cell copyOf(Cell cell, Phase phase) {
  return Cell(cell.getStage(), phase, cell.getUnit());
}

namespace {
/// The offloads of a row in the order of their queue:
///
///   issued   D0    D1    D2    D3
///            done  done  .     .        done: awaited by the next compute cell
///
/// An offload counts as held until it is done. If its U is issued earlier, the
/// U counts instead from then on, because it cannot start before the offload
/// ends.
class OffloadQueue {
public:
  void issue(Cell offload, bool holdsBytes) {
    entries.push_back({offload, holdsBytes});
  }
  size_t size() const { return entries.size(); }
  bool isDone(size_t i) const { return i < numDone; }
  /// Returns the index of the first offload below `end` that frees memory when
  /// it ends, or `end`.
  size_t firstHeld(size_t end) const {
    size_t i = std::min(numDone, end);
    while (i < end && !entries[i].isHeld)
      ++i;
    return i;
  }
  Cell at(size_t i) const { return entries[i].cell; }
  /// From now on, counts the U of an offload instead of the offload.
  void passOn(size_t i) { entries[i].isHeld = false; }
  /// Marks the offloads below `end` as done. Returns the number of them that
  /// were held.
  int64_t finish(size_t end) {
    int64_t numFreed = 0;
    for (; numDone < end; ++numDone)
      numFreed += entries[numDone].isHeld;
    return numFreed;
  }

private:
  struct Entry {
    Cell cell;
    bool isHeld;
  };
  std::vector<Entry> entries;
  size_t numDone = 0;
};

/// A position in a row at which more activations are held than allowed.
struct Excess {
  CellRef at;
  Cell cell; ///< the cell that allocates
  int64_t held;
};

/// Writes rows with copies, and with joins if memory is limited.
class OffloadWriter {
public:
  OffloadWriter(const TableView &table, const CellIndex &index,
                const ComputeNumbers &computeNumbers,
                const llvm::BitVector &isChosen, int64_t memory)
      : table(table), index(index), computeNumbers(computeNumbers),
        isChosen(isChosen), memory(memory), queuePlaces(index.getNumEntries()),
        isJoined(index.getNumEntries()) {}

  /// Writes a row whose reloads are issued `ahead` compute cells early.
  std::optional<Excess> write(int64_t number, int64_t ahead);

  Row written;
  int64_t numJoins = 0; ///< number of joins added to `written`

private:
  /// A U after the compute entry with number `after`.
  struct Reload {
    int64_t after;
    Cell cell;
  };

  int64_t entryOf(Cell cell) const { return index.entryOf(cell); }
  bool isRecomputed(int64_t entry) const {
    return index.at(entry, Phase::Recompute) != CellIndex::kNone;
  }
  bool isOffloaded(int64_t entry) const {
    return isChosen.test(entry) ||
           index.at(entry, Phase::Offload) != CellIndex::kNone;
  }

  void listReloads(int64_t row, int64_t ahead);
  void start(int64_t number);
  void writeCompute(int64_t i, ArrayRef<Cell> cells);
  void writeBeside(int64_t i, Cell cell);
  void offload(Cell cell);
  void reload(int64_t i, Cell cell);
  void awaitCopiesOf(ArrayRef<Cell> cells);
  int64_t numAllocated(ArrayRef<Cell> cells) const;
  void makeRoom(CellRef at, Cell cell, int64_t numNew, size_t end,
                size_t place);
  void join(Cell offload, size_t place);

  const TableView &table;
  const CellIndex &index;
  const ComputeNumbers &computeNumbers;
  const llvm::BitVector &isChosen;
  int64_t memory;
  std::vector<uint32_t> queuePlaces; ///< by entry of the index, for offloaded
                                     ///< ones
  llvm::BitVector isJoined; ///< by entry of the index: whether a join was added

  // The state of the current row.
  int64_t row = 0;
  std::vector<Reload> reloads; ///< in the order of their backwards
  size_t nextReload = 0;
  OffloadQueue queue;
  int64_t held = 0;
  int64_t computeNumber = -1;  ///< number of the last compute entry
  size_t computeBegin = 0;     ///< its position in `written`
  size_t numBeforeCompute = 0; ///< offloads issued before it
  size_t numJoined = 0; ///< number of offloads awaited by joins of the table
                        ///< before the next compute entry or reload
  std::optional<Excess> excess;
};
} // namespace

/// The reloads are in the order of their backwards, and the reload queue runs
/// them in this order.
void OffloadWriter::listReloads(int64_t row, int64_t ahead) {
  reloads.clear();
  for (auto [i, cell] : llvm::enumerate(table.rows[row]))
    if (cell.isIn(kBackwardStarts) && isChosen.test(entryOf(cell)))
      reloads.push_back({computeNumbers.of(index.rowBegin(row) + i) - ahead - 1,
                         copyOf(cell, Phase::Reload)});
}

void OffloadWriter::start(int64_t number) {
  row = number;
  written.clear();
  written.reserve(table.rows[row].size() + 3 * reloads.size());
  queue = OffloadQueue();
  for (Cell cell : table.rows[row])
    if (cell.is(Phase::Forward))
      isJoined.reset(entryOf(cell));
  nextReload = computeBegin = numBeforeCompute = numJoined = 0;
  held = numJoins = 0;
  computeNumber = -1;
  excess.reset();
}

std::optional<Excess> OffloadWriter::write(int64_t number, int64_t ahead) {
  listReloads(number, ahead);
  start(number);
  forEachEntry(table.rows[row], [&](int64_t i, ArrayRef<Cell> cells) {
    if (cells.front().isCompute())
      writeCompute(i, cells);
    else
      writeBeside(i, cells.front());
  });
  return excess;
}

/// An F allocates the activations, unless an R recomputes them; then the R
/// allocates them.
int64_t OffloadWriter::numAllocated(ArrayRef<Cell> cells) const {
  return llvm::count_if(cells, [&](Cell cell) {
    return cell.isIn(kActivationMakers) &&
           (!cell.is(Phase::Forward) || !isRecomputed(entryOf(cell)));
  });
}

/// Writes a compute entry with its copies and joins:
///
///   [joins] cells [D of its forwards] [U of later backwards]
void OffloadWriter::writeCompute(int64_t i, ArrayRef<Cell> cells) {
  awaitCopiesOf(cells);
  int64_t numNew = numAllocated(cells);
  makeRoom({row, i}, cells.front(), numNew, queue.size(), written.size());
  computeBegin = written.size();
  numBeforeCompute = queue.size();
  held += numNew;
  ++computeNumber;
  written.insert(written.end(), cells.begin(), cells.end());
  for (Cell cell : cells) {
    held -= cell.isIn(kReleasingPhases);
    if (cell.is(Phase::Forward) && isChosen.test(entryOf(cell)))
      offload(copyOf(cell, Phase::Offload));
  }
  for (; nextReload < reloads.size() &&
         reloads[nextReload].after == computeNumber;
       ++nextReload)
    reload(i, reloads[nextReload].cell);
}

/// Writes copies and joins of the table, and idle slots.
void OffloadWriter::writeBeside(int64_t i, Cell cell) {
  if (cell.is(Phase::Offload))
    return offload(cell);
  if (cell.is(Phase::Reload))
    return reload(i, cell);
  if (cell.isJoin())
    numJoined = std::max<size_t>(numJoined, queuePlaces[entryOf(cell)] + 1);
  if (cell.is(Phase::OffloadJoin) && isJoined.test(entryOf(cell)))
    return;
  written.push_back(cell);
}

void OffloadWriter::offload(Cell cell) {
  written.push_back(cell);
  queuePlaces[entryOf(cell)] = queue.size();
  queue.issue(cell, !isRecomputed(entryOf(cell)));
}

/// A reload starts when the preceding compute cell has ended, so only offloads
/// for which that cell waits make room for the reload. Joins of the table right
/// before a reload delay only the reload, so later cells cannot rely on them.
void OffloadWriter::reload(int64_t i, Cell cell) {
  numJoined = 0;
  uint32_t place = queuePlaces[entryOf(cell)];
  if (!queue.isDone(place)) {
    queue.passOn(place);
  } else if (!isRecomputed(entryOf(cell))) {
    makeRoom({row, i}, cell, /*numNew=*/1, numBeforeCompute, computeBegin);
    ++held;
  }
  written.push_back(cell);
}

/// A backward waits for its U, the U for its D, and the D for all earlier Ds.
void OffloadWriter::awaitCopiesOf(ArrayRef<Cell> cells) {
  held -= queue.finish(std::exchange(numJoined, 0));
  for (Cell cell : cells)
    if (cell.isIn(kBackwardStarts) && isOffloaded(entryOf(cell)))
      held -= queue.finish(queuePlaces[entryOf(cell)] + 1);
}

/// Adds joins at `place` of the row until there is room for `numNew` more
/// activations. They wait for some of the first `end` offloads.
void OffloadWriter::makeRoom(CellRef at, Cell cell, int64_t numNew, size_t end,
                             size_t place) {
  while (memory > 0 && numNew > 0 && held + numNew > memory) {
    size_t oldest = queue.firstHeld(end);
    if (oldest == end) {
      if (!excess)
        excess = Excess{at, cell, held + numNew};
      return;
    }
    join(queue.at(oldest), place++);
    held -= queue.finish(oldest + 1);
  }
}

/// Adds a join; a later join of the table for the same offload is redundant.
void OffloadWriter::join(Cell offload, size_t place) {
  Cell join = copyOf(offload, Phase::OffloadJoin);
  isJoined.set(entryOf(offload));
  ++numJoins;
  written.insert(written.begin() + place, join);
  auto later = std::find(written.begin() + place + 1, written.end(), join);
  if (later != written.end())
    written.erase(later);
  computeBegin += place <= computeBegin;
}

//===----------------------------------------------------------------------===//
// The whole table
//===----------------------------------------------------------------------===//

static Error describeExcess(const Excess &excess, int64_t memory) {
  return llvm::make_error<ViolationError>(Violation{
      excess.at,
      formatv("worker {0} holds {1} activation{2} when {3} starts, with every "
              "offload before it awaited: memory is {4}",
              excess.at.row, excess.held, excess.held == 1 ? "" : "s",
              excess.cell, memory),
      {}});
}

/// Tries again with later reloads if there is no room for early ones.
static Error writeRow(OffloadWriter &writer, int64_t row, int64_t ahead,
                      int64_t memory) {
  while (std::optional<Excess> excess = writer.write(row, ahead)) {
    if (ahead == 0)
      return describeExcess(*excess, memory);
    ahead /= 2;
  }
  return Error::success();
}

static Error checkSize(const TableView &table, int64_t numAdded) {
  // Each activation adds D, U and a join.
  int64_t cells = table.getNumCells() + 3 * numAdded;
  if (cells <= kMaxTableCells)
    return Error::success();
  return formatError("with its copies the table may have {0} entries: there "
                     "may be {1} at most",
                     cells, kMaxTableCells);
}

Expected<OffloadChange> pipesched::addOffload(const TableView &table,
                                              const OffloadOptions &options) {
  if (Error error = checkOffloadOptions(*table.placement, options))
    return std::move(error);
  if (Error error = table.placement->checkTrainsAll("offloading takes"))
    return std::move(error);
  if (std::optional<Violation> violation = verifyTable(table))
    return llvm::make_error<ViolationError>(std::move(*violation));
  CellIndex index = llvm::cantFail(CellIndex::create(table));
  SlotAssignment slots = llvm::cantFail(alignUnitSlots(table, index));
  ComputeNumbers computeNumbers(table);
  OffloadChooser chooser(table, index, slots, computeNumbers, options);
  chooser.run();
  OffloadChange change;
  change.numAdded = chooser.isChosen.count();
  change.numPresent = chooser.numPresent;
  change.numRecomputed = chooser.numRecomputed;
  change.numBrief = chooser.numBrief;
  if (Error error = checkSize(table, change.numAdded))
    return std::move(error);
  OffloadWriter writer(table, index, computeNumbers, chooser.isChosen,
                       options.memory);
  for (int64_t row = 0, end = table.rows.size(); row != end; ++row) {
    if (Error error = writeRow(writer, row, options.ahead, options.memory))
      return std::move(error);
    change.rows.push_back(std::move(writer.written));
    change.numJoins += writer.numJoins;
  }
  return change;
}
