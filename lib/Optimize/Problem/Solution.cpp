//===- Solution.cpp - Times and memory of rows ----------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Uses the checks of tables to find out whether rows can run, and StepSweep to
// find their times.
//
//===----------------------------------------------------------------------===//

#include "PipeSched/Optimize/Problem/Solution.h"
#include "PipeSched/Schedule/Check/Verify.h"
#include "PipeSched/Schedule/Table/RowSweep.h"
#include "PipeSched/Support/MakeError.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/MathExtras.h"
#include <utility>

using namespace pipesched;
using namespace pipesched::optimize;
using llvm::ArrayRef;
using llvm::formatv;

//===----------------------------------------------------------------------===//
// Steps that follow each other without a barrier
//
// The order of cells is found once; each run is one sweep over them. A cycle
// through the clocks has a ratio: its length divided by its number of steps.
// The period is the largest such ratio (Dantzig, Blattner & Rao 1967). The
// search raises it from cycle to cycle.
//===----------------------------------------------------------------------===//

namespace {
/// A time, and the clock that determines it: by its value before the step.
struct Moment {
  static constexpr int64_t kNever = std::numeric_limits<int64_t>::min();

  int64_t at = kNever;
  uint32_t origin = 0;

  bool isNever() const { return at == kNever; }
  Moment after(int64_t ticks) const {
    return isNever() ? *this : Moment{at + ticks, origin};
  }
  void waitFor(const Moment &other) {
    if (other.at > at)
      *this = other;
  }
};

/// The clocks that a step passes to the next, by worker: the times from which
/// its compute queue and its copy queues are free, and the time until which
/// joins hold the next compute cell or U.
enum StepClock : uint8_t { Compute, Offloads, Reloads, Hold };
constexpr unsigned kNumStepClocks = 4;

/// The cells of a table in an order in which they can run. In addition to its
/// queue, each cell waits for:
///
///   F, B, I   the message from the previous or next stage; B and I: own U
///   R         own U
///   D         own F, and its message
///   U, d, u   a copy
///
/// Needs a valid table and a valid problem.
class StepSweep {
public:
  StepSweep(const Problem &problem, const TableView &table,
            const CellIndex &index);

  /// Runs one step. `clocks`, by worker and StepClock, are the clocks before
  /// it; the function updates them to the clocks after it.
  void run(llvm::MutableArrayRef<Moment> clocks);

  uint32_t getNumClocks() const { return numClocks; }
  /// Times of the last run by flat index. A join starts when its copy ends.
  llvm::ArrayRef<Moment> getStarts() const { return starts; }
  llvm::ArrayRef<Moment> getEnds() const { return ends; }
  /// The total time of cells on the busiest compute queue in a step.
  int64_t getBusiest() const { return busiest; }

private:
  struct Step {
    Cell cell;
    uint32_t flat = 0;
    uint32_t row = 0;
    uint32_t producer = CellIndex::kNone, copy = CellIndex::kNone;
    int64_t delay = 0; ///< of the producer's message
    int64_t duration = 0;
  };

  Step makeStep(int64_t row, int64_t index, Dependences::Producer producer);
  uint32_t findCopy(Cell cell) const;
  int64_t durationOf(Cell cell) const;
  int64_t delayOf(Cell cell) const;
  Moment startOf(const Step &step, llvm::ArrayRef<Moment> clocks) const;
  unsigned copyClockOf(Cell cell) const {
    return cell.is(Phase::Reload) && !problem.sharedCopyQueue ? Reloads
                                                              : Offloads;
  }

  const Problem &problem;
  const TableView &table;
  const CellIndex &index;
  uint32_t numClocks;
  int64_t busiest = 0;
  std::vector<Step> steps;
  std::vector<Moment> starts, ends; ///< by flat index
};

/// The steady state of steps that follow each other without a barrier.
struct SteadyClocks {
  int64_t period = 0;
  std::vector<Moment> before; ///< the clocks before a step
};

/// Limit on clocks, so that no sum overflows.
constexpr int64_t kMaxClock = int64_t(1) << 61;
} // namespace

