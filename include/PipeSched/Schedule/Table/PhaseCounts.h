//===- PhaseCounts.h - Counts the cells of each phase -----------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Sums over a table that need no index. They show whether the table is
// complete, which messages it sends, and whether its times add up.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_SCHEDULE_TABLE_PHASECOUNTS_H
#define PIPESCHED_SCHEDULE_TABLE_PHASECOUNTS_H

#include "PipeSched/Schedule/Kinds/PhaseSets.h"
#include "PipeSched/Schedule/Table/Table.h"

namespace pipesched {

/// The number of cells of each costed phase on each global stage, and the set
/// of all phases that occur.
struct PhaseCounts {
  std::vector<PhaseMap<int64_t>> counts; ///< by global stage
  PhaseSet phases;                       ///< the phases that occur

  int64_t of(int64_t stage, Phase phase) const { return counts[stage][phase]; }
  PhaseSet costedPhases() const { return phases & kCostedPhases; }
  bool has(Phase phase) const { return phases.contains(phase); }
  bool hasAny(PhaseSet some) const { return phases.intersects(some); }
};

/// Whether there are copies between devices and their hosts, or joins.
inline bool hasCopies(const PhaseCounts &counts) {
  return counts.phases.intersects(kCopyPhases | kJoinPhases);
}

/// Counts the cells, which must be in range. Linear in cells.
PhaseCounts countPhases(const TableView &table);

/// Whether every stage runs a forward and its backward, whole or split, for
/// every microbatch of its path, and every offload has its reload. Rows must be
/// verified (verifyRow), so that each cell occurs once and has the cells that
/// it needs.
bool isComplete(const Placement &placement, const PhaseCounts &counts);

} // namespace pipesched

#endif // PIPESCHED_SCHEDULE_TABLE_PHASECOUNTS_H
