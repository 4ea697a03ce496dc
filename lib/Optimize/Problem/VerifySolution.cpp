//===- VerifySolution.cpp - Checks of solutions ---------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Checks the starts by the rules of the problem, without the code that found
// them. Only the period is recomputed by that code (steadyState).
//
//===----------------------------------------------------------------------===//

#include "PipeSched/Optimize/Problem/Solution.h"
#include "PipeSched/Schedule/Kinds/PhaseSets.h"
#include "PipeSched/Support/MakeError.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/MathExtras.h"
#include <utility>

using namespace pipesched;
using namespace pipesched::optimize;
using llvm::ArrayRef;
using llvm::formatv;

namespace {

/// The start and end of a cell; converts to false if the solution does not have
/// the cell.
struct Span {
  int64_t start = -1, end = -1;

  explicit operator bool() const { return start >= 0; }
};

/// The spans of one stage and microbatch.
using PairSpans = PhaseMap<Span>;

class SolutionCheck {
public:
  SolutionCheck(const Problem &problem, const Solution &solution)
      : problem(problem), placement(problem.placement), solution(solution) {}

  llvm::Error run();

private:
  llvm::Error checkShape() const;
  llvm::Error readRow(int64_t worker);
  llvm::Error checkCell(int64_t worker, int64_t i) const;
  llvm::Error checkPhase(int64_t worker, int64_t i) const;
  llvm::Error checkPairs() const;
  llvm::Error checkCells(int64_t stage, int64_t microbatch) const;
  llvm::Error checkWaits(int64_t stage, int64_t microbatch) const;
  llvm::Error checkSlices(int64_t stage, int64_t microbatch) const;
  llvm::Error checkRow(int64_t worker) const;
  llvm::Error checkMakespan() const;

  const PairSpans &at(int64_t stage, int64_t microbatch) const {
    return pairs[placement.pairOf(stage, microbatch)];
  }
  Span spanOf(Cell cell) const {
    return at(placement.globalStage(cell), cell.getUnit())[cell.getPhase()];
  }
  int64_t durationOf(Cell cell) const;
  Phase backward() const {
    return problem.techniques.splitBackward ? Phase::InputGrad
                                            : Phase::Backward;
  }
  Phase gradient() const {
    bool isLate = problem.gradientAfter == GradientAfter::WeightGrad;
    return problem.techniques.splitBackward && isLate ? Phase::WeightGrad
                                                      : backward();
  }
  std::string nameOf(int64_t worker, int64_t i) const {
    return formatv("worker {0}: cell {1} ({2})", worker, i,
                   solution.rows[worker][i]);
  }

  const Problem &problem;
  const Placement &placement;
  const Solution &solution;
  std::vector<PairSpans> pairs; ///< by Placement::pairOf
};

} // namespace

//===----------------------------------------------------------------------===//
// Cells
//===----------------------------------------------------------------------===//

llvm::Error SolutionCheck::checkShape() const {
  int64_t numWorkers = placement.getNumWorkers();
  if (int64_t(solution.rows.size()) != numWorkers ||
      int64_t(solution.starts.size()) != numWorkers)
    return makeError(formatv("the solution has {0} rows and starts of {1}, "
                             "expected {2} of each",
                             solution.rows.size(), solution.starts.size(),
                             numWorkers));
  for (int64_t worker = 0; worker < numWorkers; ++worker)
    if (solution.rows[worker].size() != solution.starts[worker].size())
      return makeError(formatv("worker {0} has {1} cells and {2} starts",
                               worker, solution.rows[worker].size(),
                               solution.starts[worker].size()));
  return llvm::Error::success();
}

/// Checks that the problem allows the phase of the cell.
llvm::Error SolutionCheck::checkPhase(int64_t worker, int64_t i) const {
  Cell cell = solution.rows[worker][i];
  bool isAllowed = problem.techniques.phases().contains(cell.getPhase());
  if (!isAllowed || cell.overlapsNext())
    return makeError(nameOf(worker, i) + (cell.overlapsNext()
                                              ? " is overlapped"
                                              : " is not allowed"));
  return llvm::Error::success();
}