//===----------------------------------------------------------------------===//
// One step
//===----------------------------------------------------------------------===//

/// Whether joins before a cell delay it: true for compute cells and reloads.
static bool isHeld(Cell cell) {
  return cell.isCompute() || cell.is(Phase::Reload);
}

StepSweep::StepSweep(const Problem &problem, const TableView &table,
                     const CellIndex &index)
    : problem(problem), table(table), index(index),
      numClocks(table.rows.size() * kNumStepClocks) {
  uint32_t numCells = index.rowBegin(table.rows.size());
  starts.resize(numCells);
  ends.resize(numCells);
  steps.reserve(numCells);
  RowSweep(table, index).run([&](const RowStep &step) {
    for (unsigned i = 0; i < step.count; ++i)
      steps.push_back(makeStep(step.row, step.index + i, step.producers[i]));
  });
  std::vector<int64_t> busy(table.rows.size(), 0);
  for (const Step &step : steps)
    if (step.cell.isCompute())
      busiest = std::max(busiest, busy[step.row] += step.duration);
}

StepSweep::Step StepSweep::makeStep(int64_t row, int64_t i,
                                    Dependences::Producer producer) {
  Step step;
  step.cell = table.rows[row][i].withOverlap(false);
  step.flat = index.rowBegin(row) + i;
  step.row = row;
  if (step.cell.isIdle())
    return step;
  step.duration = durationOf(step.cell);
  step.copy = findCopy(step.cell);
  step.producer = producer.flat;
  if (producer && producer.worker != row)
    step.delay = delayOf(step.cell);
  if (step.cell.is(Phase::Offload)) {
    step.producer =
        index.lookup(step.cell.getStage(), Phase::Forward, step.cell.getUnit());
    step.delay =
        problem.stages[problem.placement.globalStage(step.cell)].offloadDelay;
  }
  return step;
}

/// The copy that a backward, an R, a reload or a join waits for.
uint32_t StepSweep::findCopy(Cell cell) const {
  const PhaseOrder &order = traitsOf(cell.getPhase()).order;
  PhaseSet copies = (order.needs | order.uses) & kCopyPhases;
  return copies.isEmpty()
             ? CellIndex::kNone
             : index.lookup(cell.getStage(), copies.first(), cell.getUnit());
}

int64_t StepSweep::durationOf(Cell cell) const {
  return problem.stages[problem.placement.globalStage(cell)].durationOf(
      cell.getPhase());
}

/// Delay of the message that a cell waits for.
int64_t StepSweep::delayOf(Cell cell) const {
  int64_t stage = problem.placement.globalStage(cell);
  return cell.is(Phase::Forward) ? problem.stages[stage - 1].activationDelay
                                 : problem.stages[stage + 1].gradientDelay;
}

Moment StepSweep::startOf(const Step &step,
                          llvm::ArrayRef<Moment> clocks) const {
  Moment start = clocks[Compute]; // copies are issued at this time or later
  if (step.cell.isCopy())
    start.waitFor(clocks[copyClockOf(step.cell)]);
  if (isHeld(step.cell))
    start.waitFor(clocks[Hold]);
  if (step.copy != CellIndex::kNone)
    start.waitFor(ends[step.copy]);
  if (step.producer != CellIndex::kNone)
    start.waitFor(ends[step.producer].after(step.delay));
  return start;
}

void StepSweep::run(llvm::MutableArrayRef<Moment> clocks) {
  for (const Step &step : steps) {
    llvm::MutableArrayRef<Moment> own =
        clocks.slice(step.row * kNumStepClocks, kNumStepClocks);
    if (step.cell.isJoin()) {
      starts[step.flat] = ends[step.flat] = ends[step.copy];
      own[Hold].waitFor(ends[step.copy]);
      continue;
    }
    Moment start = startOf(step, own), end = start.after(step.duration);
    starts[step.flat] = start;
    ends[step.flat] = end;
    if (step.cell.isCopy())
      own[copyClockOf(step.cell)] = end;
    else if (!step.cell.isIdle())
      own[Compute] = end;
    if (isHeld(step.cell))
      own[Hold] = Moment();
  }
}

