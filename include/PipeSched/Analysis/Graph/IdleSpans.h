//===- IdleSpans.h - Spans of idle time by cause ----------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Lists each span of idle time with its cause, for drawings and traces.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_ANALYSIS_GRAPH_IDLESPANS_H
#define PIPESCHED_ANALYSIS_GRAPH_IDLESPANS_H

#include "PipeSched/Analysis/Graph/Timeline.h"

namespace pipesched {

/// Time in which a worker is idle for one cause, [beginPs, endPs).
struct IdleSpan {
  int32_t worker;
  uint8_t cause;   ///< an index into kIdleCauses
  uint32_t before; ///< the compute task that ends the wait, or kNone
  int64_t beginPs, endPs;
};

/// Returns the idle spans between cells, by worker, in the order of time.
/// Together with the cells of a worker they fill its step; waits inside cells
/// are not included. Spans without length are left out. Neighbouring spans with
/// the same cause are merged if the same cell ends both, unless imbalance is
/// between them. `idle` are the times of this timeline after attributeWaits.
/// The spans of each cause add up to them; for this, the first waits of a
/// worker count as imbalance. Linear in tasks and edges.
std::vector<std::vector<IdleSpan>> listIdle(const TaskGraph &graph,
                                            const TaskTimes &times,
                                            const Timeline &timeline,
                                            const IdleTimes &idle);

} // namespace pipesched

#endif // PIPESCHED_ANALYSIS_GRAPH_IDLESPANS_H
