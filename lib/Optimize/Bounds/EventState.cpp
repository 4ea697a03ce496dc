//===- EventState.cpp - A partial schedule up to some time ----------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A cell may start only when it is ready, or when memory is freed for it: a
// cell that starts at any other time could have started earlier.
//
//===----------------------------------------------------------------------===//

#include "EventState.h"
#include "PipeSched/Schedule/Kinds/PhaseSets.h"
#include "llvm/ADT/STLExtras.h"

using namespace pipesched;
using namespace pipesched::optimize;

EventRules::EventRules(const BoundsGraph &graph)
    : graph(graph), problem(graph.getProblem()),
      workerPairs(graph.getNumWorkers()), stagePairs(problem.stages.size()) {
  gradientAfterWeight = problem.techniques.splitBackward &&
                        problem.gradientAfter == GradientAfter::WeightGrad;
  const Placement &placement = problem.placement;
  for (int64_t path = 0; path < placement.getNumPaths(); ++path) {
    uint32_t numStages = placement.getNumStages(path);
    uint32_t count = placement.countOnPath(path);
    lines.push_back({getNumPairs(), numStages, count});
    for (uint32_t microbatch = 0; microbatch < count; ++microbatch)
      for (uint32_t stage = 0; stage < numStages; ++stage) {
        int32_t global = placement.stageOffset(path) + stage;
        workerPairs[placement.workerOf(global)].push_back(getNumPairs());
        stagePairs[global].push_back(getNumPairs());
        pairStages.push_back(global);
        pairMicrobatches.push_back(microbatch);
      }
  }
}

EventState EventRules::first() const {
  EventState state;
  state.pairs.resize(getNumPairs());
  state.workers.resize(graph.getNumWorkers());
  for (WorkerState &worker : state.workers)
    worker.startBy = kUnknown;
  for (const Line &line : lines)
    for (uint32_t i = 0; i < line.count * line.numStages; ++i)
      if (i % line.numStages != 0)
        state.pairs[line.first + i].arrival = kUnknown;
  state.starts.assign(graph.getNumCells(), -1);
  state.counts.assign(3 * problem.stages.size(), 0);
  return state;
}

int64_t EventRules::durationOf(uint32_t pair, Phase phase) const {
  return problem.stages[pairStages[pair]].durationOf(phase);
}

/// An I that makes memory grow allocates at its start only if memory must
/// suffice for any times.
int64_t EventRules::allocatedBy(uint32_t pair, Phase phase) const {
  int32_t stage = pairStages[pair];
  if (phase == Phase::InputGrad)
    return problem.memoryTimes == MemoryTimes::Any
               ? std::max<int64_t>(0, -graph.freedByInputGrad(stage))
               : 0;
  return changeOf(traitsOf(phase).memory.atStart,
                  problem.stages[stage].amounts());
}

/// A whole backward is treated as an I that frees all.
int64_t EventRules::freedBy(uint32_t pair, Phase phase) const {
  int32_t stage = pairStages[pair];
  HeldAmounts amounts = problem.stages[stage].amounts();
  amounts.inputGrad = graph.freedByInputGrad(stage);
  int64_t freed = -changeOf(traitsOf(phase).memory.atEnd, amounts);
  return phase == Phase::InputGrad ? freed + allocatedBy(pair, phase) : freed;
}

/// Whether the cell allocates nothing, so that memory never delays it.
bool EventRules::canAlwaysMoveUp(uint32_t pair, Phase phase) const {
  return freedBy(pair, phase) >= 0;
}

//===----------------------------------------------------------------------===//
// Choices of the next start
//===----------------------------------------------------------------------===//

struct EventRules::Query {
  const EventState &state;
  const WorkerState &worker;
  int64_t capacity;
  llvm::ArrayRef<uint32_t> pairs;
  llvm::SmallVectorImpl<EventChoice> &choices;
};

void EventRules::listChoices(
    const EventState &state,
    llvm::SmallVectorImpl<EventChoice> &choices) const {
  choices.clear();
  const WorkerState &worker = state.workers[state.nextWorker];
  if (!worker.hasEvent || worker.queueEnds[state.nextQueue] > state.now)
    return;
  Query query{state, worker, problem.capacity[state.nextWorker],
              workerPairs[state.nextWorker], choices};
  if (state.nextQueue == ComputeQueue)
    return listCompute(query);
  if (state.nextQueue == OffloadQueue)
    listOffloads(query);
  if (state.nextQueue == reloadQueue())
    listReloads(query);
}

