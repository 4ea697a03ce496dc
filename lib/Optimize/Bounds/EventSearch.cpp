//===- EventSearch.cpp - Exact search with copies -------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Searches depth first: at each time and queue, first tries each cell that may
// start, then none. States that were already searched are nogoods.
//
//===----------------------------------------------------------------------===//

#include "EventSearch.h"
#include "EventState.h"
#include "PipeSched/Optimize/Problem/Solution.h"
#include "llvm/ADT/STLExtras.h"
#include <numeric>

using namespace pipesched;
using namespace pipesched::optimize;

//===----------------------------------------------------------------------===//
// Rows of a leaf
//
// A copy is issued before the compute cell that runs when the copy starts.
//===----------------------------------------------------------------------===//

namespace {

class RowBuilder {
public:
  RowBuilder(const EventRules &rules,
             const std::vector<std::vector<int64_t>> &microbatches)
      : rules(rules), problem(rules.getGraph().getProblem()),
        microbatches(microbatches), inputGrads(problem.stages.size()),
        weightGrads(problem.stages.size(), 0) {}

  Row build(llvm::ArrayRef<EventStart> starts);

private:
  Cell nameOf(const EventStart &started);
  void join(const EventStart &started);
  void place(const EventStart &started);

  const EventRules &rules;
  const Problem &problem;
  const std::vector<std::vector<int64_t>> &microbatches; ///< by path and rank
  /// By stage: microbatches in the order of their I, and the number of W that
  /// are placed.
  std::vector<std::vector<uint32_t>> inputGrads;
  std::vector<size_t> weightGrads;
  std::vector<std::pair<int64_t, Cell>> copies; ///< ends of copies so far
  Row row;
};

} // namespace

Cell RowBuilder::nameOf(const EventStart &started) {
  int32_t stage = rules.stageOf(started.pair);
  int64_t path = rules.getGraph().pathOf(stage);
  uint32_t rank = rules.microbatchOf(started.pair);
  if (started.phase == Phase::InputGrad)
    inputGrads[stage].push_back(rank);
  if (started.phase == Phase::WeightGrad && !rules.isWeightGradOwn())
    rank = inputGrads[stage][weightGrads[stage]++];
  Phase phase = started.phase;
  if (phase == Phase::InputGrad && !problem.techniques.splitBackward)
    phase = Phase::Backward;
  return Cell(stage - problem.placement.stageOffset(path), phase,
              microbatches[path][rank]);
}

/// Adds the joins of a cell. A cell that allocates waits for the last offload
/// that has ended when it starts. An I that makes memory grow waits for the
/// last such reload.
void RowBuilder::join(const EventStart &started) {
  bool isInput = started.phase == Phase::InputGrad;
  bool leavesMore = isInput && rules.freedBy(started.pair, started.phase) < 0;
  if (rules.allocatedBy(started.pair, started.phase) == 0 && !leavesMore)
    return;
  std::optional<Cell> offload, reload;
  for (auto [end, cell] : copies)
    if (end <= started.start)
      (cell.is(Phase::Offload) ? offload : reload) = cell;
  if (offload)
    row.push_back(offload->withPhase(Phase::OffloadJoin));
  if (reload && leavesMore)
    row.push_back(reload->withPhase(Phase::ReloadJoin));
}

void RowBuilder::place(const EventStart &started) {
  if (started.phase != Phase::Offload)
    join(started);
  row.push_back(nameOf(started));
  if (started.phase == Phase::Offload || started.phase == Phase::Reload)
    copies.emplace_back(started.end, row.back());
}

Row RowBuilder::build(llvm::ArrayRef<EventStart> starts) {
  auto isCopy = [](const EventStart &started) {
    return started.phase == Phase::Offload || started.phase == Phase::Reload;
  };
  size_t nextCopy = 0;
  for (const EventStart &compute : starts) {
    if (isCopy(compute))
      continue;
    for (; nextCopy < starts.size() && starts[nextCopy].start < compute.end;
         ++nextCopy)
      if (isCopy(starts[nextCopy]))
        place(starts[nextCopy]);
    place(compute);
  }
  for (; nextCopy < starts.size(); ++nextCopy)
    if (isCopy(starts[nextCopy]))
      place(starts[nextCopy]);
  return std::move(row);
}