/// Checks one cell: its phase, its worker, and that it starts at 0 or later.
llvm::Error SolutionCheck::checkCell(int64_t worker, int64_t i) const {
  Cell cell = solution.rows[worker][i];
  if (llvm::Error error = checkPhase(worker, i))
    return error;
  if (solution.starts[worker][i] < 0)
    return makeError(formatv("{0} starts at {1}", nameOf(worker, i),
                             solution.starts[worker][i]));
  if (cell.isIdle())
    return llvm::Error::success();
  if (cell.getUnit() >= placement.getNumUnits())
    return makeError(formatv("{0}: there are {1} microbatches",
                             nameOf(worker, i),
                             placement.getNumMicrobatches()));
  int64_t numStages = placement.getNumStages(placement.pathOf(cell.getUnit()));
  if (cell.getStage() >= numStages)
    return makeError(
        formatv("{0}: its path has {1} stages", nameOf(worker, i), numStages));
  int64_t host = placement.workerOf(placement.globalStage(cell));
  if (host != worker)
    return makeError(
        formatv("{0}: its stage is on worker {1}", nameOf(worker, i), host));
  return llvm::Error::success();
}

int64_t SolutionCheck::durationOf(Cell cell) const {
  return problem.stages[placement.globalStage(cell)].durationOf(
      cell.getPhase());
}

/// Checks the cells of a row and records their spans.
llvm::Error SolutionCheck::readRow(int64_t worker) {
  for (auto [i, cell] : llvm::enumerate(solution.rows[worker])) {
    if (llvm::Error error = checkCell(worker, i))
      return error;
    if (cell.isIdle() || cell.isJoin())
      continue;
    Span &span = pairs[placement.pairOf(cell)][cell.getPhase()];
    if (span)
      return makeError(nameOf(worker, i) + " occurs twice");
    span.start = solution.starts[worker][i];
    if (llvm::AddOverflow(span.start, durationOf(cell), span.end))
      return makeError(nameOf(worker, i) + " ends after 2^63-1");
  }
  return llvm::Error::success();
}

//===----------------------------------------------------------------------===//
// Dependences
//===----------------------------------------------------------------------===//

llvm::Error SolutionCheck::checkPairs() const {
  for (int64_t m = 0; m < placement.getNumMicrobatches(); ++m) {
    int64_t path = placement.pathOf(m);
    for (int64_t s = 0; s < placement.getNumStages(path); ++s) {
      int64_t stage = placement.stageOffset(path) + s;
      if (llvm::Error error = checkCells(stage, m))
        return error;
      if (llvm::Error error = checkWaits(stage, m))
        return error;
      if (llvm::Error error = checkSlices(stage, m))
        return error;
    }
  }
  return llvm::Error::success();
}

/// Checks that a stage and microbatch have all their cells and no others.
llvm::Error SolutionCheck::checkCells(int64_t stage, int64_t microbatch) const {
  const PairSpans &pair = at(stage, microbatch);
  int64_t s = stage - placement.stageOffset(placement.pathOf(microbatch));
  auto require = [&](Phase phase) -> llvm::Error {
    if (pair[phase])
      return llvm::Error::success();
    return makeError(formatv("{0} is missing", Cell(s, phase, microbatch)));
  };
  if (llvm::Error error = require(Phase::Forward))
    return error;
  if (llvm::Error error = require(backward()))
    return error;
  if (problem.techniques.splitBackward)
    if (llvm::Error error = require(Phase::WeightGrad))
      return error;
  if (!pair[Phase::Offload] && !pair[Phase::Reload])
    return llvm::Error::success();
  if (llvm::Error error = require(Phase::Offload))
    return error;
  if (llvm::Error error = require(Phase::Reload))
    return error;
  if (!pair[Phase::Recompute])
    return llvm::Error::success();
  return makeError(formatv("{0} and {1}: what is offloaded is not recomputed",
                           Cell(s, Phase::Recompute, microbatch),
                           Cell(s, Phase::Offload, microbatch)));
}