//===----------------------------------------------------------------------===//
// Many steps
//===----------------------------------------------------------------------===//

namespace {

/// Looks for times x of the clocks such that a step that starts with x ends
/// with at most x + period. Like the algorithm of Bellman and Ford, it raises x
/// from 0:
///
///   x[j] = x[parent[j]] + length[j] - period
///
/// A cycle of parents proves that the period is too short.
class SteadySearch {
public:
  SteadySearch(StepSweep &sweep, int64_t period)
      : sweep(sweep), period(period), times(sweep.getNumClocks(), 0),
        edges(times.size()), clocks(times.size()) {}

  /// Returns nothing if the period is long enough, or if `isOver`. Otherwise
  /// returns the least period, in ticks, that is long enough for the cycle that
  /// was found.
  std::optional<int64_t> run();
  bool isOver() const {
    return llvm::any_of(times, [](int64_t time) { return time > kMaxClock; });
  }
  std::vector<Moment> takeClocks() {
    setClocks();
    return std::move(clocks);
  }

private:
  struct ParentEdge {
    uint32_t parent = kNoParent;
    int64_t length = 0;
  };
  static constexpr uint32_t kNoParent = std::numeric_limits<uint32_t>::max();

  void setClocks();
  bool raise();
  std::optional<int64_t> findCycle() const;
  int64_t ratioOf(uint32_t onCycle) const;

  StepSweep &sweep;
  int64_t period;
  std::vector<int64_t> times; ///< by clock
  std::vector<ParentEdge> edges;
  std::vector<Moment> clocks;
};

} // namespace

void SteadySearch::setClocks() {
  for (uint32_t clock = 0; clock < clocks.size(); ++clock)
    clocks[clock] = {times[clock], clock};
}

/// Runs one step. Returns whether a time had to be raised.
bool SteadySearch::raise() {
  setClocks();
  sweep.run(clocks);
  std::vector<int64_t> before = times;
  bool isRaised = false;
  for (auto [clock, moment] : llvm::enumerate(clocks)) {
    if (moment.isNever() || moment.at - period <= times[clock])
      continue;
    times[clock] = moment.at - period;
    edges[clock] = {moment.origin, moment.at - before[moment.origin]};
    isRaised = true;
  }
  return isRaised;
}

/// Mean length per step of the cycle of parents through a clock, rounded up.
int64_t SteadySearch::ratioOf(uint32_t onCycle) const {
  int64_t length = 0, numSteps = 0;
  uint32_t clock = onCycle;
  do {
    length += edges[clock].length;
    ++numSteps;
    clock = edges[clock].parent;
  } while (clock != onCycle);
  return llvm::divideCeil(length, numSteps);
}

/// Follows the parents of each clock until one repeats, which is a cycle.
/// Returns its ratio.
std::optional<int64_t> SteadySearch::findCycle() const {
  constexpr uint32_t isNew = std::numeric_limits<uint32_t>::max();
  std::vector<uint32_t> walkOf(edges.size(), isNew);
  for (uint32_t root = 0; root < edges.size(); ++root) {
    uint32_t clock = root;
    while (clock != kNoParent && walkOf[clock] == isNew) {
      walkOf[clock] = root;
      clock = edges[clock].parent;
    }
    if (clock != kNoParent && walkOf[clock] == root)
      return ratioOf(clock);
  }
  return std::nullopt;
}

std::optional<int64_t> SteadySearch::run() {
  while (!isOver() && raise())
    if (std::optional<int64_t> ratio = findCycle())
      return ratio;
  return std::nullopt;
}

/// Returns the least period in whole ticks, and clocks that a step delays by at
/// most one period. Needs a makespan of at most kMaxClock. Returns nothing if
/// clocks exceed kMaxClock.
static std::optional<SteadyClocks> findSteadyClocks(StepSweep &sweep) {
  SteadyClocks steady;
  steady.period = sweep.getBusiest();
  for (;;) {
    SteadySearch search(sweep, steady.period);
    std::optional<int64_t> longer = search.run();
    if (search.isOver())
      return std::nullopt;
    if (!longer) {
      steady.before = search.takeClocks();
      return steady;
    }
    steady.period = *longer;
  }
}