/// Makes rows in which each cell that allocates joins every offload that ends
/// before it. So if memory suffices at these times, it suffices for any times.
/// `starts` are in the order of decision. Returns nothing if rows cannot
/// express these starts.
static std::optional<Solution> solutionOf(const EventRules &rules,
                                          llvm::ArrayRef<EventStart> starts) {
  const Problem &problem = rules.getGraph().getProblem();
  const Placement &placement = problem.placement;
  std::vector<std::vector<int64_t>> microbatches(placement.getNumPaths());
  for (int64_t i = 0; i < placement.getNumMicrobatches(); ++i)
    microbatches[placement.pathOf(i)].push_back(i);
  std::vector<std::vector<EventStart>> byWorker(placement.getNumWorkers());
  for (const EventStart &started : starts)
    byWorker[rules.workerOf(started.pair)].push_back(started);
  std::vector<Row> rows;
  for (const std::vector<EventStart> &own : byWorker)
    rows.push_back(RowBuilder(rules, microbatches).build(own));
  llvm::SmallVector<llvm::ArrayRef<Cell>> views(rows.begin(), rows.end());
  llvm::Expected<Solution> solution = timeRows(problem, views);
  if (!solution) {
    llvm::consumeError(solution.takeError());
    return std::nullopt;
  }
  if (llvm::Error error = verifySolution(problem, *solution)) {
    llvm::consumeError(std::move(error));
    return std::nullopt;
  }
  return std::move(*solution);
}

/// Limit on the times that all nogoods together store: 128 MiB.
static constexpr size_t kMostSeenEvents = size_t(1) << 24;

/// Larger problems have far more states than a search can visit.
static constexpr uint32_t kMostPairs = 64;

EventSearch::EventSearch(const BoundsGraph &graph)
    : graph(graph), rules(graph) {}

/// The rules do not include the order of slices.
bool EventSearch::isSmall() const {
  return graph.getProblem().numSlices == 1 && rules.getNumPairs() <= kMostPairs;
}

Outcome EventSearch::search(const Times &times, int64_t makespan,
                            const Deadline &limit) {
  windows = &times;
  deadline = &limit;
  if (makespan > refutedMakespan) {
    seen.clear();
    seenTimes = 0;
  }
  refutedMakespan = makespan;
  path.clear();
  if (levels.empty())
    levels.push_back(std::make_unique<Level>());
  levels.front()->state = rules.first();
  return explore(0);
}

//===----------------------------------------------------------------------===//
// The tree
//===----------------------------------------------------------------------===//

/// Follows the branch in which nothing starts, from queue to queue and from
/// event to event, and explores the other branches.
Outcome EventSearch::explore(size_t depth) {
  if (levels.size() == depth + 1)
    levels.push_back(std::make_unique<Level>());
  Level &level = *levels[depth];
  EventState &state = level.state;
  level.numReached = 0;
  bool isNew = false;
  while (!rules.isOver(state)) {
    if (state.nextWorker == state.workers.size()) {
      if (!rules.advance(state) || isLate(state))
        return refute(level);
      isNew = true;
    }
    rules.listChoices(state, level.choices);
    if (level.choices.empty()) {
      rules.goOn(state);
      continue;
    }
    if (deadline->isOver())
      return Outcome::Stopped;
    ++nodes;
    deadline->count(graph.getNumCells());
    if (std::exchange(isNew, false) && !reach(level))
      return refute(level);
    if (Outcome outcome = startEach(depth); outcome != Outcome::Refuted)
      return outcome;
    rules.wait(state, level.choices);
  }
  solution = solutionOf(rules, path);
  return solution ? Outcome::Found : Outcome::Open;
}

