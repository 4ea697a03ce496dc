//===- Disturbance.h - Slow workers and stages, jitter ----------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Changes the times of cells as if workers or stages were slower than their
// costs state, or as if times varied from cell to cell.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_EVALUATION_DISTURBANCE_H
#define PIPESCHED_EVALUATION_DISTURBANCE_H

#include "PipeSched/Analysis/Graph/TaskGraph.h"
#include "PipeSched/Analysis/Graph/Timeline.h"
#include <memory>

namespace pipesched {

/// Factors on the times of cells. Messages, all-reduces and copies to the host
/// keep their times. Factors and parts are in millionths.
struct Disturbance {
  struct Slowdown {
    int64_t number = 0; ///< of the worker, or of the stage on each path
    int64_t factor = 1'000'000;
  };
  std::vector<Slowdown> workers, stages;
  /// Each cell takes up to this part more or less time, evenly distributed.
  int64_t jitter = 0;
  /// The seed for the jitter of each cell. Cells with the same stage, phase and
  /// microbatch get the same jitter in every schedule.
  int64_t seed = 0;
  std::string text; ///< the input of parseDisturbance

  bool isEmpty() const {
    return workers.empty() && stages.empty() && jitter == 0;
  }
};

/// Reads `worker3=1.3,stage5=1.2,jitter=5%,seed=7`, in any order; an empty text
/// means no disturbance. Factors are decimal numbers from 0.001 to 1000 and
/// jitter is below 100 %, both with at most six digits after the point as a
/// fraction. Errors quote any other text, and names that occur twice.
llvm::Expected<Disturbance> parseDisturbance(llvm::StringRef text);

/// Multiplies the times of compute tasks: by the factor of the worker, the
/// factor of the stage and the jitter of the cell, rounded once to the nearest
/// picosecond. A pair of overlapped cells takes the mean of the factors of its
/// cells, weighted by the times of the separate cells. Errors: a worker or a
/// stage that the placement does not have; sums over 2^63 - 1 ps.
llvm::Error disturb(const Disturbance &disturbance, const TaskGraph &graph,
                    const Placement &placement, const StageCosts &stageCosts,
                    TaskTimes &times);

/// The same factors, applied to one compute at a time, for walks over a table.
class DisturbedTimes {
public:
  /// Creates the factors for a placement. Errors: a worker or a stage that the
  /// placement does not have.
  static llvm::Expected<DisturbedTimes> create(const Disturbance &disturbance,
                                               const Placement &placement,
                                               const StageCosts &stageCosts);

  /// Returns the disturbed time of a compute that takes `ps` by its costs. May
  /// overflow for times above largestBefore().
  int64_t operator()(int32_t worker, Cell cell, std::optional<Cell> overlapped,
                     int64_t ps) const;
  /// The largest sum of times that still fits if all of them are slowed down as
  /// much as possible.
  int64_t largestBefore() const;

private:
  struct Factors;

  std::shared_ptr<const Factors> factors; ///< null: no disturbance
};

} // namespace pipesched

#endif // PIPESCHED_EVALUATION_DISTURBANCE_H