//===----------------------------------------------------------------------===//
// Checks
//===----------------------------------------------------------------------===//

/// The phases in rows of problems.
static const PhaseSet kKnownPhases =
    Techniques{/*splitBackward=*/true, /*offload=*/true, /*recompute=*/true}
        .phases() |
    Phase::Backward;

/// Returns why a cell that a table may have is not allowed in a problem; empty
/// if it is allowed.
static llvm::StringRef whyNoPart(Cell cell, Techniques techniques) {
  if (cell.isPerPath())
    return "is not part of the problem, which ends with the backwards";
  if (cell.overlapsNext())
    return "is overlapped: cells run one at a time";
  if (cell.is(Phase::Backward) && techniques.splitBackward)
    return "is a whole backward: I and W are wanted";
  if (cell.isIn(kSplitBackward) && !techniques.splitBackward)
    return "is part of a split backward: a whole one, B, is wanted";
  if (!(PhaseSet(cell.getPhase()) - kKnownPhases).isEmpty())
    return "is of a phase that the optimizer does not know";
  return "";
}

static llvm::Error checkRow(const Problem &problem, int64_t row,
                            ArrayRef<Cell> cells) {
  if (std::optional<Violation> violation =
          verifyRow(problem.placement, row, cells))
    return makeError(formatv("worker {0}: {1}", row, toString(*violation)));
  for (auto [i, cell] : llvm::enumerate(cells))
    if (llvm::StringRef why = whyNoPart(cell, problem.techniques); !why.empty())
      return makeError(
          formatv("worker {0}: cell {1} ({2}) {3}", row, i, cell, why));
  return llvm::Error::success();
}

/// Returns the rows as a table, after all checks.
static llvm::Expected<TableView> makeView(const Problem &problem,
                                          ArrayRef<ArrayRef<Cell>> rows) {
  if (llvm::Error error = checkProblem(problem))
    return std::move(error);
  const Placement &placement = problem.placement;
  if (int64_t(rows.size()) != placement.getNumWorkers())
    return makeError(formatv("there are {0} rows, expected one for each of {1} "
                             "workers",
                             rows.size(), placement.getNumWorkers()));
  TableView view;
  view.placement = &placement;
  view.gradientAfter = problem.gradientAfter;
  view.rows.assign(rows.begin(), rows.end());
  for (auto [row, cells] : llvm::enumerate(view.rows))
    if (llvm::Error error = checkRow(problem, row, cells))
      return std::move(error);
  if (std::optional<Violation> violation = verifyTable(view))
    return makeError(toString(*violation));
  return view;
}

//===----------------------------------------------------------------------===//
// Times
//===----------------------------------------------------------------------===//

/// Copies starts and makespan from the last run of a sweep.
static void fillTimes(const StepSweep &sweep, Solution &solution) {
  solution.starts.clear();
  const Moment *start = sweep.getStarts().begin();
  for (const Row &row : solution.rows) {
    std::vector<int64_t> &starts = solution.starts.emplace_back();
    starts.reserve(row.size());
    for (size_t i = 0; i < row.size(); ++i)
      starts.push_back((start++)->at);
  }
  solution.makespan = 0;
  for (const Moment &end : sweep.getEnds())
    solution.makespan = std::max(solution.makespan, end.at);
}

/// Moves all times so that the first cell starts at 0.
static void startAtZero(Solution &solution) {
  int64_t first = std::numeric_limits<int64_t>::max();
  for (ArrayRef<int64_t> starts : solution.starts)
    for (int64_t start : starts)
      first = std::min(first, start);
  for (std::vector<int64_t> &starts : solution.starts)
    for (int64_t &start : starts)
      start -= first;
  solution.makespan -= first;
}

