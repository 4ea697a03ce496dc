//===- StepSweep.cpp - Times of the rows of a step ------------------------===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The order of cells is found once; each run is one sweep over them. The period
// is the largest ratio of length to steps of any cycle through the clocks
// (Dantzig, Blattner & Rao 1967). The search raises it from cycle to cycle.
//
//===----------------------------------------------------------------------===//

#include "StepSweep.h"
#include "PipeSched/Schedule/Table/RowSweep.h"
#include "llvm/Support/MathExtras.h"

using namespace pipesched;
using namespace pipesched::optimize;

//===----------------------------------------------------------------------===//
// One step
//===----------------------------------------------------------------------===//

/// Whether joins before a cell hold it: compute cells and reloads.
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
  Moment start = clocks[Compute]; // a copy is issued then at the earliest
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

/// Looks for times x of the clocks such that a step that begins with x ends
/// with at most x + period. Raises x from 0 as in the algorithm of Bellman and
/// Ford:
///
///   x[j] = x[parent[j]] + length[j] - period
///
/// A cycle of parents proves that the period is too short.
class SteadySearch {
public:
  SteadySearch(StepSweep &sweep, int64_t period)
      : sweep(sweep), period(period), times(sweep.getNumClocks(), 0),
        edges(times.size()), clocks(times.size()) {}

  /// Nothing: the period is long enough, or `isOver`. Otherwise the least
  /// period, in ticks, that is long enough for the cycle that was found.
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

/// Runs one step. Returns whether any time had to be raised.
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

std::optional<SteadyClocks> optimize::findSteadyClocks(StepSweep &sweep) {
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
