//===- Propagation.cpp - Time windows of cells ----------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Narrows windows alternately by precedences and by rows.
//
//===----------------------------------------------------------------------===//

#include "Propagation.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringMap.h"

using namespace pipesched;
using namespace pipesched::optimize;

//===----------------------------------------------------------------------===//
// All orders of a row
//
// Lists the states of a row layer by layer, and the edges between them.
//===----------------------------------------------------------------------===//

namespace {

constexpr int64_t kNoPath = std::numeric_limits<int64_t>::max();

/// Numbers of finished cells of one stage in a row; `checkpoints` counts the F
/// that keep only the checkpoint.
struct StageCounts {
  uint16_t forward = 0, inputGrad = 0, weightGrad = 0, checkpoints = 0;
};
using State = llvm::SmallVector<StageCounts, 4>;

llvm::StringRef keyOf(const State &state) {
  return {reinterpret_cast<const char *>(state.data()),
          state.size() * sizeof(StageCounts)};
}

/// All states of a layer have the same number of F, I and W. Within a layer, R
/// leads from more checkpoints to fewer.
class RowPathBuilder {
public:
  RowPathBuilder(const BoundsGraph &graph, int64_t worker, const Times &times,
                 size_t mostEdges)
      : graph(graph), problem(graph.getProblem()), worker(worker), times(times),
        mostEdges(mostEdges), stages(graph.stagesOf(worker)) {
    for (int32_t stage : stages)
      largest = std::max(largest, problem.stages[stage].activation);
  }

  std::optional<RowPaths> build(const Deadline &deadline);

private:
  /// A state of the current layer or the next.
  struct Known {
    State state;
    int32_t id;
    int64_t reached;
    int64_t memory = 0;   ///< held if nothing is offloaded
    int64_t hostable = 0; ///< the part that can be on the host: its F is
                          ///< finished, its I has not started
  };
  /// One more cell, with the memory during it (`peak`) and after it.
  struct Extension {
    State to;
    int32_t cell;
    int64_t peak = 0, memory = 0;
    int64_t onHost = 0;   ///< most memory that offloads can take off the peak
    int64_t hostable = 0; ///< the same after the cell
    bool keepsCheckpoint = false;
  };
  /// The states of a layer, by the number of checkpoints they hold.
  struct Layer {
    std::vector<std::vector<Known>> buckets;
    llvm::StringMap<std::pair<uint32_t, uint32_t>> places;
  };

  bool fitsCounts() const;
  bool expandLayer(const Deadline &deadline);
  void expand(const Known &from);
  void addForward(const Known &from, size_t local, bool checkpoint);
  void addInputGrad(const Known &from, size_t local);
  void addWeightGrad(const Known &from, size_t local);
  void addRecompute(const Known &from, size_t local);
  void add(const Known &from, Extension extension);
  Known &meet(Layer &layer, State state);

  bool samePath(size_t a, size_t b) const {
    return graph.pathOf(stages[a]) == graph.pathOf(stages[b]);
  }
  /// Whether `a` and `b` are the same stage of adjacent slices, and `a` has the
  /// earlier slice.
  bool isSliceBefore(size_t a, size_t b) const {
    return graph.isSliceBefore(stages[a], stages[b]);
  }
  int64_t offloadsFor(const Extension &extension) const;

  const BoundsGraph &graph;
  const Problem &problem;
  int64_t worker;
  const Times &times;
  size_t mostEdges;
  llvm::ArrayRef<int32_t> stages;
  int64_t largest = 0; ///< largest activation of the worker's stages
  RowPaths paths;
  Layer current, next;
};

} // namespace

bool RowPathBuilder::fitsCounts() const {
  return llvm::all_of(stages, [&](int32_t stage) {
    return graph.countOf(stage) <= std::numeric_limits<uint16_t>::max();
  });
}

/// The least number of offloads that keep memory within capacity; -1 if even
/// all of them do not suffice.
int64_t RowPathBuilder::offloadsFor(const Extension &extension) const {
  int64_t excess = extension.peak - problem.capacity[worker];
  if (excess <= 0)
    return 0;
  if (!problem.techniques.offload || excess > extension.onHost)
    return -1;
  return (excess + largest - 1) / largest;
}

