//===- Greedy.cpp - The furthest ready cell first, on any paths -----------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Simulates the table rule of arXiv 2605.24006 with lists of ready cells. An
// event is the end of a cell.
//
//===----------------------------------------------------------------------===//

#include "PipeSched/Schedule/Kinds/PhaseSets.h"
#include "Support.h"
#include "llvm/Support/CheckedArithmetic.h"
#include <algorithm>
#include <queue>
#include <tuple>

using namespace pipesched;
using llvm::Error;
using llvm::Expected;

//===----------------------------------------------------------------------===//
// Ready cells
//
// A worker has one first-in, first-out list of cells per position on a chain.
// So the furthest ready cell, and the oldest of several, is found without
// comparing cells.
//===----------------------------------------------------------------------===//

namespace {
/// Positions are s for F and 2S-1-s for backward phases of stage s of S. The
/// lists of a worker are numbered by position, one after the other:
///
///   worker 0: positions 0, 3, 4, 7   lists 0, 1, 2, 3
///   worker 1: positions 1, 2, 5, 6   lists 4, 5, 6, 7
///
/// A heap per worker holds the numbers of the lists that are not empty. Cells
/// are nodes of linked lists in one pool.
class ReadyCells {
public:
  explicit ReadyCells(const Placement &placement);

  bool isEmpty(int64_t worker) const { return heapSizes[worker] == 0; }

  void push(int64_t worker, int64_t globalStage, Cell cell);

  /// Removes and returns the first cell of the last list; needs
  /// !isEmpty(worker).
  Cell pop(int64_t worker);

private:
  static constexpr uint32_t kNone = ~uint32_t(0);

  struct CellList {
    uint32_t first = kNone, last = kNone;
  };
  struct Node {
    Cell cell;
    uint32_t next;
  };
  struct StageLists {
    uint32_t forward, backward;
  };

  uint32_t allocate(Cell cell);

  std::vector<StageLists> listsOf; ///< by global stage
  std::vector<CellList> lists;
  std::vector<uint32_t> heaps;      ///< of all workers, one after the other
  std::vector<uint32_t> heapBegins; ///< by worker
  std::vector<uint32_t> heapSizes;  ///< by worker
  std::vector<Node> nodes;
  uint32_t freeNode = kNone;
};
} // namespace

namespace {
/// One of the two positions of a stage.
struct CellPosition {
  int64_t worker, position, globalStage;
  bool isForward;

  auto key() const { return std::tie(worker, position); }
};
} // namespace

static std::vector<CellPosition> sortPositions(const Placement &placement) {
  std::vector<CellPosition> positions;
  positions.reserve(2 * placement.getNumGlobalStages());
  for (int64_t path = 0; path < placement.getNumPaths(); ++path)
    for (int64_t stage = 0, n = placement.getNumStages(path); stage < n;
         ++stage) {
      int64_t globalStage = placement.stageOffset(path) + stage;
      int64_t worker = placement.workerOf(globalStage);
      positions.push_back({worker, stage, globalStage, true});
      positions.push_back({worker, 2 * n - 1 - stage, globalStage, false});
    }
  std::sort(positions.begin(), positions.end(),
            [](const CellPosition &a, const CellPosition &b) {
              return a.key() < b.key();
            });
  return positions;
}

ReadyCells::ReadyCells(const Placement &placement)
    : listsOf(placement.getNumGlobalStages()),
      heapBegins(placement.getNumWorkers(), 0),
      heapSizes(placement.getNumWorkers(), 0) {
  const CellPosition *previous = nullptr;
  std::vector<CellPosition> positions = sortPositions(placement);
  for (const CellPosition &position : positions) {
    if (!previous || previous->worker != position.worker)
      heapBegins[position.worker] = lists.size();
    if (!previous || previous->key() != position.key())
      lists.emplace_back();
    StageLists &stageLists = listsOf[position.globalStage];
    (position.isForward ? stageLists.forward : stageLists.backward) =
        lists.size() - 1;
    previous = &position;
  }
  heaps.resize(lists.size());
  nodes.reserve(placement.getNumUnits());
}

uint32_t ReadyCells::allocate(Cell cell) {
  if (freeNode == kNone) {
    nodes.push_back({cell, kNone});
    return nodes.size() - 1;
  }
  uint32_t node = freeNode;
  freeNode = nodes[node].next;
  nodes[node] = {cell, kNone};
  return node;
}

void ReadyCells::push(int64_t worker, int64_t globalStage, Cell cell) {
  const StageLists &stageLists = listsOf[globalStage];
  uint32_t number =
      cell.is(Phase::Forward) ? stageLists.forward : stageLists.backward;
  CellList &list = lists[number];
  uint32_t node = allocate(cell);
  if (list.first != kNone) {
    nodes[list.last].next = node;
    list.last = node;
    return;
  }
  list = {node, node};
  uint32_t *heap = heaps.data() + heapBegins[worker];
  heap[heapSizes[worker]++] = number;
  std::push_heap(heap, heap + heapSizes[worker]);
}

