//===- EdgeTensors.cpp - Memory of tensors on edges -----------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Collects the times of cells and messages first, then goes through the edges
// and units.
//
//===----------------------------------------------------------------------===//

#include "EdgeTensors.h"
#include "PipeSched/Analysis/Graph/MessageCosts.h"
#include "PipeSched/Schedule/Kinds/PhaseSets.h"
#include <map>
#include <unordered_map>

using namespace pipesched;

namespace {
/// A time and the task that has it; none if there is no task.
struct TimedTask {
  int64_t atPs = 0;
  uint32_t task = TaskGraph::kNone;

  explicit operator bool() const { return task != TaskGraph::kNone; }
  void takeEarlier(TimedTask other) {
    if (other && (!*this || other.atPs < atPs))
      *this = other;
  }
  void takeLater(TimedTask other) {
    if (other && (!*this || other.atPs > atPs))
      *this = other;
  }
};

/// The cells of a stage for a unit.
struct UnitTimes {
  TimedTask forwardEnd;    ///< F
  TimedTask gradientStart; ///< B or I
  TimedTask gradientEnd;   ///< B or I
  TimedTask lastEnd;       ///< F, B, I or W
};

/// A tensor of a stage, and the worker of some of its edges' targets.
struct TensorPlace {
  int32_t stage, tensor, worker;

  friend bool operator<(const TensorPlace &a, const TensorPlace &b) {
    return std::tie(a.stage, a.tensor, a.worker) <
           std::tie(b.stage, b.tensor, b.worker);
  }
};

/// The edges with one tensor to stages of one worker.
struct TensorTargets {
  std::vector<int32_t> added;  ///< by edges that hold the tensor
  std::vector<int32_t> givers; ///< of gradients
  int64_t tensorBytes = 0, gradientBytes = 0;
};

class EventList {
public:
  EventList(const TaskGraph &graph, const TaskEnds &ends,
            const Placement &placement)
      : graph(graph), ends(ends), placement(placement),
        events(graph.getNumWorkers()) {}

  void readTimes();
  void addEdges(llvm::ArrayRef<EdgeMemory> edges);
  std::vector<std::vector<TensorEvent>> take();

private:
  using Arrival = std::tuple<int64_t, int32_t, int32_t>;

  void readCell(uint32_t task, Cell cell);
  void addTensor(const TensorPlace &place, const TensorTargets &targets,
                 int64_t unit);
  void addGradients(int32_t stage, int64_t unit);
  void hold(int32_t worker, TimedTask begin, TimedTask end, int64_t bytes);
  UnitTimes timesOf(int64_t stage, int64_t unit) const {
    auto found = times.find(placement.pairOf(stage, unit));
    return found == times.end() ? UnitTimes() : found->second;
  }
  TimedTask arrivalOf(Flow flow, const TensorPlace &place, int64_t unit) const {
    const auto &found = arrivals[static_cast<unsigned>(flow)];
    auto entry = found.find(
        {placement.pairOf(place.stage, unit), place.tensor, place.worker});
    return entry == found.end() ? TimedTask() : entry->second;
  }

  const TaskGraph &graph;
  const TaskEnds &ends;
  const Placement &placement;
  std::unordered_map<int64_t, UnitTimes> times; ///< by pair
  /// By flow, the message of a tensor or of its gradient, by the pair that has
  /// the tensor, its number, and the worker of the stages that take it.
  std::array<std::map<Arrival, TimedTask>, kNumFlows> arrivals;
  std::map<TensorPlace, TensorTargets> tensors;
  std::vector<std::vector<TensorEvent>> events; ///< by worker
};
} // namespace

void EventList::readCell(uint32_t task, Cell cell) {
  constexpr PhaseSet kHolding =
      kSplitBackward | Phase::Backward | Phase::Forward;
  if (!cell.isIn(kHolding))
    return;
  UnitTimes &unit = times[placement.pairOf(cell)];
  TimedTask start = {ends.startPs(task), task};
  TimedTask end = {ends.releasePs(task), task};
  if (cell.is(Phase::Forward))
    unit.forwardEnd = end;
  if (cell.is(Phase::Backward) || cell.is(Phase::InputGrad)) {
    unit.gradientStart = start;
    unit.gradientEnd = end;
  }
  unit.lastEnd.takeLater(end);
}

void EventList::readTimes() {
  EdgesOfMessages messages(graph, placement);
  for (uint32_t task = 0; task < graph.size(); ++task) {
    Cell cell = graph.cell[task];
    if (graph.is(task, InstructionRole::Compute)) {
      readCell(task, cell.withOverlap(false));
      if (cell.overlapsNext())
        readCell(task, graph.overlapped[task]);
    }
    if (!graph.isMessage(task))
      continue;
    bool isForward = makesActivation(cell.getPhase());
    TimedTask start = {ends.startPs(task), task};
    messages.forEach(task, [&](int32_t from, int32_t to) {
      int32_t taker = isForward ? graph.peer[task] : graph.worker[task];
      arrivals[static_cast<unsigned>(isForward ? Flow::Activation
                                               : Flow::Gradient)]
              [{placement.pairOf(from, cell.getUnit()),
                placement.getEdges().tensorOf(from, to), taker}] = start;
    });
  }
}

