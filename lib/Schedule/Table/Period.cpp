//===- Period.cpp - Rows that repeat --------------------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Tries periods of 1, 2, .. microbatches in the middle of the rows, where
// schedules are neither warming up nor draining.
//
//===----------------------------------------------------------------------===//

#include "PipeSched/Schedule/Table/Period.h"
#include <numeric>

using namespace pipesched;

/// The smallest number of repetitions that counts as a period.
static constexpr int64_t kFewest = 4;
static constexpr int64_t kMostMicrobatches = 1024;
/// The largest number of cells of one stage and unit in a row: F, R, I, W, D,
/// d, U, u.
static constexpr int64_t kMostPhases = 8;

static Cell laterCell(Cell cell, int64_t units) {
  return Cell::fromRaw(cell.getRaw() + units);
}

/// The number of microbatches that each path takes in a period. Nothing if it
/// differs from period to period.
static std::optional<std::vector<int64_t>> ranksOf(const Placement &placement,
                                                   int64_t microbatches) {
  std::vector<int64_t> ranks;
  for (const Path &path : placement.getPaths()) {
    if (path.takes.size() > 1)
      return std::nullopt;
    int64_t step = path.takes.empty() ? 1 : path.takes.front().step;
    if (microbatches % step != 0)
      return std::nullopt;
    ranks.push_back(microbatches / step);
  }
  return ranks;
}

/// The longest part around the middle of a row that repeats with the unit
/// increased by `units`.
static std::optional<RowPeriod> periodOf(llvm::ArrayRef<Cell> row,
                                         int64_t numStages, int64_t units) {
  int64_t size = row.size(), middle = size / 2;
  int64_t most = std::min(kMostPhases * numStages * units, size - 1 - middle);
  int64_t length = 1;
  while (length <= most &&
         row[middle + length] != laterCell(row[middle], units))
    ++length;
  if (length > most)
    return std::nullopt;
  auto repeats = [&](int64_t i) {
    return row[i] == laterCell(row[i - length], units);
  };
  RowPeriod period{middle, middle + length, length};
  while (period.end < size && repeats(period.end))
    ++period.end;
  while (period.begin > 0 && repeats(period.begin - 1 + length))
    --period.begin;
  if (period.end - period.begin < kFewest * length)
    return std::nullopt;
  return period;
}

int64_t TablePeriod::getNumMicrobatches() const {
  return std::accumulate(ranks.begin(), ranks.end(), int64_t(0)) / numSlices;
}

TablePeriod TablePeriod::times(int64_t count) const {
  TablePeriod result = *this;
  result.units *= count;
  for (int64_t &rank : result.ranks)
    rank *= count;
  for (RowPeriod &row : result.rows)
    row.length *= count;
  return result;
}

std::optional<TablePeriod> pipesched::findPeriod(const TableView &table) {
  const Placement &placement = *table.placement;
  int64_t most =
      std::min(kMostMicrobatches, placement.getNumMicrobatches() / kFewest);
  for (int64_t microbatches = 1; microbatches <= most; ++microbatches) {
    std::optional<std::vector<int64_t>> ranks =
        ranksOf(placement, microbatches);
    if (!ranks)
      continue;
    int64_t numSlices = placement.getNumSlices();
    for (int64_t &rank : *ranks)
      rank *= numSlices;
    int64_t units = microbatches * numSlices;
    TablePeriod period{units, numSlices, std::move(*ranks), {}};
    for (auto [worker, row] : llvm::enumerate(table.rows)) {
      std::optional<RowPeriod> found =
          periodOf(row, placement.getNumLocalStages(worker), units);
      if (!found)
        break;
      period.rows.push_back(*found);
    }
    if (period.rows.size() == table.rows.size())
      return period;
  }
  return std::nullopt;
}
