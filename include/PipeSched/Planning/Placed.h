//===- Placed.h - Bounds for candidates of plans ----------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Lower bounds on the step and on the memory of schedules on a placement, from
// the costs of single layers.
//
// The average memory of a step of at most T is the sum over its activations of
// their bytes times the time they are held, divided by T (Little's law). No
// worker's peak is below its average, so for candidates that must beat a step
// time T, this is also a lower bound on memory.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_PLANNING_PLACED_H
#define PIPESCHED_PLANNING_PLACED_H

#include "PipeSched/Planning/Candidates.h"

namespace pipesched {

/// Times and bytes of stages are rounded differently from the sums of their
/// layers, so bounds are multiplied by this factor.
constexpr double kAlmostAll = 1 - 1e-6;

/// Cumulative sums over layers and then the head: entry l is the sum of the
/// values before l.
using Sums = std::vector<double>;

/// Sums over layers for one microbatch.
struct LayerSums {
  Sums forwardPs, workPs, stashBytes;
  /// Bytes multiplied by the time for which they are held, with whole backwards
  /// and with split ones.
  std::array<Sums, 2> held;
  /// The same with a head that takes no time.
  std::array<Sums, 2> headless;
};

/// Lower bounds on a step.
struct PlanBounds {
  double stepPs = 0;
  int64_t peakBytes = 0; ///< of an accelerator
};

/// Sums over the layers of each worker on a placement.
class Placed {
public:
  /// `bytes` are the bytes that layers always hold. If the head is sharded, it
  /// is distributed over the workers, and the first layer, which has the
  /// embedding, is not counted.
  Placed(const PlanShape &shape, const WorkerPaths &paths,
         const LayerCounts &counts, bool isSpread, const LayerSums &layers,
         const Sums &bytes);

  /// Returns the bounds for a schedule that takes at most `limitPs`.
  PlanBounds bounds(const PlanSchedule &schedule, double limitPs);
  /// Returns the work of the busiest worker if pairs of cells save these times
  /// per microbatch on each worker.
  double pairedPs(llvm::ArrayRef<double> savedPs) const;
  /// Returns the work of the busiest worker if cells take these factors of
  /// their time.
  double slowedPs(const PlanSchedule &schedule,
                  llvm::ArrayRef<double> factors) const;
  /// Returns lower estimates of compute and memory of workers, to compare
  /// placements.
  std::array<std::vector<double>, 2> loads() const;
  double mostLayers() const;
  double bytesOf(int64_t worker) const { return bytes[worker]; }

private:
  using OfWorkers = std::vector<double>;

  PlanBounds find(const PlanSchedule &schedule, double limitPs) const;

  double each; ///< microbatches per path
  bool hasOnePath;
  int64_t accelerators; ///< of a worker
  OfWorkers layers, workPs, stash, bytes;
  OfWorkers readyPs; ///< earliest start of a worker
  OfWorkers tailPs;  ///< after the last backward of a worker
  std::array<OfWorkers, 2> held;
  /// Cache of the last bounds, because most schedules have the bounds of
  /// another.
  double foundLimitPs = -1;
  std::array<std::optional<PlanBounds>, 8> found;
};

/// Returns the sum over the layers of a worker, and at least over the layers of
/// its shards.
double sumOfWorker(const WorkerPaths &paths, const LayerCounts &counts,
                   bool isSpread, int64_t numWorkers, const Sums &sums,
                   int64_t worker);

} // namespace pipesched

#endif // PIPESCHED_PLANNING_PLACED_H