RowPathBuilder::Known &RowPathBuilder::meet(Layer &layer, State state) {
  size_t checkpoints = 0;
  for (const StageCounts &counts : state)
    checkpoints += counts.checkpoints;
  if (layer.buckets.size() <= checkpoints)
    layer.buckets.resize(checkpoints + 1);
  std::vector<Known> &bucket = layer.buckets[checkpoints];
  auto [place, isNew] = layer.places.try_emplace(
      keyOf(state), std::make_pair(checkpoints, bucket.size()));
  if (isNew)
    bucket.push_back({std::move(state), paths.numStates++, kNoPath});
  return layer.buckets[place->second.first][place->second.second];
}

/// Adds an edge, unless time or memory forbids it.
void RowPathBuilder::add(const Known &from, Extension extension) {
  int64_t offloads = offloadsFor(extension);
  bool isTimed = extension.cell < graph.getNumCells();
  int64_t start = from.reached;
  if (isTimed)
    start = std::max(start, times.starts[extension.cell]);
  if (offloads < 0 || (isTimed && start > times.latest[extension.cell]))
    return;
  int64_t duration =
      isTimed ? graph.durationOf(extension.cell)
              : problem.stages[extension.cell - graph.getNumCells()].recompute;
  Known &known = meet(isTimed ? next : current, std::move(extension.to));
  known.memory = extension.memory;
  known.hostable = extension.hostable;
  known.reached = std::min(known.reached, addTimes(start, duration));
  paths.edges.push_back({from.id, known.id, extension.cell,
                         static_cast<int32_t>(offloads),
                         extension.keepsCheckpoint});
}

void RowPathBuilder::addForward(const Known &from, size_t local,
                                bool checkpoint) {
  const StageFacts &facts = problem.stages[stages[local]];
  uint16_t rank = from.state[local].forward;
  if (rank == graph.countOf(stages[local]))
    return;
  for (size_t other = 0; other < local; ++other)
    if ((samePath(other, local) || isSliceBefore(other, local)) &&
        from.state[other].forward <= rank)
      return;
  Extension extension{from.state,
                      graph.cellOf(stages[local], Phase::Forward, rank)};
  ++extension.to[local].forward;
  extension.peak = extension.memory = from.memory + facts.activation;
  extension.onHost = from.hostable;
  extension.hostable = from.hostable + facts.activation;
  if (checkpoint) {
    ++extension.to[local].checkpoints;
    extension.memory = from.memory + facts.checkpoint;
    extension.hostable = from.hostable;
    extension.keepsCheckpoint = true;
  }
  add(from, std::move(extension));
}

void RowPathBuilder::addInputGrad(const Known &from, size_t local) {
  const StageCounts &counts = from.state[local];
  uint16_t rank = counts.inputGrad;
  if (rank + counts.checkpoints >= counts.forward)
    return;
  bool late = problem.techniques.splitBackward &&
              problem.gradientAfter == GradientAfter::WeightGrad;
  for (size_t other = local + 1; other < stages.size(); ++other) {
    const StageCounts &later = from.state[other];
    if (samePath(other, local) &&
        (late ? later.weightGrad : later.inputGrad) <= rank)
      return;
    if (isSliceBefore(local, other) && later.inputGrad <= rank)
      return;
  }
  int64_t left = problem.stages[stages[local]].leftForSlices;
  Extension extension{from.state,
                      graph.cellOf(stages[local], Phase::InputGrad, rank)};
  ++extension.to[local].inputGrad;
  extension.memory = from.memory - graph.freedByInputGrad(stages[local]) + left;
  extension.peak =
      std::max(from.memory + std::max<int64_t>(left, 0), extension.memory);
  // The activation of this I must be on the device.
  extension.onHost = extension.hostable =
      from.hostable - problem.stages[stages[local]].activation;
  add(from, std::move(extension));
}

void RowPathBuilder::addWeightGrad(const Known &from, size_t local) {
  uint16_t rank = from.state[local].weightGrad;
  if (rank == from.state[local].inputGrad)
    return;
  for (size_t other = local + 1; other < stages.size(); ++other)
    if (isSliceBefore(local, other) && from.state[other].weightGrad <= rank)
      return;
  Extension extension{from.state,
                      graph.cellOf(stages[local], Phase::WeightGrad, rank)};
  ++extension.to[local].weightGrad;
  extension.memory = from.memory - problem.stages[stages[local]].activation +
                     graph.freedByInputGrad(stages[local]);
  extension.peak = from.memory;
  extension.onHost = extension.hostable = from.hostable;
  add(from, std::move(extension));
}

void RowPathBuilder::addRecompute(const Known &from, size_t local) {
  const StageFacts &facts = problem.stages[stages[local]];
  if (from.state[local].checkpoints == 0)
    return;
  Extension extension{from.state, graph.getNumCells() + stages[local]};
  --extension.to[local].checkpoints;
  extension.peak = extension.memory =
      from.memory + facts.activation - facts.checkpoint;
  extension.onHost = from.hostable;
  extension.hostable = from.hostable + facts.activation;
  add(from, std::move(extension));
}

