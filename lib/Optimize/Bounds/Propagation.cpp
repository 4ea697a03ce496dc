//===- Propagation.cpp - Time windows of cells ----------------------------===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Narrows windows by precedences and by rows, in turn.
//
//===----------------------------------------------------------------------===//

#include "Propagation.h"
#include "llvm/ADT/STLExtras.h"

using namespace pipesched;
using namespace pipesched::optimize;

static constexpr int64_t kNever = std::numeric_limits<int64_t>::max();

/// Limit on the edges of all rows together, which take some hundreds of MiB
/// while they are listed.
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
    // Narrow the windows before the next row is listed, which then has fewer
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

/// Narrows windows by precedences. False: one is empty.
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

/// False: propagation refutes that the cell starts within `ticks` of this end
/// of its window.
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
/// down to one tick, since starts are multiples of it. False: a window is
/// empty.
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

/// The n-th offload of a row needs n F that are over, and ends after n copies
/// that run one after the other. Reloads are bounded likewise from the end.
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

/// The cell needs activations on the host until it ends. A reload takes memory
/// from its start, so it may not start before.
int64_t Propagation::latestOf(const Times &times, const RowEdge &edge) const {
  int64_t last = reloaded[edge.offloads] - durations[edge.cell];
  return edge.cell < graph.getNumCells()
             ? std::min(last, times.latest[edge.cell])
             : last;
}

/// Finds the earliest time of each state. False: no path reaches the last.
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

/// Finds the latest time to leave each state, and when cells can start. Drops
/// edges that are on no path.
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
