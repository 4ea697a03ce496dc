//===- WalkTable.h - Level 3 of a table, without a graph --------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Times, memory, idle causes and slots of a table in one walk over its rows
// (Schedule/Wavefront.h). The results equal the results of program, graph and
// timeline, to the picosecond; docs/Dialects/RationaleTimes.md says when which
// is used.
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

/// Whether the walk can time tables under a transport. It can if messages have
/// no queues, or if they wait in the queues of `overlap` in the order of their
/// arrival; and if sends return at once. Everything else needs the graph.
bool canWalkTables(Transport transport, ReceivePlacement receives,
                   ForwardSends sends);

/// Whether the walk can time the groups of a table: each cell is in one group,
/// and groups are by blocks, so that only O waits for them. The graph times all
/// others.
bool canWalkGroups(const Groups &groups);

/// Whether all times together are at most `limitPs`, so that no partial sum can
/// overflow.
bool canAddUp(const Placement &placement, const PhaseCounts &counts,
              const StageCosts &costs, int64_t limitPs);

/// The traffic of a complete table, as from computeTraffic, except rows of
/// experts, which walks add up. Nothing if bytes exceed int64.
std::optional<Traffic> sumTraffic(const TableView &table,
                                  const PhaseCounts &counts,
                                  const StageCosts &costs,
                                  const Groups *groups = nullptr);

/// Changes the time of a compute: a cell, or a pair of two, of a worker.
using ChangePs = llvm::function_ref<int64_t(
    int32_t worker, Cell cell, std::optional<Cell> overlapped, int64_t ps)>;

/// The inputs of the walk besides the table. Memory is computed if
/// `memoryFacts` is not null. Times must add up (canAddUp).
struct WalkInputs {
  const StageCosts *costs = nullptr;
  Transport transport = Transport::Overlap;
  const MemoryFacts *memoryFacts = nullptr;
  /// The groups of the table, if it has cells that meet (canWalkGroups).
  /// Without separate costs (StageCosts::reductions) all-reduces take the
  /// times of their phase.
  const Groups *groups = nullptr;
  ChangePs changePs = nullptr;
  /// Whether changePs depends on the microbatch of a cell.
  bool changeVaries = true;
  /// Whether to leap over periods that repeat (Period.h). The result is the
  /// same; tests and benchmarks also want to visit every cell.
  bool mayLeap = true;
  /// Whether to find the critical path, which takes 8 bytes a cell. It is empty
  /// otherwise.
  bool wantsPath = true;
};

struct WalkedTable {
  int64_t makespanPs = 0;
  /// The makespan of the same order if communication took no time.
  int64_t freeMakespanPs = 0;
  IdleTimes idle;
  std::vector<PathStep> criticalPath;
  std::vector<Exchange> dispatches; ///< by worker, of Resource::Experts
  std::optional<MemoryUsage> memory;
  TableMetrics unitMetrics; ///< in unit slots
  /// Cells that were not visited, because the walk repeated itself (Period.h).
  int64_t numLeapt = 0;
};

/// Walks a table. Nothing if the walk finds no end because rows wait for each
/// other or cells are missing, if the table has cells that meet and no
/// `groups` are given, or if bytes exceed int64. The graph and its analyses
/// then report the error and its place.
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