Cell ReadyCells::pop(int64_t worker) {
  uint32_t *heap = heaps.data() + heapBegins[worker];
  CellList &list = lists[heap[0]];
  uint32_t node = list.first;
  list.first = nodes[node].next;
  if (list.first == kNone)
    std::pop_heap(heap, heap + heapSizes[worker]--);
  Cell cell = nodes[node].cell;
  nodes[node].next = freeNode;
  freeNode = node;
  return cell;
}

//===----------------------------------------------------------------------===//
// The rule
//===----------------------------------------------------------------------===//

namespace {
/// The time and worker at which a cell ends. Events at the same time run in the
/// order of workers.
struct Event {
  int64_t time;
  int32_t worker;

  friend bool operator>(const Event &a, const Event &b) {
    return std::tie(a.time, a.worker) > std::tie(b.time, b.worker);
  }
};

/// Runs the rule:
///
///   events (end of a cell, worker)  ->  release its waiting cells
///   worker: ready cells             ->  start the furthest cell when free
class GreedyRun {
public:
  GreedyRun(Table &table, const GreedyOptions &options)
      : table(table), placement(table.placement), options(options),
        ready(placement), running(placement.getNumWorkers()),
        isBusy(placement.getNumWorkers(), false) {
    if (placement.getNumSlices() == 1)
      return;
    progress.resize(placement.getNumPairs() / placement.getNumSlices());
    nextOnPath.assign(placement.getNumPaths(), 0);
  }

  void run() {
    if (progress.empty())
      for (int64_t unit = 0; unit < placement.getNumUnits(); ++unit)
        release(Cell(0, Phase::Forward, unit));
    for (int64_t path = 0; path != int64_t(nextOnPath.size()); ++path)
      admit(path);
    startTouched(0);
    while (!events.empty()) {
      int64_t now = events.top().time;
      for (; !events.empty() && events.top().time == now; events.pop())
        finish(events.top().worker);
      startTouched(now);
    }
  }

private:
  /// Adds a ready cell to the list of its worker.
  void release(Cell cell) {
    int64_t globalStage = placement.globalStage(cell);
    int64_t worker = placement.workerOf(globalStage);
    ready.push(worker, globalStage, cell);
    touched.push_back(worker);
  }

  /// Handles the arrival of a cell's inputs from other stages. The cell is
  /// released once the previous slice has also run on the stage.
  void arrive(Cell cell) {
    if (progress.empty())
      return release(cell);
    SliceProgress &slices = progressOf(cell);
    if (slices.arrived++ == slices.done)
      release(cell);
  }
  /// Releases the slice that follows a cell on its stage, if its inputs have
  /// arrived.
  void releaseNextSlice(Cell cell) {
    SliceProgress &slices = progressOf(cell);
    if (++slices.done < slices.arrived)
      release(Cell(cell.getStage(), cell.getPhase(),
                   cell.getUnit() + (cell.is(Phase::Forward) ? 1 : -1)));
  }

  /// Lets the next unit enter a path. All units are available from the start,
  /// but the slices of a microbatch come before the slices of the next
  /// microbatch.
  void admit(int64_t path) {
    int64_t &unit = nextOnPath[path];
    while (unit != placement.getNumUnits() && placement.pathOf(unit) != path)
      ++unit;
    if (unit != placement.getNumUnits())
      arrive(Cell(0, Phase::Forward, unit++));
  }

  void arriveBackward(int64_t stage, int64_t unit) {
    Phase phase = options.splitBackward ? Phase::InputGrad : Phase::Backward;
    arrive(Cell(stage, phase, unit));
  }

  /// Releases the cells that the end of a cell makes ready, along the chain
  /// F0 .. F(S-1), I(S-1), W(S-1), .. I0, W0.
  void releaseAfter(Cell cell) {
    int64_t stage = cell.getStage(), unit = cell.getUnit();
    if (!progress.empty() && !cell.is(Phase::WeightGrad))
      releaseNextSlice(cell);
    if (cell.is(Phase::Forward)) {
      if (stage == 0 && !nextOnPath.empty())
        admit(placement.pathOf(unit));
      if (stage + 1 != placement.getNumStages(placement.pathOf(unit)))
        arrive(Cell(stage + 1, Phase::Forward, unit));
      else if (placement.sliceOf(unit) + 1 == placement.getNumSlices())
        for (int64_t slice = 0; slice < placement.getNumSlices(); ++slice)
          arriveBackward(stage, unit - slice);
      return;
    }
    if (cell.is(Phase::InputGrad))
      release(Cell(stage, Phase::WeightGrad, unit));
    if (sendsGradient(cell) && stage > 0)
      arriveBackward(stage - 1, unit);
  }

  bool sendsGradient(Cell cell) const {
    return cell.is(Phase::Backward) ||
           cell.is(Phase::InputGrad) ==
               (options.gradientAfter == GradientAfter::InputGrad);
  }

  void finish(int32_t worker) {
    isBusy[worker] = false;
    touched.push_back(worker);
    releaseAfter(running[worker]);
  }

