//===- PeakMemory.cpp - Peak memory of each worker ------------------------===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Merges the events of a worker's row and of its two copy queues, which are
// each in time order already, and adds up the bytes held (docs/CostModel.md,
// "Copies: D and U" and "Activations, tensor by tensor").
//
//===----------------------------------------------------------------------===//

#include "PipeSched/Analysis/PeakMemory.h"
#include "PipeSched/Analysis/TaskEnds.h"
#include "llvm/Support/MathExtras.h"

using namespace pipesched;

namespace {

/// Activations of one stage and microbatch.
struct Activation {
  int64_t deviceBytes = 0, hostBytes = 0;
  bool isRecomputed = false; ///< an R allocates what F does not keep
};

/// Activations, dense over (path, stage, microbatch on the path). Only graphs
/// with R, D or U need this table; in others the phase of a cell says what it
/// allocates and frees.
class ActivationTable {
public:
  explicit ActivationTable(const Placement &placement);

  std::size_t size() const { return offsets.back(); }
  void allocate() { entries.assign(size(), Activation()); }
  Activation &at(Cell cell) {
    return entries[offsets[placement.globalStage(cell)] +
                   placement.rankOnPath(cell.getMicrobatch())];
  }

private:
  const Placement &placement;
  std::vector<std::size_t> offsets; ///< by global stage, and the end
  std::vector<Activation> entries;
};

/// Offloads and reloads of each worker in queue order: CSR.
struct CopyTasks {
  std::vector<uint32_t> begins, tasks;

  llvm::ArrayRef<uint32_t> of(int64_t worker) const {
    if (begins.empty())
      return {};
    return llvm::ArrayRef(tasks).slice(begins[worker],
                                       begins[worker + 1] - begins[worker]);
  }
};

/// What an event does to the memory of a worker.
struct Change {
  int64_t bytes = 0, activations = 0;
};

/// State after an event.
struct Holding {
  int64_t atPs = 0, bytes = 0, activations = 0;
  Cell cell;                           ///< of the event
  int64_t offloaded = 0, reloaded = 0; ///< bytes copied so far
};

/// The events of each worker in time order:
///
///   row       | F alloc |        | B alloc 0, free |     by start and end
///   offloads      | D free |                             by end
///   reloads                | U alloc |                   by start
///
/// Visits the tasks of all rows in topological order, which keeps the order of
/// each row and reads memory from front to back.
class MemoryWalk {
public:
  MemoryWalk(const TaskGraph &graph, const TaskTimes &times,
             const Timeline &timeline, const Placement &placement,
             const MemoryFacts &facts)
      : graph(graph), ends(graph, times, timeline), facts(facts),
        placement(placement), offloads(collect(InstructionKind::Offload)),
        reloads(collect(InstructionKind::Reload)), activations(placement) {}

  /// Calls `visit(worker, holding)` after each event.
  template <typename Visitor>
  llvm::Error run(Visitor &&visit);

private:
  struct Event {
    int64_t atPs;
    uint32_t task;
    enum Kind : uint8_t { RowEnd, OffloadEnd, ReloadStart, RowStart } kind;
  };
  /// What one worker holds, and what is left of its queues.
  struct WorkerState {
    Holding holding;
    uint32_t running = TaskGraph::kNone; ///< started and not yet ended
    llvm::ArrayRef<uint32_t> offloads, reloads;
  };

  CopyTasks collect(InstructionKind kind) const;
  llvm::Error prepare();
  std::optional<Event> takeEvent(WorkerState &state, uint32_t nextTask);
  template <typename Visitor>
  llvm::Error advance(int64_t worker, uint32_t nextTask, Visitor &&visit);
  Change apply(const Event &event);
  llvm::Error countCopy(int64_t worker, const Event &event, Change change);
  Change start(Cell cell);
  int64_t release(Cell cell);
  Change finish(Cell cell);
  Change moveOut(Cell cell);
  Change moveIn(Cell cell);
  const StageMemory &stageOf(Cell cell) const {
    return facts.stages[placement.globalStage(cell)];
  }
  bool isPair(uint32_t task) const { return graph.cell[task].overlapsNext(); }
  Cell allocatingCell(uint32_t task) const;

  const TaskGraph &graph;
  TaskEnds ends;
  const MemoryFacts &facts;
  const Placement &placement;
  CopyTasks offloads, reloads;
  ActivationTable activations;
  bool isTracked = false; ///< `activations` is in use
  std::vector<WorkerState> states;
};

} // namespace

//===----------------------------------------------------------------------===//
// Tables of the walk
//===----------------------------------------------------------------------===//