/// Checks that every cell of a stage and microbatch starts after its
/// dependences.
llvm::Error SolutionCheck::checkWaits(int64_t stage, int64_t microbatch) const {
  int64_t path = placement.pathOf(microbatch);
  int64_t s = stage - placement.stageOffset(path);
  auto check = [&](Phase phase, int64_t neededStage, Phase neededPhase,
                   int64_t delay) -> llvm::Error {
    Span span = at(stage, microbatch)[phase];
    Span needed = at(neededStage, microbatch)[neededPhase];
    if (!span || !needed || span.start - delay >= needed.end)
      return llvm::Error::success();
    return makeError(formatv(
        "worker {0}: {1} starts at {2}, {3} ends at {4} with a delay of {5}",
        placement.workerOf(stage), Cell(s, phase, microbatch), span.start,
        Cell(s + neededStage - stage, neededPhase, microbatch), needed.end,
        delay));
  };
  auto delayFrom = [&](int64_t other, int64_t delay) {
    return placement.workerOf(other) == placement.workerOf(stage) ? 0 : delay;
  };
  const std::pair<Phase, Phase> own[] = {
      {backward(), Phase::Forward},       {Phase::WeightGrad, backward()},
      {Phase::Recompute, Phase::Forward}, {backward(), Phase::Recompute},
      {Phase::Reload, Phase::Offload},    {backward(), Phase::Reload},
  };
  for (auto [phase, needed] : own)
    if (llvm::Error error = check(phase, stage, needed, 0))
      return error;
  if (llvm::Error error = check(Phase::Offload, stage, Phase::Forward,
                                problem.stages[stage].offloadDelay))
    return error;
  if (s > 0)
    if (llvm::Error error = check(
            Phase::Forward, stage - 1, Phase::Forward,
            delayFrom(stage - 1, problem.stages[stage - 1].activationDelay)))
      return error;
  if (s + 1 == placement.getNumStages(path))
    return llvm::Error::success();
  return check(backward(), stage + 1, gradient(),
               delayFrom(stage + 1, problem.stages[stage + 1].gradientDelay));
}

/// Checks the order of slices. F of a slice must follow F of the previous
/// slice; I, B and W must follow the same cell of the next slice. Keys and
/// values must be on the device from F on, while forwards of later slices and
/// backwards read them.
llvm::Error SolutionCheck::checkSlices(int64_t stage,
                                       int64_t microbatch) const {
  int64_t numSlices = problem.numSlices, slice = microbatch % numSlices;
  if (numSlices == 1)
    return llvm::Error::success();
  int64_t path = placement.pathOf(microbatch);
  int64_t s = stage - placement.stageOffset(path);
  auto check = [&](Phase phase, Phase neededPhase,
                   int64_t neededSlice) -> llvm::Error {
    int64_t other = microbatch - slice + neededSlice;
    Span span = at(stage, microbatch)[phase];
    Span needed = at(placement.stageOffset(placement.pathOf(other)) + s,
                     other)[neededPhase];
    if (!span || !needed || span.start >= needed.end)
      return llvm::Error::success();
    return makeError(formatv(
        "worker {0}: {1} starts at {2}, before {3} ends at {4}",
        placement.workerOf(stage),
        CellName{Cell(s, phase, microbatch), numSlices}.str(), span.start,
        CellName{Cell(s, neededPhase, other), numSlices}.str(), needed.end));
  };
  if (slice > 0)
    if (llvm::Error error = check(Phase::Forward, Phase::Forward, slice - 1))
      return error;
  if (slice + 1 < numSlices)
    for (Phase phase : {backward(), Phase::WeightGrad})
      if (llvm::Error error = check(phase, phase, slice + 1))
        return error;
  if (llvm::Error error = check(Phase::Offload, Phase::Forward, numSlices - 1))
    return error;
  for (int64_t other = 0; other < numSlices; ++other)
    if (llvm::Error error = check(backward(), Phase::Reload, other))
      return error;
  return llvm::Error::success();
}

