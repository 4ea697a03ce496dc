//===- PeakMemory.cpp - Peak memory of each worker ------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Adds up the bytes that a worker holds (docs/CostModel.md, "Copies: D and U",
// "Activations, tensor by tensor" and "Shards of a vocabulary"). Merges the
// events of its row, of its two copy queues and of the queues for the output of
// an embedding; each is in time order.
//
//===----------------------------------------------------------------------===//

#include "PipeSched/Analysis/Memory/PeakMemory.h"
#include "ActivationLedger.h"
#include "EdgeTensors.h"
#include "PipeSched/Analysis/Graph/TaskEnds.h"
#include "llvm/Support/MathExtras.h"

using namespace pipesched;

namespace {

/// Tasks of one kind of queue for each worker, such as offloads, in queue
/// order: CSR.
struct QueueTasks {
  std::vector<uint32_t> begins, tasks;

  llvm::ArrayRef<uint32_t> of(int64_t worker) const {
    if (begins.empty())
      return {};
    return llvm::ArrayRef(tasks).slice(begins[worker],
                                       begins[worker + 1] - begins[worker]);
  }
};

/// The memory of a worker after an event.
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
///   lookups       | A free |                             by end
///   gradients              | C alloc |                   by start
///   tensors         +      -      +                      EdgeTensors.h
///
/// Visits the tasks of all rows in topological order, which keeps the order of
/// each row and reads memory from front to back.
class MemoryWalk {
public:
  MemoryWalk(const TaskGraph &graph, const TaskTimes &times,
             const Timeline &timeline, const Placement &placement,
             const MemoryFacts &facts)
      : graph(graph), placement(placement), facts(facts),
        ends(graph, times, timeline),
        offloads(collect(InstructionKind::Offload)),
        reloads(collect(InstructionKind::Reload)),
        lookups(collect(InstructionKind::ReduceLookups)),
        gradients(collect(InstructionKind::BroadcastGradient)),
        activations(placement, facts) {}

  /// Calls `visit(worker, holding)` after each event.
  template <typename Visitor>
  llvm::Error run(Visitor &&visit);

private:
  struct Event {
    int64_t atPs;
    uint32_t task;
    enum Kind : uint8_t {
      RowEnd,
      OffloadEnd,
      LookupEnd,
      TensorFree,
      ReloadStart,
      GradientStart,
      TensorAllocate,
      RowStart
    } kind;
    int64_t tensorBytes = 0; ///< of a tensor, below 0 if it is freed
  };
  /// The memory of one worker, and the tasks that remain in its queues.
  struct WorkerState {
    Holding holding;
    uint32_t running = TaskGraph::kNone; ///< started and not yet ended
    llvm::ArrayRef<uint32_t> offloads, reloads, lookups, gradients;
    llvm::ArrayRef<TensorEvent> tensors;
  };

  QueueTasks collect(InstructionKind kind) const;
  llvm::Error prepare();
  bool isReady(uint32_t task, int64_t worker) const;
  void noteEnd(uint32_t task) {
    if (!hasEnded.empty())
      hasEnded[task] = true;
  }
  std::optional<Event> takeEvent(int64_t worker, uint32_t nextTask);
  template <typename Visitor>
  llvm::Error advance(int64_t worker, uint32_t nextTask, Visitor &&visit);
  MemoryChange apply(int64_t worker, const Event &event);
  llvm::Error countCopy(int64_t worker, const Event &event,
                        MemoryChange change);
  bool isPair(uint32_t task) const { return graph.cell[task].overlapsNext(); }
  Cell allocatingCell(int64_t worker, uint32_t task) const;
  Cell cellOf(int64_t worker, uint32_t task) const;

  const TaskGraph &graph;
  const Placement &placement;
  const MemoryFacts &facts;
  TaskEnds ends;
  QueueTasks offloads, reloads, lookups, gradients;
  ActivationLedger activations;
  /// By task: cells and offloads. Empty if nothing runs alongside the rows.
  std::vector<bool> hasEnded;
  std::vector<std::vector<TensorEvent>> tensors; ///< by worker
  std::vector<WorkerState> states;
};

} // namespace

//===----------------------------------------------------------------------===//
// Tables of the walk
//===----------------------------------------------------------------------===//

/// Topological order keeps the order of each queue. A collective is in the
/// queues of all workers of its group.
QueueTasks MemoryWalk::collect(InstructionKind kind) const {
  QueueTasks queues;
  if (!llvm::is_contained(graph.kind, kind))
    return queues;
  auto forEach = [&](auto &&visit) {
    for (uint32_t task = 0; task < graph.size(); ++task) {
      if (graph.kind[task] != kind)
        continue;
      if (traitsOf(kind).role != InstructionRole::Collective)
        visit(graph.worker[task], task);
      else
        for (int32_t worker : graph.workersOf(graph.peer[task]))
          visit(worker, task);
    }
  };
  queues.begins.assign(graph.getNumWorkers() + 1, 0);
  forEach([&](int32_t worker, uint32_t) { ++queues.begins[worker + 1]; });
  for (int64_t worker = 0; worker < graph.getNumWorkers(); ++worker)
    queues.begins[worker + 1] += queues.begins[worker];
  queues.tasks.resize(queues.begins.back());
  std::vector<uint32_t> next(queues.begins.begin(), queues.begins.end() - 1);
  forEach([&](int32_t worker, uint32_t task) {
    queues.tasks[next[worker]++] = task;
  });
  return queues;
}

