//===- LeafSchedule.cpp - Solutions of decided rows -----------------------===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Turns edges, which count microbatches, into cells.
//
//===----------------------------------------------------------------------===//

#include "LeafSchedule.h"
#include <deque>

using namespace pipesched;
using namespace pipesched::optimize;

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
  // By global stage: microbatches of which a checkpoint is left, oldest first.
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