/// Explores the start of each choice.
Outcome EventSearch::startEach(size_t depth) {
  Level &level = *levels[depth];
  for (const EventChoice &choice : level.choices) {
    levels[depth + 1]->state = level.state;
    EventState &child = levels[depth + 1]->state;
    path.push_back(rules.start(child, choice));
    Outcome outcome = explore(depth + 1);
    if (outcome != Outcome::Refuted)
      return outcome;
    path.pop_back();
  }
  return Outcome::Refuted;
}

//===----------------------------------------------------------------------===//
// Bounds
//===----------------------------------------------------------------------===//

/// Whether some cell can no longer start in its window. The k-th start of a
/// stage and phase has the window of its k-th cell, because all conditions that
/// windows use hold for sorted starts (docs/Optimize.md, "First in, first
/// out").
bool EventSearch::isLate(const EventState &state) {
  constexpr uint64_t workPerJob = 4;
  deadline->count(graph.getArcs().size() + workPerJob * graph.getNumCells());
  earliest.resize(graph.getNumCells());
  for (int32_t cell = 0; cell < graph.getNumCells(); ++cell) {
    int64_t start = state.starts[cell];
    if (start < 0) {
      const WorkerState &worker = state.workers[graph.workerOf(cell)];
      start = std::max(
          {windows->starts[cell], state.now, worker.queueEnds[ComputeQueue]});
    }
    earliest[cell] = start;
  }
  for (const BoundsGraph::Arc &arc : graph.getArcs())
    if (state.starts[arc.to] < 0)
      earliest[arc.to] = std::max(
          earliest[arc.to],
          addTimes(addTimes(earliest[arc.from], graph.durationOf(arc.from)),
                   arc.lag));
  for (int32_t cell = 0; cell < graph.getNumCells(); ++cell)
    if (earliest[cell] > windows->latest[cell])
      return true;
  for (uint32_t worker = 0; worker < state.workers.size(); ++worker)
    if (isRowLate(state, worker))
      return true;
  return false;
}

/// Whether some cell ends too late even if its row could interrupt cells. The
/// cells with the earliest deadlines run first (Jackson 1955).
bool EventSearch::isRowLate(const EventState &state, uint32_t worker) {
  jobs.clear();
  for (int32_t cell : graph.cellsOf(worker))
    if (state.starts[cell] < 0)
      jobs.push_back({earliest[cell],
                      addTimes(windows->latest[cell], graph.durationOf(cell)),
                      graph.durationOf(cell)});
  const Techniques &techniques = graph.getProblem().techniques;
  if (techniques.recompute)
    addReturns(state, worker, ActivationState::Dropped);
  if (areJobsLate())
    return true;
  if (!techniques.offload)
    return false;
  jobs.clear();
  addReturns(state, worker, ActivationState::Host);
  return areJobsLate();
}

/// Adds the R or the U of activations that are not on the worker. In the best
/// case, their I come last on the stage.
void EventSearch::addReturns(const EventState &state, uint32_t worker,
                             ActivationState wanted) {
  bool isCopy = wanted == ActivationState::Host;
  unsigned queue = isCopy ? rules.reloadQueue() : ComputeQueue;
  int64_t now = std::max(state.now, state.workers[worker].queueEnds[queue]);
  for (int32_t stage : graph.stagesOf(worker)) {
    const StageFacts &facts = graph.getProblem().stages[stage];
    int64_t last = graph.countOf(stage);
    for (uint32_t pair : rules.pairsOf(stage))
      if (const PairState &own = state.pairs[pair]; own.activation == wanted)
        jobs.push_back(
            {std::max(now, own.ready),
             windows->latest[graph.cellOf(stage, Phase::InputGrad, --last)],
             isCopy ? facts.reload : facts.recompute});
  }
}