void RowPathBuilder::expand(const Known &from) {
  for (size_t local = 0; local < stages.size(); ++local) {
    addForward(from, local, /*checkpoint=*/false);
    if (problem.techniques.recompute) {
      addForward(from, local, /*checkpoint=*/true);
      addRecompute(from, local);
    }
    addInputGrad(from, local);
    if (problem.techniques.splitBackward)
      addWeightGrad(from, local);
  }
}

/// Expands all states of a layer. R leads to states of lower buckets, which are
/// expanded later. Returns false if there are too many edges, or time is over.
bool RowPathBuilder::expandLayer(const Deadline &deadline) {
  constexpr uint32_t oftenEnough = 1024;
  // Expanding a state takes about as long as reading this many edges.
  constexpr uint64_t workOfState = 64;
  uint32_t expanded = 0;
  for (size_t bucket = current.buckets.size(); bucket-- > 0;)
    for (const Known &from : current.buckets[bucket]) {
      expand(from);
      deadline.count(workOfState);
      bool isTimely = ++expanded % oftenEnough != 0 || !deadline.isOver();
      if (!isTimely || paths.edges.size() > mostEdges)
        return false;
    }
  return !deadline.isOver();
}

std::optional<RowPaths> RowPathBuilder::build(const Deadline &deadline) {
  if (!fitsCounts())
    return RowPaths();
  meet(current, State(stages.size())).reached = 0;
  for (size_t layer = graph.cellsOf(worker).size(); layer-- > 0;) {
    if (!expandLayer(deadline))
      return RowPaths();
    std::swap(current, next);
    next.buckets.clear();
    next.places.clear();
  }
  if (current.places.empty())
    return std::nullopt;
  assert(current.places.size() == 1 && "a row ends in one way");
  paths.last = paths.numStates - 1;
  return std::move(paths);
}

/// Returns the orders of a row that memory and times allow, or nothing if there
/// is none. Returns no edges if there are more than `mostEdges`, if there are
/// more microbatches than a state can count, or after the deadline.
static std::optional<RowPaths> listRowPaths(const BoundsGraph &graph,
                                            int64_t worker, const Times &times,
                                            size_t mostEdges,
                                            const Deadline &deadline) {
  return RowPathBuilder(graph, worker, times, mostEdges).build(deadline);
}

//===----------------------------------------------------------------------===//
// Windows
//===----------------------------------------------------------------------===//

static constexpr int64_t kNever = std::numeric_limits<int64_t>::max();

/// Limit on the edges of all rows together. At the limit, listing them takes
/// some hundreds of MiB.
static constexpr size_t kMostEdges = size_t(1) << 22;

Propagation::Propagation(const BoundsGraph &graph) : graph(graph) {
  const Problem &problem = graph.getProblem();
  for (int32_t cell = 0; cell < graph.getNumCells(); ++cell)
    durations.push_back(graph.durationOf(cell));
  for (const StageFacts &facts : problem.stages)
    durations.push_back(facts.recompute);
  first.assign(graph.getNumCells(), 0);
  final.assign(graph.getNumCells(), 0);
}

bool Propagation::start(Windows &windows, int64_t makespan,
                        const Deadline &deadline) {
  int32_t numCells = graph.getNumCells();
  windows.starts.assign(numCells, 0);
  windows.latest.resize(numCells);
  for (int32_t cell = 0; cell < numCells; ++cell)
    windows.latest[cell] = makespan - durations[cell];
  windows.isStale.assign(graph.getNumWorkers(), false);
  windows.rows.assign(graph.getNumWorkers(), RowPaths());
  if (!sweep(windows))
    return false;
  size_t mostEdges = kMostEdges / graph.getNumWorkers();
  for (int64_t worker = 0; worker < graph.getNumWorkers(); ++worker) {
    std::optional<RowPaths> row =
        listRowPaths(graph, worker, windows, mostEdges, deadline);
    if (!row)
      return false;
    windows.rows[worker] = std::move(*row);
    // Narrow the windows before listing the next row, so that it has fewer
    // edges.
    windows.isStale[worker] = true;
    if (!narrow(windows, deadline))
      return false;
  }
  return true;
}

