//===- BranchAndBound.cpp - Exact search ----------------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Searches depth first. Frontiers that were already searched are nogoods.
//
//===----------------------------------------------------------------------===//

#include "BranchAndBound.h"
#include "llvm/ADT/STLExtras.h"
#include <deque>
#include <tuple>

using namespace pipesched;
using namespace pipesched::optimize;

//===----------------------------------------------------------------------===//
// Rows of a leaf
//
// Turns edges, which only count microbatches, into cells.
//===----------------------------------------------------------------------===//

LeafSchedule::LeafSchedule(const BoundsGraph &graph) : graph(graph) {
  const Placement &placement = graph.getProblem().placement;
  microbatches.resize(placement.getNumPaths());
  for (int64_t i = 0; i < placement.getNumMicrobatches(); ++i)
    microbatches[placement.pathOf(i)].push_back(i);
}

Cell LeafSchedule::nameOf(int64_t globalStage, Phase phase,
                          int64_t rank) const {
  int64_t path = graph.pathOf(globalStage);
  int64_t offset = graph.getProblem().placement.stageOffset(path);
  if (phase == Phase::InputGrad && !graph.getProblem().techniques.splitBackward)
    phase = Phase::Backward;
  return Cell(globalStage - offset, phase, microbatches[path][rank]);
}

std::optional<Row> LeafSchedule::rowOf(const RowPaths &paths) const {
  Row row;
  // By global stage: microbatches of which only a checkpoint is kept, oldest
  // first.
  std::vector<std::deque<int64_t>> checkpoints(
      graph.getProblem().stages.size());
  for (const RowEdge &edge : paths.edges) {
    if (edge.offloads > 0)
      return std::nullopt;
    if (edge.cell >= graph.getNumCells()) {
      int64_t stage = edge.cell - graph.getNumCells();
      row.push_back(
          nameOf(stage, Phase::Recompute, checkpoints[stage].front()));
      checkpoints[stage].pop_front();
      continue;
    }
    BoundsGraph::CellName name = graph.nameOf(edge.cell);
    std::deque<int64_t> &kept = checkpoints[name.globalStage];
    if (edge.keepsCheckpoint)
      kept.push_back(name.rank);
    if (name.phase == Phase::InputGrad && !kept.empty() &&
        kept.front() == name.rank)
      return std::nullopt;
    row.push_back(nameOf(name.globalStage, name.phase, name.rank));
  }
  return row;
}

std::optional<Solution> LeafSchedule::build(const Windows &windows) const {
  std::vector<Row> rows;
  for (const RowPaths &paths : windows.rows) {
    std::optional<Row> row = rowOf(paths);
    if (!row)
      return std::nullopt;
    rows.push_back(std::move(*row));
  }
  llvm::SmallVector<llvm::ArrayRef<Cell>> views(rows.begin(), rows.end());
  llvm::Expected<Solution> solution = timeRows(graph.getProblem(), views);
  if (!solution) {
    llvm::consumeError(solution.takeError());
    return std::nullopt;
  }
  if (llvm::Error error = verifySolution(graph.getProblem(), *solution)) {
    llvm::consumeError(std::move(error));
    return std::nullopt;
  }
  return std::move(*solution);
}

static constexpr int64_t kNoTime = std::numeric_limits<int64_t>::max();

/// Limit on the times that all nogoods together store: 256 MiB.
static constexpr size_t kMostSeenTimes = size_t(1) << 25;

/// Limit on the edges of all rows times cells. A branch is about as deep as the
/// number of cells, and each node on it copies the rows: at most 2.5 GiB.
static constexpr size_t kMostCopies = size_t(1) << 27;

BranchAndBound::BranchAndBound(const BoundsGraph &graph,
                               Propagation &propagation)
    : graph(graph), propagation(propagation), leaf(graph),
      activeSuffices(graph.isMemoryFixed()),
      statesSuffice(!graph.getProblem().techniques.offload),
      arcsInto(graph.getNumCells()) {
  for (const BoundsGraph::Arc &arc : graph.getArcs())
    arcsInto[arc.to].push_back(arc);
  for (int64_t worker = 0; worker < graph.getNumWorkers(); ++worker)
    if (graph.stagesOf(worker).size() > 1)
      activeSuffices = false;
  for (size_t stage = 0; stage < graph.getProblem().stages.size(); ++stage)
    if (graph.freedByInputGrad(stage) < 0)
      activeSuffices = false;
}