//===----------------------------------------------------------------------===//
// Queues
//===----------------------------------------------------------------------===//

/// Checks that each queue of a worker runs its cells one at a time in the order
/// of the row. Copies are issued at their place, and joins hold the next
/// compute cell or reload.
llvm::Error SolutionCheck::checkRow(int64_t worker) const {
  int64_t compute = 0, hold = 0, copies[2] = {0, 0};
  for (auto [i, cell] : llvm::enumerate(solution.rows[worker])) {
    if (cell.isIdle())
      continue;
    if (cell.isJoin()) {
      Span copy = spanOf(cell.withPhase(
          cell.is(Phase::OffloadJoin) ? Phase::Offload : Phase::Reload));
      if (!copy)
        return makeError(nameOf(worker, i) + " joins no copy");
      hold = std::max(hold, copy.end);
      continue;
    }
    bool isSecondQueue = cell.is(Phase::Reload) && !problem.sharedCopyQueue;
    int64_t &queue = cell.isCopy() ? copies[isSecondQueue] : compute;
    int64_t ready = std::max(queue, compute);
    if (!cell.is(Phase::Offload))
      ready = std::max(ready, std::exchange(hold, 0));
    Span span = spanOf(cell);
    if (span.start < ready)
      return makeError(formatv(
          "{0} starts at {1}, {2} is free at {3}", nameOf(worker, i),
          span.start, cell.isCopy() ? "its copy queue" : "its worker", ready));
    queue = span.end;
  }
  return llvm::Error::success();
}

llvm::Error SolutionCheck::checkMakespan() const {
  int64_t last = 0;
  for (const PairSpans &pair : pairs)
    for (const Span &span : pair)
      last = std::max(last, span.end);
  if (last == solution.makespan)
    return llvm::Error::success();
  return makeError(
      formatv("the last cell ends at {0}, the makespan is given as "
              "{1}",
              last, solution.makespan));
}

llvm::Error SolutionCheck::run() {
  if (llvm::Error error = checkShape())
    return error;
  pairs.resize(placement.getNumPairs());
  for (int64_t worker = 0; worker < placement.getNumWorkers(); ++worker)
    if (llvm::Error error = readRow(worker))
      return error;
  if (llvm::Error error = checkPairs())
    return error;
  for (int64_t worker = 0; worker < placement.getNumWorkers(); ++worker)
    if (llvm::Error error = checkRow(worker))
      return error;
  return checkMakespan();
}

//===----------------------------------------------------------------------===//
// Memory
//===----------------------------------------------------------------------===//

namespace {

/// From `at` on, a cell adds `amount` to the memory of its worker.
struct MemoryEvent {
  int64_t at, amount;
  Cell cell;
};

} // namespace

/// Adds the memory that a cell allocates at its start and frees at its end.
/// `isRecomputed` states whether its stage and microbatch have an R.
static void addEvents(const StageFacts &facts, Cell cell, int64_t start,
                      bool isRecomputed, std::vector<MemoryEvent> &events) {
  const PhaseMemory &memory = traitsOf(cell.getPhase()).memory;
  int64_t end = start + facts.durationOf(cell.getPhase());
  int64_t atEnd = changeOf(memory.atEnd, facts.amounts());
  if (cell.is(Phase::Forward) && isRecomputed)
    atEnd += facts.checkpoint - facts.activation;
  atEnd -= facts.returnedBySlice(cell.getPhase());
  if (int64_t atStart = changeOf(memory.atStart, facts.amounts()) +
                        facts.takenForSlices(cell.getPhase()))
    events.push_back({start, atStart, cell});
  if (atEnd != 0)
    events.push_back({end, atEnd, cell});
}

