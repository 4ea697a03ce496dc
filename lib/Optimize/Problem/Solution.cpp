//===- Solution.cpp - Times and memory of rows ----------------------------===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The checks of tables find out whether rows can run, and StepSweep finds when.
//
//===----------------------------------------------------------------------===//

#include "PipeSched/Optimize/Problem/Solution.h"
#include "PipeSched/Schedule/Check/Verify.h"
#include "PipeSched/Support/MakeError.h"
#include "StepSweep.h"
#include "llvm/Support/FormatVariadic.h"
#include <utility>

using namespace pipesched;
using namespace pipesched::optimize;
using llvm::ArrayRef;
using llvm::formatv;

//===----------------------------------------------------------------------===//
// Checks
//===----------------------------------------------------------------------===//

/// What rows of some problem have.
static const PhaseSet kKnownPhases =
    Techniques{/*splitBackward=*/true, /*offload=*/true, /*recompute=*/true}
        .phases() |
    Phase::Backward;

/// Why a cell that a table may have is not allowed in a problem; empty if it is
/// allowed.
static llvm::StringRef whyNoPart(Cell cell, Techniques techniques) {
  if (cell.isPerPath())
    return "is no part of the problem, which ends with the backwards";
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

/// The rows as a table, after all checks.
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

/// Takes starts and makespan from the last run of a sweep.
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

/// The times of the first step; if `isSteady`, those of one of many steps.
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

/// A worker holds `amount` more bytes from the time `at` on.
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

/// Among changes at the same time, those that free memory come first.
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
// Memory whatever the times
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
  /// Of one stage and microbatch: offloads that have ended when its D, or its
  /// U, has.
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

/// Runs a compute cell, which waits for its U and for joins.
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
    // An I that leaves more than it found takes it at its start.
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
