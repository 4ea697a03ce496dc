//===- OrderMicrobatches.cpp - The order of microbatches ------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Finds the place of each microbatch in the rows, and renumbers the cells.
//
//===----------------------------------------------------------------------===//

#include "PipeSched/Schedule/Edit/OrderMicrobatches.h"
#include "PipeSched/Schedule/Kinds/Phases.h"
#include "PipeSched/Support/FormatError.h"
#include <numeric>

using namespace pipesched;
using llvm::ArrayRef;
using llvm::Error;
using llvm::Expected;

std::vector<int64_t> pipesched::orderByLength(ArrayRef<int64_t> lengths,
                                              LengthOrder order) {
  std::vector<int64_t> sorted(lengths.size());
  std::iota(sorted.begin(), sorted.end(), 0);
  if (order == LengthOrder::LongestFirst) {
    llvm::stable_sort(
        sorted, [&](int64_t a, int64_t b) { return lengths[a] > lengths[b]; });
    return sorted;
  }
  llvm::stable_sort(
      sorted, [&](int64_t a, int64_t b) { return lengths[a] < lengths[b]; });
  std::vector<int64_t> placed(lengths.size());
  size_t first = 0, end = lengths.size();
  for (auto [turn, microbatch] : llvm::enumerate(sorted))
    placed[turn % 2 == 0 ? --end : first++] = microbatch;
  return placed;
}

static Error checkOrder(int64_t numMicrobatches, ArrayRef<int64_t> order) {
  if (int64_t(order.size()) != numMicrobatches)
    return formatError("expected an order of {0} microbatches, found {1}",
                       numMicrobatches, order.size());
  std::vector<bool> seen(numMicrobatches);
  for (int64_t microbatch : order) {
    if (microbatch < 0 || microbatch >= numMicrobatches)
      return formatError("the order has microbatch {0}, expected 0 to {1}",
                         microbatch, numMicrobatches - 1);
    if (seen[microbatch])
      return formatError("the order has microbatch {0} twice", microbatch);
    seen[microbatch] = true;
  }
  return Error::success();
}

/// The microbatches of each path, in the order in which they start on its first
/// stage.
static std::vector<std::vector<int64_t>> placesOf(const TableView &table) {
  const Placement &placement = *table.placement;
  std::vector<std::vector<int64_t>> places(placement.getNumPaths());
  for (ArrayRef<Cell> row : table.rows)
    for (Cell cell : row)
      if (cell.is(Phase::Forward) && cell.getStage() == 0 &&
          placement.sliceOf(cell.getUnit()) == 0)
        places[placement.pathOf(cell)].push_back(
            placement.microbatchOf(cell.getUnit()));
  return places;
}

Expected<std::vector<Row>>
pipesched::orderMicrobatches(const TableView &table, ArrayRef<int64_t> order) {
  const Placement &placement = *table.placement;
  if (Error error = checkOrder(placement.getNumMicrobatches(), order))
    return std::move(error);
  std::vector<std::vector<int64_t>> places = placesOf(table);
  std::vector<int64_t> next(places.size()), takenBy(order.size());
  for (int64_t microbatch : order) {
    int64_t path = placement.pathOf(placement.unitOf(microbatch, 0));
    if (next[path] == int64_t(places[path].size()))
      return formatError("microbatch {0} has no F on stage 0", microbatch);
    takenBy[places[path][next[path]++]] = microbatch;
  }
  std::vector<Row> rows;
  for (ArrayRef<Cell> cells : table.rows) {
    Row &row = rows.emplace_back();
    for (Cell cell : cells) {
      if (traitsOf(cell.getPhase()).number == CellNumber::Unit) {
        int64_t unit = cell.getUnit();
        int64_t taken = placement.unitOf(takenBy[placement.microbatchOf(unit)],
                                         placement.sliceOf(unit));
        int64_t stage = placement.globalStage(cell);
        if (!placement.runs(stage, taken))
          return formatError("{0} runs microbatch {1} and does not run {2}, "
                             "which would take its place",
                             placement.nameStage(stage),
                             placement.microbatchOf(unit),
                             placement.microbatchOf(taken));
        cell =
            Cell(cell.getStage(), cell.getPhase(), taken, cell.overlapsNext());
      }
      row.push_back(cell);
    }
  }
  return rows;
}
