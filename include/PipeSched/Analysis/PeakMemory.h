//===- PeakMemory.h - Peak memory of each worker ----------------*- C++ -*-===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Walks each row in time: activations appear at F, shrink at I, vanish at B or
// W; recompute keeps the boundary only, offload moves bytes when its copy ends.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_ANALYSIS_PEAKMEMORY_H
#define PIPESCHED_ANALYSIS_PEAKMEMORY_H

#include "PipeSched/Analysis/Timeline.h"

namespace pipesched {

/// Memory of one worker, bytes. peak = persistent + peakActivation.
struct WorkerMemory {
  int64_t weightBytes = 0, gradientBytes = 0, optimizerBytes = 0;
  int64_t peakActivationBytes = 0;
  int64_t peakPs = 0;           ///< when the peak is first reached
  std::optional<Cell> peakCell; ///< the cell that reaches it; nothing: no cells
  int64_t peakMicrobatches = 0; ///< stage activations held then
  int64_t offloadedBytes = 0;   ///< by all D
  int64_t reloadedBytes = 0;    ///< by all U

  int64_t persistentBytes() const {
    return weightBytes + gradientBytes + optimizerBytes;
  }
  int64_t peakBytes() const { return persistentBytes() + peakActivationBytes; }
};

struct MemoryUsage {
  std::vector<WorkerMemory> workers;
  int64_t bottleneckWorker = 0; ///< largest peak; ties: the lowest number
  int64_t capacityBytes = 0;
};

/// One step of a worker's activation memory: from atPs on it holds `bytes`.
struct MemorySample {
  int64_t atPs, bytes;
};

/// Linear in tasks. Persistent memory counts every stage of every path that the
/// placement puts on a worker: replicas count. Errors: sums over int64;
/// recompute or copies in a program that leaves almost all of its microbatches
/// out.
llvm::Expected<MemoryUsage> computeMemory(const TaskGraph &graph,
                                          const TaskTimes &times,
                                          const Timeline &timeline,
                                          const Placement &placement,
                                          const MemoryFacts &facts);

/// The same walk as a step function per worker, for traces. No samples where
/// computeMemory gives an error.
std::vector<std::vector<MemorySample>> traceMemory(const TaskGraph &graph,
                                                   const TaskTimes &times,
                                                   const Timeline &timeline,
                                                   const Placement &placement,
                                                   const MemoryFacts &facts);

} // namespace pipesched

#endif // PIPESCHED_ANALYSIS_PEAKMEMORY_H