/// The cells and copies of each worker in the order of its row. The first edge
/// of a task leads to the task before it in its row. So a copy comes after the
/// last cell before it, and copies of a queue keep their order.
static std::vector<Cell> cellsOfRows(const TaskGraph &graph) {
  struct Place {
    uint32_t worker, behind; ///< the last cell before or at it, or 0
    uint32_t task;
  };
  std::vector<uint32_t> lastCell(graph.size(), 0);
  std::vector<Place> places;
  for (uint32_t task = 0; task < graph.size(); ++task) {
    llvm::ArrayRef<Edge> edges = graph.edgesOf(task);
    bool isCell = graph.is(task, InstructionRole::Compute);
    lastCell[task] =
        isCell ? task
        : !edges.empty() && graph.worker[edges[0].task()] == graph.worker[task]
            ? lastCell[edges[0].task()]
            : 0;
    if (isCell || graph.is(task, InstructionRole::Copy))
      places.push_back({uint32_t(graph.worker[task]), lastCell[task], task});
  }
  llvm::sort(places, [](const Place &a, const Place &b) {
    return std::tie(a.worker, a.behind, a.task) <
           std::tie(b.worker, b.behind, b.task);
  });
  std::vector<Cell> cells;
  for (const Place &place : places) {
    cells.push_back(graph.cell[place.task]);
    if (graph.is(place.task, InstructionRole::Compute) &&
        graph.cell[place.task].overlapsNext())
      cells.push_back(graph.overlapped[place.task]);
  }
  return cells;
}

llvm::Error MemoryWalk::prepare() {
  states.resize(graph.getNumWorkers());
  tensors.resize(graph.getNumWorkers());
  if (!facts.edges.empty())
    tensors = listTensorEvents(graph, ends, placement, facts.edges);
  for (auto [worker, state] : llvm::enumerate(states)) {
    state.tensors = tensors[worker];
    state.offloads = offloads.of(worker);
    state.reloads = reloads.of(worker);
    state.lookups = lookups.of(worker);
    state.gradients = gradients.of(worker);
  }
  if (!offloads.tasks.empty() || !reloads.tasks.empty() ||
      !lookups.tasks.empty() || !gradients.tasks.empty())
    hasEnded.assign(graph.size(), false);
  if (llvm::Error error = activations.read(llvm::ArrayRef<Cell>(graph.cell)))
    return error;
  if (graph.numSlices > 1 && !offloads.tasks.empty())
    activations.readRows(cellsOfRows(graph));
  return llvm::Error::success();
}

//===----------------------------------------------------------------------===//
// Events
//===----------------------------------------------------------------------===//

/// Whether the cells and offloads of the worker that a task waits for have
/// ended. Times are not enough: cells may take no time, so that a cause and its
/// effect have the same time.
bool MemoryWalk::isReady(uint32_t task, int64_t worker) const {
  return llvm::all_of(graph.edgesOf(task), [&](Edge edge) {
    bool isFollowed = graph.worker[edge.task()] == worker &&
                      (graph.is(edge.task(), InstructionRole::Compute) ||
                       graph.kind[edge.task()] == InstructionKind::Offload);
    return !isFollowed || hasEnded[edge.task()];
  });
}

/// Returns the earliest event of a worker whose row continues with `nextTask`
/// (kNone: the row has ended). Among events at the same time, events that free
/// memory come first.
std::optional<MemoryWalk::Event> MemoryWalk::takeEvent(int64_t worker,
                                                       uint32_t nextTask) {
  WorkerState &state = states[worker];
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
  auto offerFirst = [&](llvm::ArrayRef<uint32_t> queue, Event::Kind kind) {
    if (queue.empty() || !isReady(queue.front(), worker))
      return;
    uint32_t task = queue.front();
    bool isEnd = kind == Event::OffloadEnd || kind == Event::LookupEnd;
    offer({isEnd ? ends.releasePs(task) : ends.startPs(task), task, kind});
  };
  offerFirst(state.offloads, Event::OffloadEnd);
  offerFirst(state.lookups, Event::LookupEnd);
  offerFirst(state.reloads, Event::ReloadStart);
  offerFirst(state.gradients, Event::GradientStart);
  if (!state.tensors.empty()) {
    TensorEvent tensor = state.tensors.front();
    offer({tensor.atPs, tensor.task,
           tensor.bytes < 0 ? Event::TensorFree : Event::TensorAllocate,
           tensor.bytes});
  }
  if (!earliest)
    return std::nullopt;
  switch (earliest->kind) {
  case Event::RowStart:
    state.running = earliest->task;
    break;
  case Event::RowEnd:
    state.running = TaskGraph::kNone;
    noteEnd(earliest->task);
    break;
  case Event::OffloadEnd:
    state.offloads = state.offloads.drop_front();
    noteEnd(earliest->task);
    break;
  case Event::LookupEnd:
    state.lookups = state.lookups.drop_front();
    break;
  case Event::TensorFree:
  case Event::TensorAllocate:
    state.tensors = state.tensors.drop_front();
    break;
  case Event::ReloadStart:
    state.reloads = state.reloads.drop_front();
    break;
  case Event::GradientStart:
    state.gradients = state.gradients.drop_front();
    break;
  }
  return earliest;
}