bool Propagation::shorten(Windows &windows, int64_t makespan,
                          const Deadline &deadline) {
  for (int32_t cell = 0; cell < graph.getNumCells(); ++cell)
    windows.latest[cell] =
        std::min(windows.latest[cell], makespan - durations[cell]);
  windows.isStale.assign(graph.getNumWorkers(), true);
  return narrow(windows, deadline);
}

/// Narrows windows by precedences. Returns false if a window becomes empty.
bool Propagation::sweep(Times &times) const {
  for (const BoundsGraph::Arc &arc : graph.getArcs()) {
    int64_t start = times.starts[arc.from] + durations[arc.from] + arc.lag;
    if (start <= times.starts[arc.to])
      continue;
    times.starts[arc.to] = start;
    times.isStale[graph.workerOf(arc.to)] = true;
    if (start > times.latest[arc.to])
      return false;
  }
  for (const BoundsGraph::Arc &arc : llvm::reverse(graph.getArcs())) {
    int64_t last = times.latest[arc.to] - arc.lag - durations[arc.from];
    if (last >= times.latest[arc.from])
      continue;
    times.latest[arc.from] = last;
    times.isStale[graph.workerOf(arc.from)] = true;
    if (times.starts[arc.from] > last)
      return false;
  }
  return true;
}

bool Propagation::narrow(Times &times, std::vector<RowPaths> &rows,
                         bool dropEdges, const Deadline &deadline) {
  auto isStale = [](uint8_t stale) { return stale != 0; };
  while (sweep(times)) {
    deadline.count(2 * graph.getArcs().size());
    if (llvm::none_of(times.isStale, isStale) || deadline.isOver())
      return true;
    for (int64_t worker = 0; worker < graph.getNumWorkers(); ++worker) {
      if (!times.isStale[worker])
        continue;
      deadline.count(2 * rows[worker].edges.size());
      if (!narrowRow(times, rows[worker], worker, dropEdges))
        return false;
    }
  }
  return false;
}

//===----------------------------------------------------------------------===//
// Shaving
//===----------------------------------------------------------------------===//

/// Returns false if propagation refutes that the cell starts within `ticks` of
/// this end of its window.
bool Propagation::canStartWithin(Windows &windows, int32_t cell, Side side,
                                 int64_t ticks, const Deadline &deadline) {
  probe = windows;
  if (side == Side::Early)
    probe.latest[cell] =
        std::min(probe.latest[cell], probe.starts[cell] + ticks);
  else
    probe.starts[cell] =
        std::max(probe.starts[cell], probe.latest[cell] - ticks);
  probe.isStale[graph.workerOf(cell)] = true;
  return narrow(probe, windows.rows, /*dropEdges=*/false, deadline);
}

/// Tries to cut off an eighth of a window, then a quarter of that, and so on
/// down to one tick, because starts are multiples of a tick. Returns false if a
/// window becomes empty.
bool Propagation::shaveCell(Windows &windows, int32_t cell, Side side,
                            bool &changed, const Deadline &deadline) {
  constexpr int64_t part = 8, finer = 4;
  int64_t ticks = (windows.latest[cell] - windows.starts[cell]) / part;
  while (ticks >= 0 && !deadline.isOver()) {
    if (canStartWithin(windows, cell, side, ticks, deadline)) {
      if (ticks < graph.getTick())
        return true;
      ticks /= finer;
      continue;
    }
    changed = true;
    if (side == Side::Early)
      windows.starts[cell] += ticks + 1;
    else
      windows.latest[cell] -= ticks + 1;
    windows.isStale[graph.workerOf(cell)] = true;
    if (windows.starts[cell] > windows.latest[cell] ||
        !narrow(windows, deadline))
      return false;
    ticks = (windows.latest[cell] - windows.starts[cell]) / part;
  }
  return true;
}

bool Propagation::shave(Windows &windows, const Deadline &deadline) {
  bool changed = true;
  while (changed && !deadline.isOver()) {
    changed = false;
    for (int32_t cell = 0; cell < graph.getNumCells(); ++cell)
      if (!shaveCell(windows, cell, Side::Early, changed, deadline))
        return false;
    for (int32_t cell = graph.getNumCells(); cell-- > 0;)
      if (!shaveCell(windows, cell, Side::Late, changed, deadline))
        return false;
  }
  return true;
}

//===----------------------------------------------------------------------===//
// One row
//===----------------------------------------------------------------------===//

