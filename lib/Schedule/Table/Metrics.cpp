//===- Metrics.cpp - Level 2: metrics of a slot table ---------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Sweeps once over each row. Activations live from the start of F to the end of
// the cell that releases them: the B or W; I on a frozen stage; F on a stage
// without a backward. So for an overlapped pair, the activations of both halves
// are held at once.
//
//===----------------------------------------------------------------------===//

#include "PipeSched/Schedule/Table/Metrics.h"
#include "PipeSched/Schedule/Kinds/PhaseSets.h"
#include "PipeSched/Schedule/Table/SlotLengths.h"
#include "llvm/ADT/STLExtras.h"
#include <algorithm>

using namespace pipesched;
using llvm::ArrayRef;

namespace {
/// Sums up one row.
class RowWalk : public RowMetrics {
public:
  RowWalk(const Placement &placement, const CellIndex &index,
          const SlotAssignment &slots)
      : placement(placement), index(index), slots(slots) {}

  template <typename Slots>
  void run(const Slots &lengths, ArrayRef<Cell> row, uint32_t rowBegin) {
    for (int64_t i = 0, e = row.size(); i != e; ++i) {
      Cell cell = row[i];
      if (!cell.isCompute())
        continue;
      int64_t start = slots.start[rowBegin + i];
      first = first < 0 ? start : first;
      if (makesActivations(cell))
        peak = std::max(peak, ++live);
      if (cell.overlapsNext())
        continue; // a pair releases activations at its end
      int64_t taken = slotsOf(lengths, row, i);
      busy += taken;
      last = start + taken;
      if (i > 0 && row[i - 1].overlapsNext())
        release(row[i - 1]);
      release(cell);
    }
  }

private:
  uint32_t findRecompute(Cell cell) const {
    return index.lookup(cell.getStage(), Phase::Recompute, cell.getUnit());
  }

  /// Whether a cell makes the activations that its backward uses. R does, and F
  /// does if there is no R.
  bool makesActivations(Cell cell) const {
    return cell.isIn(kActivationMakers) &&
           (!cell.is(Phase::Forward) ||
            findRecompute(cell) == CellIndex::kNone);
  }

  /// Counts the activations that `cell`, which ends at `last`, releases.
  void release(Cell cell) {
    if (!cell.isIn(releasingPhases(placement.backwardOf(cell))))
      return;
    --live;
    uint32_t maker = findRecompute(cell);
    if (maker == CellIndex::kNone)
      maker = index.lookup(cell.getStage(), Phase::Forward, cell.getUnit());
    int64_t retention = last - slots.start[maker];
    ++numRetained;
    totalRetention += static_cast<double>(retention);
    maxRetention = std::max(maxRetention, retention);
  }

  const Placement &placement;
  const CellIndex &index;
  const SlotAssignment &slots;
  int64_t live = 0;
};
} // namespace

void pipesched::append(TableMetrics &metrics, const RowMetrics &row) {
  bool isEmpty = row.first < 0;
  metrics.busySlots.push_back(row.busy);
  metrics.fillSlots.push_back(isEmpty ? metrics.slots : row.first);
  metrics.drainSlots.push_back(isEmpty ? 0 : metrics.slots - row.last);
  metrics.peakActivations.push_back(row.peak);
  metrics.meanRetentionSlots.push_back(
      row.numRetained == 0
          ? 0.0
          : row.totalRetention / static_cast<double>(row.numRetained));
  metrics.maxRetentionSlots.push_back(row.maxRetention);
}

/// Idle slots are summed per worker, because the product of workers and slots
/// may exceed 64 bits if idle counts are huge.
void pipesched::setBubbleRatio(TableMetrics &metrics) {
  metrics.bubbleRatio = 0;
  if (metrics.slots == 0 || metrics.busySlots.empty())
    return;
  double idle = 0.0;
  for (int64_t busy : metrics.busySlots)
    idle += static_cast<double>(metrics.slots - busy);
  metrics.bubbleRatio =
      idle / (static_cast<double>(metrics.slots) * metrics.busySlots.size());
}

TableMetrics pipesched::computeMetrics(const TableView &table,
                                       const CellIndex &index,
                                       const SlotAssignment &slots) {
  TableMetrics metrics;
  metrics.slots = slots.numSlots;
  withSlotsOf(table, [&](const auto &lengths) {
    for (auto [row, cells] : llvm::enumerate(table.rows)) {
      RowWalk walk(*table.placement, index, slots);
      walk.run(lengths, cells, index.rowBegin(row));
      append(metrics, walk);
    }
  });
  setBubbleRatio(metrics);
  return metrics;
}