/// Returns the times of the first step or, if `isSteady`, of a step in steady
/// state.
static llvm::Expected<Solution>
timeStep(const Problem &problem, ArrayRef<ArrayRef<Cell>> rows, bool isSteady) {
  llvm::Expected<TableView> view = makeView(problem, rows);
  if (!view)
    return view.takeError();
  llvm::Expected<CellIndex> index = CellIndex::create(*view);
  if (!index)
    return index.takeError();
  Solution solution;
  solution.rows.assign(rows.begin(), rows.end());
  StepSweep sweep(problem, *view, *index);
  std::vector<Moment> clocks(sweep.getNumClocks(), Moment{0, 0});
  sweep.run(clocks);
  fillTimes(sweep, solution);
  std::optional<SteadyClocks> steady;
  if (solution.makespan <= kMaxClock)
    steady = findSteadyClocks(sweep);
  if (!steady)
    return makeError(formatv("a step of {0} ticks is too long to find its "
                             "period: {1} at most",
                             solution.makespan, kMaxClock));
  solution.period = steady->period;
  if (isSteady) {
    sweep.run(steady->before);
    fillTimes(sweep, solution);
    startAtZero(solution);
  }
  return solution;
}

llvm::Expected<Solution> optimize::timeRows(const Problem &problem,
                                            ArrayRef<ArrayRef<Cell>> rows) {
  return timeStep(problem, rows, /*isSteady=*/false);
}

llvm::Expected<Solution> optimize::steadyState(const Problem &problem,
                                               ArrayRef<ArrayRef<Cell>> rows) {
  return timeStep(problem, rows, /*isSteady=*/true);
}

//===----------------------------------------------------------------------===//
// Memory
//===----------------------------------------------------------------------===//

namespace {

/// From the time `at` on, a worker holds `amount` more bytes.
struct Change {
  int64_t at, amount;

  friend bool operator<(Change a, Change b) {
    return std::tie(a.at, a.amount) < std::tie(b.at, b.amount);
  }
};

/// The changes of memory along one row, by the rules of Problem.
class RowMemory {
public:
  RowMemory(const Problem &problem, ArrayRef<Cell> row,
            ArrayRef<int64_t> starts, int64_t worker)
      : problem(problem), row(row), starts(starts),
        isRecomputed(problem.placement.getNumLocalPairs(worker), false) {}

  int64_t findPeak();

private:
  void addCell(Cell cell, int64_t start);
  size_t pairOf(Cell cell) const { return problem.placement.localPairOf(cell); }

  const Problem &problem;
  ArrayRef<Cell> row;
  ArrayRef<int64_t> starts;
  std::vector<bool> isRecomputed; ///< by pair of stage and microbatch
  std::vector<Change> changes;
};

} // namespace

void RowMemory::addCell(Cell cell, int64_t start) {
  if (cell.isIdle())
    return;
  const StageFacts &facts = problem.stages[problem.placement.globalStage(cell)];
  const PhaseMemory &memory = traitsOf(cell.getPhase()).memory;
  int64_t atEnd = changeOf(memory.atEnd, facts.amounts());
  if (cell.is(Phase::Forward) && isRecomputed[pairOf(cell)])
    atEnd += facts.checkpoint - facts.activation;
  atEnd -= facts.returnedBySlice(cell.getPhase());
  changes.push_back({start, changeOf(memory.atStart, facts.amounts()) +
                                facts.takenForSlices(cell.getPhase())});
  changes.push_back({start + facts.durationOf(cell.getPhase()), atEnd});
}

/// Among changes at the same time, changes that free memory come first.
int64_t RowMemory::findPeak() {
  for (Cell cell : row)
    if (cell.is(Phase::Recompute))
      isRecomputed[pairOf(cell)] = true;
  for (auto [cell, start] : llvm::zip(row, starts))
    addCell(cell, start);
  llvm::sort(changes);
  int64_t held = 0, peak = 0;
  for (Change change : changes) {
    held += change.amount;
    peak = std::max(peak, held);
  }
  return peak;
}

