//===- PeakMemory.h - Peak memory of each worker ----------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Follows each row in time. F allocates activations, I frees a part of them,
// and B or W the rest. With recompute, F keeps only the boundary; an offload
// frees its bytes when its copy ends.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_ANALYSIS_MEMORY_PEAKMEMORY_H
#define PIPESCHED_ANALYSIS_MEMORY_PEAKMEMORY_H

#include "PipeSched/Analysis/Graph/Timeline.h"

namespace pipesched {

/// Memory of one worker, bytes. peak = persistent + peakActivation.
struct WorkerMemory {
  int64_t weightBytes = 0, gradientBytes = 0, optimizerBytes = 0;
  int64_t peakActivationBytes = 0;
  int64_t peakPs = 0; ///< when the peak is first reached
  /// The cell that reaches the peak; none if there are no cells.
  std::optional<Cell> peakCell;
  int64_t peakMicrobatches = 0; ///< stage activations held at the peak
  int64_t offloadedBytes = 0;   ///< by all D
  int64_t reloadedBytes = 0;    ///< by all U

  int64_t persistentBytes() const {
    return weightBytes + gradientBytes + optimizerBytes;
  }
  int64_t peakBytes() const { return persistentBytes() + peakActivationBytes; }
};

struct MemoryUsage {
  std::vector<WorkerMemory> workers;
  int64_t bottleneckWorker =
      0; ///< the worker with the largest peak; on ties the lowest number
  int64_t capacityBytes = 0;
};

/// A worker holds `bytes` of activations from atPs until the next sample.
struct MemorySample {
  int64_t atPs, bytes;
};

/// Computes weights, gradients and optimizer state of each worker, without
/// activations. Linear in stages. Errors: sums over int64.
llvm::Expected<MemoryUsage> computePersistentMemory(const Placement &placement,
                                                    const MemoryFacts &facts);

/// Finds the bottleneck once the peaks of all workers are known. Errors: sums
/// over int64.
llvm::Error finishMemory(MemoryUsage &usage);

/// Finds the peaks of all workers. Linear in tasks. Persistent memory counts
/// every block that a path places on a worker, once per worker, including
/// replicas. Errors: sums over int64; recompute or copies in a program that has
/// cells for only a few of the microbatches.
llvm::Expected<MemoryUsage> computeMemory(const TaskGraph &graph,
                                          const TaskTimes &times,
                                          const Timeline &timeline,
                                          const Placement &placement,
                                          const MemoryFacts &facts);

/// Returns the same memory as a step function per worker, for traces. Returns
/// no samples if computeMemory returns an error.
std::vector<std::vector<MemorySample>> traceMemory(const TaskGraph &graph,
                                                   const TaskTimes &times,
                                                   const Timeline &timeline,
                                                   const Placement &placement,
                                                   const MemoryFacts &facts);

} // namespace pipesched

#endif // PIPESCHED_ANALYSIS_MEMORY_PEAKMEMORY_H