void EventRules::listOffloads(Query &query) const {
  int64_t queueEnd = query.worker.queueEnds[OffloadQueue];
  for (uint32_t pair : query.pairs) {
    const PairState &own = query.state.pairs[pair];
    if (own.activation == ActivationState::Kept)
      offer(query, Phase::Offload, pair, std::max(queueEnd, own.ready));
  }
}

void EventRules::listReloads(Query &query) const {
  int64_t queueEnd = query.worker.queueEnds[reloadQueue()];
  for (uint32_t pair : query.pairs) {
    const PairState &own = query.state.pairs[pair];
    if (own.activation == ActivationState::Host)
      offer(query, Phase::Reload, pair, std::max(queueEnd, own.ready));
  }
}

void EventRules::listCompute(Query &query) const {
  int64_t queueEnd = query.worker.queueEnds[ComputeQueue];
  for (uint32_t pair : query.pairs) {
    const PairState &own = query.state.pairs[pair];
    int64_t ready = std::max(queueEnd, own.arrival);
    if (own.activation == ActivationState::Kept)
      offer(query, Phase::InputGrad, pair, ready);
    else if (own.activation == ActivationState::Back)
      offer(query, Phase::InputGrad, pair, std::max(ready, own.ready));
    else if (own.activation == ActivationState::Nowhere)
      offer(query, Phase::Forward, pair, ready);
    else if (own.activation == ActivationState::Dropped)
      offer(query, Phase::Recompute, pair, queueEnd);
    else if (own.activation == ActivationState::Used && gradientAfterWeight)
      offer(query, Phase::WeightGrad, pair, queueEnd);
  }
  if (problem.techniques.splitBackward && !gradientAfterWeight)
    listWeightGrads(query);
}

/// No cell waits for these W, so all W of a stage are equivalent.
void EventRules::listWeightGrads(Query &query) const {
  uint32_t worker = query.state.nextWorker;
  for (int32_t stage : graph.stagesOf(worker)) {
    const uint32_t *counts = &query.state.counts[3 * stage];
    if (counts[1] == counts[2])
      continue;
    offer(query, Phase::WeightGrad, stagePairs[stage].front(),
          query.worker.queueEnds[ComputeQueue]);
  }
}

/// Offers a cell that may start from `ready` on.
void EventRules::offer(Query &query, Phase phase, uint32_t pair,
                       int64_t ready) const {
  int64_t now = query.state.now;
  if (ready > now)
    return;
  int64_t allocates = allocatedBy(pair, phase);
  bool mayStart = ready == now;
  if (allocates == 0)
    mayStart |= !canAlwaysMoveUp(pair, phase) && query.worker.hasCopyEnd;
  else
    mayStart |= query.worker.heldBefore + allocates > query.capacity;
  if (!mayStart)
    return;
  for (const EventChoice &choice : query.choices)
    if (choice.phase == phase && pairStages[choice.pair] == pairStages[pair] &&
        isSame(query.state, choice.pair, pair))
      return;
  if (allocates == 0 || query.worker.held + allocates <= query.capacity) {
    query.choices.push_back({phase, pair, {}});
  } else if (problem.techniques.recompute) {
    EventChoice choice{phase, pair, {}};
    drop(query, choice, 0, query.worker.held + allocates - query.capacity,
         ready, allocates);
  }
}