std::vector<int64_t> optimize::peakMemory(const Problem &problem,
                                          const Solution &solution) {
  std::vector<int64_t> peaks;
  peaks.reserve(solution.rows.size());
  for (auto [worker, row] : llvm::enumerate(solution.rows))
    peaks.push_back(
        RowMemory(problem, row, solution.starts[worker], worker).findPeak());
  return peaks;
}

//===----------------------------------------------------------------------===//
// Memory at any times
//===----------------------------------------------------------------------===//

namespace {

/// Follows a row by the rules of Problem.
class AnyTimeRow {
public:
  AnyTimeRow(const Problem &problem, ArrayRef<Cell> row, int64_t worker)
      : problem(problem), row(row),
        pairs(problem.placement.getNumLocalPairs(worker)) {}

  RowPeak findPeak();

private:
  /// For one stage and microbatch: the number of offloads that have ended when
  /// its D, or its U, has ended.
  struct Pair {
    bool isRecomputed = false;
    uint32_t offload = 0, reload = 0;
  };

  Pair &pairOf(Cell cell) { return pairs[problem.placement.localPairOf(cell)]; }
  void add(Cell cell, int64_t atStart, int64_t atEnd);
  void visit(Cell cell);
  void visitReload(Cell cell, int64_t bytes);

  const Problem &problem;
  ArrayRef<Cell> row;
  std::vector<Pair> pairs;
  AnyTimeMemory memory;
  uint32_t joined = 0;
  RowPeak peak;
};

} // namespace

/// Runs a compute cell. It waits for its U and for joins.
void AnyTimeRow::add(Cell cell, int64_t atStart, int64_t atEnd) {
  memory.await(std::max(std::exchange(joined, 0), pairOf(cell).reload));
  memory.change(atStart);
  if (memory.most() > peak.amount)
    peak = {memory.most(), cell};
  memory.change(atEnd);
}

void AnyTimeRow::visitReload(Cell cell, int64_t bytes) {
  Pair &pair = pairOf(cell);
  pair.reload =
      memory.reload(bytes, std::max(std::exchange(joined, 0), pair.offload));
  if (memory.most() > peak.amount)
    peak = {memory.most(), cell};
}

void AnyTimeRow::visit(Cell cell) {
  if (cell.isIdle())
    return;
  const StageFacts &facts = problem.stages[problem.placement.globalStage(cell)];
  const PhaseMemory &memory = traitsOf(cell.getPhase()).memory;
  if (cell.isJoin()) {
    const Pair &pair = pairOf(cell);
    joined = std::max(joined,
                      cell.is(Phase::OffloadJoin) ? pair.offload : pair.reload);
  } else if (memory.atEnd == MemoryEffect::CopyOut) {
    pairOf(cell).offload = this->memory.offload(facts.activation);
  } else if (memory.atStart == MemoryEffect::CopyIn) {
    visitReload(cell, facts.activation);
  } else {
    int64_t atStart = changeOf(memory.atStart, facts.amounts()) +
                      facts.takenForSlices(cell.getPhase());
    int64_t atEnd = changeOf(memory.atEnd, facts.amounts()) -
                    facts.returnedBySlice(cell.getPhase());
    if (cell.is(Phase::Forward) && pairOf(cell).isRecomputed)
      atEnd += facts.checkpoint - facts.activation;
    // An I that makes memory grow allocates at its start.
    int64_t left = std::max<int64_t>(0, atEnd);
    add(cell, atStart + left, atEnd - left);
  }
}

RowPeak AnyTimeRow::findPeak() {
  for (Cell cell : row)
    if (cell.is(Phase::Recompute))
      pairOf(cell).isRecomputed = true;
  for (Cell cell : row)
    visit(cell);
  return peak;
}

std::vector<RowPeak> optimize::anyTimePeaks(const Problem &problem,
                                            ArrayRef<Row> rows) {
  std::vector<RowPeak> peaks;
  peaks.reserve(rows.size());
  for (auto [worker, row] : llvm::enumerate(rows))
    peaks.push_back(AnyTimeRow(problem, row, worker).findPeak());
  return peaks;
}