/// Adds an interval, unless a program lacks one of its ends.
void EventList::hold(int32_t worker, TimedTask begin, TimedTask end,
                     int64_t bytes) {
  if (!begin || !end || begin.atPs >= end.atPs || bytes == 0)
    return;
  events[worker].push_back({begin.atPs, bytes, begin.task});
  events[worker].push_back({end.atPs, -bytes, end.task});
}

/// From the start of the message, or from the end of the F on this worker, to
/// the last cell of the last stage that takes it.
void EventList::addTensor(const TensorPlace &place,
                          const TensorTargets &targets, int64_t unit) {
  TimedTask begin = place.worker == placement.workerOf(place.stage)
                        ? timesOf(place.stage, unit).forwardEnd
                        : arrivalOf(Flow::Activation, place, unit);
  TimedTask end;
  for (int32_t target : targets.added)
    end.takeLater(timesOf(target, unit).lastEnd);
  hold(place.worker, begin, end, targets.tensorBytes);
}

/// The gradients of a stage that takes several, each a sum over the stages of a
/// worker:
///
///   stages 1, 2 of worker 1   | B2 | ... | B1 |         sum: end of B2 to B1
///                                             \ message
///   stage 0 of worker 0                        |  ...  | B0 |  to its start
///   stage 3 of worker 3                 | B3 |
///                                            \ message to the start of B0
void EventList::addGradients(int32_t stage, int64_t unit) {
  struct Sum {
    TimedTask first, last, arrival;
    int32_t worker;
    int64_t bytes;
  };
  std::vector<Sum> sums;
  for (auto entry = tensors.lower_bound({stage, 0, 0});
       entry != tensors.end() && entry->first.stage == stage; ++entry) {
    const auto &[place, targets] = *entry;
    Sum sum = {{}, {}, {}, place.worker, targets.gradientBytes};
    for (int32_t giver : targets.givers) {
      TimedTask end = timesOf(giver, unit).gradientEnd;
      sum.first.takeEarlier(end);
      sum.last.takeLater(end);
    }
    if (!sum.first)
      continue;
    sum.arrival = place.worker == placement.workerOf(stage)
                      ? sum.first
                      : arrivalOf(Flow::Gradient, place, unit);
    sums.push_back(sum);
  }
  TimedTask taken = timesOf(stage, unit).gradientStart;
  for (const Sum &sum : sums) {
    int32_t worker = placement.workerOf(stage);
    if (sum.worker != worker)
      hold(sum.worker, sum.first, sum.last, sum.bytes);
    if (sums.size() > 1)
      hold(worker, sum.arrival, taken, sum.bytes);
  }
}

void EventList::addEdges(llvm::ArrayRef<EdgeMemory> edges) {
  const StageEdges &stageEdges = placement.getEdges();
  for (const EdgeMemory &edge : edges) {
    TensorTargets &targets =
        tensors[{edge.from, stageEdges.tensorOf(edge.from, edge.to),
                 int32_t(placement.workerOf(edge.to))}];
    targets.tensorBytes = std::max(targets.tensorBytes, edge.tensorBytes);
    targets.gradientBytes = std::max(targets.gradientBytes, edge.gradientBytes);
    if (edge.tensorBytes != 0)
      targets.added.push_back(edge.to);
    if (llvm::is_contained(stageEdges.sourcesOf(Flow::Gradient, edge.from),
                           edge.to))
      targets.givers.push_back(edge.to);
  }
  for (int64_t unit = 0; unit != placement.getNumUnits(); ++unit) {
    for (const auto &[place, targets] : tensors)
      if (!targets.added.empty())
        addTensor(place, targets, unit);
    for (int32_t stage = 0; stage != placement.getNumGlobalStages(); ++stage)
      addGradients(stage, unit);
  }
}

std::vector<std::vector<TensorEvent>> EventList::take() {
  for (std::vector<TensorEvent> &each : events)
    llvm::stable_sort(each, [](const TensorEvent &a, const TensorEvent &b) {
      return std::tie(a.atPs, a.bytes) < std::tie(b.atPs, b.bytes);
    });
  return std::move(events);
}

std::vector<std::vector<TensorEvent>>
pipesched::listTensorEvents(const TaskGraph &graph, const TaskEnds &ends,
                            const Placement &placement,
                            llvm::ArrayRef<EdgeMemory> edges) {
  EventList list(graph, ends, placement);
  list.readTimes();
  list.addEdges(edges);
  return list.take();
}