ActivationTable::ActivationTable(const Placement &placement)
    : placement(placement) {
  offsets.reserve(placement.getNumGlobalStages() + 1);
  offsets.push_back(0);
  for (int64_t path = 0; path < placement.getNumPaths(); ++path)
    for (int64_t stage = 0; stage < placement.getPath(path).getNumStages();
         ++stage)
      offsets.push_back(offsets.back() + placement.countOnPath(path));
}

/// Topological order keeps the order of each queue.
CopyTasks MemoryWalk::collect(InstructionKind kind) const {
  CopyTasks copies;
  if (!llvm::is_contained(graph.kind, kind))
    return copies;
  copies.begins.assign(graph.getNumWorkers() + 1, 0);
  for (uint32_t task = 0; task < graph.size(); ++task)
    if (graph.kind[task] == kind)
      ++copies.begins[graph.worker[task] + 1];
  for (int64_t worker = 0; worker < graph.getNumWorkers(); ++worker)
    copies.begins[worker + 1] += copies.begins[worker];
  copies.tasks.resize(copies.begins.back());
  std::vector<uint32_t> next(copies.begins.begin(), copies.begins.end() - 1);
  for (uint32_t task = 0; task < graph.size(); ++task)
    if (graph.kind[task] == kind)
      copies.tasks[next[graph.worker[task]]++] = task;
  return copies;
}

llvm::Error MemoryWalk::prepare() {
  states.resize(graph.getNumWorkers());
  for (auto [worker, state] : llvm::enumerate(states)) {
    state.offloads = offloads.of(worker);
    state.reloads = reloads.of(worker);
  }
  auto isRecompute = [](Cell cell) { return cell.is(Phase::Recompute); };
  isTracked = !offloads.tasks.empty() || !reloads.tasks.empty() ||
              llvm::any_of(graph.cell, isRecompute);
  if (!isTracked)
    return llvm::Error::success();
  // A complete table has a cell for each entry. A sparse program may have up to
  // 2^20 entries, or 64 per task, so that the array stays in proportion.
  constexpr std::size_t minLimit = std::size_t(1) << 20;
  if (activations.size() > std::max(minLimit, std::size_t(graph.size()) * 64))
    return llvm::createStringError(
        "memory of recomputed or offloaded activations needs microbatches that "
        "are in use: there are %u tasks for %zu pairs of stage and microbatch",
        graph.size(), activations.size());
  activations.allocate();
  for (Cell cell : graph.cell)
    if (isRecompute(cell))
      activations.at(cell).isRecomputed = true;
  return llvm::Error::success();
}

//===----------------------------------------------------------------------===//
// Events
//===----------------------------------------------------------------------===//

/// Takes the earliest event of a worker whose row continues with `nextTask`, or
/// ends if that is kNone. Of events at the same time, those that free memory go
/// first, except that an offload waits for the forward whose bytes it moves.
std::optional<MemoryWalk::Event> MemoryWalk::takeEvent(WorkerState &state,
                                                       uint32_t nextTask) {
  std::optional<Event> earliest;
  auto offer = [&](Event event) {
    if (!earliest || std::tie(event.atPs, event.kind) <
                         std::tie(earliest->atPs, earliest->kind))
      earliest = event;
  };
  if (state.running != TaskGraph::kNone)
    offer({ends.releasePs(state.running), state.running, Event::RowEnd});
  else if (nextTask != TaskGraph::kNone)
    offer({ends.startPs(nextTask), nextTask, Event::RowStart});
  if (!state.offloads.empty()) {
    uint32_t task = state.offloads.front();
    int64_t endPs = ends.releasePs(task);
    bool isEmpty = activations.at(graph.cell[task]).deviceBytes == 0;
    if (!isEmpty || !earliest || earliest->atPs > endPs)
      offer({endPs, task, Event::OffloadEnd});
  }
  if (!state.reloads.empty())
    offer({ends.startPs(state.reloads.front()), state.reloads.front(),
           Event::ReloadStart});
  if (!earliest)
    return std::nullopt;
  switch (earliest->kind) {
  case Event::RowStart:
    state.running = earliest->task;
    break;
  case Event::RowEnd:
    state.running = TaskGraph::kNone;
    break;
  case Event::OffloadEnd:
    state.offloads = state.offloads.drop_front();
    break;
  case Event::ReloadStart:
    state.reloads = state.reloads.drop_front();
    break;
  }
  return earliest;
}

Change MemoryWalk::apply(const Event &event) {
  Cell cell = graph.cell[event.task];
  Change change, second;
  switch (event.kind) {
  case Event::RowStart:
    change = start(cell);
    if (isPair(event.task))
      second = start(graph.overlapped[event.task]);
    break;
  case Event::RowEnd:
    change = finish(cell);
    if (isPair(event.task))
      second = finish(graph.overlapped[event.task]);
    break;
  case Event::OffloadEnd:
    return moveOut(cell);
  case Event::ReloadStart:
    return moveIn(cell);
  }
  return {change.bytes + second.bytes, change.activations + second.activations};
}

