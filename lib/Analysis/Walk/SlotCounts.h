//===- SlotCounts.h - Level 2 metrics of a walk -----------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Counts unit slots. They depend only on rows, so one object serves all
// scenarios that a walk times.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_LIB_ANALYSIS_WALK_SLOTCOUNTS_H
#define PIPESCHED_LIB_ANALYSIS_WALK_SLOTCOUNTS_H

#include "PipeSched/Schedule/Table/Metrics.h"
#include "PipeSched/Schedule/Walk/Wavefront.h"
#include "RecomputedCells.h"

namespace pipesched {

/// Computes the level 2 metrics of a table in unit slots (TableMetrics).
class SlotCounts {
public:
  SlotCounts(const TableView &table, const PhaseCounts &counts);

  void start(const WaveStep &step, uint64_t slot) {
    RowCounts &row = rows[step.row];
    row.first = std::min<int64_t>(row.first, slot);
    row.busy -= slot;
    make(row, step.cells[0], step.stage(0), slot);
    if (step.isPair)
      make(row, step.cells[1], step.stage(1), slot);
  }
  void finish(const WaveStep &step, uint64_t slot) {
    RowCounts &row = rows[step.row];
    row.last = slot;
    row.busy += slot;
    release(row, step.cells[0], step.stage(0));
    if (step.isPair)
      release(row, step.cells[1], step.stage(1));
  }
  template <typename Visitor>
  void visitState(Visitor &visitor);
  /// The number of activations that all rows hold together.
  int64_t numLive() const {
    int64_t sum = 0;
    for (const RowCounts &row : rows)
      sum += row.live;
    return sum;
  }
  /// Whether every backward has found its activations.
  bool isComplete() const { return !isMissing; }
  TableMetrics take() const;

private:
  struct RowCounts {
    int64_t first = std::numeric_limits<int64_t>::max(), last = 0, busy = 0;
    int64_t live = 0, peak = 0, numRetained = 0, maxRetention = 0;
    int64_t totalRetention = 0;
  };

  void make(RowCounts &row, Cell cell, uint32_t stage, uint64_t slot);
  void release(RowCounts &row, Cell cell, uint32_t stage);
  bool isRecomputed(Cell cell, uint32_t stage) const {
    return !recomputed.isEmpty() &&
           recomputed.contains(stage, placement.rankOf(cell));
  }

  const Placement &placement;
  llvm::BumpPtrAllocator allocator;
  std::vector<InFlight<int64_t>> live; ///< by global stage: slots of F or R
  RecomputedCells recomputed;
  std::vector<RowCounts> rows;
  bool isMissing = false;
};

inline SlotCounts::SlotCounts(const TableView &table, const PhaseCounts &counts)
    : placement(*table.placement), live(placement.getNumGlobalStages()),
      recomputed(table, counts), rows(table.rows.size()) {
  for (InFlight<int64_t> &place : live)
    place.allocate(4, allocator);
}

inline TableMetrics SlotCounts::take() const {
  TableMetrics metrics;
  for (const RowCounts &row : rows)
    metrics.slots = std::max<int64_t>(metrics.slots, row.last);
  for (const RowCounts &row : rows) {
    RowMetrics sums;
    bool isEmpty = row.last == 0;
    sums.busy = row.busy;
    sums.first = isEmpty ? -1 : int64_t(row.first);
    sums.last = row.last;
    sums.peak = row.peak;
    sums.numRetained = row.numRetained;
    sums.maxRetention = row.maxRetention;
    sums.totalRetention = static_cast<double>(row.totalRetention);
    append(metrics, sums);
  }
  setBubbleRatio(metrics);
  return metrics;
}

/// The backward uses the activations of its R, or of its F if there is no R.
inline void SlotCounts::make(RowCounts &row, Cell cell, uint32_t stage,
                             uint64_t slot) {
  if (!cell.isIn(kActivationMakers) ||
      (cell.is(Phase::Forward) && isRecomputed(cell, stage)))
    return;
  row.peak = std::max(row.peak, ++row.live);
  if (int64_t *begin = live[stage].insert(placement.rankOf(cell), allocator))
    *begin = slot;
  else
    isMissing = true;
}

inline void SlotCounts::release(RowCounts &row, Cell cell, uint32_t stage) {
  if (!cell.isIn(releasingPhases(placement.backwardOf(stage))))
    return;
  --row.live;
  int64_t *begin = live[stage].find(placement.rankOf(cell));
  if (!begin) {
    isMissing = true;
    return;
  }
  int64_t retention = row.last - *begin;
  InFlight<int64_t>::remove(begin);
  ++row.numRetained;
  row.totalRetention += retention;
  row.maxRetention = std::max(row.maxRetention, retention);
}

template <typename Visitor>
void SlotCounts::visitState(Visitor &visitor) {
  for (RowCounts &row : rows) {
    visitor.slot(row.last);
    visitor.same(row.live);
    visitor.total(row.busy);
    visitor.total(row.numRetained);
    visitor.total(row.totalRetention);
  }
  for (auto [stage, place] : llvm::enumerate(live))
    visitItems(place, placement.pathOfStage(stage), allocator, visitor,
               [&](int64_t &slot) { visitor.slot(slot); });
}

} // namespace pipesched

#endif // PIPESCHED_LIB_ANALYSIS_WALK_SLOTCOUNTS_H