bool EventSearch::areJobsLate() {
  llvm::sort(jobs,
             [](const Job &a, const Job &b) { return a.release < b.release; });
  heap.clear();
  int64_t now = 0;
  size_t next = 0;
  while (next < jobs.size() || !heap.empty()) {
    if (heap.empty())
      now = std::max(now, jobs[next].release);
    for (; next < jobs.size() && jobs[next].release <= now; ++next) {
      heap.emplace_back(-jobs[next].deadline, jobs[next].duration);
      std::push_heap(heap.begin(), heap.end());
    }
    std::pop_heap(heap.begin(), heap.end());
    auto [due, left] = heap.back();
    heap.pop_back();
    int64_t until = addTimes(now, left);
    if (next < jobs.size())
      until = std::min(until, jobs[next].release);
    left -= until - now;
    now = until;
    if (now > -due)
      return true;
    if (left > 0) {
      heap.emplace_back(due, left);
      std::push_heap(heap.begin(), heap.end());
    }
  }
  return false;
}

//===----------------------------------------------------------------------===//
// Earlier states
//===----------------------------------------------------------------------===//

/// Splits a state into the tasks that have started and the times at which they
/// end or arrive. All past times count as equal, and so do all microbatches of
/// a path.
void EventSearch::describe(const EventState &state, Reached &reached) {
  reached.key.clear();
  reached.times.clear();
  auto timeOf = [&](int64_t time) { return std::max(time, state.now); };
  for (const EventRules::Line &line : rules.getLines()) {
    auto first = [&](uint32_t microbatch) {
      return state.pairs.begin() + line.first + microbatch * line.numStages;
    };
    auto byPair = [&](uint32_t a, uint32_t b) {
      for (uint32_t i = 0; i < line.numStages; ++i) {
        const PairState &left = first(a)[i], &right = first(b)[i];
        if (left.activation != right.activation)
          return left.activation < right.activation;
        if (timeOf(left.ready) != timeOf(right.ready))
          return timeOf(left.ready) < timeOf(right.ready);
        if (timeOf(left.arrival) != timeOf(right.arrival))
          return timeOf(left.arrival) < timeOf(right.arrival);
      }
      return false;
    };
    order.resize(line.count);
    std::iota(order.begin(), order.end(), 0);
    llvm::sort(order, byPair);
    for (uint32_t microbatch : order)
      for (uint32_t i = 0; i < line.numStages; ++i) {
        const PairState &pair = first(microbatch)[i];
        reached.key.push_back(char(pair.activation));
        reached.times.push_back(timeOf(pair.ready));
        reached.times.push_back(timeOf(pair.arrival));
      }
  }
  for (uint32_t i = 2; i < state.counts.size(); i += 3)
    reached.key.push_back(char(state.counts[i]));
  for (const WorkerState &worker : state.workers) {
    for (int64_t end : worker.queueEnds)
      reached.times.push_back(timeOf(end));
    int64_t frees = worker.frees[ComputeQueue];
    int64_t end = worker.queueEnds[ComputeQueue];
    reached.times.push_back(frees > 0 ? timeOf(end) : state.now);
    // For a cell that takes memory, a later end is better.
    reached.times.push_back(frees < 0 ? -end : 0);
  }
}

bool EventSearch::isRefuted(const Reached &reached) const {
  auto found = seen.find(reached.key);
  if (found == seen.end())
    return false;
  const std::vector<int64_t> &known = found->second;
  size_t size = reached.times.size();
  for (size_t begin = 0; begin < known.size(); begin += size) {
    size_t i = 0;
    while (i < size && known[begin + i] <= reached.times[i])
      ++i;
    if (i == size)
      return true;
    deadline->count(1);
  }
  return false;
}

/// Records the state of a level. Returns false if it was already refuted.
bool EventSearch::reach(Level &level) {
  if (level.reached.size() == level.numReached)
    level.reached.emplace_back();
  Reached &reached = level.reached[level.numReached];
  describe(level.state, reached);
  if (isRefuted(reached))
    return false;
  ++level.numReached;
  return true;
}

/// Remembers the states of a subtree that holds no schedule.
Outcome EventSearch::refute(const Level &level) {
  for (size_t i = 0; i < level.numReached; ++i) {
    const Reached &reached = level.reached[i];
    if (seenTimes + reached.times.size() > kMostSeenEvents)
      break;
    std::vector<int64_t> &known = seen[reached.key];
    known.insert(known.end(), reached.times.begin(), reached.times.end());
    seenTimes += reached.times.size();
  }
  return Outcome::Refuted;
}