/// F allocates the activations that it keeps, R the rest; B and I allocate
/// their working memory.
Change MemoryWalk::start(Cell cell) {
  if (cell.is(Phase::Backward) || cell.is(Phase::InputGrad))
    return {stageOf(cell).workingBytes, 0};
  if (!cell.is(Phase::Forward) && !cell.is(Phase::Recompute))
    return {};
  const StageMemory &stage = stageOf(cell);
  if (!isTracked)
    return {stage.activationBytes, 1};
  Activation &activation = activations.at(cell);
  bool keepsBoundary = cell.is(Phase::Forward) && activation.isRecomputed;
  int64_t target = keepsBoundary ? stage.boundaryBytes : stage.activationBytes;
  int64_t grown = target - activation.deviceBytes;
  activation.deviceBytes = target;
  return {grown, cell.is(Phase::Forward) ? 1 : 0};
}

/// The activation bytes that B, I or W frees: I its share, B and W all that is
/// left.
int64_t MemoryWalk::release(Cell cell) {
  const StageMemory &stage = stageOf(cell);
  bool isInputGrad = cell.is(Phase::InputGrad);
  if (isTracked) {
    int64_t &held = activations.at(cell).deviceBytes;
    int64_t freed =
        isInputGrad ? std::min(stage.inputGradFreedBytes, held) : held;
    held -= freed;
    return freed;
  }
  if (isInputGrad)
    return stage.inputGradFreedBytes;
  return cell.is(Phase::Backward)
             ? stage.activationBytes
             : stage.activationBytes - stage.inputGradFreedBytes;
}

Change MemoryWalk::finish(Cell cell) {
  switch (cell.getPhase()) {
  case Phase::Backward:
    return {-release(cell) - stageOf(cell).workingBytes, -1};
  case Phase::InputGrad:
    return {-release(cell) - stageOf(cell).workingBytes, 0};
  case Phase::WeightGrad:
    return {-release(cell), -1};
  default:
    return {};
  }
}

Change MemoryWalk::moveOut(Cell cell) {
  Activation &activation = activations.at(cell);
  int64_t bytes = activation.deviceBytes;
  activation.hostBytes += bytes;
  activation.deviceBytes = 0;
  return {-bytes, -1};
}

Change MemoryWalk::moveIn(Cell cell) {
  Activation &activation = activations.at(cell);
  int64_t bytes = activation.hostBytes;
  activation.deviceBytes += bytes;
  activation.hostBytes = 0;
  return {bytes, 1};
}

/// The cell to name for an event: of a pair the forward, which allocates.
Cell MemoryWalk::allocatingCell(uint32_t task) const {
  Cell cell = graph.cell[task];
  if (isPair(task) && graph.overlapped[task].is(Phase::Forward))
    cell = graph.overlapped[task];
  return cell.withOverlap(false);
}

/// Adds the bytes that an offload frees or a reload allocates to those copied.
llvm::Error MemoryWalk::countCopy(int64_t worker, const Event &event,
                                  Change change) {
  Holding &holding = states[worker].holding;
  bool isOverflow = false;
  if (event.kind == Event::OffloadEnd)
    isOverflow =
        llvm::SubOverflow(holding.offloaded, change.bytes, holding.offloaded);
  else if (event.kind == Event::ReloadStart)
    isOverflow =
        llvm::AddOverflow(holding.reloaded, change.bytes, holding.reloaded);
  if (!isOverflow)
    return llvm::Error::success();
  return llvm::createStringError("copies of worker %lld exceed 2^63-1 bytes at "
                                 "cell %s",
                                 static_cast<long long>(worker),
                                 holding.cell.str().c_str());
}

/// Applies the events of a worker until `nextTask` has started, or all of them
/// if that is kNone.
template <typename Visitor>
llvm::Error MemoryWalk::advance(int64_t worker, uint32_t nextTask,
                                Visitor &&visit) {
  WorkerState &state = states[worker];
  Holding &holding = state.holding;
  while (std::optional<Event> event = takeEvent(state, nextTask)) {
    Change change = apply(*event);
    holding.cell = allocatingCell(event->task);
    holding.atPs = event->atPs;
    holding.activations += change.activations;
    if (llvm::AddOverflow(holding.bytes, change.bytes, holding.bytes))
      return llvm::createStringError(
          "activations on worker %lld exceed 2^63-1 bytes at cell %s",
          static_cast<long long>(worker), holding.cell.str().c_str());
    if (llvm::Error error = countCopy(worker, *event, change))
      return error;
    visit(worker, holding);
    if (event->kind == Event::RowStart)
      break;
  }
  return llvm::Error::success();
}