/// Checks that no worker exceeds its capacity. Memory that is freed at a time
/// can be used at that time, so events that free come first.
static llvm::Error checkMemory(const Problem &problem, const Solution &solution,
                               int64_t worker) {
  const Placement &placement = problem.placement;
  const Row &row = solution.rows[worker];
  std::vector<std::pair<int64_t, int64_t>> recomputed;
  for (Cell cell : row)
    if (cell.is(Phase::Recompute))
      recomputed.emplace_back(cell.getStage(), cell.getUnit());
  llvm::sort(recomputed);
  std::vector<MemoryEvent> events;
  for (auto [i, cell] : llvm::enumerate(row)) {
    if (cell.isIdle() || cell.isJoin())
      continue;
    bool isRecomputed =
        std::binary_search(recomputed.begin(), recomputed.end(),
                           std::pair(cell.getStage(), cell.getUnit()));
    addEvents(problem.stages[placement.globalStage(cell)], cell,
              solution.starts[worker][i], isRecomputed, events);
  }
  llvm::sort(events, [](const MemoryEvent &a, const MemoryEvent &b) {
    return std::tuple(a.at, a.amount, a.cell.getRaw()) <
           std::tuple(b.at, b.amount, b.cell.getRaw());
  });
  int64_t held = 0, capacity = problem.capacity[worker];
  for (const MemoryEvent &event : events)
    if ((held += event.amount) > capacity && event.amount > 0)
      return makeError(formatv("worker {0} holds {1} from {2} at {3} on, {4} "
                               "over its capacity of {5}",
                               worker, held, event.at, event.cell,
                               held - capacity, capacity));
  return llvm::Error::success();
}

/// Checks the capacity in the same way for any times of copies.
static llvm::Error checkAnyTimeMemory(const Problem &problem,
                                      const Solution &solution) {
  std::vector<RowPeak> peaks = anyTimePeaks(problem, solution.rows);
  for (auto [worker, peak] : llvm::enumerate(peaks)) {
    int64_t capacity = problem.capacity[worker];
    if (peak.amount > capacity)
      return makeError(formatv("worker {0} may hold {1} from {2} on if copies "
                               "take long, {3} over its capacity of {4}",
                               worker, peak.amount, peak.cell,
                               peak.amount - capacity, capacity));
  }
  return llvm::Error::success();
}

static llvm::Error checkMemory(const Problem &problem,
                               const Solution &solution) {
  for (int64_t worker = 0; worker < problem.placement.getNumWorkers(); ++worker)
    if (llvm::Error error = checkMemory(problem, solution, worker))
      return error;
  if (problem.memoryTimes == MemoryTimes::Any)
    return checkAnyTimeMemory(problem, solution);
  return llvm::Error::success();
}

//===----------------------------------------------------------------------===//
// Period
//===----------------------------------------------------------------------===//

/// Checks that the period equals that of the steady state. If the period is the
/// objective, the steady state must satisfy all rules too, including memory.
static llvm::Error checkPeriod(const Problem &problem,
                               const Solution &solution) {
  std::vector<ArrayRef<Cell>> rows(solution.rows.begin(), solution.rows.end());
  llvm::Expected<Solution> pattern = steadyState(problem, rows);
  if (!pattern)
    return pattern.takeError();
  if (pattern->period != solution.period)
    return makeError(formatv("steps of these rows follow each other every {0}, "
                             "the period is given as {1}",
                             pattern->period, solution.period));
  if (problem.objective != Objective::Period)
    return llvm::Error::success();
  if (llvm::Error error = SolutionCheck(problem, *pattern).run())
    return error;
  if (llvm::Error error = checkMemory(problem, *pattern))
    return makeError(
        formatv("in a steady state {0}", llvm::toString(std::move(error))));
  return llvm::Error::success();
}

llvm::Error optimize::verifySolution(const Problem &problem,
                                     const Solution &solution) {
  if (llvm::Error error = checkProblem(problem))
    return error;
  if (llvm::Error error = SolutionCheck(problem, solution).run())
    return error;
  if (llvm::Error error = checkMemory(problem, solution))
    return error;
  return checkPeriod(problem, solution);
}