/// Whether the orders of every row are listed, and the copies that a search
/// makes of them fit into memory.
bool BranchAndBound::isWhole(const Windows &windows) const {
  size_t edges = 0;
  for (auto [worker, row] : llvm::enumerate(windows.rows)) {
    if (row.edges.empty() && !graph.cellsOf(worker).empty())
      return false;
    edges += row.edges.size();
  }
  return edges * graph.getNumCells() <= kMostCopies;
}

Outcome BranchAndBound::search(const Windows &windows, size_t mostNodes,
                               const Deadline &deadline) {
  if (!isWhole(windows))
    return Outcome::Stopped;
  seen.clear();
  seenTimes = 0;
  nodesLeft = mostNodes;
  Windows root = windows;
  return explore(root, deadline);
}

Outcome BranchAndBound::explore(Windows &windows, const Deadline &deadline) {
  if (nodesLeft == 0 || deadline.isOver())
    return Outcome::Stopped;
  --nodesLeft;
  if (!propagation.narrow(windows, deadline))
    return Outcome::Refuted;
  readFrontier(windows);
  Choice choice = choose(windows);
  if (choice.worker < 0) {
    solution = leaf.build(windows);
    return solution ? Outcome::Found : Outcome::Open;
  }
  if (isDominated(windows))
    return Outcome::Refuted;
  uint32_t begin = frontier.rows[choice.worker].begin;
  uint32_t end = frontier.rows[choice.worker].end;
  for (const RowEdge &edge : choice.edges) {
    Windows child = windows;
    for (const RowPaths &row : child.rows)
      deadline.count(row.edges.size());
    std::vector<RowEdge> &edges = child.rows[choice.worker].edges;
    edges[begin] = edge;
    edges.erase(edges.begin() + begin + 1, edges.begin() + end);
    child.isStale[choice.worker] = true;
    Outcome outcome = explore(child, deadline);
    if (outcome != Outcome::Refuted)
      return outcome;
  }
  return Outcome::Refuted;
}

//===----------------------------------------------------------------------===//
// Decisions
//===----------------------------------------------------------------------===//

/// Decides edges: an edge is decided if its state has no other outgoing edge.
/// Decided edges end at the first state with several outgoing edges.
void BranchAndBound::decide(const Windows &windows, int64_t worker) {
  llvm::ArrayRef<RowEdge> edges = windows.rows[worker].edges;
  Frontier::Row &row = frontier.rows[worker];
  while (row.begin < edges.size()) {
    const RowEdge &edge = edges[row.begin];
    row.end = row.begin + 1;
    while (row.end < edges.size() && edges[row.end].from == edge.from)
      ++row.end;
    if (row.end > row.begin + 1)
      return;
    row.clock =
        startOf(windows, worker, edge) + propagation.durationOf(edge.cell);
    if (edge.cell < graph.getNumCells())
      frontier.decided[edge.cell] = true;
    row.begin = row.end;
  }
}

void BranchAndBound::readFrontier(const Windows &windows) {
  frontier.rows.assign(graph.getNumWorkers(), {});
  frontier.decided.assign(graph.getNumCells(), false);
  for (int64_t worker = 0; worker < graph.getNumWorkers(); ++worker)
    decide(windows, worker);
  frontier.settled =
      llvm::none_of(graph.getArcs(), [&](const BoundsGraph::Arc &arc) {
        return frontier.decided[arc.to] && !frontier.decided[arc.from];
      });
}

int64_t BranchAndBound::startOf(const Windows &windows, int64_t worker,
                                const RowEdge &edge) const {
  int64_t clock = frontier.rows[worker].clock;
  return edge.cell < graph.getNumCells()
             ? std::max(clock, windows.starts[edge.cell])
             : clock;
}

bool BranchAndBound::isSchedulable(const RowEdge &edge) const {
  return edge.cell >= graph.getNumCells() ||
         llvm::all_of(arcsInto[edge.cell], [&](const BoundsGraph::Arc &arc) {
           return frontier.decided[arc.from];
         });
}