  void startTouched(int64_t now) {
    for (int32_t worker : touched) {
      if (isBusy[worker] || ready.isEmpty(worker))
        continue;
      Cell cell = ready.pop(worker);
      table.rows[worker].push_back(cell);
      running[worker] = cell;
      isBusy[worker] = true;
      events.push({now + slotsOf(cell), worker});
    }
    touched.clear();
  }

  int64_t slotsOf(Cell cell) const {
    if (options.slots.empty())
      return unitSlots(cell);
    return options.slots[placement.globalStage(cell)].of(cell.getPhase());
  }

  /// The forwards or the backwards of a microbatch on a stage, which become
  /// ready and run slice by slice.
  struct SliceProgress {
    int32_t arrived = 0, done = 0;
  };
  SliceProgress &progressOf(Cell cell) {
    return progress[placement.pairOf(cell) / placement.getNumSlices()]
                   [cell.is(Phase::Forward) ? 0 : 1];
  }

  Table &table;
  const Placement &placement;
  const GreedyOptions &options;
  /// By stage and microbatch; empty if there are no slices.
  std::vector<std::array<SliceProgress, 2>> progress;
  /// Next unit to enter; empty: all have entered.
  std::vector<int64_t> nextOnPath;
  ReadyCells ready;
  std::vector<Cell> running; ///< by worker; valid if it is busy
  std::vector<uint8_t> isBusy;
  std::vector<int32_t> touched; ///< workers that may start a cell
  std::priority_queue<Event, std::vector<Event>, std::greater<Event>> events;
};
} // namespace

/// Checks the sum of all slots, which is an upper bound of every time of the
/// run.
static Error checkSlots(const Placement &placement,
                        const GreedyOptions &options) {
  if (options.slots.empty())
    return Error::success();
  int64_t numStages = placement.getNumGlobalStages(), stage = 0, total = 0;
  if (static_cast<int64_t>(options.slots.size()) != numStages)
    return formatError("slots for {0} stages, but the paths have {1}",
                       options.slots.size(), numStages);
  llvm::SmallVector<Phase, 3> phases = {Phase::Forward, Phase::Backward};
  if (options.splitBackward)
    phases = {Phase::Forward, Phase::InputGrad, Phase::WeightGrad};
  for (int64_t path = 0; path < placement.getNumPaths(); ++path)
    for (; stage < placement.stageOffset(path + 1); ++stage)
      for (Phase phase : phases) {
        int64_t count = options.slots[stage].of(phase);
        std::optional<int64_t> sum =
            llvm::checkedMulAdd(count, placement.countOnPath(path), total);
        if (count < 0 || !sum || *sum > kMaxSlots)
          return formatError("{0} slots for {1} of stage {2} of path {3}: "
                             "expected at least 0, and at most {4} in total",
                             count, phaseLetter(phase),
                             stage - placement.stageOffset(path), path,
                             kMaxSlots);
        total = *sum;
      }
  return Error::success();
}

Expected<Table> pipesched::generateGreedy(const Placement &placement,
                                          const GreedyOptions &options) {
  int64_t cellsPerPair = options.splitBackward ? 3 : 2;
  Expected<Placement> assigned = assignInTurns(placement);
  if (!assigned)
    return assigned.takeError();
  if (Error error = checkTableSize(*assigned, "greedy", cellsPerPair))
    return std::move(error);
  if (Error error = checkSlots(*assigned, options))
    return std::move(error);
  Table table;
  table.placement = std::move(*assigned);
  table.gradientAfter = options.gradientAfter;
  table.slots = options.slots;
  table.rows.resize(placement.getNumWorkers());
  for (int64_t worker = 0; worker < placement.getNumWorkers(); ++worker)
    table.rows[worker].reserve(table.placement.getNumLocalPairs(worker) *
                               cellsPerPair);
  GreedyRun(table, options).run();
  return table;
}

//===----------------------------------------------------------------------===//
// Hanayo
//
// Liu et al. 2023, arXiv 2308.15762: a path that goes down and up the workers,
// filled by the greedy rule.
//===----------------------------------------------------------------------===//

static Expected<Placement> placeWaves(const Placement &placement,
                                      std::optional<int64_t> waves) {
  if (isPlainLinear(placement)) {
    Expected<Path> path =
        placeWave(placement.getNumWorkers(), waves.value_or(1));
    if (!path)
      return path.takeError();
    return replacePaths(placement, {std::move(*path)});
  }
  Expected<int64_t> found = readWaves(placement, "hanayo");
  if (!found)
    return found.takeError();
  if (waves && *waves != *found)
    return formatError("hanayo is asked for {0} waves, but the path has {1}",
                       *waves, *found);
  return placement;
}

Expected<Table> pipesched::generateHanayo(const Placement &placement,
                                          const HanayoOptions &options) {
  Expected<Placement> waves = placeWaves(placement, options.waves);
  if (!waves)
    return waves.takeError();
  if (Error error =
          checkTableSize(*waves, "hanayo", options.splitBackward ? 3 : 2))
    return std::move(error);
  return generateGreedy(*waves, options);
}