/// Offers one choice for each minimal set of activations, from the `from`-th
/// on, that make room when dropped.
void EventRules::drop(Query &query, EventChoice &choice, uint32_t from,
                      int64_t missing, int64_t ready, int64_t allocates) const {
  const EventState &state = query.state;
  auto freed = [&](uint32_t pair) {
    return allocatedBy(pair, Phase::Recompute);
  };
  auto endOfForward = [&](uint32_t pair) {
    return state.pairs[pair].ready -
           problem.stages[pairStages[pair]].offloadDelay;
  };
  if (missing <= 0) {
    int64_t before = query.worker.heldBefore + allocates;
    for (uint32_t pair : choice.dropped) {
      if (missing + freed(pair) <= 0)
        return; // the remaining ones suffice
      if (endOfForward(pair) < state.now)
        before -= freed(pair);
    }
    if (ready == state.now || before > query.capacity)
      query.choices.push_back(choice);
    return;
  }
  for (; from < query.pairs.size(); ++from) {
    uint32_t pair = query.pairs[from];
    if (state.pairs[pair].activation != ActivationState::Kept ||
        pair == choice.pair || endOfForward(pair) > state.now ||
        freed(pair) <= 0)
      continue;
    bool isTried =
        llvm::any_of(query.pairs.take_front(from), [&](uint32_t earlier) {
          return pairStages[earlier] == pairStages[pair] &&
                 earlier != choice.pair &&
                 !llvm::is_contained(choice.dropped, earlier) &&
                 state.pairs[earlier].activation == ActivationState::Kept &&
                 (endOfForward(earlier) < state.now) ==
                     (endOfForward(pair) < state.now) &&
                 isSame(state, earlier, pair);
        });
    if (isTried)
      continue;
    choice.dropped.push_back(pair);
    drop(query, choice, from + 1, missing - freed(pair), ready, allocates);
    choice.dropped.pop_back();
  }
}

/// Whether two microbatches of a path are equivalent from now on.
bool EventRules::isSame(const EventState &state, uint32_t pair,
                        uint32_t other) const {
  const Line *line = &lines[graph.pathOf(pairStages[pair])];
  uint32_t a = pair - (pair - line->first) % line->numStages;
  uint32_t b = other - (other - line->first) % line->numStages;
  for (uint32_t i = 0; i < line->numStages; ++i) {
    const PairState &left = state.pairs[a + i], &right = state.pairs[b + i];
    if (left.activation != right.activation ||
        std::max(left.ready, state.now) != std::max(right.ready, state.now) ||
        std::max(left.arrival, state.now) != std::max(right.arrival, state.now))
      return false;
  }
  return true;
}

//===----------------------------------------------------------------------===//
// Changes
//===----------------------------------------------------------------------===//

static unsigned queueOf(const EventRules &rules, Phase phase) {
  return phase == Phase::Offload  ? OffloadQueue
         : phase == Phase::Reload ? rules.reloadQueue()
                                  : ComputeQueue;
}

EventStart EventRules::start(EventState &state,
                             const EventChoice &choice) const {
  uint32_t pair = choice.pair;
  WorkerState &worker = state.workers[workerOf(pair)];
  for (uint32_t dropped : choice.dropped) {
    worker.held -= allocatedBy(dropped, Phase::Recompute);
    state.pairs[dropped].activation = ActivationState::Dropped;
    state.pairs[dropped].ready = 0;
  }
  unsigned queue = queueOf(*this, choice.phase);
  int64_t end = addTimes(state.now, durationOf(pair, choice.phase));
  worker.queueEnds[queue] = end;
  worker.held += allocatedBy(pair, choice.phase);
  int64_t freed = freedBy(pair, choice.phase);
  if (end == state.now)
    worker.held -= freed;
  else if (queue != ReloadQueue)
    worker.frees[queue] = freed;
  if (queue == ComputeQueue)
    worker.startBy = kUnknown;
  EventStart started{choice.phase, pair, state.now, end};
  move(state, pair, choice.phase, end);
  if (end > state.now) {
    goOn(state);
  } else {
    worker.hasCopyEnd |= queue != ComputeQueue;
    state.nextQueue = problem.techniques.offload ? OffloadQueue : ComputeQueue;
  }
  return started;
}

/// Updates the pair, the counts and the pairs that wait for it.
void EventRules::move(EventState &state, uint32_t pair, Phase phase,
                      int64_t end) const {
  PairState &own = state.pairs[pair];
  int32_t stage = pairStages[pair];
  own.ready = 0;
  if (phase == Phase::Offload || phase == Phase::Reload ||
      phase == Phase::Recompute) {
    own.activation =
        phase == Phase::Offload ? ActivationState::Host : ActivationState::Back;
    own.ready = end;
    return;
  }
  uint32_t &count = state.counts[3 * stage + columnOf(phase)];
  state.starts[graph.cellOf(stage, phase, count++)] = state.now;
  ++state.numStarted;
  send(state, pair, phase, end);
  if (phase == Phase::Forward) {
    own.activation = ActivationState::Kept;
    own.ready = addTimes(end, problem.stages[stage].offloadDelay);
  } else if (phase == Phase::InputGrad) {
    own.activation = ActivationState::Used;
  } else if (gradientAfterWeight) {
    own.activation = ActivationState::Done;
  }
}