template <typename Visitor>
llvm::Error MemoryWalk::run(Visitor &&visit) {
  if (llvm::Error error = prepare())
    return error;
  for (uint32_t task = 0; task < graph.size(); ++task)
    if (graph.is(task, InstructionRole::Compute))
      if (llvm::Error error = advance(graph.worker[task], task, visit))
        return error;
  for (int64_t worker = 0; worker < graph.getNumWorkers(); ++worker)
    if (llvm::Error error = advance(worker, TaskGraph::kNone, visit))
      return error;
  return llvm::Error::success();
}

//===----------------------------------------------------------------------===//
// Results
//===----------------------------------------------------------------------===//

static llvm::Error addPersistent(const Placement &placement,
                                 const MemoryFacts &facts, MemoryUsage &usage) {
  for (auto [index, stage] : llvm::enumerate(facts.stages)) {
    int64_t number = placement.workerOf(index);
    WorkerMemory &worker = usage.workers[number];
    if (llvm::AddOverflow(worker.weightBytes, stage.weightBytes,
                          worker.weightBytes) ||
        llvm::AddOverflow(worker.gradientBytes, stage.gradientBytes,
                          worker.gradientBytes) ||
        llvm::AddOverflow(worker.optimizerBytes, stage.optimizerBytes,
                          worker.optimizerBytes))
      return llvm::createStringError(
          "parameters on worker %lld exceed 2^63-1 bytes",
          static_cast<long long>(number));
  }
  return llvm::Error::success();
}

/// Weights, gradients, optimizer state and activations must fit int64 together.
static llvm::Error checkTotal(const WorkerMemory &worker, int64_t number) {
  int64_t total = worker.peakActivationBytes;
  for (int64_t bytes :
       {worker.weightBytes, worker.gradientBytes, worker.optimizerBytes})
    if (llvm::AddOverflow(total, bytes, total))
      return llvm::createStringError(
          "memory of worker %lld exceeds 2^63-1 bytes",
          static_cast<long long>(number));
  return llvm::Error::success();
}

llvm::Expected<MemoryUsage> pipesched::computeMemory(const TaskGraph &graph,
                                                     const TaskTimes &times,
                                                     const Timeline &timeline,
                                                     const Placement &placement,
                                                     const MemoryFacts &facts) {
  MemoryUsage usage;
  usage.capacityBytes = facts.capacityBytes;
  usage.workers.resize(placement.getNumWorkers());
  if (llvm::Error error = addPersistent(placement, facts, usage))
    return std::move(error);
  MemoryWalk walk(graph, times, timeline, placement, facts);
  llvm::Error error = walk.run([&](int64_t number, const Holding &holding) {
    WorkerMemory &worker = usage.workers[number];
    worker.offloadedBytes = holding.offloaded;
    worker.reloadedBytes = holding.reloaded;
    if (worker.peakCell && holding.bytes <= worker.peakActivationBytes)
      return;
    worker.peakActivationBytes = holding.bytes;
    worker.peakPs = holding.atPs;
    worker.peakCell = holding.cell;
    worker.peakMicrobatches = holding.activations;
  });
  if (error)
    return std::move(error);
  for (auto [number, worker] : llvm::enumerate(usage.workers)) {
    if (llvm::Error tooMuch = checkTotal(worker, number))
      return std::move(tooMuch);
    if (worker.peakBytes() > usage.workers[usage.bottleneckWorker].peakBytes())
      usage.bottleneckWorker = number;
  }
  return usage;
}

/// Appends a sample unless the bytes are unchanged. Of several samples at the
/// same time, keeps only the last.
static void addSample(const Holding &holding,
                      std::vector<MemorySample> &samples) {
  if (!samples.empty() && samples.back().atPs == holding.atPs)
    samples.pop_back();
  int64_t before = samples.empty() ? 0 : samples.back().bytes;
  if (before != holding.bytes)
    samples.push_back({holding.atPs, holding.bytes});
}

std::vector<std::vector<MemorySample>>
pipesched::traceMemory(const TaskGraph &graph, const TaskTimes &times,
                       const Timeline &timeline, const Placement &placement,
                       const MemoryFacts &facts) {
  std::vector<std::vector<MemorySample>> samples(placement.getNumWorkers());
  MemoryWalk walk(graph, times, timeline, placement, facts);
  llvm::Error error = walk.run([&](int64_t worker, const Holding &holding) {
    addSample(holding, samples[worker]);
  });
  if (error) {
    llvm::consumeError(std::move(error));
    samples.assign(samples.size(), {});
  }
  return samples;
}
