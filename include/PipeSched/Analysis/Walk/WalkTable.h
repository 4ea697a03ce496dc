//===- WalkTable.h - Level 3 of a table, without a graph --------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Computes times, memory, idle causes and slots of a table in one walk over its
// rows (Schedule/Wavefront.h). The results equal the results of program, graph
// and timeline to the picosecond. docs/Dialects/RationaleTimes.md explains
// which of the two is used.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_ANALYSIS_WALK_WALKTABLE_H
#define PIPESCHED_ANALYSIS_WALK_WALKTABLE_H

#include "PipeSched/Analysis/Memory/PeakMemory.h"
#include "PipeSched/Schedule/Program/ForwardSends.h"
#include "PipeSched/Schedule/Program/Lowering.h"
#include "PipeSched/Schedule/Table/Groups.h"
#include "PipeSched/Schedule/Table/Metrics.h"
#include "PipeSched/Schedule/Table/PhaseCounts.h"
#include "llvm/ADT/STLFunctionalExtras.h"

namespace pipesched {

/// Whether the walk can time tables under a transport. It needs messages
/// without queues, or with the queues of `overlap` in the order of arrival; and
/// sends that return at once. All other cases need the graph.
bool canWalkTables(Transport transport, ReceivePlacement receives,
                   ForwardSends sends);

/// Whether the walk can time the groups of a table: each cell is in one group,
/// and groups are by blocks, so that only O waits for them. The graph times all
/// others.
bool canWalkGroups(const Groups &groups);

/// Whether the sum of all times is at most `limitPs`, so that no partial sum
/// can overflow.
bool canAddUp(const Placement &placement, const PhaseCounts &counts,
              const StageCosts &costs, int64_t limitPs);

/// Returns the traffic of a complete table, equal to that of computeTraffic
/// except for rows of experts, which the walk adds up. Nothing if bytes exceed
/// int64.
std::optional<Traffic> sumTraffic(const TableView &table,
                                  const PhaseCounts &counts,
                                  const StageCosts &costs,
                                  const Groups *groups = nullptr);

/// Changes the time of a compute of a worker: a cell, or a pair of two cells.
using ChangePs = llvm::function_ref<int64_t(
    int32_t worker, Cell cell, std::optional<Cell> overlapped, int64_t ps)>;

/// The inputs of the walk in addition to the table. Memory is computed if
/// `memoryFacts` is not null. The sum of times must fit (canAddUp).
struct WalkInputs {
  const StageCosts *costs = nullptr;
  Transport transport = Transport::Overlap;
  const MemoryFacts *memoryFacts = nullptr;
  /// The groups of the table, if it has any (canWalkGroups). Without separate
  /// costs (StageCosts::reductions), all-reduces take the times of their phase.
  const Groups *groups = nullptr;
  ChangePs changePs = nullptr;
  /// Whether changePs depends on the microbatch of a cell.
  bool changeVaries = true;
  /// Whether to leap over periods that repeat (Period.h). The result is the
  /// same; tests and benchmarks can turn it off to visit every cell.
  bool mayLeap = true;
  /// Whether to find the critical path, which takes 8 bytes per cell. Otherwise
  /// the path stays empty.
  bool wantsPath = true;
};

struct WalkedTable {
  int64_t makespanPs = 0;
  /// The makespan of the same rows if communication took no time.
  int64_t freeMakespanPs = 0;
  IdleTimes idle;
  std::vector<PathStep> criticalPath;
  std::vector<Exchange> dispatches; ///< by worker, of Resource::Experts
  std::optional<MemoryUsage> memory;
  TableMetrics unitMetrics; ///< in unit slots
  /// Number of cells that were not visited because the walk repeated itself
  /// (Period.h).
  int64_t numLeapt = 0;
};

/// Walks a table. Returns nothing if rows wait for each other, if cells are
/// missing, if the table has groups but `groups` is null, or if bytes exceed
/// int64. The graph and its analyses then report the error and its place.
std::optional<WalkedTable> walkTable(const TableView &table,
                                     const PhaseCounts &counts,
                                     const WalkInputs &inputs);

/// The same for many scenarios, which differ in costs, memory, transport and
/// changes. The results equal the results of single walks, except that critical
/// paths stay empty. One walk goes over the rows for up to 16 of them
/// (Lanes.h).
std::vector<std::optional<WalkedTable>>
walkTables(const TableView &table, const PhaseCounts &counts,
           llvm::ArrayRef<WalkInputs> scenarios);

} // namespace pipesched

#endif // PIPESCHED_ANALYSIS_WALK_WALKTABLE_H