/// The cell with which a worker takes part in a task.
Cell MemoryWalk::cellOf(int64_t worker, uint32_t task) const {
  if (!graph.is(task, InstructionRole::Collective))
    return graph.cell[task];
  int32_t group = graph.peer[task];
  auto workers = graph.workersOf(group);
  return graph.cellsOf(
      group)[llvm::lower_bound(workers, worker) - workers.begin()];
}

MemoryChange MemoryWalk::apply(int64_t worker, const Event &event) {
  Cell cell = cellOf(worker, event.task);
  MemoryChange change;
  switch (event.kind) {
  case Event::TensorFree:
  case Event::TensorAllocate:
    return {event.tensorBytes, 0};
  case Event::RowStart:
    change = activations.start(cell);
    if (isPair(event.task))
      change += activations.start(graph.overlapped[event.task]);
    return change;
  case Event::RowEnd:
    change = activations.finish(cell);
    if (isPair(event.task))
      change += activations.finish(graph.overlapped[event.task]);
    return change;
  case Event::OffloadEnd:
    return activations.moveOut(cell);
  case Event::ReloadStart:
    return activations.moveIn(cell);
  case Event::LookupEnd:
    return activations.finish(cell);
  case Event::GradientStart:
    return activations.start(cell);
  }
  llvm_unreachable("covered switch");
}

/// The cell to report for an event. For a pair it is the forward, which
/// allocates.
Cell MemoryWalk::allocatingCell(int64_t worker, uint32_t task) const {
  Cell cell = cellOf(worker, task);
  if (isPair(task) && graph.overlapped[task].is(Phase::Forward))
    cell = graph.overlapped[task];
  return cell.withOverlap(false);
}

/// Counts the bytes that an offload frees or a reload allocates as copied.
llvm::Error MemoryWalk::countCopy(int64_t worker, const Event &event,
                                  MemoryChange change) {
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
                                 graph.nameOf(holding.cell).str().c_str());
}

/// Applies the events of a worker until `nextTask` has started, or all events
/// if `nextTask` is kNone.
template <typename Visitor>
llvm::Error MemoryWalk::advance(int64_t worker, uint32_t nextTask,
                                Visitor &&visit) {
  WorkerState &state = states[worker];
  Holding &holding = state.holding;
  while (std::optional<Event> event = takeEvent(worker, nextTask)) {
    MemoryChange change = apply(worker, *event);
    holding.cell = allocatingCell(worker, event->task);
    holding.atPs = event->atPs;
    holding.activations += change.activations;
    if (llvm::AddOverflow(holding.bytes, change.bytes, holding.bytes))
      return llvm::createStringError(
          "activations on worker %lld exceed 2^63-1 bytes at cell %s",
          static_cast<long long>(worker),
          graph.nameOf(holding.cell).str().c_str());
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

/// The sum of weights, gradients, optimizer state and activations must fit
/// int64.
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

llvm::Error pipesched::finishMemory(MemoryUsage &usage) {
  for (auto [number, worker] : llvm::enumerate(usage.workers)) {
    if (llvm::Error tooMuch = checkTotal(worker, number))
      return tooMuch;
    if (worker.peakBytes() > usage.workers[usage.bottleneckWorker].peakBytes())
      usage.bottleneckWorker = number;
  }
  return llvm::Error::success();
}

llvm::Expected<MemoryUsage>
pipesched::computePersistentMemory(const Placement &placement,
                                   const MemoryFacts &facts) {
  MemoryUsage usage;
  usage.capacityBytes = facts.capacityBytes;
  usage.workers.resize(placement.getNumWorkers());
  if (llvm::Error error = addPersistent(placement, facts, usage))
    return std::move(error);
  return usage;
}

llvm::Expected<MemoryUsage> pipesched::computeMemory(const TaskGraph &graph,
                                                     const TaskTimes &times,
                                                     const Timeline &timeline,
                                                     const Placement &placement,
                                                     const MemoryFacts &facts) {
  llvm::Expected<MemoryUsage> persistent =
      computePersistentMemory(placement, facts);
  if (!persistent)
    return persistent.takeError();
  MemoryUsage usage = std::move(*persistent);
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
  if (llvm::Error tooMuch = finishMemory(usage))
    return std::move(tooMuch);
  return usage;
}

/// Appends a sample unless the bytes are unchanged. Keeps only the last of
/// several samples at the same time.
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
