//===- RowPaths.cpp - All orders of a row ---------------------------------===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Lists the states of a row layer by layer, and the edges between them.
//
//===----------------------------------------------------------------------===//

#include "RowPaths.h"
#include "llvm/ADT/StringMap.h"

using namespace pipesched;
using namespace pipesched::optimize;

namespace {

constexpr int64_t kNoPath = std::numeric_limits<int64_t>::max();

/// Cells of one stage that a row has done; `checkpoints` counts the F of which
/// only the checkpoint is kept.
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
    int64_t hostable = 0; ///< the part that can be on the host: its F is over,
                          ///< its I has not begun
  };
  /// One more cell, with the memory while it runs (`peak`) and after it.
  struct Extension {
    State to;
    int32_t cell;
    int64_t peak = 0, memory = 0;
    int64_t onHost = 0;   ///< most that offloads can take off the peak
    int64_t hostable = 0; ///< likewise after the cell
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
  /// Whether a stage of the worker is another one with the slice before.
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

/// How many offloads it takes at least to stay within capacity; -1 if all of
/// them together do not suffice.
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
  // The activation of this I has to be on the device.
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
/// expanded later. False: too many edges, or out of time.
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

std::optional<RowPaths> optimize::listRowPaths(const BoundsGraph &graph,
                                               int64_t worker,
                                               const Times &times,
                                               size_t mostEdges,
                                               const Deadline &deadline) {
  return RowPathBuilder(graph, worker, times, mostEdges).build(deadline);
}