/// Bounds the copies of a row. The n-th offload needs n finished F, and ends
/// after n copies that run one after the other. Reloads are bounded from the
/// end in the same way.
void Propagation::boundCopies(const Times &times, int64_t worker) {
  const Problem &problem = graph.getProblem();
  std::vector<int64_t> forwards, inputs;
  int64_t offload = kNever, reload = kNever;
  for (int32_t stage : graph.stagesOf(worker)) {
    offload = std::min(offload, problem.stages[stage].offload);
    reload = std::min(reload, problem.stages[stage].reload);
    for (int64_t rank = 0; rank < graph.countOf(stage); ++rank) {
      int32_t forward = graph.cellOf(stage, Phase::Forward, rank);
      forwards.push_back(times.starts[forward] + durations[forward]);
      inputs.push_back(
          times.latest[graph.cellOf(stage, Phase::InputGrad, rank)]);
    }
  }
  llvm::sort(forwards);
  llvm::sort(inputs, std::greater<int64_t>());
  offloaded.assign(1, std::numeric_limits<int64_t>::min());
  reloaded.assign(1, kNever);
  for (auto [forward, input] : llvm::zip(forwards, inputs)) {
    offloaded.push_back(std::max(offloaded.back(), forward) + offload);
    reloaded.push_back(std::min(reloaded.back(), input) - reload);
  }
}

int64_t Propagation::earliest(const Times &times, const RowEdge &edge) const {
  int64_t start = std::max(reached[edge.from], offloaded[edge.offloads]);
  return edge.cell < graph.getNumCells()
             ? std::max(start, times.starts[edge.cell])
             : start;
}

/// The latest start of a cell that needs activations to stay on the host until
/// it ends. A reload takes memory when it starts, so it must not start before
/// that end.
int64_t Propagation::latestOf(const Times &times, const RowEdge &edge) const {
  int64_t last = reloaded[edge.offloads] - durations[edge.cell];
  return edge.cell < graph.getNumCells()
             ? std::min(last, times.latest[edge.cell])
             : last;
}

/// Finds the earliest time of each state. Returns false if no path reaches the
/// last state.
bool Propagation::readForward(const Times &times, const RowPaths &row) {
  reached.assign(row.numStates, kNever);
  reached[row.edges.front().from] = 0;
  for (const RowEdge &edge : row.edges) {
    if (reached[edge.from] == kNever)
      continue;
    int64_t start = earliest(times, edge);
    if (start <= latestOf(times, edge))
      reached[edge.to] =
          std::min(reached[edge.to], start + durations[edge.cell]);
  }
  return reached[row.last] != kNever;
}

/// Finds the latest time to leave each state, and the times at which cells can
/// start. Drops edges that are on no path.
void Propagation::readBackward(const Times &times, RowPaths &row,
                               bool dropEdges) {
  constexpr int64_t dead = std::numeric_limits<int64_t>::min();
  left.assign(row.numStates, dead);
  left[row.last] = kNever;
  size_t kept = row.edges.size();
  for (size_t i = row.edges.size(); i-- > 0;) {
    RowEdge edge = row.edges[i];
    if (left[edge.to] == dead || reached[edge.from] == kNever)
      continue;
    int64_t start = earliest(times, edge);
    int64_t last =
        std::min(left[edge.to] - durations[edge.cell], latestOf(times, edge));
    if (start > last)
      continue;
    left[edge.from] = std::max(left[edge.from], last);
    if (dropEdges)
      row.edges[--kept] = edge;
    if (edge.cell >= graph.getNumCells())
      continue;
    first[edge.cell] = std::min(first[edge.cell], start);
    final[edge.cell] = std::max(final[edge.cell], last);
  }
  if (dropEdges)
    row.edges.erase(row.edges.begin(), row.edges.begin() + kept);
}

bool Propagation::tighten(Times &times, int64_t worker) {
  for (int32_t cell : graph.cellsOf(worker)) {
    times.starts[cell] = std::max(times.starts[cell], first[cell]);
    times.latest[cell] = std::min(times.latest[cell], final[cell]);
    if (times.starts[cell] > times.latest[cell])
      return false;
  }
  return true;
}

bool Propagation::narrowRow(Times &times, RowPaths &row, int64_t worker,
                            bool dropEdges) {
  times.isStale[worker] = false;
  if (row.edges.empty())
    return true;
  if (graph.getProblem().techniques.offload) {
    boundCopies(times, worker);
  } else {
    offloaded.assign(1, std::numeric_limits<int64_t>::min());
    reloaded.assign(1, kNever);
  }
  if (!readForward(times, row))
    return false;
  for (int32_t cell : graph.cellsOf(worker)) {
    first[cell] = kNever;
    final[cell] = std::numeric_limits<int64_t>::min();
  }
  readBackward(times, row, dropEdges);
  return tighten(times, worker);
}