//===----------------------------------------------------------------------===//
// Next decision
//===----------------------------------------------------------------------===//

/// Returns the row that can end a cell first (Giffler and Thompson 1960), and
/// its next cells by their starts. If everything is decided, there is no such
/// worker.
BranchAndBound::Choice BranchAndBound::choose(const Windows &windows) const {
  Choice choice;
  std::tuple<bool, int64_t> best = {true, kNoTime};
  for (int64_t worker = 0; worker < graph.getNumWorkers(); ++worker) {
    const Frontier::Row &row = frontier.rows[worker];
    for (uint32_t i = row.begin; i < row.end; ++i) {
      const RowEdge &edge = windows.rows[worker].edges[i];
      std::tuple<bool, int64_t> rating = {
          !isSchedulable(edge),
          startOf(windows, worker, edge) + propagation.durationOf(edge.cell)};
      if (rating >= best)
        continue;
      best = rating;
      choice.worker = worker;
    }
  }
  if (choice.worker < 0)
    return choice;
  const Frontier::Row &row = frontier.rows[choice.worker];
  const std::vector<RowEdge> &edges = windows.rows[choice.worker].edges;
  choice.edges.assign(edges.begin() + row.begin, edges.begin() + row.end);
  if (activeSuffices)
    keepActive(windows, choice);
  llvm::sort(choice.edges, [&](const RowEdge &a, const RowEdge &b) {
    return std::make_tuple(startOf(windows, choice.worker, a), a.cell, a.to) <
           std::make_tuple(startOf(windows, choice.worker, b), b.cell, b.to);
  });
  return choice;
}

/// Drops a cell that cannot start before some other cell could have ended,
/// because the other cell can be moved before it without delaying anything. If
/// the worker has one stage, memory allows the move, because no cell in between
/// allocates.
void BranchAndBound::keepActive(const Windows &windows, Choice &choice) const {
  int64_t end = kNoTime;
  for (const RowEdge &edge : choice.edges)
    if (isSchedulable(edge))
      end = std::min(end, startOf(windows, choice.worker, edge) +
                              propagation.durationOf(edge.cell));
  llvm::erase_if(choice.edges, [&](const RowEdge &edge) {
    return startOf(windows, choice.worker, edge) >= end;
  });
}

//===----------------------------------------------------------------------===//
// Earlier states
//===----------------------------------------------------------------------===//

/// Records the states of all rows, the times at which rows reach them, and the
/// times at which messages arrive. The rest of the schedule depends only on
/// these.
void BranchAndBound::record(const Windows &windows) {
  key.clear();
  times.clear();
  for (int64_t worker = 0; worker < graph.getNumWorkers(); ++worker) {
    const Frontier::Row &row = frontier.rows[worker];
    const std::vector<RowEdge> &edges = windows.rows[worker].edges;
    int32_t state = row.begin < edges.size() ? edges[row.begin].from : -1;
    key.append(reinterpret_cast<const char *>(&state), sizeof(state));
    times.push_back(row.clock);
  }
  for (const BoundsGraph::Arc &arc : graph.getArcs())
    if (frontier.decided[arc.from] && !frontier.decided[arc.to] &&
        graph.workerOf(arc.from) != graph.workerOf(arc.to))
      times.push_back(std::max(frontier.rows[graph.workerOf(arc.to)].clock,
                               windows.starts[arc.from] +
                                   graph.durationOf(arc.from) + arc.lag));
}

bool BranchAndBound::isDominated(const Windows &windows) {
  if (!statesSuffice || !frontier.settled)
    return false;
  record(windows);
  std::vector<int64_t> &known = seen[key];
  for (size_t begin = 0; begin < known.size(); begin += times.size()) {
    bool later = true;
    for (size_t i = 0; i < times.size() && later; ++i)
      later = known[begin + i] <= times[i];
    if (later)
      return true;
  }
  if (seenTimes + times.size() <= kMostSeenTimes) {
    known.insert(known.end(), times.begin(), times.end());
    seenTimes += times.size();
  }
  return false;
}