void EventRules::send(EventState &state, uint32_t pair, Phase phase,
                      int64_t end) const {
  int32_t stage = pairStages[pair];
  const Line *line = &lines[graph.pathOf(pairStages[pair])];
  uint32_t onPath = (pair - line->first) % line->numStages;
  bool isLast = onPath + 1 == line->numStages;
  auto delay = [&](uint32_t other, int64_t ticks) {
    return workerOf(other) == workerOf(pair) ? 0 : ticks;
  };
  Phase gradient = gradientAfterWeight ? Phase::WeightGrad : Phase::InputGrad;
  if (phase == Phase::Forward) {
    state.pairs[pair].arrival = isLast ? 0 : kUnknown;
    if (!isLast)
      state.pairs[pair + 1].arrival =
          addTimes(end, delay(pair + 1, problem.stages[stage].activationDelay));
  } else if (phase == Phase::InputGrad) {
    state.pairs[pair].arrival = 0;
  }
  if (phase == gradient && onPath > 0)
    state.pairs[pair - 1].arrival =
        addTimes(end, delay(pair - 1, problem.stages[stage].gradientDelay));
}

/// Excludes a wait in which a cell that frees memory could have run before the
/// next compute cell.
void EventRules::wait(EventState &state,
                      llvm::ArrayRef<EventChoice> choices) const {
  WorkerState &worker = state.workers[state.nextWorker];
  if (state.nextQueue == ComputeQueue)
    for (const EventChoice &choice : choices)
      if (allocatedBy(choice.pair, choice.phase) == 0 &&
          canAlwaysMoveUp(choice.pair, choice.phase))
        worker.startBy = std::min(
            worker.startBy,
            addTimes(state.now, durationOf(choice.pair, choice.phase)));
  goOn(state);
}

void EventRules::goOn(EventState &state) const {
  if (state.nextQueue == OffloadQueue && !problem.sharedCopyQueue) {
    state.nextQueue = ReloadQueue;
  } else if (state.nextQueue != ComputeQueue) {
    state.nextQueue = ComputeQueue;
  } else {
    ++state.nextWorker;
    state.nextQueue = problem.techniques.offload ? OffloadQueue : ComputeQueue;
  }
}

int64_t EventRules::nextEvent(const EventState &state) const {
  int64_t next = kUnknown;
  auto meet = [&](int64_t time) {
    if (time > state.now)
      next = std::min(next, time);
  };
  for (const WorkerState &worker : state.workers)
    for (int64_t end : worker.queueEnds)
      meet(end);
  for (const PairState &pair : state.pairs) {
    meet(pair.arrival);
    if (pair.activation == ActivationState::Kept && problem.techniques.offload)
      meet(pair.ready);
  }
  return next;
}

bool EventRules::advance(EventState &state) const {
  int64_t now = nextEvent(state);
  if (now == kUnknown)
    return false;
  state.now = now;
  state.nextWorker = 0;
  state.nextQueue = problem.techniques.offload ? OffloadQueue : ComputeQueue;
  for (auto [index, worker] : llvm::enumerate(state.workers)) {
    worker.heldBefore = worker.held;
    for (unsigned queue : {ComputeQueue, OffloadQueue})
      if (worker.queueEnds[queue] <= now)
        worker.held -= std::exchange(worker.frees[queue], 0);
    worker.hasCopyEnd = worker.queueEnds[OffloadQueue] == now ||
                        worker.queueEnds[ReloadQueue] == now;
    worker.hasEvent =
        worker.hasCopyEnd || worker.queueEnds[ComputeQueue] == now;
    if (worker.held > problem.capacity[index] ||
        (worker.queueEnds[ComputeQueue] <= now && worker.startBy <= now))
      return false;
  }
  for (auto [index, pair] : llvm::enumerate(state.pairs))
    if (pair.arrival == now ||
        (pair.activation == ActivationState::Kept && pair.ready == now))
      state.workers[workerOf(index)].hasEvent = true;
  return true;
}
